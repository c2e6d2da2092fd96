"""Numbers, times and lists in words, as all of the page says them."""

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING

from markupsafe import Markup, escape

from rue.report import style

MISSING = "–"


def count(number: int, thing: str, things: str = "") -> str:
    """`1 method`, `3 methods`, `12 000 methods`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}".replace(",", " ")


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def time_text(seconds: float) -> str:
    """`0.42 s`, `3 min 20 s`, `5 h 10 min`."""
    if math.isnan(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def at_least(value: float) -> str:
    """A proved lower bound, or a dash if there is none."""
    return MISSING if math.isnan(value) else style.bound_text(value)


def percent(share: float, rounding: str = ROUND_CEILING) -> str:
    """Two digits of a share, three from 100 % on; rounded up, as it mostly says what is not exceeded."""
    return "∞" if math.isinf(share) else f"{style.rounded(100 * share, 2 if share < 1 else 3, rounding):g} %"


def status_text(status: str) -> str:
    """`time limit`."""
    return status.replace("_", " ")


def size_text(states: float, choices: float, samples: int, tests: int) -> str:
    """How large a problem is."""
    words = [count(int(states), "state"), count(int(choices), "choice"), f"{count(samples, 'sample')} to plan with"]
    return ", ".join(words) + (f", {tests} others to test on" if tests else "")


def breakable(text: str) -> Markup:
    """A text that may be broken after its commas, where it has no spaces."""
    return Markup(re.sub("([,:/])(?! )", r"\1<wbr>", str(escape(text))))


def anchor(*words: str) -> str:
    """A name that can stand in an address, whatever the words have in them."""
    return "-".join(re.sub(r"[^0-9A-Za-z]+", lambda part: f"_{part[0].encode().hex()}", word) for word in words)
