"""Objects that other processes of this machine read without a copy of their own.

`Shared` copies an object once, into memory that has no name and goes with the process that made it. Its `address` is
short and can be sent anywhere. `read` maps the arrays of the object, read-only; on another machine it finds nothing.
Only Linux has such memory.
"""

import mmap
import os
import pickle
import stat
import sys
import uuid
import weakref
from typing import Any, NamedTuple

# Arrays begin at multiples of this: lines of the cache.
LINE = 64


class Address(NamedTuple):
    """Where processes of this machine find an object."""

    path: str
    mark: bytes  # what the memory begins with
    head: bytes  # the object, pickled without the contents of its arrays
    ranges: tuple[tuple[int, int], ...]  # where the contents of each array begin and end


class Shared:
    """An object in memory that processes of this machine can map, as long as this one lives."""

    def __init__(self, thing: object) -> None:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        mark, ranges = uuid.uuid4().bytes, []
        file = os.memfd_create("rue")
        weakref.finalize(self, os.close, file)
        _write(file, mark, 0)
        end = len(mark)
        for raw in (buffer.raw() for buffer in buffers):
            first = -(-end // LINE) * LINE
            end = first + raw.nbytes
            _write(file, raw, first)
            ranges.append((first, end))
        self.address = Address(f"/proc/{os.getpid()}/fd/{file}", mark, head, tuple(ranges))


def share(thing: object) -> Shared | None:
    """Return an object in memory for other processes; None if this system has no such memory, or no more of it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return Shared(thing)
    except OSError:
        return None


def read(address: Address) -> Any:
    """Return the object at an address; None if it is not on this machine, or gone."""
    mark = address.mark
    try:
        file = os.open(address.path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode) or os.pread(file, len(mark), 0) != mark:
            return None
        memory = memoryview(mmap.mmap(file, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ))
    finally:
        os.close(file)
    return pickle.loads(address.head, buffers=[memory[first:end] for first, end in address.ranges])


def _write(file: int, data: bytes | memoryview, first: int) -> None:
    """Write all of the data; the system takes at most two gigabytes at a time."""
    rest = memoryview(data)
    while rest.nbytes:
        written = os.pwrite(file, rest, first)
        rest, first = rest[written:], first + written
