"""A program whose numbers depend on the terminal values: its structure is written once, its numbers for each solve.

A number is a constant or a function of the `Bounds`, next to the place where it belongs.
"""

import math
from collections.abc import Callable

import numpy as np

from rue._arrays import Array
from rue._highs import TOLERANCE, Program, Result
from rue.recursion.inner.layers import Bounds

Number = float | Array | Callable[[Bounds], Array]


class Template:
    """Columns and rows are added in blocks; coefficients are put where a row and a column meet."""

    def __init__(self, gap: float = TOLERANCE, nodes: int | None = None) -> None:
        self._gap, self._nodes = gap, nodes
        self.integral: list[Array] = []
        self._cost: list[Array] = []
        self._place: list[tuple[Array, Array]] = []
        # Blocks of numbers, under the names that `Program.change` knows.
        self._number: dict[str, list[tuple[int, Number]]] = {
            name: [] for name in ("value", "lower", "upper", "row_lower", "row_upper")
        }
        self._columns, self._rows = 0, 0
        self._program: Program | None = None

    def columns(
        self, count: int, *, lower: Number = 0.0, upper: Number = math.inf, cost: float = 0.0, integral: bool = False
    ) -> Array:
        """Add columns; return their indices."""
        self._number["lower"].append((count, lower))
        self._number["upper"].append((count, upper))
        self._cost.append(np.full(count, cost))
        self.integral.append(np.full(count, integral))
        self._columns += count
        return np.arange(self._columns - count, self._columns)

    def rows(self, count: int, *, lower: Number = -math.inf, upper: Number = math.inf) -> Array:
        """Add rows; return their indices."""
        self._number["row_lower"].append((count, lower))
        self._number["row_upper"].append((count, upper))
        self._rows += count
        return np.arange(self._rows - count, self._rows)

    def put(self, row: Array, column: Array, value: Number) -> None:
        """Put one coefficient for each pair; those put in the same place add up."""
        row, column = np.broadcast_arrays(row, column)
        self._place.append((row, column))
        self._number["value"].append((row.size, value))

    def fill(self, bounds: Bounds) -> dict[str, Array]:
        """Return all numbers, under the names that `Program.change` knows."""

        def filled(count: int, number: Number) -> Array:
            return np.broadcast_to(number(bounds) if callable(number) else number, count)

        return {name: np.concatenate([filled(*block) for block in blocks]) for name, blocks in self._number.items()}

    def shape(self) -> dict[str, Array]:
        """Return what no terminal value changes, under the names that `Program` knows."""
        return {
            "cost": np.concatenate(self._cost),
            "integral": np.concatenate(self.integral),
            "row": np.concatenate([row for row, _ in self._place]),
            "column": np.concatenate([column for _, column in self._place]),
        }

    def solve(self, bounds: Bounds, seconds: float, start: tuple[Array, Array] | None = None) -> Result:
        """Fill in the numbers and solve in HiGHS."""
        if self._program is None:
            self._program = Program(**self.shape(), **self.fill(bounds), gap=self._gap, nodes=self._nodes)
        else:
            self._program.change(**self.fill(bounds))
        return self._program.solve(seconds, start)
