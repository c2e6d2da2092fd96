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
from rue.risk import spread

# Smaller regrets count as none: the error of the judge is of this order.
NO_REGRET = 1e-9
# A proved bound may exceed a regret by this factor, because of rounding.
BOUND_ROUNDING = 1e-7
MISSING = ""
SPREAD = tuple(spread(np.zeros(1)))  # names of mean, tail and quantiles

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
    planned: Array  # [problem] how many samples were planned with, NaN if no record has it
    train: Array  # max regret on the training samples
    test: Array  # max regret on the test samples
    proved: Array  # lower bound of the run on the max regret of every policy
    seconds: Array  # of the solver
    status: Array  # text; "" for a missing run
    processors: tuple[str, ...]  # of all runs
    spread: Mapping[tuple[Samples, str], Array]  # mean, tail and quantiles of regret by sample set and name

    def regret(self, samples: Samples) -> Array:
        """Return the max regret, not divided."""
        return self.train if samples == "train" else self.test

    def normalised(self, samples: Samples) -> Array:
        """Return the max regret, divided by the largest finite one of the reference methods on each problem."""
        return _divided(self.regret(samples), self._of_reference(samples))

    def normalised_spread(self, samples: Samples, name: str) -> Array:
        """Return the mean, a tail or a quantile of regret, divided as the max regret is."""
        return _divided(self.spread[samples, name], self._of_reference(samples))

    @property
    def varies_samples(self) -> bool:
        """Return whether some problems were planned with more samples than others, and judged on test samples."""
        return self.has_test and np.unique(self.planned[~np.isnan(self.planned)]).size > 1

    @property
    def has_test(self) -> bool:
        """Return whether any run was evaluated on test samples."""
        return not np.isnan(self.test).all()

    @cached_property
    def bound(self) -> Array:  # [problem]
        """Return the best lower bound of any method on the max regret of every policy; 0 if none is proved."""
        return np.asarray(np.fmax.reduce(self.proved, axis=1, initial=0.0))

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
        """Return (max regret − bound) / max regret (train): 1 if no bound is proved, infinite if the regret is."""
        return np.where(np.isinf(self.train) & np.isinf(self.ratio), np.inf, 1.0 - 1.0 / self.ratio)

    @cached_property
    def contradictions(self) -> int:
        """Return the number of runs with less regret than was proved to be possible: one of the figures is wrong."""
        least = self.bound * (1 - BOUND_ROUNDING) - NO_REGRET
        return int((self.train < least[:, np.newaxis]).sum())

    def of_size(self, size: str) -> Array:  # [problem]
        """Return which problems have this size."""
        return np.asarray(np.array(self.problem_size) == size)

    def count(self, status: str) -> dict[str, int]:
        """Return the number of runs with this status by method; methods without such a run are left out."""
        return self._by_method(self.status == status)

    def infinite(self, samples: Samples) -> dict[str, int]:
        """Return the number of problems on which the policy of a method may never reach the goal, by method."""
        return self._by_method(np.isinf(self.regret(samples)))

    def _by_method(self, chosen: Array) -> dict[str, int]:
        total = chosen.sum(axis=0).tolist()
        return {name: n for name, n in zip(self.methods, total, strict=True) if n}

    def zero_reference(self, samples: Samples) -> int:
        """Return the number of problems on which no finite reference figure is above 0."""
        return int((_largest_finite(self._of_reference(samples)) <= NO_REGRET).sum())

    def zero_reference_only(self, samples: Samples) -> int:
        """Return the number of these on which another method has some finite regret, which counts 0 too."""
        zero = _largest_finite(self._of_reference(samples)) <= NO_REGRET
        return int((zero & (_largest_finite(self.regret(samples)) > NO_REGRET)).sum())

    def partly_infinite(self, samples: Samples) -> int:
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
        runs = read_runs({record["key"]: record for record in records}.values())
        if not runs:
            raise BadInput("there are no records; expected an experiment of which something was run")
        names = sorted({run.group for run in runs}, key=_natural)
        groups = [_group(name, [run for run in runs if run.group == name], reference) for name in names]
        return cls(tuple(groups), tuple(reference))


class StoredRun:
    """A record as results are made of it. Numbers of failed runs are NaN."""

    def __init__(self, record: Record) -> None:
        self.record = record
        try:
            task, failed = record["task"], record["status"] == FAILED
            self.group: str = record["group"]
            self.size: str = record["size"]
            self.status: str = record["status"]
            self.method: str = record["method"]
            self.label = self.method  # see `read_runs`
            self.parameters: Mapping[str, Any] = task["parameters"]
            self.limit = float(task["seconds"])
            self.problem = " | ".join(filter(None, (task["model"], task["test"], task["contents"])))  # unique
            self.states = float(record.get("states", math.nan))
            self.planned = float(len(record["samples"])) if "samples" in record else math.nan
            self.processor = str(record.get("machine", {}).get("processor", ""))
            known: Record = {"max_regret": [math.nan] * 2, "seconds": math.nan} if failed else record
            self.proved, self.train = map(float, known["max_regret"])
            self.test = float((known.get("test") or {"max_regret": math.nan})["max_regret"])
            self.seconds = float(known["seconds"])
            self.spread = {**_named("train", spread_of(known)), **_named("test", spread_of(known.get("test") or {}))}
        except (KeyError, TypeError, ValueError) as error:
            message = f"the record {record.get('key')} is not one of a task ({error!r}); expected those of a store"
            raise BadInput(message) from None


def spread_of(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return mean, tail and quantiles of the regrets in a record, or of those on its test samples; NaN without any.

    Records of earlier versions have the regrets alone, of samples with equal weights.
    """
    if "spread" in figures:
        return {name: float(figures["spread"].get(name, math.nan)) for name in SPREAD}
    regret = np.array([float(value) for value in figures.get("regret", ())])
    return spread(regret) if regret.size else dict.fromkeys(SPREAD, math.nan)


def _named(samples: Samples, figures: Mapping[str, float]) -> dict[tuple[Samples, str], float]:
    return {(samples, name): value for name, value in figures.items()}


def read_runs(records: Iterable[Record]) -> list[StoredRun]:
    """Return the runs of records. Labels are short names of methods, with the parameters in which variants differ.

    The time limit is part of the label only if a method ran on the same problem with two limits.
    """
    runs = [StoredRun(record) for record in records]
    variants: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        variants.setdefault(run.method, []).append(run.parameters)
    apart = {method: _differences(parameters) for method, parameters in variants.items()}
    limits: dict[tuple[str, str], set[float]] = {}
    for run in runs:
        values = ", ".join(f"{key}={run.parameters.get(key)}" for key in apart[run.method])
        run.label = f"{run.method} ({values})" if values else run.method
        limits.setdefault((run.label, run.problem), set()).add(run.limit)
    several = {label for (label, _), values in limits.items() if len(values) > 1}
    for run in runs:
        run.label += f" in {run.limit:g} s" if run.label in several else ""
    return runs


def _differences(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = sorted({key for variant in variants for key in variant})
    return [key for key in keys if len({json.dumps(variant.get(key)) for variant in variants}) > 1]


def _group(name: str, runs: Sequence[StoredRun], reference: Sequence[str]) -> Group:
    short = {run.label: run.method for run in runs}
    methods = sorted(short, key=lambda one: _method_order(one, short[one], reference))
    named = tuple(one for one in methods if short[one] in reference or one in reference)
    states: dict[str, float] = {}
    planned: dict[str, float] = {}
    size: dict[str, str] = {}
    for run in runs:
        size[run.problem] = run.size
        states[run.problem] = states.get(run.problem, math.nan) if math.isnan(run.states) else run.states
        planned[run.problem] = planned.get(run.problem, math.nan) if math.isnan(run.planned) else run.planned
    sizes = sorted(set(size.values()), key=lambda one: _size_order(one, [states[p] for p in size if size[p] == one]))
    problems = sorted(size, key=lambda one: (sizes.index(size[one]), _natural(one)))
    row = {problem: number for number, problem in enumerate(problems)}
    column = {method: number for number, method in enumerate(methods)}
    table = {what: np.full((len(problems), len(methods)), np.nan) for what in ("train", "test", "proved", "seconds")}
    status = np.full((len(problems), len(methods)), MISSING, dtype=object)
    spreads = {key: np.full((len(problems), len(methods)), np.nan) for key in runs[0].spread}
    for run in runs:
        place = row[run.problem], column[run.label]
        status[place] = run.status
        for what, array in table.items():
            array[place] = getattr(run, what)
        for key, array in spreads.items():
            array[place] = run.spread[key]
    return Group(
        name=name,
        methods=tuple(methods),
        reference=named or tuple(methods),
        problems=tuple(problems),
        problem_size=tuple(size[problem] for problem in problems),
        sizes=tuple(sizes),
        states=np.array([states[problem] for problem in problems]),
        planned=np.array([planned[problem] for problem in problems]),
        status=status,
        processors=tuple(sorted({run.processor for run in runs if run.processor})),
        spread=spreads,
        **table,
    )


def _divided(regret: Array, reference: Array) -> Array:
    """Return regrets divided by the largest of the reference; the module docstring tells what is 0, infinite or NaN."""
    worst = _largest_finite(reference)[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(worst <= NO_REGRET, 0.0, regret / worst)
    share = np.where(np.isinf(regret), np.inf, share)
    nothing = np.isnan(reference).all(axis=1)[:, np.newaxis]
    return np.where(np.isnan(regret) | nothing, np.nan, share)


def _largest_finite(table: Array) -> Array:  # [row]
    """Return the largest finite number of each row; NaN if there is none."""
    return np.asarray(np.fmax.reduce(np.where(np.isfinite(table), table, np.nan), axis=1))


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
