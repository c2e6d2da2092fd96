"""Policies as text: `.json` has the graph in it, a `.csv` file is read together with its model."""

from collections.abc import Callable
from pathlib import Path

from rue.errors import BadFile, BadInput
from rue.formats.rue_file import Storable
from rue.formats.writing import write_text
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Solution


def write_json(path: Path, thing: Storable) -> None:
    """Write a policy, or that of a solution, as JSON."""
    write_text(path, _policy_of(thing).to_json())


def write_csv(path: Path, thing: Storable) -> None:
    """Write a policy, or that of a solution, as CSV."""
    write_text(path, _policy_of(thing).to_csv())


def read_json(path: Path, model: UMDP | Graph | None) -> Policy:
    """Read a policy with its graph."""
    return _read(path, Policy.from_json)


def read_csv(path: Path, model: UMDP | Graph | None) -> Policy:
    """Read a policy for a model."""
    if model is None:
        raise BadFile(f"{path}: a policy in CSV has no graph; expected the model that it is for, load(path, model)")
    return _read(path, lambda text: Policy.from_csv(text, model))


def _policy_of(thing: Storable) -> Policy:
    assert not isinstance(thing, UMDP)
    return thing.policy if isinstance(thing, Solution) else thing


def _read(path: Path, parse: Callable[[str], Policy]) -> Policy:
    try:
        return parse(path.read_bytes().decode("utf-8-sig"))
    except BadInput as error:
        raise BadFile(f"{path}: {error}") from None
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeError:
        raise BadFile(f"{path}: it is no text in UTF-8; expected a policy as rue.save writes it") from None
