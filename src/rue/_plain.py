"""Values as strict JSON has them, and names as a line of text can have them."""

import math
import re
from collections.abc import Mapping
from typing import Any

NO_LETTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # controls, halves of letters, and no letters


def plain(value: Any) -> Any:
    """The value as JSON has it, with infinities as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def one_line(name: str) -> str:
    """A name of somebody else's on one line, and with � for what is no letter.

    A line break would tear a table or a title apart, an SVG file cannot hold control characters, and a terminal obeys
    them.
    """
    return NO_LETTER.sub("�", " ".join(name.split()))
