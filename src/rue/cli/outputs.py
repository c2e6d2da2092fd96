"""Files that commands write: checked before any work begins, and saved elsewhere if writing fails after it."""

import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rue._check import text_path
from rue.cli.printing import complain
from rue.errors import BadInput
from rue.formats.writing import check_writable

PAGES = (".html", ".htm")
PICTURES = (".png", ".svg", ".pdf")
TABLES = (".txt", ".md", ".tex", ".csv")


class Written(NamedTuple):
    """Where a result was written, and why not to its target."""

    file: str | None
    problem: str | None = None

    def tell(self) -> int:
        """Print what went wrong, if anything did, in one line. Return the exit status."""
        if self.problem is None:
            return 0
        complain(self.problem)
        return 1


@dataclass(frozen=True)
class Target:
    """A file to write to, or none."""

    path: Path | None

    @classmethod
    def check(cls, name: str | None, what: str, endings: Sequence[str], inputs: Iterable[str] = ()) -> "Target":
        """Return the target; raise BadInput if its ending or folder is wrong, or if it is one of the inputs."""
        if name is None:
            return cls(None)
        path = text_path(name)
        if path.suffix.lower() not in endings:
            expected = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
            raise BadInput(f"{name}: the {what} ends in {path.suffix or 'nothing'!r}; expected {expected}")
        for source in inputs:
            if _is_same(path, text_path(source)):
                raise BadInput(f"{name}: the {what} would replace the input {source}; expected another name")
        check_writable(path)
        return cls(path)

    def write(self, write: Callable[[Path], object]) -> Written:
        """Write the result; if that fails, beside the target, to the temporary folder, or to the home folder."""
        if self.path is None:
            return Written(None)
        try:
            write(self.path)
            return Written(str(self.path))
        except BadInput as error:
            problem = str(error)
        spare = f"{self.path.stem}-{secrets.token_hex(4)}{self.path.suffix}"
        for folder in (self.path.parent, Path(tempfile.gettempdir()), Path("~").expanduser()):
            try:
                write(folder / spare)
            except BadInput:
                continue
            return Written(str(folder / spare), f"{problem}; the result is kept in {folder / spare}")
        return Written(None, f"{problem}; nor could the result be kept in another folder")


def _is_same(path: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file, also by links."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them does not exist, or is no valid path
        return False
