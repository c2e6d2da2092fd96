"""Folders with a file for each sample: which files are in one, in which order, and how one is written whole."""

import re
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from rue.errors import BadFile, BadInput


def natural_order(path: Path) -> tuple[object, ...]:
    """Return a key that sorts file 2 before file 10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path.name))


def files_in(folder: Path, ending: str) -> list[Path]:
    """Return the files in a folder whose names end so, in natural order."""
    try:
        found = [path for path in folder.iterdir() if path.suffix.lower() == ending and path.name[0] != "."]
    except OSError as error:
        raise BadFile(f"{folder}: cannot be read ({error.strerror})") from None
    return sorted((path for path in found if path.is_file()), key=natural_order)


def write_folder(target: Path, writers: Iterable[tuple[str, Callable[[Path], object]]]) -> None:
    """Write a new folder of files, whole or not at all: beside its place, then moved there."""
    if target.exists():
        raise BadInput(f"{target}: cannot be written (it is there already); expected the name of a new folder")
    beside = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    try:
        beside.mkdir()
        for name, write in writers:
            write(beside / name)
        beside.rename(target)
    except OSError as error:
        raise BadInput(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
