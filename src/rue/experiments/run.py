"""Run an experiment: perform the tasks that its store does not have yet, and add their records.

Tasks are performed by processes of this machine, or by any `concurrent.futures.Executor`, such as that of a Dask
cluster. Results depend neither on the executor nor on the order, since a task contains all that its result depends on.
Only this process writes to the store. A task whose worker was lost is tried again at the end, with no other task beside
it; if its worker is lost each time, that becomes its record.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rue._check import text_path, whole_number
from rue.errors import BadInput
from rue.experiments.spec import Experiment, Task
from rue.experiments.store import FAILED, Record, Store
from rue.experiments.worker import new_record, perform
from rue.solution import Solution, Status
from rue.workers import MOST_RETRIES, Processes, Spread, TakesNoMore, perform_all

WINDOW = 256  # tasks that an executor has at a time

Done = tuple[Record, Solution | None]


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
    store = Store(text_path(folder))
    with store.writing() as writer, _stop_on_signals() as stop:
        known = {record["key"]: record for record in store.records()}
        writer.keep_spec(experiment.text, tasks)
        there = {t.key: known[t.key] for t in tasks if t.key in known and _is_complete(t, known[t.key], store)}
        missing = [t for t in tasks if t.key not in there or (retry and there[t.key]["status"] == FAILED)]
        elsewhere = {_without_code(record.get("task", {})) for record in known.values()}
        again = sum(_without_code(task.describe()) in elsewhere for task in missing if task.key not in known)
        added = 0
        workers = Processes(jobs) if executor is None else nullcontext(executor)
        with workers as pool, closing(_perform_all(missing, pool, stop)) as results:
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


def _perform_all(tasks: Iterable[Task], executor: Executor, stop: threading.Event) -> Generator[Done]:
    """Yield the results in the order in which the tasks end, without those that were interrupted."""
    try:
        with closing(perform_all(tasks, Spread(perform, executor, WINDOW), stop.is_set, _give_up)) as results:
            yield from (done for done in results if done[0]["status"] != Status.INTERRUPTED)
    except TakesNoMore as error:
        raise BadInput(f"the executor takes no more tasks ({error}); what was done is in the store") from None


def _give_up(task: Task) -> Done:
    return new_record(task, f"its worker died {MOST_RETRIES + 1} times, perhaps for want of memory"), None


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
