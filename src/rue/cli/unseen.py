"""Samples that a policy was not made for (`--test`), and what may be said of fresh ones after them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import Any

from rue import parsing
from rue.certificate import model_fingerprint
from rue.cli.printing import number, rounded
from rue.description import common_samples, has_duplicates
from rue.errors import BadInput
from rue.judge import Evaluation
from rue.model import UMDP
from rue.solution import Solution


@dataclass(frozen=True)
class Unseen:
    """A model of such samples."""

    model: UMDP
    facts: Mapping[str, Any]
    doubt: str | None  # why nothing can be said of fresh samples

    @classmethod
    def read(
        cls, planned: UMDP, text: str, seed: int | None, independent: bool = False, policy: object = None
    ) -> "Unseen":
        """So many fresh draws of the model's own domain, or another model on the same graph."""
        drawn = text.strip().isdecimal()
        if not drawn and seed is not None:
            raise BadInput(f"a seed is given for {text}; expected it only with a number of fresh draws, such as 100")
        model = parsing.draw_unseen(planned, int(text), seed) if drawn else parsing.read_model(text)
        seen = common_samples(planned, model)
        return cls(model, {"test": text, "seen_before": seen}, _doubt(model, text, seen, drawn or independent, policy))

    def __str__(self) -> str:
        seen = self.facts["seen_before"]
        return f"{self.model.samples} samples, {seen or 'none'} of which the methods have seen"

    def scenario(self, verdict: Evaluation, confidence: float) -> dict[str, Any] | None:
        """How likely a fresh sample is to be worse than all of these, where that can be said."""
        exceedance = verdict.exceedance(confidence)
        if self.doubt or not math.isfinite(verdict.max_regret):
            return None
        return {"confidence": confidence, "exceeds_max_regret_at_most": exceedance, "samples": self.model.samples}

    def in_words(self, facts: Mapping[str, Any]) -> str:
        """The same for people, beside the samples that were planned with."""
        scenario = facts["test"]["scenario"]
        planned = (
            f"In the {len(facts['samples'])} samples of the model the max regret is {number(facts['max_regret'])}."
        )
        if scenario is None:
            reason = self.doubt or "the policy may miss the goal in some of these"
            return f"{planned} Nothing is said about fresh samples: {reason}."
        return (
            f"{planned} With {100 * scenario['confidence']:g} % confidence, a fresh sample has more regret than "
            f"{number(facts['test']['max_regret'])} with a probability of at most "
            f"{rounded(100 * scenario['exceeds_max_regret_at_most'], 2, ROUND_CEILING)} %."
        )


def _doubt(model: UMDP, text: str, seen: int, independent: bool, policy: object) -> str | None:
    """Why test samples say nothing about fresh ones, if so."""
    proof = policy.certificate if isinstance(policy, Solution) else None
    if proof is not None and proof.fingerprint == model_fingerprint(model):
        return "the policy was planned with these samples"
    # Where there are few possible samples, draws are often alike, and that they are says nothing.
    if seen and not has_duplicates(model):
        return f"{seen} of the {model.samples} test samples are the model's own"
    return (
        None if independent else f"{text} may hold other than independent draws (--independent says that it does not)"
    )
