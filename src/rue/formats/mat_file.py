"""Numbers, texts, cells, structures and sparse matrices of a MATLAB file (version 5, as `save -v6` and `-v7` write it).

A file is a header of 128 bytes and elements; an element is a type, a size and data, in steps of eight bytes, or four
bytes of data in the tag itself. Arrays are elements of elements: flags, sizes, a name, and what their class needs. All
sizes are checked before anything is read, since scipy's reader may break off the process where a file is damaged.
"""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import check_memory

HEADER = 128
HDF5 = b"\x89HDF"
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TEXTS = {1: "utf-8", 2: "utf-8", 3: "utf-16", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
MATRIX, COMPRESSED = 14, 15
CELL, STRUCT, CHAR, SPARSE, PLAIN = 1, 2, 4, 5, range(6, 16)
DEEPEST = 8  # cells in cells
MOST_BYTES = 1 << 33  # of one array, after it was compressed


class _Elements:
    """The elements of some bytes, in the byte order of the file."""

    def __init__(self, data: memoryview, order: str) -> None:
        self.data, self.order = data, order

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        place = 0
        while place + 8 <= len(self.data):
            word = int(np.frombuffer(self.data[place : place + 4], f"{self.order}u4")[0])
            if word >> 16:  # a small element: its size and its type in one word, four bytes of data
                kind, size, first, step = word & 0xFFFF, word >> 16, place + 4, 8
            else:
                size = int(np.frombuffer(self.data[place + 4 : place + 8], f"{self.order}u4")[0])
                kind, first = word, place + 8
                step = 8 + (size if kind == COMPRESSED else -(-size // 8) * 8)
            if first + size > len(self.data) or (word >> 16 and size > 4):
                raise ValueError("it ends within an array")
            yield kind, self.data[first : first + size]
            place += step

    def numbers(self, kind: int, data: memoryview) -> Array:
        """Return an element as numbers."""
        if kind not in NUMBERS or len(data) % np.dtype(NUMBERS[kind]).itemsize:
            raise ValueError(f"an array of type {kind}")
        return np.frombuffer(data, f"{self.order}{NUMBERS[kind]}").astype(NUMBERS[kind])


def read_mat(path: Path) -> dict[str, Any]:
    """Return the variables of a file by name; ValueError says what is wrong with it."""
    data = path.read_bytes()
    if data[:4] == HDF5 or data[:19] == b"MATLAB 7.3 MAT-file":
        raise ValueError("it is in version 7.3; save it with -v7")
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise ValueError("it is no MATLAB file of version 5")
    found: dict[str, Any] = {}
    for kind, element in _Elements(memoryview(data)[HEADER:], order):
        if kind == COMPRESSED:
            parts: Any = _Elements(memoryview(_unpacked(element)), order)
        else:
            parts = [(kind, element)]
        for inner, part in parts:
            if inner == MATRIX:
                name, value = _matrix(part, order, 0)
                found[name] = value
    return found


def _unpacked(element: memoryview) -> bytes:
    """Return what was compressed."""
    unpacker = zlib.decompressobj()
    whole = unpacker.decompress(element, MOST_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError("an array is too large")
    return whole


def _matrix(data: memoryview, order: str, depth: int) -> tuple[str, Any]:
    """Return the name and the value of an array; None for classes that no model needs."""
    elements = _Elements(data, order)
    parts = list(elements)
    if len(parts) < 3 or depth > DEEPEST:
        raise ValueError("an array is damaged")
    flags, shape = elements.numbers(*parts[0]), elements.numbers(*parts[1]).astype(np.int64)
    if not flags.size or shape.size < 2 or (shape < 0).any() or (shape > 2**31).any():
        raise ValueError("the size of an array is damaged")
    name, rest, kind = bytes(parts[2][1]).decode("utf-8", "replace"), parts[3:], int(flags[0]) & 0xFF
    if kind == CELL:
        cell = np.empty(len(rest), object)
        if cell.size != shape.prod():
            raise ValueError(f"the cell {name!r} has {cell.size} arrays in place of {shape.prod()}")
        for place, (_, part) in enumerate(rest):
            cell[place] = _matrix(part, order, depth + 1)[1]
        return name, cell.reshape(shape, order="F")
    if kind == STRUCT and shape.prod() == 1 and len(rest) > 1:
        return name, _struct(elements, rest, order, depth)
    if kind == SPARSE:
        return name, _sparse(elements, rest, shape)
    if kind == CHAR and rest:
        code = TEXTS.get(rest[0][0], "")
        suffix = "" if code == "utf-8" else "-le" if order == "<" else "-be"
        return name, np.array(bytes(rest[0][1]).decode(code + suffix))
    if kind not in PLAIN or not rest:
        return name, None
    return name, _numbers(elements.numbers(*rest[0]), shape, len(rest) > 1)


def _struct(elements: _Elements, rest: list[tuple[int, memoryview]], order: str, depth: int) -> dict[str, Any]:
    """Return the fields of a structure by name, without those that cannot be read."""
    length, text = elements.numbers(*rest[0]), bytes(rest[1][1])
    if length.size != 1 or length[0] < 1 or len(text) != length[0] * (len(rest) - 2):
        raise ValueError("the names of a structure are damaged")
    names = [text[i : i + length[0]].split(b"\0")[0].decode("utf-8", "replace") for i in range(0, len(text), length[0])]
    found: dict[str, Any] = {}
    for name, (_, part) in zip(names, rest[2:], strict=True):
        with suppress(ValueError):
            found[name] = _matrix(part, order, depth + 1)[1]
    return {name: value for name, value in found.items() if value is not None}


def _numbers(values: Array, shape: Array, is_complex: bool) -> Array:
    if is_complex:
        raise ValueError("an array is complex")
    if values.size != shape.prod():
        raise ValueError(f"an array has {values.size} numbers in place of {shape.prod()}")
    return values.reshape(shape, order="F")


def _sparse(elements: _Elements, rest: list[tuple[int, memoryview]], shape: Array) -> Any:
    """Return a sparse matrix, after its indices were checked."""
    from scipy import sparse

    if len(rest) != 3 or shape.size != 2:
        raise ValueError("a sparse matrix is damaged, or complex")
    row, ptr, value = (elements.numbers(*part) for part in rest)
    if ptr.size != shape[1] + 1 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
        raise ValueError("the columns of a sparse matrix are damaged")
    count = int(ptr[-1])
    if count > min(row.size, value.size) or (row[:count] < 0).any() or (row[:count] >= shape[0]).any():
        raise ValueError("the rows of a sparse matrix are damaged")
    check_memory(f"a matrix of {shape[0]} rows", 8.0 * float(shape.sum()))
    return sparse.csc_array((value[:count].astype(float, copy=False), row[:count], ptr), shape=tuple(shape.tolist()))
