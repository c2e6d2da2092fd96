"""TOML files that people write; whatever is wrong with one is told in one line with its name."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rue.errors import BadFile, BadInput

T = TypeVar("T")


def read_toml(path: str | Path, make: Callable[[dict[str, Any], str], T]) -> T:
    """What `make` makes of the table in a file, and of its text."""
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError as error:
        raise BadInput(f"{source}: there is no such file ({error.strerror})") from None
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None
    except (RecursionError, ValueError) as error:  # also of numbers with thousands of digits
        raise BadFile(f"{source}: it is no TOML ({error})") from None
    try:
        return make(table, text)
    except BadInput as error:
        raise BadFile(f"{source}: {error}") from None
