"""How near optimal values come to the bandwidth of the memory: bytes that a sweep must move, and seconds that it takes.

The bandwidth is measured as in STREAM: `copy` moves 16 bytes for each number, `add` 24, on arrays of `STREAM_BYTES`
each, far above the caches of most machines; the best of `REPEATS` counts, and of the two the faster one.

A greedy sweep must read the rows of all choices (pointers, targets, probabilities, costs), the values and the policy,
and write values and the rows of the policy; a sweep with the policy fixed reads these rows and the values, and writes
values. Each byte counts once, also where a value is read by several rows. Sweeps go over one sample, in one thread,
from the values at the end of a solve on, so that no choice changes; the best of `REPEATS` counts. Where all rows fit
into a cache they may be faster than the memory.
"""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.report import Table
from rue import values_kernels as shortest
from rue.domains import Disaster
from rue.model import UMDP
from rue.solution import Run
from rue.values import BETTER, TOLERANCE, _Layout, _Workspace

STREAM_BYTES, QUICK_STREAM_BYTES = 1_000_000_000, 10_000_000
SIZES, QUICK_SIZES = (400, 1000), (20, 40)
REPEATS = 5
GIGABYTE = 1e9


def run(quick: bool = False) -> list[Table]:
    """Return a table of both kinds of sweeps on each grid."""
    copy, add = stream(QUICK_STREAM_BYTES if quick else STREAM_BYTES)
    table = Table(
        "Memory bandwidth of a sweep: disaster grids, one sample, one thread",
        ("grid", "sweep", "bytes", "ns for each state", "GB/s", "part of the memory's bandwidth"),
        notes=[f"the memory: copy {copy / GIGABYTE:.1f} GB/s, add {add / GIGABYTE:.1f} GB/s, in one thread"],
    )
    for size in QUICK_SIZES if quick else SIZES:
        model = Disaster(width=size, height=size, seed=1).sample(1, seed=1)
        for name, moved, seconds in sweeps(model):
            rate = moved / seconds
            each = seconds / model.graph.states / 1e-9
            row = (name, f"{moved:.3g}", f"{each:.1f}", f"{rate / GIGABYTE:.1f}", f"{rate / max(copy, add):.0%}")
            table.rows.append((f"{size} × {size}", *row))
    return [table]


def stream(size: int) -> tuple[float, float]:
    """Return bytes per second of a copy and of an addition."""
    one, two, three = (np.full(size // 8, float(i)) for i in range(3))
    copy = 2 * one.nbytes / best(lambda: np.copyto(three, one))
    return copy, 3 * one.nbytes / best(lambda: np.add(one, two, out=three))


def sweeps(model: UMDP) -> list[tuple[str, int, float]]:
    """Return the name, the bytes and the seconds of both kinds of sweeps."""
    layout = _Layout.shared(model)
    assert layout is not None
    (work,) = _Workspace.of(layout, 1).load(model, [0])
    run = Run(threads=1)
    work.start(None, run)
    work.run(TOLERANCE, run)
    rows, own, value, policy = work.rows, work.policy_rows, work.value, work.policy
    greedy = best(lambda: shortest.improve(rows, value, policy, BETTER, own))
    fixed = best(lambda: shortest.sweep_policy(own, value, 1, 0.0))
    outcomes = int(own.ptr[-1])
    of_policy = own.ptr.nbytes + own.cost.nbytes + outcomes * (own.target.itemsize + own.prob.itemsize)
    of_all = sum(array.nbytes for array in rows)
    return [
        ("greedy", of_all + policy.nbytes + 2 * value.nbytes + of_policy, greedy),
        ("policy fixed", of_policy + 2 * value.nbytes, fixed),
    ]


def best(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls."""

    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return min(once() for _ in range(REPEATS))
