"""Read TOML files; errors are one line with the name of the file."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rue._check import text_path
from rue.errors import BadFile, BadInput

T = TypeVar("T")


def read_toml(path: str | Path, make: Callable[[dict[str, Any], str], T]) -> T:
    """Return what `make` returns for the table in a file and its text."""
    source = text_path(path)
    try:
        text = source.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError as error:
        raise BadInput(f"{source}: there is no such file ({error.strerror})") from None
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None
    except (RecursionError, ValueError) as error:  # also for numbers with thousands of digits
        raise BadFile(f"{source}: it is no TOML ({error})") from None
    try:
        return make(table, text)
    except BadInput as error:
        raise BadFile(f"{source}: {error}") from None
