"""Policies as text: `.json` has the graph in it, a `.csv` file is read together with its model."""

from pathlib import Path

from rue.errors import BadFile, BadInput
from rue.formats.rue_file import Storable
from rue.formats.writing import write_text
from rue.model import UMDP
from rue.policy import Policy
from rue.solution import Solution


def write_json(path: Path, thing: Storable) -> None:
    """Write a policy, or that of a solution, as JSON."""
    write_text(path, _policy_of(thing).to_json())


def write_csv(path: Path, thing: Storable) -> None:
    """Write a policy, or that of a solution, as CSV."""
    write_text(path, _policy_of(thing).to_csv())


def read_json(path: Path, model: UMDP | None) -> Policy:
    """Read a policy with its graph."""
    try:
        return Policy.from_json(_text_of(path))
    except BadInput as error:
        raise BadFile(f"{path}: {error}") from None


def read_csv(path: Path, model: UMDP | None) -> Policy:
    """Read a policy for a model."""
    text = _text_of(path)
    try:
        if model is None:
            raise BadInput("a policy in CSV has no graph; expected the model that it is for, load(path, model)")
        return Policy.from_csv(text, model)
    except BadInput as error:
        raise BadFile(f"{path}: {error}") from None


def _policy_of(thing: Storable) -> Policy:
    assert not isinstance(thing, UMDP)
    return thing.policy if isinstance(thing, Solution) else thing


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeError:
        raise BadFile(f"{path}: it is no text in UTF-8; expected a policy as rue.save writes it") from None
