"""The array type, and helpers for arrays of indices."""

import numpy as np

# Arrays are singular nouns with their axes beside them; numpy's own types say no more than this.
Array = np.ndarray


def pointers(length: Array | list[int]) -> Array:
    """Return where each of several lists begins in one flat array, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(length, dtype=np.int64)))


def ranges(first: Array, length: Array) -> Array:
    """Return the numbers first[0], first[0]+1, … (length[0] of them), then first[1], …"""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(int(length.sum()))


def members(ptr: Array, lists: Array) -> Array:
    """Return the items of some lists, one list after the other; list i has the items ptr[i] … ptr[i+1] − 1."""
    return ranges(ptr[lists], ptr[lists + 1] - ptr[lists])


def members_with_owner(ptr: Array, lists: Array) -> tuple[Array, Array]:
    """Return what `members` returns, and for each item the place of its list among `lists`."""
    length = ptr[lists + 1] - ptr[lists]
    return ranges(ptr[lists], length), np.repeat(np.arange(lists.size), length)


def read_only(array: Array) -> Array:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array


def places(member: Array, size: int, otherwise: int = -1) -> Array:
    """Return the place of each of `size` numbers in a list of some of them, `otherwise` for those not in it."""
    place = np.full(size, otherwise)
    place[member] = np.arange(member.size)
    return place
