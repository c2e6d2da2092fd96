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


KNOWN: tuple[Known, ...] = ()


def known_as(failure: Failure) -> str | None:
    """The finding that a failure belongs to, if it is known."""
    for known in KNOWN:
        if known.check == failure.check and re.search(known.pattern, failure.detail):
            return known.finding
    return None
