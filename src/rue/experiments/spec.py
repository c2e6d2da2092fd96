"""What an experiment is: a TOML file, and the tasks that it stands for.

    title = "Rescue on small grids"
    methods = ["reg-d1", "reg-h3", { name = "adaptive", gap = 0.01 }]
    seconds = 60                      # for each method; it then returns its best policy so far

    [[problems]]
    domain = "disaster"
    sizes = [{ width = 4, height = 4 }, { width = 8, height = 8 }]
    seeds = 25                        # 0 to 24; or a list of seeds
    samples = 15
    pool = 1000                       # draw so many and choose the samples out of them
    by = "coverage"
    test = 100                        # fresh draws
    name = "rescue"                   # of its tables, if it is not to be that of the domain

    [[problems]]
    model = "mine.rue"
    test = "fresh.rue"                # another model on the same graph

A task is one method on one problem. Its key is a hash of all that its result depends on: the problem (of a file, its
contents), the method with all its parameters, and the limit. A changed parameter is a new task, and a name or a title
is none of it.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rue import specs
from rue._check import real_number
from rue._check import seed as check_seed
from rue.errors import BadFile, BadInput, RueError, unknown_name
from rue.solution import Solver


@dataclass(frozen=True)
class Problem:
    """One UMDP to plan with, and the samples to test on."""

    group: str  # the domain, or the name of a file
    size: str  # "8×8"
    model: str  # as on the command line: a domain with its parameters, or a file
    test: str = ""  # so many fresh draws, or another model
    contents: str = ""  # a hash of the files, if the model or the test is one


@dataclass(frozen=True)
class Task:
    """One method on one problem."""

    problem: Problem
    solver: Solver
    seconds: float
    keep: bool = False  # whether its policy goes into the store too

    @cached_property
    def key(self) -> str:
        """A hash of all that the result depends on."""
        text = json.dumps(self.describe(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def method(self) -> str:
        """The method in short: `reg-d3`."""
        return specs.short_name(self.solver)

    def describe(self) -> dict[str, Any]:
        """All that the result depends on, in plain values."""
        problem = self.problem
        return {
            "model": problem.model,
            "test": problem.test,
            "contents": problem.contents,
            "solver": self.solver.name,
            "parameters": asdict(self.solver),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, kw_only=True)
class Problems:
    """A table `[[problems]]`: one problem for each size and seed, or one of a file."""

    domain: str | None = None
    model: str | None = None
    name: str = ""  # under which its tables stand, other than that of the domain or of the file
    sizes: Sequence[Mapping[str, Any]] = ({},)
    seeds: int | list[int] | None = None
    samples: int | None = None
    pool: int | None = None
    by: str = "coverage"
    test: int | str | None = None
    methods: Sequence[str | Mapping[str, Any]] | None = None  # other than those of the experiment
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.domain is None) == (self.model is None):
            raise BadInput("expected either a domain or a model")
        if self.domain is not None and self.seeds is None:
            raise BadInput(f"the seeds of {self.domain} are missing; expected seeds = 25, or a list of whole numbers")
        if self.model is not None:
            given = [f.name for f in fields(self) if f.name in OF_DOMAINS and getattr(self, f.name) != f.default]
            if given:
                raise BadInput(f"{given[0]} is given with the model {self.model}; expected it with a domain only")

    def expand(self, folder: Path) -> Iterator[Problem]:
        """The problems, size by size."""
        test = "" if self.test is None else str(self.test)
        if self.model is not None:
            files = [_file(folder, self.model)] + ([_file(folder, test)] if test else [])
            yield Problem(
                self.name or Path(self.model).stem, "", str(files[0]), str(files[1]) if test else "", _contents(files)
            )
            return
        drawn = {"samples": self.samples, "pool": self.pool, "by": self.by if self.pool else None}
        for size in self.sizes:
            for seed in self._seeds():
                domain = specs.make_domain(str(self.domain), {**size, "seed": seed})
                extra = [f"{key}={value}" for key, value in drawn.items() if value is not None]
                yield Problem(self.name or domain.name, _size_in_words(size), ",".join([domain.spec, *extra]), test)

    def _seeds(self) -> Sequence[int]:
        if isinstance(self.seeds, int) and not isinstance(self.seeds, bool):
            return range(self.seeds)
        if isinstance(self.seeds, list):
            return [check_seed(seed) for seed in self.seeds]
        raise BadInput(f"seeds is {self.seeds!r}; expected a whole number, or a list of them")


OF_THE_FILE = ("folder", "text")  # what nobody writes into it
OF_DOMAINS = ("sizes", "seeds", "samples", "pool", "by")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Methods and problems; every method on every problem."""

    methods: Sequence[str | Mapping[str, Any]]
    problems: Sequence[Problems]
    title: str = ""
    seconds: float = 600.0
    keep: int = 1  # of so many problems of each size the policies are kept too
    reference: Sequence[str] = ()  # regrets are divided by the worst of these methods; all, if none is named
    folder: Path = field(default=Path())  # where files are looked for
    text: str = ""  # of the file it was read from

    def tasks(self) -> list[Task]:
        """All tasks, problem by problem, so that what belongs to one problem is done together."""
        tasks: dict[str, Task] = {}
        for number, table in enumerate(self.problems):
            try:
                tasks |= {task.key: task for task in self._tasks_of(table)}
            except RueError as error:
                raise BadInput(f"problems, table {number + 1}: {error}") from None
        return list(tasks.values())

    def _tasks_of(self, table: Problems) -> Iterator[Task]:
        solvers = [_solver(method) for method in (self.methods if table.methods is None else table.methods)]
        seconds = real_number("seconds", self.seconds if table.seconds is None else table.seconds, "0 or more", 0)
        seen: dict[str, int] = {}
        for problem in table.expand(self.folder):
            seen[problem.size] = seen.get(problem.size, 0) + 1
            for solver in solvers:
                yield Task(problem, solver, seconds, keep=seen[problem.size] <= self.keep)


def read_spec(path: str | Path) -> Experiment:
    """An experiment from a TOML file. Unknown names are errors."""
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise BadInput(f"{source}: there is no such file ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"{source}: it is no TOML ({error})") from None
    try:
        problems = table.pop("problems", None)
        if not isinstance(problems, list) or not problems or not all(isinstance(part, dict) for part in problems):
            raise BadInput("there are no problems; expected one or more tables [[problems]]")
        parts = []
        for number, part in enumerate(problems):
            try:
                parts.append(_from_table(Problems, part, "problems"))
            except BadInput as error:
                raise BadInput(f"problems, table {number + 1}: {error}") from None
        experiment: Experiment = _from_table(Experiment, {**table, "problems": parts}, "an experiment")
        experiment = replace(experiment, folder=source.parent, text=text)
        experiment.tasks()  # what is wrong is told before anything runs
    except BadInput as error:
        raise BadFile(f"{source}: {error}") from None
    return experiment


def _from_table(kind: type, table: Mapping[str, Any], what: str) -> Any:
    names = [f.name for f in fields(kind) if f.name not in OF_THE_FILE]
    for key in table:
        if key not in names:
            raise unknown_name(f"name in {what}", key, names)
    for f in fields(kind):
        if f.default is MISSING and f.default_factory is MISSING and f.name not in table:
            raise BadInput(f"{f.name} is missing; expected it in {what}")
    return kind(**table)


def _solver(method: str | Mapping[str, Any]) -> Solver:
    if isinstance(method, str):
        return specs.parse_method(method)
    if not isinstance(method, Mapping) or "name" not in method:
        raise BadInput(f'the method {method!r} has no name; expected "reg-d3", or {{ name = "reg", steps = 3 }}')
    return specs.parse_method(str(method["name"]), {key: value for key, value in method.items() if key != "name"})


def _size_in_words(size: Mapping[str, Any]) -> str:
    """`8×8` for a width and a height, `noise=0.2` for other parameters."""
    rest = [f"{key}={value}" for key, value in size.items() if key not in ("width", "height")]
    square = [f"{size['width']}×{size['height']}"] if {"width", "height"} <= size.keys() else []
    return ", ".join(square + (rest if square else [f"{key}={value}" for key, value in size.items()]))


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")
    return path


def _contents(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
