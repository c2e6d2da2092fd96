"""What fails and is known to, until somebody deals with it: such failures are counted and nothing more.

An entry goes when its finding does. The corpus has the least example of each, marked "fails until finding N".
"""

import re
from dataclasses import dataclass

from fuzz.checks import Failure


@dataclass(frozen=True)
class Known:
    """Failures of a check whose detail has a pattern."""

    finding: str
    check: str
    pattern: str


KNOWN = (
    Known("wide bounds on V* are called solved", "status", r"Adaptive.*: solved with the objective \[0, [1-9]"),
    Known("finding 36", "closes", ""),
    Known("finding 5", "solves", r"BadInput: options of \d+ steps have"),
    Known("finding 40", "traceback", r"Exceeds the limit \(4300 digits\)"),
    Known("finding 46", "traceback", r"rue (info|plot|convert|evaluate|solve|simulate) "),
    Known("finding 46", "json", r"rue (info|evaluate) "),
    Known("finding 12", "warning", r"policy.py:\d+: (Casting complex|invalid value)"),
    Known("a warning besides the one line", "warning", r"overflow encountered"),
)


def known_as(failure: Failure) -> str | None:
    """The finding that a failure belongs to, if it is known."""
    for known in KNOWN:
        if known.check == failure.check and re.search(known.pattern, failure.detail):
            return known.finding
    return None
