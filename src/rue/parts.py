"""Parts of a model, some samples each, that the workers of an executor do their share of a solve with.

Work gets a model and says which of its samples it is about. On the machine of this process it is the whole model:
threads use it as it is, and processes map one copy of it (`sharing.py`). A worker that cannot find that says so, and
the same work is sent again with the part: a model of these samples that knows what the whole one knows about its graph,
so that figures are the same to the last digit. A worker keeps what it has, so that nothing is sent twice. A task whose
worker was lost is done again, and what no worker does is done in this process.
"""

import pickle
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rue._arrays import Array, read_only
from rue._check import machine_memory
from rue.model import GRAPH_FIELDS, UMDP, Graph
from rue.sharing import Address, Shared, read, share
from rue.solution import Run
from rue.structure import outward_order
from rue.units import PLAIN
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
    """The answer of a worker that does not have the samples."""


class _Task(NamedTuple):
    """Work on one part."""

    part: slice  # the samples
    name: str  # of the model
    model: UMDP | Address | bytes | None  # the whole model, or the part, pickled; None if the worker may have either
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float  # that are left


@dataclass
class _AtWorkers:
    """What workers may have of a model."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: set[int] = field(default_factory=set)  # the parts that were sent, by their first sample
    shared: Shared | None = None  # the whole model
    may_share: bool = True

    def address(self, model: UMDP) -> Address | None:
        """Return where workers on this machine find the model; None if there are none, or no room for a copy."""
        if self.may_share and self.shared is None:
            has_room = 2 * model.nbytes <= machine_memory()
            self.shared = share(_as_sent(model, slice(0, model.samples))) if has_room else None
            self.may_share = self.shared is not None
        return None if self.shared is None else self.shared.address

    def forget(self) -> None:
        """Do without a shared copy from now on: all workers are elsewhere."""
        self.shared, self.may_share = None, False


def parts_of(model: UMDP) -> list[slice]:
    """Return the parts of a model: samples that follow each other, in whole blocks."""
    blocks = -(-model.samples // BLOCK)
    length = min(-(-blocks // PARTS), LONGEST) if is_large(model) else blocks
    return [slice(k, min(k + length * BLOCK, model.samples)) for k in range(0, model.samples, length * BLOCK)]


def is_large(model: UMDP) -> bool:
    """Return whether a second thread, or a worker, is worth it."""
    return bool(model.graph.transitions >= SMALL)


def do_parts(
    model: UMDP,
    parts: list[slice],
    work: Callable[..., R],
    arguments: tuple[Any, ...],
    take: Callable[[slice, R], None],
    run: Run,
) -> None:
    """Have the executor of a run call `work(model, samples, seconds, *arguments)` for each part.

    `take` gets what it returns. `work` is a function at the top of a module. Parts that could not be done in time are
    left out.
    """
    executor = run.executor
    assert executor is not None
    outward_order(model)  # known to all parts, so that they are swept in the same order
    at_workers: _AtWorkers = run.cache.remember(model, "at workers", _AtWorkers)
    in_threads = isinstance(executor, ThreadPoolExecutor)
    known = model if in_threads else at_workers.address(model)

    def task(samples: slice, with_part: bool) -> _Task:
        own: UMDP | Address | bytes | None = known
        if with_part:
            # As bytes, so that a scheduler on the way need not unpack it.
            own = pickle.dumps(_as_sent(model, samples), pickle.HIGHEST_PROTOCOL)
            at_workers.sent.add(samples.start)
        return _Task(samples, at_workers.name, own, work, arguments, run.seconds_left)

    def here(lost: _Task) -> Any:
        run.report(f"the executor lost the work on sample {lost.part.start}; it is done in this process")
        return lost.part, work(model, lost.part, run.seconds_left, *arguments)

    missing: list[slice] = []
    first = (task(part, known is None and part.start not in at_workers.sent) for part in parts)
    try:
        for tasks in (first, (task(part, True) for part in missing)):
            spread: Spread[_Task, tuple[slice, Any]] = Spread(_perform, executor, WINDOW)
            with closing(perform_all(tasks, spread, run.out_of_time, here)) as results:
                for samples, found in results:
                    if isinstance(found, _Missing):
                        missing.append(samples)
                    else:
                        take(samples, found)
            if len(missing) == len(parts):
                at_workers.forget()
    except TakesNoMore as error:
        run.report(f"the executor takes no more work ({error}); what is left is done in this process")


def _as_sent(model: UMDP, samples: slice) -> tuple[Any, ...]:
    """Return the arguments of `model_part` for some samples."""
    graph = model.graph
    arrays = {name: getattr(graph, name) for name in GRAPH_FIELDS}
    # Labels are many texts, which take longer to send than numbers.
    bare = Graph(**arrays, initial=graph.initial)
    prob, cost = (np.ascontiguousarray(array[:, samples]) for array in (model.prob, model.cost))
    return bare, prob, cost, {key: model._memory[key] for key in KNOWN if key in model._memory}


def model_part(graph: Graph, prob: Array, cost: Array, known: dict[str, Any]) -> UMDP:
    """Return some samples of a model, without the checks of a new model: the whole one has passed them."""
    part = object.__new__(UMDP)
    samples = prob.shape[1]
    own = {"graph": graph, "prob": read_only(prob), "cost": read_only(cost), "weight": np.full(samples, 1 / samples)}
    other = {"sample_label": None, "scenery": {}, "units": PLAIN, "_memory": dict(known)}
    for name, value in (own | other).items():
        object.__setattr__(part, name, value)
    return part


_kept: OrderedDict[str, UMDP] = OrderedDict()  # of a worker: the models and parts that it has, the last used at the end
_keeping = threading.Lock()  # a Dask worker does as many tasks at once as it has threads


def _perform(task: _Task) -> tuple[slice, Any]:
    """Do the work of a task: what a worker does."""
    with _keeping:
        found = _samples_of(task)
    return task.part, _Missing() if found is None else task.work(*found, task.seconds, *task.arguments)


def _samples_of(task: _Task) -> tuple[UMDP, slice] | None:
    """Return a model, and which of its samples the task is about; None if this worker has none."""
    if isinstance(task.model, UMDP):
        return task.model, task.part
    alone = f"{task.name} {task.part.start}"
    if isinstance(task.model, bytes):
        _keep(alone, pickle.loads(task.model))
    elif isinstance(task.model, Address) and not {task.name, alone} & _kept.keys():
        _keep(task.name, read(task.model))
    for key, samples in ((task.name, task.part), (alone, slice(0, task.part.stop - task.part.start))):
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key], samples
    return None


def _keep(key: str, sent: tuple[Any, ...] | None) -> None:
    """Keep a model, and the others that were used last as far as there is room for them."""
    if sent is not None:
        _kept[key] = model_part(*sent)
    while len(_kept) > 1 and sum(part.nbytes for part in _kept.values()) > KEPT * machine_memory():
        _kept.popitem(last=False)
