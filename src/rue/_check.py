"""Check single values that users give, with one wording for all messages."""

import math
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from rue.errors import BadInput, unknown_name

# The memory that is assumed, in bytes, where the machine does not report it.
USUAL_MEMORY = 16e9
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def in_all(count: int, noun: str = "", what: str = "off") -> str:
    """Return how many there are, for the end of a message: "1 state is off in all", "3 are off in all"."""
    name = f" {noun}{'' if count == 1 else 's'}" if noun else ""
    return f"{count}{name} {'is' if count == 1 else 'are'} {what} in all"


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return the value as an int, if it is a whole number in its range."""
    wanted = f"a whole number from {low} to {high}" if high is not None else f"a whole number, {low} or more"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInput(f"{name} is {value!r}; expected {wanted}")
    if value < low or (high is not None and value > high):
        raise BadInput(f"{name} is {value}; expected {wanted if high is None else f'{low} to {high}'}")
    return int(value)


def seed(value: object) -> int:
    """Return the value as a seed."""
    return whole_number("the seed", value, 0)


def real_number(name: str, value: object, expected: str, low: float, high: float = math.inf) -> float:
    """Return the value as a finite float in its closed range."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadInput(f"{name} is {value!r}; expected {expected}")
    if not (low <= value <= min(high, sys.float_info.max)):
        raise BadInput(f"{name} is {value}; expected {expected}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """Return the value, if it is True or False."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} is {value!r}; expected True or False")
    return value


def one_of(kind: str, value: object, known: Iterable[str]) -> str:
    """Return the value, if it is one of the known names."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise unknown_name(kind, str(value), names)
    return value


def text_path(value: object) -> Path:
    """Return the value as the name of a file; `~` stands for the home folder."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise BadInput(f"the file is {value!r}; expected its name")
    try:
        return Path(value).expanduser()
    except RuntimeError:  # there is no such user; it may be a name like any other
        return Path(value)


def labels(kind: str, values: object) -> tuple[str, ...] | None:
    """Return the values as texts; None if there are none. Whether they are different is not checked."""
    if values is None:
        return None
    try:
        if not isinstance(values, str | bytes):
            return tuple(str(value) for value in values)  # type: ignore[attr-defined]
    except TypeError:
        pass
    raise BadInput(f"the {kind} labels are {values!r}; expected a list of names")


def one_index(name: str, value: object, size: int) -> int:
    """Return the value as an index of something that has `size` items."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInput(f"{name} is {value!r}; expected a whole number from 0 to {size - 1}")
    if not 0 <= value < size:
        raise BadInput(f"{name} {value} is out of range; expected 0 to {size - 1}")
    return int(value)


def index_array(name: str, values: object, size: int) -> np.ndarray:
    """Return the values as indices of something that has `size` items; they may be given as a mask."""
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
    """Return the values as a table of floats."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return array.astype(float)
    except (OverflowError, TypeError, ValueError):
        pass
    raise BadInput(f"{name} is not a table of numbers, or its rows differ in length; expected numbers")


def frozen_array(name: str, values: object, dtype: type) -> np.ndarray:
    """Return the values as a contiguous read-only array; no copy when it is one already.

    Values that would change in the conversion are refused: fractions and numbers out of range where indices are
    expected, text and complex numbers everywhere.
    """
    try:
        given = np.asarray(values)
    except ValueError:
        raise BadInput(f"{name} is no table of numbers, or its rows differ in length; expected numbers") from None
    whole = np.issubdtype(dtype, np.integer)
    if given.size and whole and given.dtype.kind not in "iu":
        raise BadInput(f"{name} holds {given.dtype} values; expected integers")
    if given.size and given.dtype.kind not in "biufO":
        raise BadInput(f"{name} holds {given.dtype} values; expected numbers")
    if given.size and whole and not np.can_cast(given.dtype, dtype):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        for value in (given.max(), given.min()):
            if not least <= value <= most:
                raise BadInput(f"{name} holds {value}; expected numbers from {least} to {most}")
    try:
        with np.errstate(over="ignore"):  # infinite: the caller decides what is too large
            array: np.ndarray = np.asarray(given, dtype=dtype, order="C")
    except (OverflowError, TypeError, ValueError):
        raise BadInput(f"{name} holds {given.dtype} values; expected numbers") from None
    if array.flags.writeable:
        array = array.copy() if np.shares_memory(array, given) else array
        array.flags.writeable = False
    return array


def check_weights(kind: str, values: object, names: Sequence[object]) -> np.ndarray:
    """Return the weights of things of a kind, of which there is one for each name."""
    weight = frozen_array("weight", values, np.float64)
    if weight.shape != (len(names),):
        raise BadInput(f"weight has shape {weight.shape}; expected one number for each of {len(names)} {kind}s")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        where = f"the weight of {kind} {names[bad[0]]} is {weight[bad[0]]}"
        raise BadInput(f"{where}; expected a finite number, 0 or more; {in_all(bad.size)}")
    if not weight.any():
        raise BadInput(f"the weight of every {kind} is 0; expected a positive weight in one at least")
    return weight


def check_memory(what: str, size: float, advice: str = "") -> None:
    """Refuse what would need more bytes than the machine has, before any of them is taken."""
    most = machine_memory()
    if size > most:
        size = float(min(size, 10**30))
        raise BadInput(
            f"{what} would take {size_text(size)} of memory; expected at most {size_text(most)}, what this machine "
            f"has{advice and ': '}{advice}"
        )


def size_text(size: float) -> str:
    """Return a number of bytes in words: "13 GB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1e3:.3g} kB"


@cache
def machine_memory() -> float:
    """Return the memory of the machine, or of its container."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        machine = USUAL_MEMORY
    try:
        return min(machine, float(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # there is none, or it says "max"
        return machine
