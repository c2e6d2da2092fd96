"""Files. A format is a reader and a writer for some endings of file names; `register_format` adds one from outside.

    register_format(Format("POMDPX", (".pomdpx",), read_pomdpx, write_pomdpx, kinds=(UMDP,)))

A file whose name has another ending, or none, is written in rue's own format, and read in the format that it looks
like. A format in which each file has one sample also reads a folder or a list of files.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rue._check import text_path
from rue.errors import BadInput
from rue.formats import (
    cassandra,
    drn,
    matrices,
    policy_file,
    pomdpx,
    prism_explicit,
    rue_file,
    symbolic,
    transition_csv,
    umb,
)
from rue.formats.folders import files_in
from rue.formats.logs import read_log
from rue.formats.matrices import from_gymnasium, from_matrices
from rue.formats.rue_file import Storable
from rue.formats.symbolic import Constants
from rue.formats.weights import read_weights
from rue.model import UMDP, Graph, check_same_graph
from rue.policy import Policy
from rue.registry import Registry
from rue.solution import Solution

START = 4096  # bytes of a file by which its format is told
PICKED = ("goal", "reward", "avoid")  # options of formats in which a file may have several labels and rewards
KINDS: dict[type[Storable], str] = {UMDP: "model", Policy: "policy", Solution: "solution"}


class Format(NamedTuple):
    """How some files are read and written."""

    name: str
    endings: tuple[str, ...]  # in small letters, with the dot
    read: Callable[..., Storable]  # of a path and a model: the model is the one that a policy is for, if it is given
    write: Callable[[Path, Storable], None]
    kinds: tuple[type[Storable], ...]  # what can be written
    read_files: Callable[..., UMDP] | None = None  # files with a sample each
    looks_so: Callable[[bytes], bool] | None = None  # whether a file with another ending begins like this format
    options: tuple[str, ...] = ()  # keywords that `read` and `read_files` take beside


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


def _never_written(path: Path, thing: Storable) -> None:
    raise AssertionError("no kind of thing is written in this format")


RUE = Format("rue", (".rue",), rue_file.read_rue, rue_file.write_rue, (UMDP, Policy, Solution))
register_format(RUE)
register_format(Format("JSON", (".json",), policy_file.read_json, policy_file.write_json, (Policy, Solution)))
_CSV = (transition_csv.read_csv, transition_csv.write_csv, (UMDP, Policy, Solution))
register_format(Format("CSV", (".csv",), *_CSV))
register_format(
    Format("DRN", (drn.ENDING,), drn.read_drn, drn.write_drn, (UMDP,), drn.read_drn_files, drn.looks_like_drn, PICKED)
)
_PRISM = (prism_explicit.read_prism, prism_explicit.write_prism, (UMDP,), prism_explicit.read_prism_files, None, PICKED)
register_format(Format("PRISM explicit", (prism_explicit.ENDING,), *_PRISM))
_SYMBOLIC = (symbolic.read_symbolic, _never_written, (), None, None, (*PICKED, "const"))
register_format(Format("PRISM's language or JANI", symbolic.ENDINGS, *_SYMBOLIC))


_POMDPX = (pomdpx.read_pomdpx, pomdpx.write_pomdpx, (UMDP,), None, pomdpx.looks_like_pomdpx)
register_format(Format("POMDPX", (pomdpx.ENDING,), *_POMDPX))
_CASSANDRA = (cassandra.read_cassandra, cassandra.write_cassandra, (UMDP,), None, cassandra.looks_like_cassandra)
register_format(Format("Cassandra's POMDP", (cassandra.ENDING,), *_CASSANDRA))


_UMB = (umb.read_umb, umb.write_umb, (UMDP,), umb.read_umb_files, umb.looks_like_umb, PICKED)
register_format(Format("UMB", (umb.ENDING,), *_UMB))


register_format(Format("arrays", matrices.ENDINGS, matrices.read_matrices, matrices.write_matrices, (UMDP,)))


def endings(kind: type[Storable]) -> tuple[str, ...]:
    """Return what the name of a file may end in, for a model, a policy or a solution."""
    return tuple(ending for ending in FORMATS if issubclass(kind, FORMATS[ending].kinds))


def save(path: str | Path, thing: Storable) -> None:
    """Write a model, a policy or a solution.

    The ending of the name decides the format: `.json` is for policies, `.csv` for policies and models, others are for
    models (docs/formats.md has a table), and any unknown ending, or none, gives a file in rue's own format, as `.rue`
    does.
    Where a file has one sample, several samples give a folder of files. `load` reads each of them back.
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


def load(
    path: str | Path | Sequence[str | Path],
    model: UMDP | Graph | None = None,
    *,
    goal: str | None = None,
    reward: str | None = None,
    avoid: str | None = None,
    const: Constants | None = None,
) -> Storable:
    """Read a file: a UMDP, a Policy or a Solution, as `save` wrote it, or a model in another format.

    The ending of the name decides the format, else what the file looks like. Where each file has one sample, `path` may
    be a folder of files or a list of them. A policy in a `.csv` file needs the `model` that it is for, or its graph.
    Other files do not; if it is given, a policy or a solution for another graph is refused.

    Where a file has several labels or rewards, `goal` names the label of goals, and `reward` the rewards that are
    costs. With `avoid`, the label of other states, the probability of reaching a goal before them is maximised, and
    rewards do not count; `""` avoids none. In PRISM's language and JANI, `const` gives constants, `"p=0.1:0.1:0.5"` or
    `{"p": [0.1, 0.2]}`: each combination is a sample.
    """
    given: dict[str, Any] = {"goal": goal, "reward": reward, "avoid": avoid, "const": const}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(path, list | tuple):
        return _load_files([_existing(text_path(one)) for one in path], given)
    source = text_path(path)
    explicit = source.with_name(source.name + prism_explicit.ENDING) if source.name else source
    source = explicit if not _exists(source) and _exists(explicit) else _existing(source)
    if source.is_dir() and (known := folder_format(source)) is not None:
        return _read_files(known, files_in(source, _common_ending(source, known)), given)
    known = format_of(source)
    thing = known.read(source, model, **_taken(known, source, given))
    if model is not None and not isinstance(thing, UMDP):
        try:
            check_same_graph(model, thing.graph if isinstance(thing, Policy) else thing.policy.graph)
        except BadInput as error:
            raise BadInput(f"{source}: {error}") from None
    return thing


def _taken(known: Format, source: Path, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options for a reader; refuse those that its format does not have."""
    for name, value in given.items():
        if name not in known.options:
            others = [one.name for one in dict.fromkeys(FORMATS.values()) if name in one.options]
            raise BadInput(
                f"{source}: {name} is {value!r} for a file in the format {known.name}; expected it for "
                f"{', '.join(others)}"
            )
        if name != "const" and not (isinstance(value, str) and (value or name == "avoid")):
            raise BadInput(f"{name} is {value!r}; expected a name in the file")
    return given


def folder_format(folder: Path) -> Format | None:
    """Return the format of the files in a folder, if each has one sample; None if there is none of such a format."""
    several = [known for known in dict.fromkeys(FORMATS.values()) if known.read_files is not None]
    return next((known for known in several if any(files_in(folder, ending) for ending in known.endings)), None)


def format_of(source: Path) -> Format:
    """Return the format of a file, by the ending of its name or by how it begins."""
    known: Format | None = FORMATS.get(source.suffix.lower())
    if known is None and source.is_file():
        try:
            with source.open("rb") as stream:
                start = stream.read(START)
        except OSError as error:
            raise BadInput(f"{source}: cannot be read ({error.strerror})") from None
        known = next((one for one in FORMATS.values() if one.looks_so is not None and one.looks_so(start)), None)
    return RUE if known is None else known


def _common_ending(folder: Path, known: Format) -> str:
    return next(ending for ending in known.endings if files_in(folder, ending))


def _load_files(sources: Sequence[Path], given: Mapping[str, Any]) -> UMDP:
    """Read files with a sample each."""
    if not sources:
        raise BadInput("the list of files is empty; expected one at least")
    found = [format_of(source) for source in sources]
    for source, known in zip(sources, found, strict=True):
        if known is not found[0] or known.read_files is None:
            one = " or ".join(sorted(e for f in set(FORMATS.values()) if f.read_files is not None for e in f.endings))
            raise BadInput(
                f"{source}: it is in the format {known.name}; expected files of one format, {one}, in a list"
            )
    return _read_files(found[0], sources, given)


def _read_files(known: Format, sources: Sequence[Path], given: Mapping[str, Any]) -> UMDP:
    assert known.read_files is not None
    return known.read_files(sources, **_taken(known, sources[0], given))


def _exists(source: Path) -> bool:
    try:
        return source.exists()
    except (OSError, ValueError):
        return False


def _existing(source: Path) -> Path:
    try:
        source.stat()
    except (OSError, ValueError) as error:
        raise BadInput(f"{source}: there is no such file ({getattr(error, 'strerror', error)})") from None
    return source


__all__ = [
    "Format",
    "endings",
    "folder_format",
    "from_gymnasium",
    "from_matrices",
    "load",
    "read_log",
    "read_weights",
    "register_format",
    "save",
]
