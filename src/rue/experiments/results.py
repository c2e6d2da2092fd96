"""Records as arrays: by group, problems × methods.

The max regret of a method on a problem is divided by the largest finite one among the reference methods there (all
methods, if none is named), so that problems with small and large costs count alike. A method beside the reference may
exceed 1. What is infinite stays infinite. Where no finite reference figure is above 0, all that is finite counts 0;
where all of them are infinite there is nothing to divide by, and what is finite becomes a hole.

A run that failed or was never done is a hole: not a number, counted, and never replaced by anything.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rue import parsing
from rue._arrays import Array
from rue.errors import BadInput
from rue.experiments.store import FAILED, Record

# Less counts as none: the judge's own error is of this order.
NO_REGRET = 1e-9
# A proved bound may exceed a regret by rounding only.
ROUNDING = 1e-7
MISSING = ""

Samples = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class Group:
    """All problems of one domain, or of one file. Arrays are [problem, method] unless said otherwise."""

    name: str
    methods: tuple[str, ...]
    reference: tuple[str, ...]  # those of the methods that regrets are divided by
    problems: tuple[str, ...]  # [problem], size by size
    problem_size: tuple[str, ...]  # [problem]
    sizes: tuple[str, ...]  # from small to large
    states: Array  # [problem], not a number where no run tells it
    train: Array  # max regret on the samples that were planned with
    test: Array  # max regret on others
    proved: Array  # the lower bound on the max regret of every policy that the run proved
    seconds: Array  # of the solver
    status: Array  # of text; "" where there was no run
    processors: tuple[str, ...]  # what the times were taken on

    def regret(self, samples: Samples) -> Array:
        """Max regret as it is."""
        return self.train if samples == "train" else self.test

    def normalised(self, samples: Samples) -> Array:
        """Max regret, divided by the largest finite one of the reference methods on each problem."""
        return self._normalised[samples]

    @cached_property
    def _normalised(self) -> Mapping[Samples, Array]:
        chosen = [self.methods.index(name) for name in self.reference]
        return {"train": _divided(self.train, chosen), "test": _divided(self.test, chosen)}

    @property
    def has_test(self) -> bool:
        """Whether any run was judged on other samples."""
        return not np.isnan(self.test).all()

    @cached_property
    def bound(self) -> Array:  # [problem]
        """The best bound that any method proved: no policy has a smaller max regret. 0 where nothing is proved."""
        return _largest(np.where(np.isnan(self.proved), 0.0, self.proved))

    @cached_property
    def ratio(self) -> Array:
        """The max regret (train) divided by the bound: 1 or more, infinite where none is proved or the regret is."""
        bound = self.bound[:, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.maximum(self.train / bound, 1.0)
        ratio = np.where((self.train <= NO_REGRET) | np.isinf(bound), 1.0, ratio)
        return np.where(np.isnan(self.train), np.nan, ratio)

    @cached_property
    def gap(self) -> Array:
        """(max regret − bound) / max regret, on the training samples, as everywhere (see `Solution.gap`).

        1 where no bound is proved, infinite where the regret is.
        """
        return np.where(np.isinf(self.train) & np.isinf(self.ratio), np.inf, 1.0 - 1.0 / self.ratio)

    @cached_property
    def contradictions(self) -> int:
        """Runs with less regret than was proved to be possible: a mistake of a method, or of the judge."""
        bound = self.bound[:, np.newaxis]
        return int((self.train < bound * (1 - ROUNDING) - NO_REGRET).sum())

    def of_size(self, size: str) -> Array:  # [problem]
        """Which problems have this size."""
        return np.array([one == size for one in self.problem_size], dtype=bool)

    def count(self, status: str) -> dict[str, int]:
        """How many runs of each method ended so; methods without such a run are left out."""
        total = (self.status == status).sum(axis=0).tolist()
        return {name: n for name, n in zip(self.methods, total, strict=True) if n}

    def endless(self, samples: Samples) -> dict[str, int]:
        """On how many problems the policy of a method may never reach the goal."""
        total = np.isinf(self.regret(samples)).sum(axis=0).tolist()
        return {name: n for name, n in zip(self.methods, total, strict=True) if n}

    def idle(self, samples: Samples) -> int:
        """Problems on which no finite reference figure is above 0."""
        return int((_largest_finite(self._of_reference(samples)) <= NO_REGRET).sum())

    def idle_for_reference_only(self, samples: Samples) -> int:
        """Of these, the ones on which another method has some finite regret, which counts 0 like theirs."""
        idle = _largest_finite(self._of_reference(samples)) <= NO_REGRET
        return int((idle & (_largest_finite(self.regret(samples)) > NO_REGRET)).sum())

    def partly_endless(self, samples: Samples) -> int:
        """Problems that are divided by the largest finite reference figure, as others are infinite."""
        reference = self._of_reference(samples)
        return int((np.isinf(reference).any(axis=1) & np.isfinite(reference).any(axis=1)).sum())

    def undivided(self, samples: Samples) -> int:
        """Problems on which all reference figures are infinite: finite ones of other methods are holes there."""
        reference = self._of_reference(samples)
        return int((np.isinf(reference).any(axis=1) & ~np.isfinite(reference).any(axis=1)).sum())

    @property
    def reference_holes(self) -> int:
        """Problems that are divided by the largest of fewer methods, as a reference method has a hole there."""
        return int(np.isnan(self._of_reference("train")).any(axis=1).sum())

    def _of_reference(self, samples: Samples) -> Array:
        return self.regret(samples)[:, [self.methods.index(name) for name in self.reference]]


@dataclass(frozen=True, eq=False)
class Results:
    """The records of an experiment, by group. They do not depend on the order in which the records came."""

    groups: tuple[Group, ...]
    reference: tuple[str, ...] = ()  # as it was asked for

    @classmethod
    def of(cls, records: Iterable[Record], reference: Sequence[str] = ()) -> "Results":
        """Arrays from records; regrets are divided by the worst of the reference methods, all if none is named."""
        runs = [_run(record) for record in {record["key"]: record for record in records}.values()]
        if not runs:
            raise BadInput("there are no records; expected an experiment of which something was run")
        label = _labels(runs)
        names = sorted({run.group for run in runs}, key=_natural)
        groups = [_group(name, [run for run in runs if run.group == name], label, reference) for name in names]
        return cls(tuple(groups), tuple(reference))


@dataclass(frozen=True)
class _Run:
    """What a record says."""

    key: str
    group: str
    size: str
    problem: str  # what tells it from all others
    method: str
    parameters: Mapping[str, Any]
    limit: float
    status: str
    states: float
    train: float
    test: float
    proved: float
    seconds: float
    processor: str


def method_labels(records: Iterable[Record]) -> dict[str, str]:
    """The name of each record's method in all tables and figures, by key."""
    return _labels([_run(record) for record in records])


def problem_of(record: Record) -> tuple[str, str]:
    """The group and the problem of a record, as the results name them."""
    run = _run(record)
    return run.group, run.problem


def _run(record: Record) -> _Run:
    try:
        task, failed = record["task"], record["status"] == FAILED
        test = None if failed else record.get("test")
        return _Run(
            key=record["key"],
            group=record["group"],
            size=record["size"],
            problem=" | ".join(filter(None, (task["model"], task["test"], task["contents"]))),
            method=record["method"],
            parameters=task["parameters"],
            limit=float(task["seconds"]),
            status=record["status"],
            states=float(record.get("states", math.nan)),
            train=math.nan if failed else float(record["max_regret"][1]),
            test=math.nan if test is None else float(test["max_regret"]),
            proved=math.nan if failed else float(record["max_regret"][0]),
            seconds=math.nan if failed else float(record["seconds"]),
            processor=str(record.get("machine", {}).get("processor", "")),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadInput(
            f"the record {record.get('key')} is not one of a task ({error!r}); expected those of a store"
        ) from None


def _labels(runs: Sequence[_Run]) -> dict[str, str]:
    """A name for the method of each run, by key: the short one, with the parameters that tell it from its like.

    Equal methods with another time limit are told apart only where both met the same problem.
    """
    parameters: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        parameters.setdefault(run.method, {})[json.dumps(run.parameters, sort_keys=True)] = run.parameters
    apart = {method: _differences(list(variants.values())) for method, variants in parameters.items()}
    label = {run.key: run.method + _in_brackets(run.parameters, apart[run.method]) for run in runs}
    limits: dict[tuple[str, str], set[float]] = {}
    for run in runs:
        limits.setdefault((label[run.key], run.problem), set()).add(run.limit)
    several = {name for (name, _), met in limits.items() if len(met) > 1}
    return {
        run.key: f"{label[run.key]} in {run.limit:g} s" if label[run.key] in several else label[run.key] for run in runs
    }


def _differences(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = sorted({key for variant in variants for key in variant})
    return [key for key in keys if len({json.dumps(variant.get(key)) for variant in variants}) > 1]


def _in_brackets(parameters: Mapping[str, Any], keys: Sequence[str]) -> str:
    return f" ({', '.join(f'{key}={parameters.get(key)}' for key in keys)})" if keys else ""


def _group(name: str, runs: Sequence[_Run], label: Mapping[str, str], reference: Sequence[str]) -> Group:
    short = {label[run.key]: run.method for run in runs}
    methods = sorted(short, key=lambda one: _method_order(one, short[one], reference))
    named = tuple(one for one in methods if short[one] in reference or one in reference)
    states: dict[str, float] = {}
    size: dict[str, str] = {}
    for run in runs:
        size[run.problem] = run.size
        states[run.problem] = _first_number(run.states, states.get(run.problem, math.nan))
    sizes = sorted(set(size.values()), key=lambda one: _size_order(one, [states[p] for p in size if size[p] == one]))
    problems = sorted(size, key=lambda one: (sizes.index(size[one]), _natural(one)))
    row = {problem: number for number, problem in enumerate(problems)}
    column = {method: number for number, method in enumerate(methods)}
    table = {what: np.full((len(problems), len(methods)), np.nan) for what in ("train", "test", "proved", "seconds")}
    status = np.full((len(problems), len(methods)), MISSING, dtype=object)
    for run in runs:
        place = row[run.problem], column[label[run.key]]
        status[place] = run.status
        for what, array in table.items():
            array[place] = getattr(run, what)
    return Group(
        name=name,
        methods=tuple(methods),
        reference=named or tuple(methods),
        problems=tuple(problems),
        problem_size=tuple(size[problem] for problem in problems),
        sizes=tuple(sizes),
        states=np.array([states[problem] for problem in problems]),
        status=status,
        processors=tuple(sorted({run.processor for run in runs if run.processor})),
        **table,
    )


def _divided(regret: Array, reference: Sequence[int]) -> Array:
    """Regrets as parts of the largest of the reference; see the head of this file for what is 0, infinite or a hole."""
    chosen = regret[:, reference]
    worst = _largest_finite(chosen)[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(worst <= NO_REGRET, 0.0, regret / worst)
    share = np.where(np.isinf(regret), np.inf, share)
    nothing = np.isnan(chosen).all(axis=1)[:, np.newaxis]
    return np.where(np.isnan(regret) | nothing, np.nan, share)


def _largest(table: Array) -> Array:  # [row]
    """The largest of each row that is a number; where nothing is, not a number."""
    most = np.where(np.isnan(table), -np.inf, table).max(axis=1, initial=-np.inf)
    return np.where(most == -np.inf, np.nan, most)


def _largest_finite(table: Array) -> Array:  # [row]
    """The largest finite number of each row; where nothing is finite, not a number."""
    return _largest(np.where(np.isinf(table), np.nan, table))


def _first_number(one: float, other: float) -> float:
    return other if math.isnan(one) else one


def _method_order(label: str, short: str, reference: Sequence[str]) -> tuple[object, ...]:
    """Reference methods first, as they were named; then in the order of the command line; then by name."""
    known = parsing.METHODS.index(short) if short in parsing.METHODS else len(parsing.METHODS)
    named = list(reference).index(short) if short in reference else len(reference)
    return named, known, _natural(label)


def _size_order(size: str, states: Sequence[float]) -> tuple[object, ...]:
    known = [count for count in states if not math.isnan(count)]
    return not known, sum(known) / max(len(known), 1), _natural(size)


def _natural(text: str) -> list[tuple[int, float, str]]:
    """An order in which seed=2 comes before seed=10, and gap=0.25 before gap=0.5."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(1, float(part), "") if number % 2 else (0, 0.0, part) for number, part in enumerate(parts)]
