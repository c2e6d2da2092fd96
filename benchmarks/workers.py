"""One worker against none: what it costs to let another process do the work; and what inner problems would send.

The work is done with one thread in this process, then by one worker with one thread, in turns. Each time the model is
loaded or drawn anew, so that nothing is known about it; that does not count, nor does the start of the worker, which
has a row of its own. Processor seconds are those of both processes; the overhead is that of their medians. "Loaded":
the worker maps the file of the model; "drawn": it maps a copy in memory; "sent": nothing is shared, as with another
machine.

The second table is about inner problems of n steps, which stay in this process. A round searches for a better option at
every root, and needs the rows of all options for the next one. If other processes did it, the rows would have to come
back: the time to do so is that of sending as many bytes to a process and back, halved.
"""

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import rue
from benchmarks.report import Table
from rue.compilation import compile_ahead
from rue.recursion.option_game import OptionGame

REPEATS = 3
MOST_OVERHEAD = 0.2
LEAST_SECONDS = 1.0  # of work for which the overhead is checked
MICRO = 1e6

Work = Callable[[rue.UMDP, rue.Policy, Executor | None], object]


class Case(NamedTuple):
    """Work that is measured."""

    work: str  # a key of WORK
    grid: int
    samples: int
    kind: str  # loaded, drawn or sent
    dask: bool = False


class Cost(NamedTuple):
    """What a piece of work took."""

    processor: float
    clock: float


CASES = (
    Case("V* and judge", 400, 60, "loaded"),
    Case("V* and judge", 400, 60, "drawn"),
    Case("V* and judge", 400, 15, "loaded"),
    Case("V* and judge", 400, 15, "drawn"),
    Case("V* and judge", 400, 15, "sent"),
    Case("V* and judge", 400, 15, "loaded", dask=True),
    Case("reg", 400, 15, "loaded"),
    Case("reg-h2", 100, 15, "loaded"),
    Case("reg-h2", 100, 15, "drawn"),
    Case("reg-h2", 100, 15, "loaded", dask=True),
)
QUICK = (Case("V* and judge", 50, 8, "loaded"), Case("reg-h2", 30, 8, "drawn"))
CLASSES = (("history", 2, 60), ("history", 3, 40), ("deterministic", 2, 60), ("stochastic", 2, 40))
QUICK_CLASSES = (("history", 2, 20),)


def run(quick: bool = False) -> list[Table]:
    """Measure everything, and return the tables."""
    compile_ahead()
    return [overhead(QUICK if quick else CASES), inner_problems(QUICK_CLASSES if quick else CLASSES)]


def overhead(cases: tuple[Case, ...]) -> Table:
    """Return what one worker costs more than none."""
    table = Table(
        "One worker against none",
        ("work", "model", "worker", "here: processor", "one worker: processor", "overhead", "here: clock",
         "one worker: clock"),
    )  # fmt: skip
    for case in cases:
        here, there = _measure(case)
        more = there.processor / here.processor - 1
        model = f"{case.grid} × {case.grid} × {case.samples}, {case.kind}"
        seconds = (here.processor, there.processor), (here.clock, there.clock)
        (own, others), clocks = ((f"{s:.3g}" for s in pair) for pair in seconds)
        worker = "Dask" if case.dask else "rue.Processes"
        table.rows.append((case.work, model, worker, own, others, f"{more:+.0%}", *clocks))
        if more > MOST_OVERHEAD and case.kind == "loaded" and here.processor >= LEAST_SECONDS:
            table.notes.append(f"FAILED: {case.work}, {model}, {worker}: {more:+.0%}, at most {MOST_OVERHEAD:+.0%}")
    with rue.Processes(1) as executor:
        start = executor.submit(_processor).result()
    table.notes.append(f"the start of a worker, not counted above: {start:.2g} s of the processor")
    return table


def _measure(case: Case) -> tuple[Cost, Cost]:
    """Return the median of what the work takes here, and with one worker."""
    domain = rue.domains.Disaster(width=case.grid, height=case.grid, seed=1)
    found: list[tuple[Cost, Cost]] = []
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model.rue"
        if case.kind == "loaded":
            rue.save(path, domain.sample(case.samples, seed=1))
        if case.kind == "sent":
            stack.enter_context(mock.patch("rue.parts.share", lambda thing: None))
        executor = stack.enter_context(_one_dask_worker() if case.dask else rue.Processes(1))
        executor.submit(_processor).result()

        def make() -> rue.UMDP:
            return rue.load(path) if case.kind == "loaded" else domain.sample(case.samples, seed=1)

        policy = _first_policy(make())
        for _ in range(REPEATS):
            found.append((_cost(case, make(), policy, None), _cost(case, make(), policy, executor)))
    here, there = (Cost(*(median(one) for one in zip(*costs, strict=True))) for costs in zip(*found, strict=True))
    return here, there


def _cost(case: Case, model: rue.UMDP, policy: rue.Policy, executor: Executor | None) -> Cost:
    """Return what the work takes in all processes."""

    def seconds() -> float:
        return time.process_time() + (executor.submit(_processor).result() if executor else 0.0)

    before, began = seconds(), time.perf_counter()
    WORK[case.work](model, policy, executor)
    clock = time.perf_counter() - began
    return Cost(seconds() - before, clock)


def _processor() -> float:
    """Return the processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def _one_dask_worker() -> Iterator[Executor]:
    """A Dask worker with one thread, and the scheduler in this process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


def _first_policy(model: rue.UMDP) -> rue.Policy:
    """Return a policy that is the best one in the first sample."""
    choice = rue.optimal_values(model.subset([0])).choice[:, 0]
    return rue.Policy.stationary(model, model.graph.action[np.maximum(choice, 0)])


def _values_and_judge(model: rue.UMDP, policy: rue.Policy, executor: Executor | None) -> object:
    """Compute V* and judge a policy."""
    return rue.evaluate(model, policy, threads=1, executor=executor)


def _solve(solver: rue.Solver) -> Work:
    return lambda model, _, executor: rue.solve(model, solver, threads=1, executor=executor, bound=False)


WORK: dict[str, Work] = {
    "V* and judge": _values_and_judge,
    "reg": _solve(rue.Regret()),
    "reg-h2": _solve(rue.Regret(2, "history")),
}


class Round(NamedTuple):
    """A round of improvement: its roots, what it took, and the bytes of their rows."""

    roots: int
    seconds: float
    size: float


def inner_problems(classes: tuple[tuple[Any, int, int], ...]) -> Table:
    """Return what rounds of improvement take, and what it would take to bring their rows from another process."""
    table = Table(
        "Inner problems: a round against sending its rows",
        ("options", "grid", "rounds", "µs for each root", "bytes for each root", "µs to send them"),
    )
    pace = _seconds_for_a_byte()
    for options, steps, grid in classes:
        model = rue.domains.Disaster(width=grid, height=grid, seed=1).sample(15, seed=1)
        rounds = _rounds(model, rue.Regret(steps, options))
        roots = sum(one.roots for one in rounds)
        micro = MICRO * sum(one.seconds for one in rounds) / roots
        size = sum(one.roots * one.size for one in rounds) / roots
        figures = (str(len(rounds)), f"{micro:.3g}", f"{size:.0f}", f"{MICRO * pace * size:.3g}")
        table.rows.append((f"{options}, {steps} steps", f"{grid} × {grid}", *figures))
    return table


def _rounds(model: rue.UMDP, solver: rue.Solver) -> list[Round]:
    """Solve, and return what its rounds took with one thread."""
    found: list[Round] = []
    improve = OptionGame._improve

    def measured(game: OptionGame, places: np.ndarray, given: Any, run: Any) -> None:
        began = time.process_time()
        improve(game, places, given, run)
        rows = game.options.rows
        size = (rows.paid.nbytes + rows.share.nbytes) / game.tree.size
        found.append(Round(places.size, time.process_time() - began, size))

    with mock.patch.object(OptionGame, "_improve", measured):
        rue.solve(model, solver, threads=1, bound=False)
    return found


def _seconds_for_a_byte(size: int = 20_000_000) -> float:
    """Return the processor seconds of both processes for sending an array one way, by pipe and with its copies."""
    array = np.ones(size // 8)
    with rue.Processes(1) as executor:
        executor.submit(_same, array).result()
        before = time.process_time() + executor.submit(_processor).result()
        for _ in range(REPEATS):
            executor.submit(_same, array).result()
        after = time.process_time() + executor.submit(_processor).result()
    return (after - before) / (2 * REPEATS * size)


def _same(array: np.ndarray) -> np.ndarray:
    """Return what was sent."""
    return array
