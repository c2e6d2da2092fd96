"""The store of an experiment: a folder to which one record per task is added, and from which nothing is ever lost.

    records.jsonl       one line for each record, in the order in which they came; strict JSON, infinities as "inf"
    solutions/KEY.rue   policies that were asked to be kept
    spec.toml           the experiment as it was last run
    tasks.jsonl         its tasks: the key of each, and under which group and size of that experiment it stands

A record is whole or not there. Its line is written in one piece and brought to the disk before the next; if that fails
(the disk is full) the file is cut back to what it was, and a line without its end, left by a machine that died, is cut
off when the store is next written to. One writer at a time holds a lock. A later record of the same task stands for all
before it: a failed one can be tried again, and what is done is done once. What a task is called, and where its files
lie, is the present experiment's to say and not the record's.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rue._text import plain
from rue.errors import BadFile, BadInput
from rue.formats import load, save
from rue.formats.writing import write_text
from rue.solution import Solution

Record = dict[str, Any]
RECORDS, SOLUTIONS, LOCK = "records.jsonl", "solutions", "lock"
SPEC, TASKS = "spec.toml", "tasks.jsonl"
# What a task says of itself beside its key.
PRESENT = ("group", "size", "problem")
FAILED = "failed"


@dataclass(frozen=True)
class Store:
    """A folder with records."""

    folder: Path

    def records(self) -> list[Record]:
        """The last record of each task, in the order in which tasks first came."""
        latest: dict[str, Record] = {}
        for record in _lines(self.folder / RECORDS, "a record", ("key", "status")):
            latest[record["key"]] = record
        return list(latest.values())

    def current(self) -> tuple[list[Record], int]:
        """The records of the experiment that was last run, and how many of its tasks have none yet.

        Group, size and problem are those of the experiment: they may be others than when a record was made.
        """
        records, path = self.records(), self.folder / TASKS
        if not path.is_file():
            return records, 0
        tasks = {task["key"]: task for task in _lines(path, "a task", ("key", *PRESENT))}
        records = [record | tasks[record["key"]] for record in records if record["key"] in tasks]
        return records, len(tasks) - len(records)

    @property
    def spec(self) -> str:
        """The text of the experiment that was last run, if it came from a file."""
        path = self.folder / SPEC
        try:
            return path.read_text(encoding="utf-8") if path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path}: the file is damaged ({error}); expected the text of an experiment") from None

    @property
    def title(self) -> str:
        """What the experiment calls itself, or the name of the folder."""
        return str(self._table().get("title") or self.folder.name)

    @property
    def reference(self) -> tuple[str, ...]:
        """The methods by the worst of which regrets are divided, if the experiment names them."""
        names = self._table().get("reference", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadFile(f"{self.folder / SPEC}: reference is {names!r}; expected a list of methods")
        return tuple(names)

    def _table(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.spec)
        except tomllib.TOMLDecodeError as error:
            raise BadFile(f"{self.folder / SPEC}: it is no TOML ({error}); expected an experiment") from None

    def solution(self, key: str) -> Solution | None:
        """The solution of a task, if it was kept."""
        if not self.has_solution(key):
            return None
        solution = load(self._solution_file(key))
        if not isinstance(solution, Solution):
            raise BadFile(f"{self._solution_file(key)}: it holds a {type(solution).__name__}; expected a solution")
        return solution

    def has_solution(self, key: str) -> bool:
        """Whether the solution of a task was kept."""
        return self._solution_file(key).is_file()

    def _solution_file(self, key: str) -> Path:
        return self.folder / SOLUTIONS / f"{key}.rue"

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """The one who may add records."""
        try:
            (self.folder / SOLUTIONS).mkdir(parents=True, exist_ok=True)
            lock = (self.folder / LOCK).open("ab")
        except OSError as error:
            raise _cannot_write(self.folder, error) from None
        with lock:
            try:
                _hold(lock)
            except OSError:
                raise BadInput(
                    f"{self.folder}: another run is writing to this store; expected it to end first"
                ) from None
            try:
                stream = (self.folder / RECORDS).open("ab", buffering=0)  # what failed must not be written later
            except OSError as error:
                raise _cannot_write(self.folder, error) from None
            with stream:
                _cut_off_half_a_line(self.folder / RECORDS, stream)
                yield Writer(self, stream)


@dataclass(frozen=True)
class Writer:
    """Adds records to a store."""

    store: Store
    stream: IO[bytes] = field(repr=False)

    def known(self) -> dict[str, Record]:
        """The records that are there, by key."""
        return {record["key"]: record for record in self.store.records()}

    def add(self, record: Record, solution: Solution | None = None) -> None:
        """Bring a record to the disk; its solution first, so that no record speaks of one that is not there."""
        if solution is not None:
            try:
                save(self.store._solution_file(record["key"]), solution)
            except BadInput as error:
                raise BadInput(f"{error}; what was there is as it was") from None
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

    def keep_spec(self, text: str, tasks: Iterable[Mapping[str, str]]) -> None:
        """Put the text of the experiment and its tasks (`key`, `group`, `size`, `problem`) beside the records."""
        lines = [json.dumps(task, ensure_ascii=False) + "\n" for task in tasks]
        try:
            write_text(self.store.folder / TASKS, "".join(lines))
            write_text(self.store.folder / SPEC, text)
        except BadInput as error:
            raise BadInput(f"{error}; what was there is as it was") from None


def _hold(lock: IO[bytes]) -> None:
    """Be the only one to hold a file until it is closed, also by the end of the process; OSError if another one is."""
    try:
        import fcntl
    except ImportError:  # on Windows
        import msvcrt

        lock.seek(0)
        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lines(path: Path, what: str, words: Iterable[str]) -> Iterator[Record]:
    """The lines of a file of JSON objects, each of which has these words."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path.parent}: there are no records; expected a store of `rue experiment run`") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    lines = text.split(b"\n")[:-1]  # what has no end was never there
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
            assert all(isinstance(record[word], str) for word in words)
        except (ValueError, KeyError, TypeError, AssertionError):
            raise BadFile(f"{path}: line {number + 1} is damaged; expected {what}") from None
        yield record


def _cut_off_half_a_line(path: Path, stream: IO[bytes]) -> None:
    """What a writer left that died within a line."""
    text = path.read_bytes()
    end = text.rfind(b"\n") + 1
    if end < len(text):
        stream.truncate(end)


def _cannot_write(folder: Path, error: OSError) -> BadInput:
    return BadInput(f"{folder}: cannot be written ({error.strerror or error}); what was there is as it was")
