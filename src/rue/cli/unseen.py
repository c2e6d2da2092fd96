"""Test samples (`--test`), and what they, or the samples of the plan, say about the regret in fresh samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import Any

from rue import parsing
from rue._text import rounded
from rue.certificate import model_fingerprint
from rue.cli.printing import number
from rue.description import common_samples, duplicate_samples
from rue.errors import BadInput
from rue.guarantees import USUAL_CONFIDENCE, USUAL_PROBABILITY, least_samples
from rue.judge import Evaluation
from rue.model import UMDP
from rue.solution import Solution


@dataclass(frozen=True)
class Unseen:
    """A model of test samples."""

    model: UMDP
    facts: Mapping[str, Any]
    objection: str | None  # why nothing can be said about fresh samples

    @classmethod
    def read(
        cls, planned: UMDP, text: str, seed: int | None, independent: bool = False, policy: object = None
    ) -> "Unseen":
        """Draw a number of fresh samples from the domain of the model, or read another model on the same graph."""
        drawn = text.strip().isdecimal()
        if not drawn and seed is not None:
            raise BadInput(f"a seed is given for {text}; expected it only with a number of fresh draws, such as 100")
        model = parsing.draw_unseen(planned, int(text), seed) if drawn else parsing.read_model(text)
        seen = common_samples(planned, model)
        return cls(
            model, {"test": text, "seen_before": seen}, _objection(model, text, seen, drawn or independent, policy)
        )

    def __str__(self) -> str:
        seen = self.facts["seen_before"]
        return f"{self.model.samples} samples, {seen or 'none'} of which the methods have seen"

    def scenario(
        self,
        verdict: Evaluation,
        confidence: float = USUAL_CONFIDENCE,
        probability: float = USUAL_PROBABILITY,
    ) -> dict[str, Any] | None:
        """Return what is known of the regret in a fresh sample, or None if nothing is.

        How likely it is to be above all of these, and above which level it is with at most some probability; either may
        be None.
        """
        exceedance, level = verdict.exceedance(confidence), verdict.level(probability, confidence)
        finite = math.isfinite(verdict.max_regret)
        if self.objection or not (finite or math.isfinite(level)):
            return None
        return {
            "confidence": confidence,
            "samples": self.model.samples,
            "exceeds_max_regret_at_most": exceedance if finite else None,
            "probability": probability,
            "level": level if math.isfinite(level) else None,
        }

    def in_words(self, facts: Mapping[str, Any]) -> str:
        """Return the same as text, with the max regret in the samples of the model."""
        planned = (
            f"In the {len(facts['samples'])} samples of the model the max regret is {number(facts['max_regret'])}."
        )
        return f"{planned} {self.fresh_in_words(facts['test'])}"

    def fresh_in_words(self, test: Mapping[str, Any]) -> str:
        """Return what is known of the regret in a fresh sample as text, or why nothing is."""
        scenario = test["scenario"]
        if scenario is None:
            reason = self.objection or "the policy may miss the goal in some of these"
            return f"Nothing is said about fresh samples: {reason}."
        known = []
        if scenario["exceeds_max_regret_at_most"] is not None:
            known.append(_at_most(test["max_regret"], scenario["exceeds_max_regret_at_most"]))
        if scenario["level"] is not None:
            known.append(_at_most(scenario["level"], scenario["probability"]))
        words = f"With {100 * scenario['confidence']:g} % confidence, a fresh sample has {known[0]}."
        if len(known) > 1:
            return f"{words} With the same confidence, it has {known[1]}."
        if scenario["level"] is None:
            needed = least_samples(probability=scenario["probability"], confidence=scenario["confidence"])
            return (
                f"{words} For a probability of at most {_percent(scenario['probability'])} it takes {needed} samples."
            )
        return words


def planned_scenario(solution: Solution, independent: bool) -> dict[str, Any] | None:
    """Return what is known of a fresh sample from the samples of the plan alone, or None if nothing is."""
    bound = solution.exceedance(USUAL_CONFIDENCE) if independent else None
    if bound is None:
        return None
    return {
        "confidence": USUAL_CONFIDENCE,
        "samples": len(solution.regret),
        "active": solution.counters["active samples"],
        "exceeds_max_regret_at_most": bound,
    }


def planned_in_words(solution: Solution, scenario: Mapping[str, Any]) -> str:
    """Return the same as text."""
    return (
        f"With {100 * scenario['confidence']:g} % confidence, a fresh sample has "
        f"{_at_most(max(solution.regret), scenario['exceeds_max_regret_at_most'])}: the policy follows from "
        f"{scenario['active']} of {scenario['samples']} independent samples, and no other one is worse."
    )


def _at_most(regret: float, probability: float) -> str:
    return f"more regret than {rounded(regret, 5, ROUND_CEILING)} with a probability of at most {_percent(probability)}"


def _percent(probability: float) -> str:
    return f"{rounded(100 * probability, 2, ROUND_CEILING)} %"


def _objection(model: UMDP, text: str, seen: int, independent: bool, policy: object) -> str | None:
    """Return why test samples say nothing about fresh ones; None if they do."""
    proof = policy.certificate if isinstance(policy, Solution) else None
    if proof is not None and proof.fingerprint == model_fingerprint(model):
        return "the policy was planned with these samples"
    # If few different samples are possible, equal draws are common and no sign of dependence.
    if seen and not duplicate_samples(model):
        return f"{seen} of the {model.samples} test samples are the model's own"
    if model.is_weighted:
        return "the test samples have weights, which draws do not have"
    if independent:
        return None
    return f"{text} may hold other than independent draws (--independent says that it does not)"
