"""The store of an experiment: a folder to which records are appended, one for each task.

    records.jsonl       one line for each record, in the order in which they came; strict JSON, infinities as "inf"
    solutions/KEY.rue   solutions that are to be kept
    spec.toml           the experiment as it was last run
    tasks.jsonl         its tasks: the key of each, and its group and size in that experiment

A record is written completely or not at all. Each line is flushed to the disk before the next; if that fails (the disk
is full), the file is cut back to its old length. An incomplete last line, left by a machine that died, is cut off when
the store is next written to. One writer at a time holds a lock. A later record of a task replaces earlier ones, so that
failed tasks can be tried again. Group, size and paths are those of the present experiment, not those of the record.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rue._text import plain
from rue.errors import BadFile, BadInput
from rue.experiments.spec import Task
from rue.experiments.toml import read_toml
from rue.formats import load, save
from rue.formats.writing import write_text
from rue.solution import Solution

Record = dict[str, Any]
RECORDS, SOLUTIONS, LOCK = "records.jsonl", "solutions", "lock"
SPEC, TASKS = "spec.toml", "tasks.jsonl"
PRESENT = ("key", "group", "size", "problem")  # of a task in tasks.jsonl
FAILED = "failed"


@dataclass(frozen=True)
class Store:
    """A folder with records."""

    folder: Path

    def records(self) -> list[Record]:
        """Return the last record of each task, in the order of the first ones."""
        latest: dict[str, Record] = {}
        for record in _lines(self.folder / RECORDS, "a record", ("key", "status")):
            latest[record["key"]] = record
        return list(latest.values())

    def current(self) -> tuple[list[Record], int]:
        """Return the records of the experiment that was last run, and the number of its tasks without a record."""
        records, path = self.records(), self.folder / TASKS
        if not path.is_file():
            return records, 0
        tasks = {task["key"]: task for task in _lines(path, "a task", PRESENT)}
        records = [record | tasks[record["key"]] for record in records if record["key"] in tasks]
        return records, len(tasks) - len(records)

    @property
    def spec(self) -> str:
        """Return the text of the experiment that was last run, if it came from a file."""
        path = self.folder / SPEC
        try:
            return path.read_text(encoding="utf-8") if path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path}: the file is damaged ({error}); expected the text of an experiment") from None

    @property
    def title(self) -> str:
        """Return the title of the experiment, or the name of the folder."""
        return str(self._read_spec().get("title") or self.folder.name)

    @property
    def reference(self) -> tuple[str, ...]:
        """Return the reference methods that the experiment names: regrets are divided by the worst of them."""
        names = self._read_spec().get("reference", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadFile(f"{self.folder / SPEC}: reference is {names!r}; expected a list of methods")
        return tuple(names)

    def _read_spec(self) -> dict[str, Any]:
        path = self.folder / SPEC
        return read_toml(path, lambda table, _: table) if path.is_file() else {}

    def solution(self, key: str) -> Solution | None:
        """Return the solution of a task, or None if it was not kept."""
        path = self.solution_file(key)
        if not path.is_file():
            return None
        solution = load(path)
        if not isinstance(solution, Solution):
            raise BadFile(f"{path}: it holds a {type(solution).__name__}; expected a solution")
        return solution

    def solution_file(self, key: str) -> Path:
        """Return where the solution of a task is, if it was kept."""
        return self.folder / SOLUTIONS / f"{key}.rue"

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Lock the store and yield a writer."""
        with ExitStack() as files:
            try:
                (self.folder / SOLUTIONS).mkdir(parents=True, exist_ok=True)
                lock = files.enter_context((self.folder / LOCK).open("ab"))
                # Unbuffered: a failed write must not be repeated later.
                stream = files.enter_context((self.folder / RECORDS).open("ab", buffering=0))
            except OSError as error:
                raise _cannot_write(self.folder, error) from None
            try:
                _hold(lock)
            except OSError:
                message = f"{self.folder}: another run is writing to this store; expected it to end first"
                raise BadInput(message) from None
            complete = (self.folder / RECORDS).read_bytes().rfind(b"\n") + 1
            stream.truncate(complete)  # a writer that died left an incomplete last line
            yield Writer(self, stream)


@dataclass(frozen=True)
class Writer:
    """Adds records to a store."""

    store: Store
    stream: IO[bytes] = field(repr=False)

    def add(self, record: Record, solution: Solution | None = None) -> None:
        """Write a record to the disk; its solution first, so that no record is without its solution."""
        if solution is not None:
            with _old_file_stays():
                save(self.store.solution_file(record["key"]), solution)
        line = json.dumps(plain(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        file = self.stream.fileno()
        before = os.fstat(file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(file, line[written:])
            os.fsync(file)
        except OSError as error:
            os.ftruncate(file, before)
            raise _cannot_write(self.store.folder, error) from None

    def keep_spec(self, text: str, tasks: Iterable[Task]) -> None:
        """Write the text of the experiment and its tasks beside the records."""
        present = [(task.key, task.problem.group, task.problem.size, task.problem.model) for task in tasks]
        lines = [json.dumps(dict(zip(PRESENT, one, strict=True)), ensure_ascii=False) + "\n" for one in present]
        with _old_file_stays():
            write_text(self.store.folder / TASKS, "".join(lines))
            write_text(self.store.folder / SPEC, text)


@contextmanager
def _old_file_stays() -> Iterator[None]:
    """Say in errors of writing that the file is as it was."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{error}; what was there is as it was") from None


def _hold(lock: IO[bytes]) -> None:
    """Lock a file until it is closed or the process ends; raise OSError if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # on Windows
        import msvcrt

        lock.seek(0)
        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lines(path: Path, what: str, words: Iterable[str]) -> Iterator[Record]:
    """Yield the lines of a file of JSON objects; each must have these fields, as text."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path.parent}: there are no records; expected a store of `rue experiment run`") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    lines = text.split(b"\n")[:-1]  # an incomplete last line is no record
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
            assert all(isinstance(record[word], str) for word in words)
        except (ValueError, KeyError, TypeError, AssertionError):
            raise BadFile(f"{path}: line {number + 1} is damaged; expected {what}") from None
        yield record


def _cannot_write(folder: Path, error: OSError) -> BadInput:
    return BadInput(f"{folder}: cannot be written ({error.strerror or error}); what was there is as it was")
