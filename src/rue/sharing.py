"""Objects that other processes of this machine read without a copy of their own.

`Shared` writes the arrays of an object into anonymous memory, which is freed when its process ends. Arrays that are
part of a mapped file, as those of a loaded model are, stay there. The `address` is short and can be sent anywhere;
`read` maps the arrays, read-only. Where the files are not the same ones, as on most other machines, it finds nothing.
Only Linux has all that this needs.
"""

import mmap
import os
import pickle
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Arrays begin at multiples of this: lines of the cache.
LINE = 64


class _File(NamedTuple):
    """A file, and how to tell whether it is still the same."""

    path: str
    inode: int
    size: int
    changed: int  # nanoseconds

    @classmethod
    def at(cls, path: str, opened: int | None = None) -> "_File":
        facts = Path(path).stat() if opened is None else os.fstat(opened)
        return cls(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)

    def map(self) -> memoryview | None:
        """Return the contents; None if there is no such file, or another one."""
        with suppress(OSError, ValueError):  # a value error: it is empty
            opened = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                if self.at(self.path, opened) == self:
                    return memoryview(mmap.mmap(opened, 0, access=mmap.ACCESS_READ))
            finally:
                os.close(opened)
        return None


class _Place(NamedTuple):
    """Where an array is."""

    path: str
    first: int
    size: int


class Address(NamedTuple):
    """Where processes of this machine find an object."""

    head: bytes  # the object, pickled without the contents of its arrays
    files: tuple[_File, ...]
    places: tuple[_Place, ...]


class Shared:
    """An object for other processes of this machine, as long as this one lives."""

    def __init__(self, thing: object) -> None:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        memory = os.memfd_create("rue")
        weakref.finalize(self, os.close, memory)
        own, end, mappings, places = f"/proc/{os.getpid()}/fd/{memory}", 0, _mappings(), []
        for raw in (buffer.raw() for buffer in buffers):
            place = _place_in_file(raw, mappings)
            if place is None:
                place = _Place(own, -(-end // LINE) * LINE, raw.nbytes)
                _write(memory, raw, place.first)
                end = place.first + raw.nbytes
            places.append(place)
        files = tuple(_File.at(path) for path in sorted({place.path for place in places}))
        self.address = Address(head, files, tuple(places))


def share(thing: object) -> Shared | None:
    """Return an object for other processes; None if this system has no such memory, or no more of it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return Shared(thing)
    except OSError:
        return None


def read(address: Address) -> Any:
    """Return the object at an address; None if it is not on this machine, gone, or changed."""
    contents = {file.path: file.map() for file in address.files}
    buffers = []
    for path, first, size in address.places:
        content = contents[path]
        if content is None:
            return None
        buffers.append(content[first : first + size])
    return pickle.loads(address.head, buffers=buffers)


class _Mapping(NamedTuple):
    """A file, or some of it, in the memory of this process."""

    first: int
    last: int
    offset: int  # of its begin in the file
    path: str


def _mappings() -> list[_Mapping]:
    """Return what this process has mapped of files to read only, as far as they are still there."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        bounds, access, offset, _, inode, *path = line.split(maxsplit=5)
        if path and access[:2] == "r-" and Path(path[0]).is_file() and Path(path[0]).stat().st_ino == int(inode):
            first, last = (int(bound, 16) for bound in bounds.split("-"))
            found.append(_Mapping(first, last, int(offset, 16), path[0]))
    return found


def _place_in_file(raw: memoryview, mappings: list[_Mapping]) -> _Place | None:
    """Return where some memory is in a file; None if it is in none."""
    begin = np.frombuffer(raw, np.uint8).ctypes.data
    for mapping in mappings:
        if mapping.first <= begin and begin + raw.nbytes <= mapping.last:
            return _Place(mapping.path, mapping.offset + begin - mapping.first, raw.nbytes)
    return None


def _write(file: int, data: memoryview, first: int) -> None:
    """Write all of the data; the system takes at most two gigabytes at a time."""
    rest = data
    while rest.nbytes:
        written = os.pwrite(file, rest, first)
        rest, first = rest[written:], first + written
