"""Facts about solutions and evaluations, as `--json` prints them, and reasons of infinite regrets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rue import parsing
from rue.cli.printing import number, say
from rue.diagnosis import Diagnosis, diagnose
from rue.judge import Evaluation, is_proper
from rue.model import UMDP
from rue.policy import Policy
from rue.risk import USUAL_LEVELS, USUAL_TAIL
from rue.solution import Solution, Status
from rue.worlds import Source

# Samples of a source that a diagnosis is made of.
MOST_LOOKED_AT = 20


def solution_facts(model: UMDP | Source, solution: Solution) -> dict[str, Any]:
    """Return a solution as `--json` prints it."""
    return {
        "method": parsing.short_name(solution.solver),
        "solver": solution.solver.name,
        "parameters": asdict(solution.solver),
        "status": solution.status.value,
        "objective": objective_facts(solution),
        "max_regret": asdict(solution.max_regret),
        "gap": solution.gap,
        **average_facts(model, solution.average_error),
        **spread_facts(solution),
        **({"weight": list(solution.weight)} if solution.weight else {}),
        "regret": {model.sample_name(k): regret for k, regret in enumerate(solution.regret)},
        "seconds": solution.seconds,
        "counters": dict(solution.counters),
        "diagnosis": diagnosis_facts(diagnosis_of_solution(model, solution)),
    }


def objective_facts(solution: Solution) -> dict[str, Any]:
    """Return what the solver optimises and the bounds on it, in the figures that the model was made of."""
    return {"measures": solution.measures, **asdict(solution.objective)}


def verdict_facts(model: UMDP, verdict: Evaluation, tail: float = USUAL_TAIL) -> dict[str, Any]:
    """Return an evaluation as `--json` prints it."""
    return {
        "max_regret": verdict.max_regret,
        **spread_facts(verdict, tail),
        "worst_sample": verdict.worst_sample,
        "error": verdict.error,
        **average_facts(model, float(verdict.average_error.max())),
        **sample_facts(model, verdict),
        **({"average_error": verdict.average_error.tolist()} if model.units.average else {}),
        "value_of_perfect_information": verdict.mean_regret,
        "value_of_knowing": verdict.value_of_knowing.tolist(),
    }


def sample_facts(model: UMDP | Source, verdict: Evaluation) -> dict[str, Any]:
    """Return the figures of all samples, and their weights unless these are equal, as `--json` prints them."""
    is_weighted = bool(verdict.weight.min() < verdict.weight.max())
    return {
        "samples": [model.sample_name(k) for k in range(model.samples)],
        **({"weight": verdict.weight.tolist()} if is_weighted else {}),
        "figure": model.units.value_name,
        "value": verdict.value.tolist(),
        "optimal": verdict.optimal.tolist(),
        "regret": verdict.regret.tolist(),
    }


def average_facts(model: UMDP | Source, error: float) -> dict[str, Any]:
    """Return how figures follow from averages per step as `--json` prints it; nothing if they do not."""
    return {"average": model.units.averages(error)} if model.units.average else {}


def spread_facts(
    found: Solution | Evaluation, tail: float = USUAL_TAIL, levels: Sequence[float] = USUAL_LEVELS
) -> dict[str, Any]:
    """Return the mean, the tail and the quantiles of regrets as `--json` prints them."""
    return {
        "mean_regret": found.mean_regret,
        "tail_regret": {f"{tail:g}": found.tail(tail)},
        "quantiles": {f"{level:g}": found.quantile(level) for level in levels},
    }


def spread_words(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the tail and two quantiles in words."""
    ((tail, regret),) = facts["tail_regret"].items()
    most = [f"{100 * float(level):g} % have at most {number(facts['quantiles'][level])}" for level in ("0.9", "0.99")]
    return f"{number(regret)} in the worst {100 * float(tail):g} %", ", ".join(most)


def is_solved(solution: Solution) -> bool:
    """Return whether the solver finished with a policy of finite regret: exit status 0, otherwise 1."""
    return solution.status is Status.SOLVED and math.isfinite(solution.max_regret.upper)


def diagnosis_of_solution(model: UMDP | Source, solution: Solution) -> Diagnosis | None:
    """Return why a solution has infinite regret or its solver found no policy; None if neither is so."""
    found = diagnosis_of_policy(model, solution.policy, solution.regret)
    is_open = found is None and solution.status is Status.INFEASIBLE
    return diagnose(model) if is_open and isinstance(model, UMDP) else found


def diagnosis_of_policy(model: UMDP | Source, policy: Policy, regret: Sequence[float]) -> Diagnosis | None:
    """Return why a policy has infinite regret; None if it has not. Of a source a few such samples are looked at."""
    infinite = [k for k, value in enumerate(regret) if math.isinf(value)]
    if not infinite:
        return None
    if isinstance(model, UMDP):
        return diagnose(model, policy, infinite=infinite)
    few = model.gather(infinite[:MOST_LOOKED_AT])
    improper = np.flatnonzero(~is_proper(few, policy)).tolist()  # others were not judged
    return diagnose(few, policy, infinite=improper) if improper else None


def diagnosis_facts(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """Return a diagnosis as `--json` prints it."""
    return None if diagnosis is None else diagnosis.facts()


def say_diagnosis(facts: Mapping[str, Any] | None) -> None:
    """Print the lines of a diagnosis, if there is one."""
    for line in () if facts is None else facts["lines"]:
        say(line)
