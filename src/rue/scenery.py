"""What a map shows of a model besides the policy: the layout of its graph, and the scenery of its samples."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import frozen_array, in_all, whole_number
from rue._text import frozen
from rue.errors import BadInput

# Of a grid in a layout: a picture has a number for each cell.
MOST_CELLS = 100_000_000


def check_layout(layout: object) -> Mapping[str, Any]:
    """Return the layout, frozen; that of a grid must say how large it is, and a domain is named."""
    if not isinstance(layout, Mapping):
        raise BadInput(f"the layout is {layout!r}; expected a mapping such as {{'grid': [rows, columns]}}")
    fixed: Mapping[str, Any] = frozen("the layout", layout)
    if not isinstance(fixed.get("domain", ""), str):
        raise BadInput(f"the domain of the layout is {fixed['domain']!r}; expected text")
    if "grid" in fixed:
        sides = fixed["grid"]
        if not isinstance(sides, tuple) or len(sides) != 2:
            raise BadInput(f"the grid of the layout is {sides!r}; expected [rows, columns]")
        for name, side in zip(("rows", "columns"), sides, strict=True):
            whole_number(f"the number of {name} in the layout", side, 1, MOST_CELLS)
        whole_number("the number of cells in the layout", sides[0] * sides[1], 1, MOST_CELLS)
    return fixed


def check_scenery(given: object, expected: tuple[int, int], place: Callable[[int, int], str]) -> Mapping[str, Array]:
    """Return the scenery in read-only arrays of 32-bit numbers, since it is only drawn.

    `expected` has the numbers of states and samples; `place` names a state in a sample.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f"the scenery is a {type(given).__name__}; expected a mapping of names to arrays")
    scenery = {}
    for name, values in given.items():
        if not isinstance(name, str):
            raise BadInput(f"a part of the scenery is called {name!r}; expected text")
        array = frozen_array(f"scenery {name!r}", values, np.float32)
        if array.shape != expected:
            raise BadInput(f"scenery {name!r} has shape {array.shape}; expected {expected}: states, samples")
        odd = ~np.isfinite(array)
        if odd.any():
            state, sample = (int(i) for i in np.argwhere(odd)[0])
            raise BadInput(
                f"scenery {name!r} is {array[state, sample]} in {place(state, sample)}; "
                f"expected finite numbers of 32 bits; {in_all(int(odd.sum()))}"
            )
        scenery[name] = array
    return MappingProxyType(scenery)
