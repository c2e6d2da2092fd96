"""Test samples (`--test`), and what they say about the regret in fresh samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import Any

from rue import parsing
from rue.certificate import model_fingerprint
from rue.cli.printing import number, rounded
from rue.description import common_samples, duplicate_samples
from rue.errors import BadInput
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

    def scenario(self, verdict: Evaluation, confidence: float) -> dict[str, Any] | None:
        """Return how likely a fresh sample is to have more regret than all of these, or None if that is not known."""
        exceedance = verdict.exceedance(confidence)
        if self.objection or not math.isfinite(verdict.max_regret):
            return None
        return {"confidence": confidence, "exceeds_max_regret_at_most": exceedance, "samples": self.model.samples}

    def in_words(self, facts: Mapping[str, Any]) -> str:
        """Return the same as text, with the max regret in the samples of the model."""
        scenario = facts["test"]["scenario"]
        planned = (
            f"In the {len(facts['samples'])} samples of the model the max regret is {number(facts['max_regret'])}."
        )
        if scenario is None:
            reason = self.objection or "the policy may miss the goal in some of these"
            return f"{planned} Nothing is said about fresh samples: {reason}."
        return (
            f"{planned} With {100 * scenario['confidence']:g} % confidence, a fresh sample has more regret than "
            f"{number(facts['test']['max_regret'])} with a probability of at most "
            f"{rounded(100 * scenario['exceeds_max_regret_at_most'], 2, ROUND_CEILING)} %."
        )


def _objection(model: UMDP, text: str, seen: int, independent: bool, policy: object) -> str | None:
    """Return why test samples say nothing about fresh ones; None if they do."""
    proof = policy.certificate if isinstance(policy, Solution) else None
    if proof is not None and proof.fingerprint == model_fingerprint(model):
        return "the policy was planned with these samples"
    # If few different samples are possible, equal draws are common and no sign of dependence.
    if seen and not duplicate_samples(model):
        return f"{seen} of the {model.samples} test samples are the model's own"
    if independent:
        return None
    return f"{text} may hold other than independent draws (--independent says that it does not)"
