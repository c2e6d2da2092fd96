"""Summarise a model: sizes, memory, and which samples are the same."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from rue.diagnosis import diagnose
from rue.judge import least_cost
from rue.model import UMDP
from rue.solution import Run
from rue.structure import all_states_reach_goal, proper_in
from rue.units import PLAIN


def _figure_range(model: UMDP) -> list[float]:
    """Return the least and the largest figure of a step."""
    cost = np.array([model.cost.min(), model.cost.max()]) if model.cost.size else np.zeros(2)
    return sorted(model.units.step(cost).tolist())


def _average_error(model: UMDP) -> float:
    """Return how far the optimal values may be from the best averages in the long run."""
    return float(least_cost(model, Run()).away.max())


def describe(model: UMDP) -> dict[str, Any]:
    """Return sizes, memory, labels, whether some policy is proper in all samples, and which samples are the same."""
    graph = model.graph
    diagnosis = diagnose(model)
    to_check = () if all_states_reach_goal(model) else range(model.samples)  # samples that may have dead ends
    origin = {"domain": graph.layout["domain"]} if "domain" in graph.layout else {}
    return {
        **origin,
        "states": graph.states,
        "choices": graph.choices,
        "transitions": graph.transitions,
        "samples": model.samples,
        **({} if model.units == PLAIN else {"made_of": asdict(model.units)}),
        **({"average": model.units.averages(_average_error(model))} if model.units.average else {}),
        **({"weights": weights_by_sample(model)} if model.is_weighted else {}),
        "memory": model.nbytes,
        "initial": graph.state_name(graph.initial),
        "goals": int(graph.goal.sum()),
        f"{model.units.name}_range": _figure_range(model),
        "same_support": bool((model.always_live == model.ever_live).all()),
        "samples_with_dead_ends": sum(not proper_in(model, k)[0].all() for k in to_check),
        "proper_policy": {"state": True, "memory": True, "none": False, "unknown": None}[diagnosis.proper],
        "duplicate_samples": duplicate_samples(model),
        "fingerprint": graph.fingerprint,
        "diagnosis": diagnosis.facts() if diagnosis.about_model() else None,
    }


def weights_by_sample(model: UMDP) -> dict[str, float]:
    """Return the probability of each sample by its name."""
    return {model.sample_name(k): weight for k, weight in enumerate(model.weight.tolist())}


def duplicate_samples(model: UMDP) -> list[list[str]]:
    """Return groups of samples that are the same in every number."""
    groups: dict[bytes, list[str]] = {}
    for k, digest in enumerate(_digests(model)):
        groups.setdefault(digest, []).append(model.sample_name(k))
    return [group for group in groups.values() if len(group) > 1]


def common_samples(model: UMDP, other: UMDP) -> int:
    """Return how many samples of another model on the same graph are also samples of this one, in every number."""
    known = set(_digests(model))
    return sum(digest in known for digest in _digests(other))


def _digests(model: UMDP) -> Iterator[bytes]:
    for k in range(model.samples):
        yield hashlib.sha256(model.prob[:, k].tobytes() + model.cost[:, k].tobytes()).digest()
