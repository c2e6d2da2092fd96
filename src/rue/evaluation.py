"""`evaluate`: the judge over a model, or block by block over a source, also by many workers.

Of a block nothing stays but its figures: V_k(π) with its error, the bounds on V*_k at the initial state, and the
weights, a few numbers for each sample. Each block is judged on its own, so that the figures depend on the source and
the policy alone: not on the executor, the number of workers, or the order in which they end. V*_k at the initial state
is kept in the cache of the run, so that it is computed for the first policy only.

*Workers.* A task is a few blocks, so that sending the policy along costs little beside the work. A worker keeps what it
unpacked for its next task. The number of tasks that are handed out at a time is limited. A task whose worker is lost is
done again; if the executor takes no more, what is left is done in this process, and the progress hook hears of it.
"""

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rue._arrays import Array, read_only
from rue._threads import check_threads
from rue.compilation import compile_for_judge
from rue.errors import BadInput
from rue.judge import (
    PER_SAMPLE,
    Evaluation,
    LeastCost,
    PolicyCost,
    judge,
    last_verdict,
    least_cost,
    policy_cost,
    verdict_of,
)
from rue.model import UMDP, check_model, check_same_graph
from rue.policy import Policy, check_policy
from rue.solution import Cache, Hook, Inner, Interval, Limits, Run, check_cache, check_limits
from rue.workers import MOST_RETRIES, Processes, Spread, TakesNoMore, check_executor, perform_all
from rue.worlds import Source

# Probabilities and costs of the samples in one task, unless tasks would be fewer than these.
TASK_NUMBERS, FEWEST_TASKS = 2_000_000, 32
# Tasks that are handed out at a time, fewer if they are large: this many bytes in all.
WINDOW, FEWEST_OUT, WINDOW_BYTES = 128, 8, 100_000_000


def evaluate(
    model: UMDP | Source,
    policy: Policy,
    *,
    limits: Limits | None = None,
    cache: Cache | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: Hook | None = None,
) -> Evaluation:
    """Compute the expected cost and regret of a policy in every sample of a model or a source.

    Of a model that was made of rewards, or of shifted costs, values are rewards, or costs without the shift.

    A time limit, or Ctrl-C, leaves samples out that were not judged by then (`complete` is False). A cache that is
    passed to several calls keeps the optimal values. Threads: all cores unless given; figures do not depend on them.

    An `executor` does the work in parts: threads, processes, or those of a Dask cluster. Figures do not depend on it.
    The blocks of a source are judged one after the other, or spread over the executor. `progress` is called with a
    `Progress` after each block.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> verdict = rue.evaluate(model, rue.solve(model, rue.Average()).policy)
    >>> verdict.regret.round(3)
    array([0.028, 0.012, 0.009, 0.02 , 0.007])
    >>> verdict.worst_sample
    0
    """
    check_executor(executor)
    run = Run(check_limits(limits), progress, check_cache(cache), check_threads(threads))
    if not isinstance(model, Source):
        check_same_graph(check_model(model), check_policy(policy).graph)
        run.executor = executor
    with run.catching_interrupts():
        found = judge_source(model, policy, run, executor) if isinstance(model, Source) else judge(model, policy, run)
        return found.in_figures(model.units)


def judge_source(source: Source, policy: Policy, run: Run, executor: Executor | None = None) -> Evaluation:
    """Evaluate a policy in all samples of a source within a run.

    The cache of the run keeps the last verdict, and of each sample the bounds on V* at the initial state.
    """
    check_executor(executor)
    check_same_graph(source.graph, check_policy(policy).graph)
    return last_verdict(source, policy, run, lambda: _judge_source(source, policy, run, executor))


class _Judged(NamedTuple):
    """The figures of one block."""

    block: int
    cost: PolicyCost
    least: LeastCost | None  # None if it was known before
    within: Array | None  # weights within the block; None if all are equal


@dataclass(frozen=True, eq=False)
class _LeastSoFar:
    """Bounds on V* at the initial state of all samples, and which blocks are done."""

    lower: Array  # [K]
    upper: Array  # [K]
    away: Array  # [K]
    done: Array  # [B]

    @classmethod
    def begin(cls, source: Source) -> "_LeastSoFar":
        unknown = np.full(source.samples, np.inf)
        return cls(np.zeros(source.samples), unknown, unknown.copy(), np.zeros(source.blocks, bool))


@dataclass(frozen=True, eq=False)
class _Figures:
    """The figures of all samples, as they come in."""

    source: Source
    least: _LeastSoFar
    value: Array  # [K]
    error: Array  # [K]
    away: Array  # [K]
    weight: Array  # [K] not divided by their sum
    seen: Array  # [B] which blocks were judged, as far as there was time
    done: Array  # [B] which blocks were judged to the end

    @classmethod
    def begin(cls, source: Source, least: _LeastSoFar) -> "_Figures":
        unknown = np.full(source.samples, np.inf)
        if source.model is not None:
            weight = source.model.weight.copy()
        else:
            weight = np.concatenate([source.block_weight(i, None) for i in range(source.blocks)])
        seen, done = np.zeros(source.blocks, bool), np.zeros(source.blocks, bool)
        return cls(source, least, unknown, unknown.copy(), unknown.copy(), weight, seen, done)

    def take(self, found: _Judged) -> None:
        """Copy the figures of a block to their place."""
        part = slice(self.source.first[found.block], self.source.first[found.block + 1])
        for name in PER_SAMPLE:
            getattr(self, name)[part] = getattr(found.cost, name)
        if found.least is not None:
            for name in ("lower", "upper", "away"):
                getattr(self.least, name)[part] = getattr(found.least, name)
            self.least.done[found.block] = found.least.complete
        if found.within is not None:
            self.weight[part] = self.source.block_weight(found.block, found.within)
        self.seen[found.block], self.done[found.block] = True, found.cost.complete

    def verdict(self) -> Evaluation:
        """Return the evaluation; what was not judged is infinite."""
        cost = PolicyCost(self.value, self.error, bool(self.done.all()), self.away)
        least = LeastCost(
            self.least.lower.copy(), self.least.upper.copy(), bool(self.least.done.all()), self.least.away
        )
        weight = self.weight
        if self.source.model is None:
            weight = weight / weight.max()
            weight /= weight.sum()
        return verdict_of(cost, least, read_only(weight), self.source.sample_name)


def _judge_source(source: Source, policy: Policy, run: Run, executor: Executor | None) -> Evaluation:
    compile_for_judge()
    figures = _Figures.begin(source, run.cache.remember(source, "least costs", lambda: _LeastSoFar.begin(source)))
    if executor is not None:
        _judge_elsewhere(figures, policy, run, executor)
    for block in np.flatnonzero(~figures.seen).tolist():
        if run.out_of_time():
            break
        wants_least = not figures.least.done[block]
        _take(figures, _judge_block(source.block(block), block, policy, _Quiet(outer=run), wants_least), run)
    return figures.verdict()


def _take(figures: _Figures, found: _Judged, run: Run) -> None:
    figures.take(found)
    run.report(f"judging: {int(figures.source.size[figures.seen].sum())} of {figures.source.samples} samples")


def _judge_block(model: UMDP, block: int, policy: Policy, run: Run, wants_least: bool) -> _Judged:
    """Return the figures of a block."""
    least = least_cost(model, run) if wants_least else None
    if least is not None:  # copied, or all values of the block would stay
        least = LeastCost(least.lower.copy(), least.upper.copy(), least.complete, least.away)
    cost = policy_cost(model, policy, run)
    return _Judged(block, cost, least, model.weight if model.is_weighted else None)


class _Quiet(Inner):
    """The judging of one block within a run: it reports nothing."""

    def report(self, stage: str, objective: Interval | None = None) -> None:
        """Report nothing."""


class _Work(NamedTuple):
    """What all tasks have in common."""

    source: Source | None  # None if tasks carry their blocks, which are parts of a model in memory
    policy: Policy
    run: Run | None  # of threads: they see its limits and Ctrl-C


class _BlocksTask(NamedTuple):
    """A few blocks to judge."""

    work: bytes | _Work  # pickled once for all tasks
    blocks: tuple[int, ...]
    models: tuple[UMDP, ...]  # the blocks themselves, or none
    wants_least: tuple[bool, ...]
    seconds: float  # that are left


def _judge_elsewhere(figures: _Figures, policy: Policy, run: Run, executor: Executor) -> None:
    """Have an executor judge all blocks; those that it does not are left."""
    source = figures.source
    work, size = _pack(source, policy, run, executor)
    chunks = _chunks(source)
    window = max(FEWEST_OUT, min(WINDOW, WINDOW_BYTES // max(size, 1)))

    def tasks() -> Iterator[_BlocksTask]:
        for blocks in chunks:
            models = () if source.model is None else tuple(source.block(i) for i in blocks)
            wants_least = tuple(not figures.least.done[i] for i in blocks)
            yield _BlocksTask(work, blocks, models, wants_least, run.seconds_left)

    def give_up(task: _BlocksTask) -> list[_Judged]:
        if isinstance(executor, Processes):
            raise BadInput(
                f"block {task.blocks[0]}: the process that judges it died {MOST_RETRIES + 1} times, perhaps for want "
                "of memory; expected smaller blocks, or fewer processes"
            )
        run.report(f"the executor lost the work on block {task.blocks[0]}; it is judged in this process")
        return _perform(task)

    spread = Spread(_perform, executor, window)
    try:
        with closing(perform_all(tasks(), spread, run.out_of_time, give_up)) as results:
            for found in results:
                for one in found:
                    _take(figures, one, run)
    except TakesNoMore as error:
        left = int((~figures.seen).sum())
        run.report(f"the executor takes no more work ({error}); {left} blocks are judged in this process")


def _pack(source: Source, policy: Policy, run: Run, executor: Executor) -> tuple[bytes | _Work, int]:
    """Return what all tasks have in common, as it is sent, and how many bytes a task takes."""
    if isinstance(executor, ThreadPoolExecutor):
        return _Work(source, policy, run), 0
    if source.model is not None:
        per_sample = 8 * (source.graph.transitions + source.graph.choices)
        work = pickle.dumps(_Work(None, policy, None))
        return work, len(work) + per_sample * int(source.size.max())
    try:
        work = pickle.dumps(_Work(source, policy, None))
    except Exception as error:
        raise BadInput(
            f"the source cannot be sent to other processes ({type(error).__name__}: {error}); expected a function at "
            "the top of a module, or an executor of threads"
        ) from None
    return work, len(work)


def _chunks(source: Source) -> list[tuple[int, ...]]:
    """Return which blocks make up each task: one, or several small ones."""
    most = max(source.samples // FEWEST_TASKS, 1)
    enough = min(TASK_NUMBERS // max(source.graph.transitions + source.graph.choices, 1), most)
    chunks: list[tuple[int, ...]] = []
    begin = 0
    for i in range(source.blocks):
        if source.first[i + 1] - source.first[begin] >= enough or i == source.blocks - 1:
            chunks.append(tuple(range(begin, i + 1)))
            begin = i + 1
    return chunks


@lru_cache(maxsize=2)
def _unpack(work: bytes) -> _Work:
    """Return what all tasks have in common. A worker keeps it for its next task."""
    try:
        found: _Work = pickle.loads(work)
    except Exception as error:
        raise BadInput(
            f"a worker cannot read the source ({type(error).__name__}: {error}); expected a function that it can import"
        ) from None
    return found


def _perform(task: _BlocksTask) -> list[_Judged]:
    """Judge the blocks of a task, as far as there is time: what a worker does."""
    source, policy, outer = task.work if isinstance(task.work, _Work) else _unpack(task.work)
    run = Run(Limits(seconds=task.seconds), threads=1) if outer is None else _Quiet(outer=outer)
    run.threads = 1
    return list(_judge_blocks(task, source, policy, run))


def _judge_blocks(task: _BlocksTask, source: Source | None, policy: Policy, run: Run) -> Iterator[_Judged]:
    models: Iterable[UMDP] = task.models if source is None or task.models else map(source.block, task.blocks)
    for block, wants_least, model in zip(task.blocks, task.wants_least, models, strict=True):
        yield _judge_block(model, block, policy, run, wants_least)
        if run.out_of_time():
            return
