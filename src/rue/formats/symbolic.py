"""Models in PRISM's language and in JANI, built by Storm: one sample for each set of constants.

`"p=0.1:0.1:0.5,N=3"` gives p the values 0.1, 0.2, …, 0.5 and N the value 3, as PRISM writes it: start, step, end. Each
combination is built (the extra `interop`, stormpy 2), handed over as a UMB file, and becomes a sample; states are
matched by the values of their variables, so that the sets of reachable states may differ.
"""

import codecs
import itertools
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from rue._text import short_line
from rue.errors import BadFile, BadInput
from rue.formats.assemble import Part, put_together
from rue.formats.picks import Picks
from rue.formats.rewards import model_from_rewards
from rue.formats.umb import Reader
from rue.model import UMDP

Constants = str | Sequence[str] | Mapping[str, Any]

JANI = ".jani"
ENDINGS = (".prism", ".nm", ".pm", JANI)
KINDS = ("MDP", "DTMC")
MOST_SAMPLES = 100_000
NAME = re.compile(r"[A-Za-z_]\w*")
VALUE = re.compile(r"[\w.+/-]+")


def read_symbolic(
    path: Path,
    model: object,
    *,
    const: Constants | None = None,
    **picked: str,
) -> UMDP:
    """Read a model with a sample for each combination of constants; `Picks` says which labels and rewards count."""
    picks = Picks(**picked)
    grid = parse_constants(() if const is None else const)
    several = [name for name, values in grid.items() if len(values) > 1]
    storm = _stormpy(path)
    parts: list[Part] = []
    with _one_line(path), tempfile.TemporaryDirectory() as folder:
        description = _parsed(storm, path, Path(folder))
        _check_defined(path, description, grid)
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            name = ", ".join(f"{one}={chosen[one]}" for one in several)
            file = Path(folder) / "m.umb"
            _build(storm, path, description, ",".join(f"{one}={value}" for one, value in chosen.items()), file)
            part = Reader(file, picks, where=f"{path} ({name})" if name else str(path)).part()
            parts.append(replace(part, flat=replace(part.flat, sample_label=(name,) if name else None)))
    return model_from_rewards(str(path), put_together(parts, picks.avoid), None, sign=1)


def parse_constants(given: Constants) -> dict[str, list[str]]:
    """Return the values of each constant, as texts."""
    if isinstance(given, Mapping):
        found = {str(name): _listed(name, value) for name, value in given.items()}
    else:
        if not isinstance(given, str | list | tuple):
            raise BadInput(f"const is {given!r}; expected a text such as p=0.1:0.1:0.5, or a dictionary")
        pieces = [given] if isinstance(given, str) else list(given)
        found = {}
        for piece in itertools.chain.from_iterable(str(one).split(",") for one in pieces):
            name, _, text = (part.strip() for part in piece.partition("="))
            if not NAME.fullmatch(name) or not text:
                raise BadInput(f"the constant is {short_line(piece)!r}; expected one such as p=0.3 or p=0.1:0.1:0.5")
            if name in found:
                raise BadInput(f"the constant {name} is given twice; expected it once")
            found[name] = _range(name, text)
    count = 1
    for name, values in found.items():
        count *= len(values)
        odd = next((value for value in values if not VALUE.fullmatch(value)), None)
        if odd is not None or not values:
            raise BadInput(f"the constant {name} is {short_line(odd or '')!r}; expected a number, true or false")
    if count > MOST_SAMPLES:
        raise BadInput(f"the constants have {count} combinations; expected {MOST_SAMPLES} at most")
    return found


def _listed(name: object, value: Any) -> list[str]:
    """Return a value, or a list of them, as texts."""
    if not NAME.fullmatch(str(name)):
        raise BadInput(f"the constant is {name!r}; expected the name of one")
    if isinstance(value, str):
        return _range(str(name), value)
    return (
        [_text(one) for one in (value.tolist() if hasattr(value, "tolist") else value)]
        if _is_list(value)
        else [_text(value)]
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | range) or bool(getattr(value, "ndim", 0))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)


def _range(name: str, text: str) -> list[str]:
    """Return the values of `start:step:end` or `start:end`, or the only value."""
    if ":" not in text:
        return [text]
    try:
        ends = [Decimal(part.strip()) for part in text.split(":")]
        first, step, last = ends if len(ends) == 3 else (ends[0], Decimal(1), ends[1])
        count = int((last - first) / step) + 1
    except (InvalidOperation, ZeroDivisionError, ValueError, OverflowError):
        count = 0
    if not 0 < count <= MOST_SAMPLES or len(ends) > 3 or (last - first) * step < 0:
        raise BadInput(f"the constant {name} is {short_line(text)!r}; expected start:step:end, such as 0.1:0.1:0.5")
    return [f"{(first + i * step).normalize():f}" for i in range(count)]


def _stormpy(path: Path) -> Any:
    """Return the package, or say how it is installed."""
    try:
        import stormpy
    except ImportError:
        raise BadInput(
            f"{path}: models in PRISM's language and JANI need Storm, which is not installed; expected "
            "`pip install 'rue[interop]'`, or explicit files by `prism -exportmodel`"
        ) from None
    if not hasattr(stormpy, "instantiate_constants"):
        raise BadInput(f"{path}: stormpy is too old; expected version 2 or later, by `pip install -U stormpy`")
    return stormpy


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Make one line of what Storm says, which it would also print."""
    import stormpy.developer as storm

    before = storm.get_log_level()
    storm.set_log_level(storm.LogLevel.OFF)
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^\w+Exception: ", "", " ".join(str(error).split()).rstrip(". "))
        line = re.search(r" at (?:line )?(\d+)[:,]", reason)
        raise BadFile(
            f"{path}{f', line {line[1]}' if line else ''}: Storm cannot build it ({short_line(reason, 160)}); expected "
            "a model of PRISM or JANI"
        ) from None
    finally:
        storm.set_log_level(before)


def _parsed(storm: Any, path: Path, folder: Path) -> Any:
    """Return the description in the file, which Storm reads without marks and stray bytes at its ends."""
    try:
        text = path.read_bytes().removeprefix(codecs.BOM_UTF8).rstrip(b"\x00\x1a")
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror or error})") from None
    plain = folder / path.name
    plain.write_bytes(text)
    if path.suffix.lower() == JANI:
        return storm.parse_jani_model(str(plain))[0]
    return storm.parse_prism_program(str(plain), prism_compatibility=True)


def _check_defined(path: Path, description: Any, grid: Mapping[str, object]) -> None:
    """Refuse constants without a value, and values for what is no open constant."""
    opened = [one.name for one in description.constants if not one.defined]
    for name in opened:
        if name not in grid:
            raise BadFile(
                f"{path}: the constant {name} has no value; expected const= or --const, such as {name}=0.1:0.1:0.5"
            )
    for name in grid:
        if name not in opened:
            known = f"one of {', '.join(opened)}" if opened else "none, as all have values"
            raise BadFile(f"{path}: {name} is no open constant; expected {known}")


def _build(storm: Any, path: Path, description: Any, constants: str, file: Path) -> None:
    """Build the model with these constants and write it as UMB."""
    from stormpy.io import export_to_umb

    chosen = storm.instantiate_constants(description, constants)[0] if constants else description
    kind = str(chosen.model_type).rpartition(".")[2]
    if kind not in KINDS:
        raise BadFile(f"{path}: the model is a {kind}; expected an MDP or a DTMC")
    options = storm.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_all_labels()
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    export_to_umb(storm.build_model(chosen, options=options), file)
