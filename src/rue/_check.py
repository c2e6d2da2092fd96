"""Checks of single values at the door, with one wording for all of them."""

import math
from collections.abc import Iterable

import numpy as np

from rue.errors import BadInput, unknown_name


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """The value as an int, if it is a whole number in its range."""
    wanted = f"a whole number from {low} to {high}" if high is not None else f"a whole number, {low} or more"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInput(f"{name} is {value!r}; expected {wanted}")
    if value < low or (high is not None and value > high):
        raise BadInput(f"{name} is {value}; expected {wanted if high is None else f'{low} to {high}'}")
    return int(value)


def seed(value: object) -> int:
    """The value as a seed."""
    return whole_number("the seed", value, 0)


def real_number(name: str, value: object, expected: str, low: float, high: float = math.inf) -> float:
    """The value as a finite float in its closed range."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadInput(f"{name} is {value!r}; expected {expected}")
    if not (low <= value <= high and math.isfinite(value)):
        raise BadInput(f"{name} is {value}; expected {expected}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """The value, if it is True or False."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} is {value!r}; expected True or False")
    return value


def one_of(kind: str, value: object, known: Iterable[str]) -> str:
    """The value, if it is one of the names known."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise unknown_name(kind, str(value), names)
    return value


def index_array(name: str, values: object, size: int) -> np.ndarray:
    """The values as indices of something that has `size` items; a mask of that length is one way to give them."""
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:
        raise BadInput(f"{name} is {values!r}; expected whole numbers from 0 to {size - 1}") from None
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == bool:
        if array.shape != (size,):
            raise BadInput(f"the mask of {name} has {array.size} entries; expected {size}")
        return np.flatnonzero(array)
    if not np.issubdtype(array.dtype, np.integer):
        raise BadInput(f"{name} {array.flat[0]} is no whole number; expected 0 to {size - 1}")
    outside = array[(array < 0) | (array >= size)]
    if outside.size:
        raise BadInput(f"{name} {outside[0]} is out of range; expected 0 to {size - 1}")
    return array.astype(np.int64)


def number_array(name: str, values: object) -> np.ndarray:
    """The values as a table of floats."""
    try:
        array = np.asarray(values)
        if not np.iscomplexobj(array):
            return array.astype(float)
    except (TypeError, ValueError):
        pass
    raise BadInput(f"{name} is not a table of numbers, or its rows differ in length; expected numbers")
