"""An experiment: a TOML file, and the tasks that it lists.

    title = "Rescue on small grids"
    methods = ["reg-d1", "reg-h3", { name = "adaptive", gap = 0.01 }]
    policies = ["guideline.csv"]      # files with policies that are judged beside the methods
    seconds = 60                      # for each method; it then returns its best policy so far

    [[problems]]
    domain = "disaster"
    sizes = [{ width = 4, height = 4 }, { width = 8, height = 8 }]
    seeds = 25                        # 0 to 24; or a list of seeds
    samples = 15                      # or a list, [15, 150, 1500]: each problem with each number
    pool = 1000                       # draw this number and choose the samples out of them
    by = "coverage"
    test = 100                        # fresh draws
    name = "rescue"                   # of its tables; unless given, the name of the domain

    [[problems]]
    model = "mine.rue"
    test = "fresh.rue"                # another model on the same graph

Paths are relative to the TOML file, also those of files that a domain reads (`data` and `bathymetry` of the glider).

A task is one method on one problem. Its key is a hash of all that its result depends on: the problem (of a file, its
name and contents, not its folder), the method with all its parameters, the limit, and the version and code of rue. A
changed parameter or another version of rue makes a new task; a changed name or title does not.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from rue import parsing
from rue._check import one_of, real_number, text_path, whole_number
from rue._check import seed as check_seed
from rue.domains.base import TRAINING, Domain
from rue.errors import BadInput, RueError, unknown_name
from rue.experiments.provenance import code_version
from rue.experiments.toml import read_toml
from rue.given import GivenPolicy, digest_of
from rue.selection import WAYS
from rue.solution import Solver

OF_THE_FILE = ("folder", "text")  # fields that are not read from the TOML table
NO_PROBLEMS = "there are no problems; expected one or more tables [[problems]]"
# About as many as can be listed within a few seconds.
MOST_TASKS = 100_000
OF_DOMAINS = ("sizes", "seeds", "samples", "pool", "by")

Method = str | Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """One UMDP to plan with, and the samples to test on."""

    group: str  # the domain, or the name of a file
    size: str  # "8×8"
    model: str  # as on the command line: a domain with its parameters, or a file; paths are absolute
    test: str = ""  # a number of fresh draws, or a file
    contents: str = ""  # a hash of the files, if there are any
    files: tuple[str, ...] = ()  # absolute paths of all files of the model and the test

    def without_folders(self, text: str) -> str:
        """Return the text of the model or the test with file names instead of paths."""
        for path in sorted(self.files, key=len, reverse=True):  # one path may begin with another
            text = text.replace(path, Path(path).name)
        return text

    def check_files(self) -> None:
        """Raise BadInput if the files have changed: the key of the task would be wrong."""
        if self.contents and self.contents != _contents(map(digest_of, self.files)):
            raise BadInput(f"{', '.join(self.files)}: changed since the experiment began; expected the same contents")


@dataclass(frozen=True)
class Task:
    """One method on one problem."""

    problem: Problem
    solver: Solver
    seconds: float
    keep: bool = False  # whether the store keeps the solution too
    code: str = field(default_factory=code_version)  # the version of rue that must perform it

    @cached_property
    def key(self) -> str:
        """Return a hash of all that the result depends on."""
        text = json.dumps(self.describe(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def method(self) -> str:
        """Return the short name of the method: `reg-d3`."""
        return parsing.short_name(self.solver)

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of the solver; of a file, its name and contents, not its folder."""
        if isinstance(self.solver, GivenPolicy):
            return {"file": Path(self.solver.file).name, "contents": self.solver.contents}
        return asdict(self.solver)

    def describe(self) -> dict[str, Any]:
        """Return all that the result depends on, in plain values."""
        problem = self.problem
        return {
            "model": problem.without_folders(problem.model),
            "test": problem.without_folders(problem.test),
            "contents": problem.contents,
            "solver": self.solver.name,
            "parameters": self._parameters(),
            "seconds": self.seconds,
            "rue": self.code,
        }


@dataclass(frozen=True, kw_only=True)
class Problems:
    """A table `[[problems]]`: one problem for each size and seed, or one of a file."""

    domain: str | None = None
    model: str | None = None
    name: str = ""  # of its tables, if not that of the domain or of the file
    sizes: Sequence[Mapping[str, Any]] = ({},)
    seeds: int | list[int] | None = None
    samples: int | list[int] | None = None
    pool: int | None = None
    by: str = "coverage"
    test: int | str | None = None
    methods: Sequence[Method] | None = None  # instead of those of the experiment
    policies: Sequence[str] | None = None  # likewise
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("domain", "model", "name"):
            _text(name, getattr(self, name))
        if bool(self.domain) == bool(self.model):
            raise BadInput("expected either a domain or a model")
        if self.methods is not None:
            _solvers(self.methods)
        if self.policies is not None:
            _check_policies(self.policies)
        if self.seconds is not None:
            _seconds(self.seconds)
        if self.test is not None and not isinstance(self.test, str):
            whole_number("test", self.test, 1)
        if self.model:
            self._check_model()
        else:
            self._check_domain()

    def _check_model(self) -> None:
        for f in fields(self):
            if f.name in OF_DOMAINS and getattr(self, f.name) != f.default:
                raise BadInput(f"{f.name} is given with the model {self.model}; expected it with a domain only")
        if isinstance(self.test, int):
            raise BadInput(f"test is {self.test} with the model {self.model}; expected another model to test on")

    def _check_domain(self) -> None:
        if self.seeds is None:
            raise BadInput(f"the seeds of {self.domain} are missing; expected seeds = 25, or a list of whole numbers")
        self._seeds()
        sizes: Any = self.sizes
        if not isinstance(sizes, list | tuple) or not sizes or not all(isinstance(size, Mapping) for size in sizes):
            raise BadInput(f"sizes is {sizes!r}; expected a list of tables such as {{ width = 8, height = 8 }}")
        if any("seed" in size for size in sizes):
            raise BadInput("seed is given in sizes; expected the seeds as seeds = 25, or a list of whole numbers")
        most = max(TRAINING if count is None else count for count in self._counts())
        if self.pool is not None and whole_number("pool", self.pool, 1) < most:
            raise BadInput(f"pool is {self.pool}; expected as many as the {most} samples chosen out of it, or more")
        one_of("way to select samples", self.by, WAYS)
        if self.pool is None and self.by != "coverage":
            raise BadInput(f"by is {self.by!r} and there is no pool; expected a pool to choose the samples from")

    def expand(self, folder: Path, *, own_name: bool = False) -> Iterator[Problem]:
        """Yield the problems, size by size. With a name of its own, parameters shared by all sizes are not repeated."""
        digest = cache(digest_of)  # each file is read once for all problems that share it
        test_files = (_file(folder, self.test),) if isinstance(self.test, str) else ()
        test = str(test_files[0]) if test_files else str(self.test or "")

        def problem(name: str, size: str, model: str, model_files: tuple[Path, ...]) -> Problem:
            files = model_files + test_files
            contents = _contents(map(digest, files)) if files else ""
            return Problem(self.name or name, size, model, test, contents, tuple(map(str, files)))

        if self.model:
            path = _file(folder, self.model)
            yield problem(path.stem, "", str(path), (path,))
            return
        shared = _shared(self.sizes) if own_name else set()
        for size, samples in product(self.sizes, self._counts()):
            drawn = {"samples": samples, "pool": self.pool, "by": self.by if self.pool else None}
            extra = "".join(f",{key}={value}" for key, value in drawn.items() if value is not None)
            words = ", ".join(filter(None, (_size_in_words(size, shared), self._count_in_words(samples))))
            for seed in self._seeds():
                domain = parsing.make_domain(str(self.domain), {**size, "seed": seed})
                for count in (samples, self.pool, self.test):
                    if isinstance(count, int):
                        domain.check_samples(count)
                files = _domain_files(folder, domain)
                whole: dict[str, Any] = {name: str(path) for name, path in files.items()}
                model = replace(domain, **whole).spec + extra
                yield problem(domain.name, words, model, tuple(files.values()))

    @property
    def count(self) -> int:
        """Return the number of problems."""
        if self.model:
            return 1
        seeds = self.seeds if isinstance(self.seeds, int) else len(self.seeds or ())
        return len(self.sizes) * len(self._counts()) * seeds

    def _counts(self) -> Sequence[int | None]:
        """Return the numbers of samples; None stands for the usual one."""
        given: Any = self.samples
        if given is None or not isinstance(given, list | tuple):
            return [None if given is None else whole_number("samples", given, 1)]
        counts = [whole_number("samples", count, 1) for count in given]
        if not counts or len(set(counts)) < len(counts):
            raise BadInput(f"samples is {given!r}; expected a whole number, or a list of different ones")
        return counts

    def _count_in_words(self, samples: int | None) -> str:
        """Return `15 samples`, or `15 of 1000 by coverage`, if there are problems with other numbers."""
        if not isinstance(self.samples, list | tuple):
            return ""
        return f"{samples} samples" if self.pool is None else f"{samples} of {self.pool} by {self.by}"

    def _seeds(self) -> Sequence[int]:
        if isinstance(self.seeds, int) and not isinstance(self.seeds, bool):
            return range(whole_number("seeds", self.seeds, 1))
        if not isinstance(self.seeds, list | tuple) or not self.seeds:
            raise BadInput(f"seeds is {self.seeds!r}; expected a whole number, or a list of them")
        seeds = [check_seed(seed) for seed in self.seeds]
        if len(set(seeds)) < len(seeds):
            raise BadInput(f"seeds is {self.seeds!r}; expected each seed once")
        return seeds


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods and problems; every method on every problem."""

    methods: Sequence[Method]
    problems: Sequence[Problems]
    title: str = ""
    policies: Sequence[str] = ()  # files
    seconds: float = 600.0
    keep: int = 1  # solutions are kept for this number of problems of each size
    reference: Sequence[str] = ()  # regrets are divided by the worst of these methods; all, if none is named
    folder: Path = Path()  # of relative paths
    text: str = ""  # of the file it was read from

    def __post_init__(self) -> None:
        _text("title", self.title)
        _seconds(self.seconds)
        whole_number("keep", self.keep, 0)
        solvers = _solvers(self.methods)
        _check_policies(self.policies)
        problems: Any = self.problems
        if not isinstance(problems, list | tuple) or not problems or not all(isinstance(p, Problems) for p in problems):
            raise BadInput(NO_PROBLEMS)
        for table in self.problems:
            solvers += _solvers(table.methods) if table.methods else []
        if not isinstance(self.reference, list | tuple):
            raise BadInput(f"reference is {self.reference!r}; expected a list of methods")
        for name in self.reference:
            one_of("method in reference", name, {parsing.short_name(solver) for solver in solvers} | self._files())

    def _files(self) -> set[str]:
        """Return the names of all files with policies."""
        tables = [table.policies or () for table in self.problems]
        return {Path(name).name for names in (self.policies, *tables) for name in names}

    def tasks(self) -> list[Task]:
        """Return all tasks, problem by problem, so that processes can reuse a problem."""
        count = sum(
            table.count * (len(table.methods or self.methods) + len(self._policies_of(table)))
            for table in self.problems
        )
        if count > MOST_TASKS:
            raise BadInput(f"the experiment has {count} tasks; expected at most {MOST_TASKS}: fewer sizes or seeds")
        tasks: dict[str, Task] = {}
        for number, table in enumerate(self.problems):
            with _errors_of_table(number):
                for task in self._tasks_of(table):
                    tasks[task.key] = _merged(tasks.get(task.key, task), task)
        return list(tasks.values())

    def _policies_of(self, table: Problems) -> Sequence[str]:
        return self.policies if table.policies is None else table.policies

    def _tasks_of(self, table: Problems) -> Iterator[Task]:
        files = [str(_file(self.folder, name)) for name in self._policies_of(table)]
        given = [GivenPolicy(file, digest_of(file)) for file in files]
        solvers = [*_solvers(table.methods or self.methods), *given]
        seconds = float(self.seconds if table.seconds is None else table.seconds)
        seen: dict[str, int] = {}
        own_name = bool(table.name) and [other.name for other in self.problems].count(table.name) == 1
        for problem in table.expand(self.folder, own_name=own_name):
            seen[problem.size] = seen.get(problem.size, 0) + 1
            for solver in solvers:
                yield Task(problem, solver, seconds, keep=seen[problem.size] <= self.keep)


def _merged(one: Task, other: Task) -> Task:
    """Return a task that is in two tables. It has one record, so both must give it the same group and size."""
    places = [(task.problem.group, task.problem.size) for task in (one, other)]
    if places[0] != places[1]:
        first, second = (" ".join(filter(None, place)) for place in places)
        raise BadInput(
            f"{one.method} on {one.problem.model} is both in {first!r} and in {second!r}; expected it in one of them"
        )
    return replace(one, keep=one.keep or other.keep)


def read_spec(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file. Unknown names are errors."""

    def make(table: dict[str, Any], text: str) -> Experiment:
        parts = table.get("problems")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
            raise BadInput(NO_PROBLEMS)
        problems = []
        for number, part in enumerate(parts):
            with _errors_of_table(number):
                problems.append(_from_table(Problems, part, "problems"))
        experiment: Experiment = _from_table(Experiment, table | {"problems": problems}, "an experiment")
        experiment = replace(experiment, folder=text_path(path).parent, text=text)
        experiment.tasks()  # so that errors are found before anything runs
        return experiment

    return read_toml(path, make)


@contextmanager
def _errors_of_table(number: int) -> Iterator[None]:
    """Say in errors which table [[problems]] they are about."""
    try:
        yield
    except RueError as error:
        raise BadInput(f"problems, table {number + 1}: {error}") from None


def _from_table(kind: type, table: Mapping[str, Any], what: str) -> Any:
    names = [f.name for f in fields(kind) if f.name not in OF_THE_FILE]
    for key in table:
        if key not in names:
            raise unknown_name(f"name in {what}", key, names)
    for f in fields(kind):
        if f.default is MISSING and f.name not in table:
            raise BadInput(f"{f.name} is missing; expected it in {what}")
    return kind(**table)


def _solvers(methods: Sequence[Method]) -> list[Solver]:
    """Return the solvers of a list of methods as in the TOML file."""
    given: Any = methods
    if not isinstance(given, list | tuple) or not given:
        raise BadInput(f"methods is {given!r}; expected a list of one method or more")
    return [_solver(method) for method in methods]


def _check_policies(names: object) -> None:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise BadInput(f'policies is {names!r}; expected a list of files such as ["guideline.csv"]')


def _solver(method: Method) -> Solver:
    if isinstance(method, str):
        return parsing.parse_method(method)
    if not isinstance(method, Mapping) or "name" not in method:
        raise BadInput(f'the method {method!r} has no name; expected "reg-d3", or {{ name = "reg", steps = 3 }}')
    return parsing.parse_method(str(method["name"]), {key: value for key, value in method.items() if key != "name"})


def _text(name: str, value: object) -> None:
    if not isinstance(value, str | None):
        raise BadInput(f"{name} is {value!r}; expected text")


def _seconds(value: object) -> float:
    return real_number("seconds", value, "0 or more", 0)


def _shared(sizes: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return parameters that are equal in all sizes, if others are not."""
    shared = {key for key in sizes[0] if all(key in size and size[key] == sizes[0][key] for size in sizes)}
    return shared if any(set(size) - shared for size in sizes) else set()


def _size_in_words(size: Mapping[str, Any], shared: Set[str]) -> str:
    """Return `8×8` for a width and a height, `noise=0.2` for other parameters that are not shared by all sizes."""
    square = {"width", "height"} <= size.keys()
    words = [f"{size['width']}×{size['height']}"] if square else []
    own = [key for key in size if key not in shared and not (square and key in ("width", "height"))]
    return ", ".join(words + [f"{key}={size[key]}" for key in own])


def _domain_files(folder: Path, domain: Domain) -> dict[str, Path]:
    """Return the files that a domain reads, by the name of the parameter."""
    names = [name for name in domain.file_parameters if getattr(domain, name) is not None]
    files = {name: _file(folder, getattr(domain, name)) for name in names}
    for name, path in files.items():
        if "," in str(path) or str(path) != str(path).strip():
            raise BadInput(f"{name} is {str(path)!r}; expected a path without commas and without spaces at its end")
    return files


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")
    return path.absolute()


def _contents(digests: Iterable[str]) -> str:
    """Return one hash of several files."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()[:32]
