"""Policies that come from elsewhere, as a solver: nothing is searched for, the policy is judged beside the others."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from rue._check import text_path
from rue.errors import BadInput
from rue.formats import load
from rue.judge import judge
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solver, Status, policy_of


@dataclass(frozen=True)
class GivenPolicy(Solver):
    """The policy in a file: a guideline, a rule of thumb, or what another method or program has found."""

    name = "policy"
    measures = "max regret of the policy"

    file: str  # .csv, .json or .rue
    contents: str = ""  # the SHA-256 of the file, if another content is to be refused

    def __post_init__(self) -> None:
        for name in ("file", "contents"):
            if not isinstance(getattr(self, name), str):
                raise BadInput(f"{name} is {getattr(self, name)!r}; expected text")
        text_path(self.file)

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Read the policy and judge it."""
        if self.contents and self.contents != digest_of(self.file):
            raise BadInput(f"{self.file}: changed since the experiment began; expected the same contents")
        policy = read_policy(self.file, model)
        verdict = judge(model, policy, run.afterwards())
        status = Status.SOLVED if math.isfinite(verdict.at_most) else run.stop() or Status.UNPROVED
        return Outcome(policy, Interval(min(verdict.max_regret, verdict.at_most), verdict.at_most), status)


def read_policy(path: str, model: UMDP | Graph) -> Policy:
    """Return the policy in a file that holds a policy or a solution for a model."""
    thing = load(path, model)
    if isinstance(thing, UMDP):
        raise BadInput(f"{path}: it holds a UMDP; expected a policy or a solution")
    return policy_of(thing)


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with text_path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
