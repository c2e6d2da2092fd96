"""Records as arrays [problem, method], by group.

The max regret of a method on a problem is divided by the largest finite one of the reference methods there (all
methods, if none is named), so that problems with small and large costs count alike. Other methods may exceed 1.
Infinite figures stay infinite. If no finite reference figure is above 0, finite figures count 0; if all reference
figures are infinite, finite figures become NaN.

Runs that failed or are missing are NaN. They are counted and never replaced.
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

# Smaller regrets count as none: the error of the judge is of this order.
NO_REGRET = 1e-9
# A proved bound may exceed a regret by this factor, because of rounding.
BOUND_ROUNDING = 1e-7
MISSING = ""

Samples = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class Group:
    """All problems of one domain, or of one file. Arrays are [problem, method] unless stated otherwise."""

    name: str
    methods: tuple[str, ...]
    reference: tuple[str, ...]  # methods by the worst of which regrets are divided
    problems: tuple[str, ...]  # [problem], size by size
    problem_size: tuple[str, ...]  # [problem]
    sizes: tuple[str, ...]  # from small to large
    states: Array  # [problem], NaN if no record has it
    train: Array  # max regret on the training samples
    test: Array  # max regret on the test samples
    proved: Array  # lower bound of the run on the max regret of every policy
    seconds: Array  # of the solver
    status: Array  # text; "" for a missing run
    processors: tuple[str, ...]  # of all runs

    def regret(self, samples: Samples) -> Array:
        """Return the max regret, not divided."""
        return self.train if samples == "train" else self.test

    def normalised(self, samples: Samples) -> Array:
        """Return the max regret, divided by the largest finite one of the reference methods on each problem."""
        return self._normalised[samples]

    @cached_property
    def _normalised(self) -> Mapping[Samples, Array]:
        chosen = [self.methods.index(name) for name in self.reference]
        return {"train": _divided(self.train, chosen), "test": _divided(self.test, chosen)}

    @property
    def has_test(self) -> bool:
        """Return whether any run was evaluated on test samples."""
        return not np.isnan(self.test).all()

    @cached_property
    def bound(self) -> Array:  # [problem]
        """Return the best lower bound of any method on the max regret of every policy; 0 if none is proved."""
        return _largest(np.where(np.isnan(self.proved), 0.0, self.proved))

    @cached_property
    def ratio(self) -> Array:
        """Return max regret (train) / bound: 1 or more, infinite if no bound is proved or the regret is infinite."""
        bound = self.bound[:, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.maximum(self.train / bound, 1.0)
        ratio = np.where((self.train <= NO_REGRET) | np.isinf(bound), 1.0, ratio)
        return np.where(np.isnan(self.train), np.nan, ratio)

    @cached_property
    def gap(self) -> Array:
        """Return (max regret − bound) / max regret on the training samples, as `Solution.gap`.

        It is 1 if no bound is proved, and infinite if the regret is.
        """
        return np.where(np.isinf(self.train) & np.isinf(self.ratio), np.inf, 1.0 - 1.0 / self.ratio)

    @cached_property
    def contradictions(self) -> int:
        """Return the number of runs with less regret than was proved to be possible: one of the figures is wrong."""
        bound = self.bound[:, np.newaxis]
        return int((self.train < bound * (1 - BOUND_ROUNDING) - NO_REGRET).sum())

    def of_size(self, size: str) -> Array:  # [problem]
        """Return which problems have this size."""
        return np.array([one == size for one in self.problem_size], dtype=bool)

    def count(self, status: str) -> dict[str, int]:
        """Return the number of runs with this status by method; methods without such a run are left out."""
        return self._by_method(self.status == status)

    def endless(self, samples: Samples) -> dict[str, int]:
        """Return the number of problems on which the policy of a method may never reach the goal, by method."""
        return self._by_method(np.isinf(self.regret(samples)))

    def _by_method(self, chosen: Array) -> dict[str, int]:
        total = chosen.sum(axis=0).tolist()
        return {name: n for name, n in zip(self.methods, total, strict=True) if n}

    def idle(self, samples: Samples) -> int:
        """Return the number of problems on which no finite reference figure is above 0."""
        return int((_largest_finite(self._of_reference(samples)) <= NO_REGRET).sum())

    def idle_for_reference_only(self, samples: Samples) -> int:
        """Return the number of these on which another method has some finite regret, which counts 0 too."""
        idle = _largest_finite(self._of_reference(samples)) <= NO_REGRET
        return int((idle & (_largest_finite(self.regret(samples)) > NO_REGRET)).sum())

    def partly_endless(self, samples: Samples) -> int:
        """Return the number of problems on which some reference figures are infinite, but not all."""
        reference = self._of_reference(samples)
        return int((np.isinf(reference).any(axis=1) & np.isfinite(reference).any(axis=1)).sum())

    def undivided(self, samples: Samples) -> int:
        """Return the number of problems on which all reference figures are infinite: finite ones become NaN there."""
        reference = self._of_reference(samples)
        return int((np.isinf(reference).any(axis=1) & ~np.isfinite(reference).any(axis=1)).sum())

    @property
    def reference_holes(self) -> int:
        """Return the number of problems on which a reference method has no figure."""
        return int(np.isnan(self._of_reference("train")).any(axis=1).sum())

    def _of_reference(self, samples: Samples) -> Array:
        return self.regret(samples)[:, [self.methods.index(name) for name in self.reference]]


@dataclass(frozen=True, eq=False)
class Results:
    """The records of an experiment, by group. The order of the records does not matter."""

    groups: tuple[Group, ...]
    reference: tuple[str, ...] = ()  # as given

    @classmethod
    def of(cls, records: Iterable[Record], reference: Sequence[str] = ()) -> "Results":
        """Make arrays of records; regrets are divided by the worst of the reference methods, all if none is named."""
        runs = [_run(record) for record in {record["key"]: record for record in records}.values()]
        if not runs:
            raise BadInput("there are no records; expected an experiment of which something was run")
        label = _labels(runs)
        names = sorted({run.group for run in runs}, key=_natural)
        groups = [_group(name, [run for run in runs if run.group == name], label, reference) for name in names]
        return cls(tuple(groups), tuple(reference))


@dataclass(frozen=True)
class _Run:
    """The fields of a record that results are made of."""

    key: str
    group: str
    size: str
    problem: str  # unique
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
    """Return the name of each record's method in tables and figures, by key."""
    return _labels([_run(record) for record in records])


def problem_of(record: Record) -> tuple[str, str]:
    """Return the group and the problem of a record, as the results name them."""
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
    """Return a name for the method of each run, by key: the short name, with the parameters in which variants differ.

    The time limit is part of the name only if a method ran on the same problem with two limits.
    """
    parameters: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        parameters.setdefault(run.method, {})[json.dumps(run.parameters, sort_keys=True)] = run.parameters
    apart = {method: _differences(list(variants.values())) for method, variants in parameters.items()}
    label = {run.key: run.method + _in_brackets(run.parameters, apart[run.method]) for run in runs}
    limits: dict[tuple[str, str], set[float]] = {}
    for run in runs:
        limits.setdefault((label[run.key], run.problem), set()).add(run.limit)
    several = {name for (name, _), values in limits.items() if len(values) > 1}
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
        states[run.problem] = states.get(run.problem, math.nan) if math.isnan(run.states) else run.states
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
    """Return regrets divided by the largest of the reference; the module docstring tells what is 0, infinite or NaN."""
    chosen = regret[:, reference]
    worst = _largest_finite(chosen)[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(worst <= NO_REGRET, 0.0, regret / worst)
    share = np.where(np.isinf(regret), np.inf, share)
    nothing = np.isnan(chosen).all(axis=1)[:, np.newaxis]
    return np.where(np.isnan(regret) | nothing, np.nan, share)


def _largest(table: Array) -> Array:  # [row]
    """Return the largest number of each row; NaN if there is none."""
    most = np.where(np.isnan(table), -np.inf, table).max(axis=1, initial=-np.inf)
    return np.where(most == -np.inf, np.nan, most)


def _largest_finite(table: Array) -> Array:  # [row]
    """Return the largest finite number of each row; NaN if there is none."""
    return _largest(np.where(np.isinf(table), np.nan, table))


def _method_order(label: str, short: str, reference: Sequence[str]) -> tuple[object, ...]:
    """Sort reference methods first, in the given order; then in the order of the command line; then by name."""
    known = parsing.METHODS.index(short) if short in parsing.METHODS else len(parsing.METHODS)
    named = list(reference).index(short) if short in reference else len(reference)
    return named, known, _natural(label)


def _size_order(size: str, states: Sequence[float]) -> tuple[object, ...]:
    known = [count for count in states if not math.isnan(count)]
    return not known, sum(known) / max(len(known), 1), _natural(size)


def _natural(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key by which seed=2 comes before seed=10, and gap=0.25 before gap=0.5."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(1, float(part), "") if number % 2 else (0, 0.0, part) for number, part in enumerate(parts)]
