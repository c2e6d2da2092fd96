"""Files. A format is a reader and a writer for some endings of file names; `register_format` adds one from outside.

    register_format(Format("POMDPX", (".pomdpx",), read_pomdpx, write_pomdpx, kinds=(UMDP,)))

A file whose name has another ending, or none, is written and read in rue's own format.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rue._check import text_path
from rue.errors import BadInput
from rue.formats import policy_file, rue_file
from rue.formats.logs import read_log
from rue.formats.rue_file import Storable
from rue.formats.weights import read_weights
from rue.model import UMDP, Graph, check_same_graph
from rue.policy import Policy
from rue.registry import Registry
from rue.solution import Solution

KINDS: dict[type[Storable], str] = {UMDP: "model", Policy: "policy", Solution: "solution"}


class Format(NamedTuple):
    """How some files are read and written."""

    name: str
    endings: tuple[str, ...]  # in small letters, with the dot
    read: Callable[[Path, UMDP | Graph | None], Storable]  # the model is the one that a policy is for, if it is given
    write: Callable[[Path, Storable], None]
    kinds: tuple[type[Storable], ...]  # what can be written


class _Formats(Registry[Format]):
    """The formats by ending. A package announces a `Format` under any name."""

    def take(self, name: str, thing: Format) -> None:
        """Register a format, unless it did so itself."""
        if not all(map(self.knows, thing.endings)):
            register_format(thing)


FORMATS = _Formats("rue.formats")


def register_format(added: Format) -> None:
    """Add a format, which `load`, `save` and the command line then know by its endings."""
    for ending in added.endings:
        if not ending.startswith(".") or ending != ending.lower() or FORMATS.knows(ending):
            raise BadInput(f"the ending {ending!r} cannot be added; expected a new one, in small letters, with a dot")
    FORMATS.update(dict.fromkeys(added.endings, added))


RUE = Format("rue", (".rue",), rue_file.read_rue, rue_file.write_rue, (UMDP, Policy, Solution))
register_format(RUE)
register_format(Format("JSON", (".json",), policy_file.read_json, policy_file.write_json, (Policy, Solution)))
register_format(Format("CSV", (".csv",), policy_file.read_csv, policy_file.write_csv, (Policy, Solution)))


def endings(kind: type[Storable]) -> tuple[str, ...]:
    """Return what the name of a file may end in, for a model, a policy or a solution."""
    return tuple(ending for ending in FORMATS if issubclass(kind, FORMATS[ending].kinds))


def save(path: str | Path, thing: Storable) -> None:
    """Write a model, a policy or a solution.

    The ending of the name decides the format: `.json` and `.csv` are for policies, and any other ending, or none, gives
    a file in rue's own format, as `.rue` does. `load` reads each of them back.
    """
    target = text_path(path)
    if not isinstance(thing, Storable):
        raise BadInput(f"a {type(thing).__name__} cannot be saved; expected a model, a policy or a solution")
    known = FORMATS.get(target.suffix.lower(), RUE)
    if not isinstance(thing, known.kinds):
        kind = next(kind for kind in KINDS if isinstance(thing, kind))
        raise BadInput(
            f"{target}: a {KINDS[kind]} cannot be written as {target.suffix}; expected a name ending in "
            f"{' or '.join(endings(kind))}"
        )
    known.write(target, thing)


def load(path: str | Path, model: UMDP | Graph | None = None) -> Storable:
    """Read what `save` wrote: a UMDP, a Policy or a Solution.

    A policy in a `.csv` file needs the `model` that it is for, or its graph. Other files do not; if it is given, a
    policy or a solution for another graph is refused.
    """
    source = text_path(path)
    try:
        source.stat()
    except (OSError, ValueError) as error:
        raise BadInput(f"{source}: there is no such file ({getattr(error, 'strerror', error)})") from None
    known: Format = FORMATS.get(source.suffix.lower(), RUE)
    thing = known.read(source, model)
    if model is not None and not isinstance(thing, UMDP):
        try:
            check_same_graph(model, thing.graph if isinstance(thing, Policy) else thing.policy.graph)
        except BadInput as error:
            raise BadInput(f"{source}: {error}") from None
    return thing


__all__ = ["Format", "endings", "load", "read_log", "read_weights", "register_format", "save"]
