"""Parts of a model, some samples each, that the workers of an executor do their share of a solve with.

A part is a model of its own that knows what the whole model knows about its graph, so that a worker computes the same
figures as this process would, to the last digit. A worker keeps the parts that it was sent. The next work on a part is
sent without it first; a worker that does not have the part says so, and the same work is sent again with it. A task
whose worker was lost is done again, and what no worker does is done in this process.
"""

import pickle
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from rue._check import machine_memory
from rue.model import GRAPH_FIELDS, UMDP, Graph
from rue.solution import Run
from rue.workers import Spread, TakesNoMore, perform_all

# Samples whose numbers are loaded together: they share the lines of the cache.
BLOCK = 4
# Blocks are cut into this many parts, or more if these would have more blocks than the second number. It does not
# depend on threads and workers, nor do figures.
PARTS, LONGEST = 4, 4
# Models of fewer transitions are one part, which is done before a second thread has started.
SMALL = 10_000
# Tasks that are handed out at a time: each may carry its part.
WINDOW = 8
# The part of its memory that a worker may keep parts in.
KEPT = 0.25
# What a part is told about the graph of the whole model (see `structure.py`).
KNOWN = ("support", "breadth_first", "outward_order")

R = TypeVar("R")


class _Missing:
    """The answer of a worker that does not have the part."""


class _Task(NamedTuple):
    """Work on one part."""

    part: slice  # the samples
    key: str
    model: UMDP | bytes | None  # the part itself, pickled for another process; None if the worker may have it
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float  # that are left


def parts_of(model: UMDP) -> list[slice]:
    """Return the parts of a model: samples that follow each other, in whole blocks."""
    blocks = -(-model.samples // BLOCK)
    length = min(-(-blocks // PARTS), LONGEST) if is_large(model) else blocks
    return [slice(k, min(k + length * BLOCK, model.samples)) for k in range(0, model.samples, length * BLOCK)]


def is_large(model: UMDP) -> bool:
    """Return whether a second thread, or a worker, is worth it."""
    return bool(model.graph.transitions >= SMALL)


def part_of(model: UMDP, samples: slice, graph: Graph | None = None) -> UMDP:
    """Return some samples of a model, with what is known about the graph of all of them; on another `graph` if given.

    That must be the same but for its labels.
    """
    part = UMDP(graph or model.graph, model.prob[:, samples], model.cost[:, samples])
    return _told(part, _known(model))


def _without_labels(graph: Graph) -> Graph:
    arrays: dict[str, Any] = {name: getattr(graph, name) for name in GRAPH_FIELDS}
    return Graph(**arrays, initial=graph.initial)


def _known(model: UMDP) -> dict[str, Any]:
    return {key: model._memory[key] for key in KNOWN if key in model._memory}


def _told(part: UMDP, known: dict[str, Any]) -> UMDP:
    part._memory.update(known)
    return part


def do_parts(
    model: UMDP,
    parts: list[slice],
    work: Callable[..., R],
    arguments: tuple[Any, ...],
    take: Callable[[slice, R], None],
    run: Run,
) -> None:
    """Have the executor of a run call `work(part, seconds, *arguments)` for each part; `take` gets what it returns.

    `work` is a function at the top of a module. Parts that could not be done in time are left out.
    """
    executor = run.executor
    assert executor is not None
    # The name of the model at the workers, and the parts that were sent.
    name: str = run.cache.remember(model, "name at workers", lambda: uuid.uuid4().hex)
    sent: set[int] = run.cache.remember(model, "parts at workers", set)
    known = _known(model)
    in_threads = isinstance(executor, ThreadPoolExecutor)
    # Labels are many texts, which take longer to send than numbers.
    graph = model.graph if in_threads else _without_labels(model.graph)

    def task(samples: slice, with_model: bool) -> _Task:
        own: UMDP | bytes | None = None
        if in_threads:
            own = part_of(model, samples)
        elif with_model:
            # As bytes, so that a scheduler on the way need not unpack it.
            own = pickle.dumps((part_of(model, samples, graph), known), pickle.HIGHEST_PROTOCOL)
            sent.add(samples.start)
        return _Task(samples, f"{name} {samples.start}", own, work, arguments, run.seconds_left)

    def here(lost: _Task) -> Any:
        run.report(f"the executor lost the work on sample {lost.part.start}; it is done in this process")
        return lost.part, work(part_of(model, lost.part), run.seconds_left, *arguments)

    missing: list[slice] = []
    try:
        for tasks in ((task(part, part.start not in sent) for part in parts), (task(part, True) for part in missing)):
            spread: Spread[_Task, tuple[slice, Any]] = Spread(_perform, executor, WINDOW)
            with closing(perform_all(tasks, spread, run.out_of_time, here)) as results:
                for samples, found in results:
                    if isinstance(found, _Missing):
                        missing.append(samples)
                    else:
                        take(samples, found)
    except TakesNoMore as error:
        run.report(f"the executor takes no more work ({error}); what is left is done in this process")


_kept: OrderedDict[str, UMDP] = OrderedDict()  # of a worker: the parts that it was sent, the last used at the end


def _perform(task: _Task) -> tuple[slice, Any]:
    """Do the work of a task: what a worker does."""
    if isinstance(task.model, UMDP):
        return task.part, task.work(task.model, task.seconds, *task.arguments)
    if task.model is not None:
        _kept[task.key] = _told(*pickle.loads(task.model))
        while len(_kept) > 1 and sum(part.nbytes for part in _kept.values()) > KEPT * machine_memory():
            _kept.popitem(last=False)
    if task.key not in _kept:
        return task.part, _Missing()
    _kept.move_to_end(task.key)
    return task.part, task.work(_kept[task.key], task.seconds, *task.arguments)
