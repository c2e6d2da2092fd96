"""Where the states of a grid model are on a map, as `graph.layout` says.

Cells are numbered row by row from the top, which is north. With a `cell_size` a map has kilometres from its south-west
corner on its axes, without one the numbers of rows and columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadInput
from rue.model import Graph

KILOMETRE = 1000.0
# The largest number that can mean anything on a map: metres, degrees.
LARGEST = 1e9


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of cells and the states on it."""

    rows: int
    columns: int
    cell: Array  # [S], −1: on no cell
    unit: float  # the side of a cell, in the units of the axes
    metric: bool  # whether these are kilometres
    axis: tuple[str, str]  # the names of the axes, across and up
    heading: Array | None  # [actions], degrees clockwise from north
    latitude: Array | None  # [rows]
    longitude: Array | None  # [columns]
    depth: Array | None  # [rows, columns] in metres, not a number on land
    shallow: float | None  # metres
    credit: str

    @classmethod
    def of(cls, graph: Graph) -> "Grid":
        """The grid of a graph, or one line that says what is missing."""
        layout = graph.layout
        if "grid" not in layout:
            raise BadInput("the model is no grid, so there is no map of it; expected a layout with 'grid'")
        try:
            return cls._read(graph, layout)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise BadInput(f"the layout of the model cannot be drawn: {error}") from None

    @classmethod
    def _read(cls, graph: Graph, layout: Mapping[str, Any]) -> "Grid":
        rows, columns = layout["grid"]
        size = layout.get("cell_size")
        if size is not None and not 1 / LARGEST <= float(size) <= LARGEST:
            raise ValueError(f"its cells have a size of {size} metres")
        names = layout.get("axes", ["row", "column"])
        return cls(
            rows=rows,
            columns=columns,
            cell=_cells(graph, rows * columns, layout.get("cell")),
            unit=1.0 if size is None else float(size) / KILOMETRE,
            metric=size is not None,
            axis=("km east", "km north")
            if size is not None
            else (short_line(str(names[1])), short_line(str(names[0]))),
            heading=_numbers(layout.get("heading"), (graph.action.max(initial=-1) + 1,), "heading"),
            latitude=_numbers(layout.get("latitude"), (rows,), "latitude"),
            longitude=_numbers(layout.get("longitude"), (columns,), "longitude"),
            depth=_numbers(layout.get("depth"), (rows, columns), "depth"),
            shallow=None if layout.get("shallow") is None else float(layout["shallow"]),
            credit=short_line(str(layout.get("credit", "")), 200),
        )

    def x(self, column: Any) -> Any:
        """The place of the middle of a column."""
        return (np.asarray(column) + 0.5) * self.unit if self.metric else np.asarray(column) * 1.0

    def y(self, row: Any) -> Any:
        """The place of the middle of a row; kilometres go up, rows go down."""
        return (self.rows - 0.5 - np.asarray(row)) * self.unit if self.metric else np.asarray(row) * 1.0

    @property
    def up(self) -> float:
        """Which way north is on the axis."""
        return 1.0 if self.metric else -1.0

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The ends of both axes, left and right, bottom and top."""
        half = self.unit / 2
        return (
            (float(self.x(0)) - half, float(self.x(self.columns - 1)) + half),
            (float(self.y(self.rows - 1)) - self.up * half, float(self.y(0)) + self.up * half),
        )

    def places(self, state: Array) -> tuple[Array, Array]:
        """The middles of the cells of states."""
        row, column = np.divmod(self.cell[state], self.columns)
        return self.x(column), self.y(row)

    def field(self, values: Array) -> Array:  # [rows, columns]
        """What is known of each state, on the grid; not a number where there is none."""
        result = np.full(self.rows * self.columns, np.nan)
        on = self.cell >= 0
        result[self.cell[on]] = values[on]
        return result.reshape(self.rows, self.columns)

    @property
    def empty(self) -> Array:  # [rows, columns]
        """Cells without a state: land."""
        return np.asarray(np.isnan(self.field(np.ones(self.cell.size))))


def _cells(graph: Graph, cells: int, given: list[int] | None) -> Array:
    """The cell of each state; states beyond the cells are on none, unless the layout says more."""
    if given is None:
        number = np.arange(graph.states)
        return np.where(number < cells, number, -1)
    cell = np.asarray(given, dtype=np.int64)
    if cell.shape != (graph.states,) or (cell < -1).any() or (cell >= cells).any():
        raise ValueError(f"its cells are not {graph.states} numbers from 0 to {cells - 1}")
    states = np.bincount(cell[cell >= 0], minlength=1)
    if states.max() != 1:
        raise ValueError(f"cell {states.argmax()} has {states.max()} states; expected one at most, and one somewhere")
    return cell


def _numbers(given: Any, shape: tuple[int, ...], name: str) -> Array | None:
    if given is None:
        return None
    values = np.array([np.nan if value is None else float(value) for value in given])
    if (np.abs(values) > LARGEST).any():
        raise ValueError(f"its {name} is {values[np.abs(values) > LARGEST][0]} somewhere")
    if name == "heading":
        if values.size < shape[0]:
            raise ValueError(f"it has {values.size} headings for {shape[0]} actions")
        if not np.isfinite(values).all():
            raise ValueError("some action has no heading; expected one for each, or none at all")
        return values
    if values.size != int(np.prod(shape)):
        raise ValueError(f"it has {values.size} numbers of {name}; expected {int(np.prod(shape))}")
    return values.reshape(shape)
