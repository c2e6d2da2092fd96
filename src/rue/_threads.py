"""Work in threads. Results never depend on how many there are: parts are cut by count, not by what is free."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rue._check import whole_number

S = TypeVar("S")
T = TypeVar("T")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: object) -> int:
    """Return how many threads to use: the number given, or all cores if it is None."""
    return cores() if threads is None else whole_number("threads", threads, 1)


def each(work: Callable[[S], T], items: Iterable[S], threads: int) -> list[T]:
    """Call `work` with each item; return the results in order."""
    items = list(items)
    if threads == 1 or len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(work, items))


def in_parts(work: Callable[[int, int], None], first: int, last: int, threads: int, small: int) -> None:
    """Do the items from `first` to `last`, a range for each thread; if there are no more than `small`, in one."""
    parts = min(threads, max((last - first) // small, 1))
    ends = [first + (last - first) * i // parts for i in range(parts + 1)]
    each(lambda i: work(ends[i], ends[i + 1]), range(parts), threads)


def pieces(rounds: int, size: int, most: int) -> Iterator[int]:
    """Cut rounds over `size` numbers into parts of at most `most` numbers, after each of which to check the clock."""
    at_once = max(most // max(size, 1), 1)
    return (min(at_once, rounds - first) for first in range(0, rounds, at_once))
