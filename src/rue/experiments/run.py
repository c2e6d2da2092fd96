"""Run an experiment: perform the tasks that its store does not have yet, and add their records.

Tasks are performed by processes of this machine, or by any `concurrent.futures.Executor`, such as that of a Dask
cluster. Results depend neither on the executor nor on the order, since a task contains all that its result depends on.
Only this process writes to the store. A task whose worker was lost is tried again at the end, with no other task beside
it; if its worker is lost each time, that becomes its record.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future
from concurrent.futures import wait as wait_for_futures
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_connections
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from rue._check import whole_number
from rue.errors import BadInput
from rue.experiments.spec import Experiment, Task
from rue.experiments.store import FAILED, Record, Store
from rue.experiments.worker import new_record, perform
from rue.solution import Solution, Status

POLL_SECONDS = 0.2  # between checks whether to stop
MOST_RETRIES = 2  # of a task whose worker was lost
WINDOW = 256  # tasks that a given executor has at a time

# What Dask raises for a task that lost its workers too often, or whose result was lost.
LOST_AT_DASK = ("KilledWorker", "CancelledError", "FutureCancelledError")

Done = tuple[Record, Solution | None]
Ended = tuple[Task, Done | None]  # None: the worker was lost


class Advance(NamedTuple):
    """How far an experiment is, reported after each task."""

    done: int  # of all tasks, those of earlier runs included
    total: int
    failed: int
    record: Record


@dataclass(frozen=True)
class Summary:
    """What the store has at the end of a run."""

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
        text = f"{self.done} of {self.total} runs are done"
        text += f", {self.failed} failed (--retry does them again)" if self.failed else ""
        text += f"; {self.added} in {self.seconds:.0f} s now"
        text += f"; the store also has {self.again} of them by another version of rue" if self.again else ""
        text += "; stopped, the same command goes on" if self.stopped else ""
        runs = "1 run" if self.alike == 1 else f"{self.alike} runs"
        return text + (f"; the first error, of {runs}: {' '.join(self.error.split())}" if self.failed else "")


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    retry: bool = False,
    progress: Callable[[Advance], None] | None = None,
) -> Summary:
    """Perform all tasks that the store does not have yet, with `retry` also those that failed, and return a summary.

    Ctrl-C stops; all finished records are in the store.
    """
    began = time.perf_counter()
    whole_number("jobs", jobs, 1)
    tasks = experiment.tasks()
    store = Store(Path(folder))
    with store.writing() as writer, _stop_on_signals() as stop:
        known = {record["key"]: record for record in store.records()}
        writer.keep_spec(experiment.text, tasks)
        there = {t.key: known[t.key] for t in tasks if t.key in known and _is_complete(t, known[t.key], store)}
        missing = [t for t in tasks if t.key not in there or (retry and there[t.key]["status"] == FAILED)]
        elsewhere = {_without_code(record.get("task", {})) for record in known.values()}
        again = sum(_without_code(task.describe()) in elsewhere for task in missing if task.key not in known)
        added = 0
        workers = _Processes(jobs) if executor is None else _GivenExecutor(executor)
        with closing(_perform_all(missing, workers, stop)) as results:
            for record, solution in results:
                writer.add(record, solution)
                added += 1
                there[record["key"]] = record
                if progress is not None:
                    progress(Advance(len(there), len(tasks), len(_errors(there)), record))
    errors = _errors(there)
    first = errors[0] if errors else ""
    return Summary(
        total=len(tasks), done=len(there) - len(errors), failed=len(errors), added=added,
        seconds=time.perf_counter() - began, stopped=stop.is_set(), error=first, alike=errors.count(first), again=again,
    )  # fmt: skip


def _without_code(task: Mapping[str, Any]) -> str:
    """Return what a task asks for, whatever version of rue performs it."""
    return json.dumps({name: value for name, value in task.items() if name != "rue"}, sort_keys=True)


def _is_complete(task: Task, record: Record, store: Store) -> bool:
    """Return whether the store has all of a task: its record, and its solution if that is to be kept."""
    return record["status"] == FAILED or not task.keep or store.solution_file(task.key).is_file()


def _errors(records: Mapping[str, Record]) -> list[str]:
    """Return the errors of failed tasks."""
    return [str(one.get("error") or "no reason is known") for one in records.values() if one["status"] == FAILED]


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to the workers of a Dask cluster, to be used in a `with`; needs the `dask` extra."""
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
        # Not pure: a second try has the same arguments as the first and must run again.
        yield client.get_executor(pure=False)


def _perform_all(tasks: Iterable[Task], workers: "_Workers", stop: threading.Event) -> Generator[Done]:
    """Yield the results in the order in which the tasks end; tasks that lost their worker come last, one by one."""
    lost: list[Task] = []
    with closing(workers):
        for task, result in _as_they_end(deque(tasks), workers, stop):
            if result is None:
                lost.append(task)
            else:
                yield result
        for task in lost:
            for _ in range(MOST_RETRIES):
                results = [result for _, result in _as_they_end(deque([task]), workers, stop)]
                if results != [None]:
                    yield from filter(None, results)
                    break
            else:
                yield new_record(task, f"its worker died {MOST_RETRIES + 1} times, perhaps for want of memory"), None


def _as_they_end(todo: deque[Task], workers: "_Workers", stop: threading.Event) -> Iterator[Ended]:
    """Yield the tasks that have ended, until all have or the run is stopped."""
    ended: list[Ended] = []
    while not stop.is_set():
        while todo and len(workers.running) < workers.window:
            workers.submit(todo.popleft())
        yield from ended  # workers have their next tasks while records are written
        if not workers.running:
            return
        everything = workers.wait(POLL_SECONDS)
        ended = [(task, done) for task, done in everything if done is None or done[0]["status"] != Status.INTERRUPTED]
    yield from ended


class _Processes:
    """Processes of this machine, one pipe each. One that dies takes only its own task with it, and is replaced."""

    def __init__(self, jobs: int) -> None:
        self.window = jobs
        self.running: dict[Connection, Task] = {}
        self._context = multiprocessing.get_context("spawn")
        self._process: dict[Connection, BaseProcess] = {}
        self._idle: list[Connection] = []

    def submit(self, task: Task) -> None:
        """Give a task to an idle process, or to a new one."""
        pipe = self._idle.pop() if self._idle else self._start()
        self.running[pipe] = task
        with suppress(OSError):  # the process has just died: `wait` finds that
            pipe.send(task)

    def wait(self, seconds: float) -> list[Ended]:
        """Wait until a task ends, for `seconds` at most. Return the tasks that have ended."""
        return [self._receive(pipe) for pipe in wait_for_connections(list(self.running), seconds)]  # type: ignore[arg-type]

    def _receive(self, pipe: Connection) -> Ended:
        task = self.running.pop(pipe)
        try:
            result: Done = pipe.recv()
        except (EOFError, OSError):
            pipe.close()
            self._process.pop(pipe).join()
            return task, None
        self._idle.append(pipe)
        return task, result

    def _start(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, perform))
        with _ctrl_c_held_back():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._process[ours] = process
        return ours

    def close(self) -> None:
        """End all processes; those with a task are killed."""
        for pipe in self.running:
            self._process[pipe].kill()
        for pipe in self._process:
            pipe.close()
        for process in self._process.values():
            process.join()


def _serve(pipe: Connection, perform: Callable[[Task], Done]) -> None:
    """In a process: perform the tasks that come through a pipe, until it is closed or the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(perform(pipe.recv()))


class _GivenExecutor:
    """An executor that the caller made, and will shut down."""

    window = WINDOW

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.running: dict[Future[Done], Task] = {}

    def submit(self, task: Task) -> None:
        """Hand out a task."""
        try:
            self.running[self._executor.submit(perform, task)] = task
        except (BrokenExecutor, RuntimeError) as error:
            raise BadInput(f"the executor takes no more tasks ({error}); what was done is in the store") from None

    def wait(self, seconds: float) -> list[Ended]:
        """Wait until a task ends, for `seconds` at most. Return the tasks that have ended."""
        ended, _ = wait_for_futures(self.running, seconds, FIRST_COMPLETED)
        return [(self.running.pop(future), _result(future)) for future in ended]

    def close(self) -> None:
        """Cancel what has not begun; what has begun is the executor's to end."""
        for future in self.running:
            future.cancel()


def _result(future: "Future[Done]") -> Done | None:
    """Return the result of a future that ended; None if its worker was lost. Tasks themselves do not raise."""
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or isinstance(error, BrokenExecutor) or type(error).__name__ in LOST_AT_DASK:
        return None
    if error is not None:
        raise error
    return future.result()


_Workers = _Processes | _GivenExecutor


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Block Ctrl-C. Processes started meanwhile inherit that; this one gets it afterwards.

    Windows has no such mask: there, processes ignore Ctrl-C only from the moment they serve tasks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which ends with unblocking Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets."""
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
