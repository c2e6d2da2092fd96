"""Work that is spread over processes of this machine, or over any `concurrent.futures.Executor`, such as Dask's.

A task must contain all that its result depends on: then results depend neither on the executor nor on the order. A task
whose worker was lost is tried again at the end, with no other task beside it. A limited number of tasks is submitted at
a time, so that a stop is quick and a task is made when there is room for it.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from contextlib import closing, contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar

from rue._check import whole_number
from rue.errors import BadInput

POLL_SECONDS = 0.2  # between checks whether to stop
MOST_RETRIES = 2  # of a task whose worker was lost

# What Dask raises for a task that lost its workers too often, or whose result was lost.
LOST_AT_DASK = ("KilledWorker", "CancelledError", "FutureCancelledError")

T = TypeVar("T")
R = TypeVar("R")


class LostWorker(Exception):
    """The process that had the task has ended."""


class TakesNoMore(Exception):
    """The executor is broken, or was shut down."""


class _Process(NamedTuple):
    """A process and our end of its pipe."""

    process: BaseProcess
    pipe: Connection


class Processes(Executor):
    """Processes of this machine, to be used in a `with`. One that dies takes only its own task with it.

    The future of that task raises `LostWorker`; another process takes the place of the dead one. `shutdown`, and the
    end of the `with`, end all processes at once: tasks that have not ended are lost. Ctrl-C is for the parent alone.
    """

    def __init__(self, jobs: int) -> None:
        self._threads = ThreadPoolExecutor(whole_number("jobs", jobs, 1))  # each waits for one process
        self._context = multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: list[_Process] = []
        self._is_closed = False

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> "Future[R]":
        """Call a function in one of the processes; it and its arguments must be things that can be pickled."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End all processes; those with a task are killed."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_closed = True
            for process, _ in self._busy:
                process.kill()
        self._threads.shutdown(wait=True)
        for one in self._idle:
            _end(one)
        self._idle.clear()

    def _call(self, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """In a thread: have a process call the function, and wait for what it returns."""
        one = self._take()
        try:
            _send(one.pipe, (fn, args, kwargs))
            is_result, answer = one.pipe.recv()
        except (EOFError, OSError):
            with self._lock:
                self._busy.remove(one)
                _end(one)
            raise LostWorker("the process with the task has ended") from None
        except BaseException:  # what could not be pickled; the pipe is as it was
            self._give_back(one)
            raise
        self._give_back(one)
        if not is_result:
            raise answer
        result: R = answer
        return result

    def _take(self) -> _Process:
        """Return an idle process, or a new one."""
        with self._lock:
            if self._is_closed:
                raise LostWorker("the processes have been ended")
            one = self._idle.pop() if self._idle else self._start()
            self._busy.append(one)
            return one

    def _give_back(self, one: _Process) -> None:
        with self._lock:
            self._busy.remove(one)
            self._idle.append(one)

    def _start(self) -> _Process:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,))
        with _ctrl_c_held_back():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        return _Process(process, ours)


def _send(pipe: Connection, thing: object) -> None:
    """Send a thing as `Connection.send` does, with fewer copies of its arrays."""
    pipe.send_bytes(multiprocessing.reduction.ForkingPickler.dumps(thing, pickle.HIGHEST_PROTOCOL))


def _end(one: _Process) -> None:
    one.pipe.close()
    one.process.join()


def _serve(pipe: Connection) -> None:
    """In a process: call the functions that come through a pipe, until it is closed or the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            _answer(pipe)


def _answer(pipe: Connection) -> None:
    """Call one function, and send back what it returns, or what it raises."""
    data = pipe.recv_bytes()
    try:
        fn, args, kwargs = multiprocessing.reduction.ForkingPickler.loads(data)
        answer = (True, fn(*args, **kwargs))
    except Exception as error:
        answer = (False, error)
    try:
        _send(pipe, answer)
    except OSError:
        raise
    except Exception as error:
        pipe.send((False, RuntimeError(f"the answer cannot be sent back ({error})")))


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


@contextmanager
def open_executor(jobs: int | None, scheduler: str | None) -> Iterator[Executor | None]:
    """Open `jobs` processes of this machine, or a Dask cluster, to be used in a `with`; yield None for neither."""
    if jobs is not None and scheduler is not None:
        raise BadInput(f"jobs is {jobs} and the scheduler {scheduler}; expected one of the two")
    if scheduler is not None:
        with dask_executor(scheduler) as cluster:
            yield cluster
    elif jobs is not None:
        with Processes(jobs) as processes:
            yield processes
    else:
        yield None


def check_executor(executor: object) -> Executor | None:
    """Return the executor, if it is one, or None."""
    if executor is not None and not isinstance(executor, Executor):
        raise BadInput(f"the executor is {executor!r}; expected a concurrent.futures.Executor, or None")
    return executor


class Spread(Generic[T, R]):
    """Tasks that an executor performs, `window` of them at a time. The executor stays open."""

    def __init__(self, perform: Callable[[T], R], executor: Executor, window: int) -> None:
        self.window = window
        self.running: dict[Future[R], T] = {}
        self._perform, self._executor = perform, executor

    def submit(self, task: T) -> None:
        """Hand out a task; `TakesNoMore` if the executor takes none."""
        try:
            future = self._executor.submit(self._perform, task)
        except (BrokenExecutor, RuntimeError) as error:
            raise TakesNoMore(str(error)) from None
        self.running[future] = task

    def wait(self, seconds: float) -> list[tuple[T, R | None]]:
        """Wait until a task ends, for `seconds` at most. Return those that have ended; None: its worker was lost."""
        ended, _ = wait_for_futures(self.running, seconds, FIRST_COMPLETED)
        return [(self.running.pop(future), _result(future)) for future in ended]

    def close(self) -> None:
        """Cancel what has not begun; what has begun is the executor's to end."""
        for future in self.running:
            future.cancel()


def _result(future: "Future[R]") -> R | None:
    """Return the result of a future that ended; None if its worker was lost."""
    error = None if future.cancelled() else future.exception()
    lost = future.cancelled() or isinstance(error, BrokenExecutor | LostWorker)
    if lost or type(error).__name__ in LOST_AT_DASK:
        return None
    if error is not None:
        raise error
    return future.result()


def perform_all(
    tasks: Iterable[T], spread: Spread[T, R], stop: Callable[[], object], give_up: Callable[[T], R]
) -> Generator[R]:
    """Yield the results in the order in which the tasks end; tasks that lost their worker come last, one by one.

    What lost its worker each time is given up: its result is what `give_up` returns.
    """
    lost: list[T] = []
    with closing(spread):
        for task, result in _as_they_end(iter(tasks), spread, stop):
            if result is None:
                lost.append(task)
            else:
                yield result
        for task in lost:
            for _ in range(MOST_RETRIES):
                results = [result for _, result in _as_they_end(iter([task]), spread, stop)]
                if results != [None]:
                    yield from (result for result in results if result is not None)
                    break
            else:
                yield give_up(task)


def _as_they_end(todo: Iterator[T], spread: Spread[T, R], stop: Callable[[], object]) -> Iterator[tuple[T, R | None]]:
    """Yield the tasks that have ended, until all have or there is a reason to stop."""
    ended: list[tuple[T, R | None]] = []
    while not stop():
        for task in islice(todo, spread.window - len(spread.running)):
            spread.submit(task)
        yield from ended  # workers have their next tasks while results are used
        if not spread.running:
            return
        ended = spread.wait(POLL_SECONDS)
    yield from ended


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Block Ctrl-C in this thread. Processes started meanwhile inherit that.

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
