"""Names of states in UMB files: the values of the variables of the description that they were built from.

The values of a state are a string of bits, the lowest first: each variable has a size, and padding fills up bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rue._arrays import Array

WIDEST = 64  # bits of a number


def state_names(classes: object, raw: bytes, states: int) -> tuple[str, ...] | None:
    """Return names such as "x=1, b=true"; None if there are none, if they are not numbers, or two are the same."""
    try:
        variables = classes[0]["variables"] if isinstance(classes, list) and len(classes) == 1 else []
        columns = _columns(variables, raw, states)
    except (KeyError, TypeError, ValueError):
        return None
    if not columns:
        return None
    found = tuple(", ".join(parts) for parts in zip(*columns, strict=True))
    return found if len(set(found)) == states else None


def _columns(variables: Sequence[Mapping[str, Any]], raw: bytes, states: int) -> list[list[str]]:
    """Return, for each variable, its name and value in each state."""
    size = [int(one["padding"]) if "padding" in one else _bits(one) for one in variables]
    width = sum(size)
    if width % 8 or min(size, default=0) < 0 or len(raw) != states * width // 8:
        raise ValueError("another layout")
    table = np.frombuffer(raw, np.uint8).reshape(states, -1)
    columns, first = [], 0
    for one, bits in zip(variables, size, strict=True):
        if "padding" not in one:
            columns.append([f"{one['name']}={value}" for value in _texts(one, _numbers(table, first, bits))])
        first += bits
    return columns


def _bits(variable: Mapping[str, Any]) -> int:
    """Return the size of a variable; without one, truth values have a bit, and numbers 64."""
    return int(variable["type"].get("size", 1 if variable["type"]["type"] == "bool" else WIDEST))


def _numbers(table: Array, first: int, bits: int) -> Array:
    """Return some bits of each row as whole numbers."""
    if bits > WIDEST:
        raise ValueError("too wide")
    own = np.unpackbits(table[:, first // 8 : -(-(first + bits) // 8)], axis=1, bitorder="little")
    own = np.ascontiguousarray(own[:, first % 8 : first % 8 + bits])
    whole = np.zeros((len(table), WIDEST), np.uint8)
    whole[:, :bits] = own
    return np.packbits(whole, axis=1, bitorder="little").view("<u8").ravel()


def _texts(variable: Mapping[str, Any], number: Array) -> list[str]:
    kind, bits = variable["type"]["type"], _bits(variable)
    if kind == "bool":
        return ["true" if value else "false" for value in number.tolist()]
    if kind == "double" and bits == WIDEST:
        return [repr(value) for value in number.view("<f8").tolist()]
    if kind not in ("int", "uint"):
        raise ValueError("no number")
    offset = int(variable.get("offset", 0))
    high = 1 << (bits - 1)
    return [str((value - 2 * high if kind == "int" and value >= high else value) + offset) for value in number.tolist()]
