"""Values as strict JSON has them; names and numbers as a line of text has them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import chain, count
from types import MappingProxyType
from typing import Any

import numpy as np

from rue.errors import BadInput

NO_LETTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # controls, halves of letters, and no letters


def plain(value: Any) -> Any:
    """Return the value as JSON has it: in lists and dictionaries, with infinities as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def frozen(name: str, value: Any) -> Any:
    """Return a read-only copy of a value that a JSON file can hold, in tuples and mappings."""
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise BadInput(f"{name} has the key {odd!r}; expected text")
        return MappingProxyType({key: frozen(f"{name}, {key!r}", item) for key, item in value.items()})
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(frozen(name, item) for item in value)
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    what = repr(value) if isinstance(value, float) else f"a {type(value).__name__}"
    raise BadInput(f"{name} holds {what}; expected plain finite numbers, words, lists and mappings")


def one_line(name: str) -> str:
    """Return a name that a user gave on one line, with � for each character that is no letter.

    A line break would tear a table or a title apart, an SVG file cannot hold control characters, and a terminal obeys
    them.
    """
    return NO_LETTER.sub("�", " ".join(name.split()))


def short_line(name: str, most: int = 40) -> str:
    """Return a name on one line of at most `most` letters; a longer one loses its middle."""
    whole = one_line(name)
    half = (most - 1) // 2
    return whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}"


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names, with a number behind one that has come before."""
    found: dict[str, None] = {}
    for name in names:
        numbered = chain([name], (f"{name} ({number})" for number in count(2)))
        found[next(new for new in numbered if new not in found)] = None
    return list(found)


def quoted(name: str) -> str:
    """Return a name for a list or a sentence: in quotes if it has commas."""
    return f'"{name}"' if "," in name else name


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Return `a, b and c`; if there are more than `most`, the first ones and the number of the others."""
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def counted(number: int, thing: str, things: str = "") -> str:
    """Return `1 method`, `3 methods`, `12 000 methods`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}".replace(",", " ")


def number_text(value: float) -> str:
    """Return a number with three digits, or ∞."""
    return "∞" if value == math.inf else f"{value:.3g}"


def rounded(value: float, digits: int, rounding: str) -> str:
    """Return a number with that many digits, or ∞; `rounding` is a mode of the module `decimal`."""
    if value == math.inf:
        return "∞"
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))):.{digits}g}"


def bound_text(value: float) -> str:
    """Return three digits of a proved lower bound, rounded down, so that the number shown is proved too."""
    return rounded(value, 3, ROUND_FLOOR)


def percent_text(share: float) -> str:
    """Return a share in percent with two digits, three from 100 % on; a gap is rounded up, as it is an upper bound."""
    if math.isinf(share):
        return "∞"
    context = Context(prec=2 if share < 1 else 3, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(repr(float(share))).scaleb(2))):g} %"
