"""An experiment carried out: what is missing in its store is done, by whoever does the work, and added.

The work is done by any `concurrent.futures.Executor`: processes of this machine, a Dask cluster, or one that is given.
Results do not depend on who does a task or when, as a task has all that it depends on in itself. This process alone
writes to the store. A task whose worker was lost is tried again by itself; if its worker is lost again, that is its
record.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rue._check import whole_number
from rue.errors import BadInput
from rue.experiments.spec import Experiment, Task
from rue.experiments.store import FAILED, Record, Store
from rue.experiments.work import new_record, perform
from rue.solution import Solution, Status

# Seconds between looks at whether to stop.
LOOK = 0.2
# A task whose worker was lost so often has lost it by itself.
MOST_LOSSES = 2
# Tasks that a foreign executor is given at a time.
WINDOW = 256

# What Dask raises for a task that lost its workers too often, or that nobody has any more.
LOST_AT_DASK = ("KilledWorker", "CancelledError", "FutureCancelledError")

Done = tuple[Record, Solution | None]


class Advance(NamedTuple):
    """How far an experiment is, told after each task."""

    done: int  # of all tasks, with those that were there before
    total: int
    failed: int
    record: Record


@dataclass(frozen=True)
class Summary:
    """What there is at the end of a run."""

    total: int
    done: int  # of the total; failed ones are not done
    failed: int
    added: int  # records of this run
    seconds: float
    stopped: bool  # by Ctrl-C or a signal to end
    error: str = ""  # of the first task that failed
    alike: int = 0  # failed tasks with that same error
    again: int = 0  # tasks that were missing, but that another version of rue had done

    def __str__(self) -> str:
        failed = f", {self.failed} failed (--retry does them again)" if self.failed else ""
        stopped = "; stopped, the same command goes on" if self.stopped else ""
        runs = "1 run" if self.alike == 1 else f"{self.alike} runs"
        error = f"; the first error, of {runs}: {' '.join(self.error.split())}" if self.failed else ""
        now = f"{self.added} in {self.seconds:.0f} s now"
        again = f"; the store also has {self.again} of them by another version of rue" if self.again else ""
        return f"{self.done} of {self.total} runs are done{failed}; {now}{again}{stopped}{error}"


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    retry: bool = False,
    progress: Callable[[Advance], None] | None = None,
) -> Summary:
    """Do all tasks that the store does not have yet; with `retry`, also those that failed.

    Tasks are done by `jobs` processes, or by an `executor` of any kind. Ctrl-C stops; what is done is in the store.
    """
    began = time.perf_counter()
    whole_number("jobs", jobs, 1)
    tasks = experiment.tasks()
    store = Store(Path(folder))
    with store.writing() as writer, _stop_on_signals() as stop:
        known = writer.known()
        writer.keep_spec(experiment.text, map(_present, tasks))
        there = {t.key: known[t.key] for t in tasks if t.key in known and _is_whole(t, known[t.key], store)}
        missing = [t for t in tasks if t.key not in there or (retry and there[t.key]["status"] == FAILED)]
        elsewhere = {_without_code(record.get("task", {})) for record in known.values()}
        again = sum(_without_code(task.describe()) in elsewhere for task in missing if task.key not in known)
        # The errors of those that failed, and None for the others.
        errors = {key: _error_of(record) for key, record in there.items()}
        added = 0
        workers = _Processes(jobs) if executor is None else _Given(executor)
        with closing(_work(missing, workers, stop)) as work:
            for record, solution in work:
                writer.add(record, solution)
                added += 1
                errors[record["key"]] = _error_of(record)
                if progress is not None:
                    failed = sum(error is not None for error in errors.values())
                    progress(Advance(len(errors), len(tasks), failed, record))
    failures = [error for error in errors.values() if error is not None]
    first = failures[0] if failures else ""
    return Summary(
        len(tasks), len(errors) - len(failures), len(failures), added, time.perf_counter() - began, stop.is_set(),
        first, failures.count(first), again,
    )  # fmt: skip


def _present(task: Task) -> dict[str, str]:
    """Where a task stands in the present experiment."""
    problem = task.problem
    return {"key": task.key, "group": problem.group, "size": problem.size, "problem": problem.model}


def _without_code(task: Mapping[str, Any]) -> str:
    """What a task asks for, whatever version of rue does it."""
    return json.dumps({name: value for name, value in task.items() if name != "rue"}, sort_keys=True)


def _is_whole(task: Task, record: Record, store: Store) -> bool:
    """Whether all that is wanted of a task is there: with its record also its solution, if that is to be kept."""
    return record["status"] == FAILED or not task.keep or store.has_solution(task.key)


def _error_of(record: Record) -> str | None:
    return str(record.get("error") or "no reason is known") if record["status"] == FAILED else None


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster, to be used in a `with`; needs the `dask` extra."""
    try:
        from distributed import Client
    except ImportError:
        raise BadInput("the package distributed is missing; expected rue's extra: pip install 'rue[dask]'") from None
    try:
        client = Client(address, timeout=5)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadInput(f"{address}: no Dask scheduler answers there ({reason}); expected tcp://host:port") from None
    with client:
        # Two tasks with the same arguments are told apart: one may be a second try.
        yield client.get_executor(pure=False)


def _work(tasks: Iterable[Task], workers: "_Processes | _Given", stop: threading.Event) -> Generator[Done]:
    """What comes of the tasks, in the order in which they end; those that lost their worker come last, one by one."""
    with workers:
        suspects: list[Task] = []
        yield from _all_at_once(deque(tasks), workers, stop, suspects)
        for task in suspects:
            yield from _alone(task, workers, stop)


def _all_at_once(
    todo: deque[Task], workers: "_Processes | _Given", stop: threading.Event, suspects: list[Task]
) -> Iterator[Done]:
    running: dict[Future[Done], Task] = {}
    try:
        while (todo or running) and not stop.is_set():
            while todo and len(running) < workers.window:
                task = todo.popleft()
                running[workers.submit(task)] = task
            ended, _ = wait(running, timeout=LOOK, return_when=FIRST_COMPLETED)
            lost = [future for future in ended if _is_lost(future)]
            if lost:
                # Processes of one pool go down together, and nobody knows whose fault it was: all are suspects.
                ended |= workers.renew(set(running))
                suspects += [running[future] for future in ended if _is_lost(future)]
            for future in ended:
                del running[future]
                if not _is_lost(future) and future.result()[0]["status"] != Status.INTERRUPTED:
                    yield future.result()
    finally:
        if running:  # it was stopped, or the store takes no more
            workers.give_up(running)


def _alone(task: Task, workers: "_Processes | _Given", stop: threading.Event) -> Iterator[Done]:
    """A task with nobody beside it; if it loses its worker, it is to blame."""
    for _ in range(MOST_LOSSES):
        suspects: list[Task] = []
        yield from _all_at_once(deque([task]), workers, stop, suspects)
        if not suspects:
            return
    yield new_record(task, f"its worker died {MOST_LOSSES + 1} times, perhaps for want of memory"), None


def _is_lost(future: "Future[Done]") -> bool:
    """Whether the worker of a task that ended was lost. Tasks do not raise: what is raised came on the way to it."""
    if future.cancelled():
        return True
    error = future.exception()
    if error is None:
        return False
    if isinstance(error, BrokenExecutor) or type(error).__name__ in LOST_AT_DASK:
        return True
    raise error


class _Processes:
    """Processes of this machine, started anew when one of them dies."""

    def __init__(self, jobs: int) -> None:
        self.window = jobs + 1  # one more waits, so that nobody is idle
        self._jobs = jobs
        self._pool = self._start()

    def submit(self, task: Task) -> "Future[Done]":
        """Hand out a task; the pool starts its processes as it gets them."""
        try:
            with _ctrl_c_held_back():
                return self._pool.submit(perform, task)
        except BrokenExecutor as error:  # a process died just now: the task shares the fate of the others
            future: Future[Done] = Future()
            future.set_exception(error)
            return future

    def renew(self, running: "set[Future[Done]]") -> "set[Future[Done]]":
        """Start again after a process has died; all that was running has ended with it."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._start()
        return running

    def give_up(self, running: "Iterable[Future[Done]]") -> None:
        """What is still at work is not waited for."""
        # A result that is on its way when its process ends would be waited for as long as anybody can still write.
        self._pool._result_queue._writer.close()  # type: ignore[attr-defined]
        for process in list(self._pool._processes.values()):
            process.kill()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, mp_context=context, initializer=_begin_to_work)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Given:
    """An executor that somebody else made, and will end."""

    window = WINDOW

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, task: Task) -> "Future[Done]":
        """Hand out a task."""
        try:
            return self._executor.submit(perform, task)
        except (BrokenExecutor, RuntimeError) as error:
            raise BadInput(f"the executor takes no more tasks ({error}); what was done is in the store") from None

    def renew(self, running: "set[Future[Done]]") -> "set[Future[Done]]":
        """It is not ours to renew, and the others may well go on."""
        return set()

    def give_up(self, running: "Iterable[Future[Done]]") -> None:
        """Take back what was handed out; what somebody has begun is theirs to end."""
        for future in running:
            future.cancel()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _begin_to_work() -> None:
    """In a new process: Ctrl-C is for the one who handed out the work, and without that one there is no work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Processes that are started meanwhile never get it, from their very beginning; this one gets it afterwards.

    Windows has no such mask: there they ignore it once they have begun to work.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, or a request to end, sets."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
