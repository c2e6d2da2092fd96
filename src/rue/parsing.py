"""Read what users type: `reg-s1`, `disaster:width=8,seed=1` and `steps=3` become solvers, models and settings.

The parameters of a solver or domain are the fields of its dataclass. An unknown name is an error that suggests the
nearest known one. A domain needs a seed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from rue._check import one_of, text_path
from rue.certificate import Certificate
from rue.domains import Domain
from rue.domains.base import TRAINING
from rue.errors import BadInput, unknown_name
from rue.formats import folder_format, load
from rue.given import GivenPolicy
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.recursion.n_step import OPTION_KINDS
from rue.selection import WAYS, select
from rue.solution import Solution, Solver
from rue.worlds import Source

T = TypeVar("T")

# The methods of `rue compare`, unless others are asked for.
METHODS = (
    "reg-d1", "reg-d2", "reg-d3", "reg-s1", "reg-h1", "reg-h2", "reg-h3", "reg-h4", "cemr-d1", "cemr-d2", "cemr-d3",
    "cemr-s1", "robust", "milp", "average", "best", "mixture", "adaptive",
)  # fmt: skip
# A domain with more samples than these is drawn in blocks.
MANY_SAMPLES = 10_000
SHORT = re.compile(r"(?P<name>[a-z]+)[- ](?P<options>[a-z])(?P<steps>\d+)")
LETTERS = {name[0]: name for name in OPTION_KINDS}


class FileOptions(NamedTuple):
    """What to take of a file that has several things to take, as `rue.load` has it."""

    goal: str | None = None
    reward: str | None = None
    const: tuple[str, ...] | None = None
    avoid: str | None = None


NO_OPTIONS = FileOptions()


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return `["width=8", "by=coverage"]` as a dictionary; numbers, booleans and `none` are converted."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"the setting {pair!r} has no value; expected NAME=VALUE")
        if key.strip() in settings:
            raise BadInput(f"the setting {key.strip()} is given twice; expected it once")
        settings[key.strip()] = _value(text.strip())
    return settings


def parse_method(text: str, settings: Mapping[str, Any] | None = None) -> Solver:
    """Return a solver by its name, or by a short form such as `reg-s1` (stochastic options of one step)."""
    given = dict(settings or {})
    name = text.strip()
    short = SHORT.fullmatch(name)
    if short and short["options"] in LETTERS:
        name = short["name"]
        given = {"steps": int(short["steps"]), "options": LETTERS[short["options"]], **given}
    return _known("method", name, Solver.known, given)(**given)


def short_name(solver: Solver) -> str:
    """Return the short form of a solver: `reg-d1`, `average`; of a given policy, the name of its file."""
    if isinstance(solver, GivenPolicy):
        return Path(solver.file).name
    steps, options = getattr(solver, "steps", None), getattr(solver, "options", None)
    plain = steps is None or (solver.name == "robust" and steps == 1 and options == "deterministic")
    return solver.name if plain else f"{solver.name}-{str(options)[0]}{steps}"


def make_domain(name: str, settings: Mapping[str, Any]) -> Domain:
    """Return a domain by its name and parameters."""
    domain = _known("domain", name, Domain.known, settings)
    if "seed" not in settings:
        raise BadInput(f"the seed of {name} is missing; expected seed=1, or another whole number")
    return domain(**settings)


def sample_domain(
    name: str, settings: Mapping[str, Any], *, samples: int | None = None, pool: int | None = None, by: str = "coverage"
) -> UMDP:
    """Return training samples of a domain, drawn with its seed; with a `pool`, selected from that many draws."""
    domain = make_domain(name, settings)
    one_of("way to select samples", by, WAYS)
    if pool is None:
        return domain.training(samples, seed=domain.seed)
    wanted = TRAINING if samples is None else samples
    return select(domain.sample(pool, seed=domain.seed), wanted, by=by, seed=domain.seed)


def read_model(text: str, options: FileOptions = NO_OPTIONS) -> UMDP:
    """Return the model in a file, or draw one from a domain: `disaster:width=8,height=8,samples=15,seed=1`."""
    if not _is_domain(text):
        return cast(UMDP, _read(text, UMDP, "model", given=options))
    if options != NO_OPTIONS:
        raise BadInput(f"a label, a reward or constants are given for the domain {text}; expected them for a file")
    name, _, rest = text.partition(":")
    settings = _domain_settings(rest)
    extra = {key: settings.pop(key) for key in ("samples", "pool", "by") if key in settings}
    return sample_domain(name, settings, **extra)


def are_draws(text: str) -> bool:
    """Return whether the samples of a model that `read_model` makes of a text are surely independent draws.

    They are if a domain draws them, and none is selected. How those of a file were made is not known.
    """
    name, _, rest = text.partition(":")
    return _is_domain(text) and Domain.known[name].draws_training and "pool" not in _domain_settings(rest)


def read_model_or_source(text: str, block: int | None = None, options: FileOptions = NO_OPTIONS) -> UMDP | Source:
    """Return what `read_model` returns, or a source if there are many samples, a folder is named or `block` is given.

    A domain with more than 10,000 samples is drawn in blocks, each with a seed derived from the domain's own, so that
    they are other draws than those of a model. In a folder, each file is a block, unless its format has
    one sample in a file: then all are one model. A file is cut into blocks.
    """
    if options != NO_OPTIONS and (_is_domain(text) or is_folder(text)):
        raise BadInput(f"a label, a reward or constants are given for {text}; expected them for a file of other tools")
    if _is_domain(text):
        name, _, rest = text.partition(":")
        settings = _domain_settings(rest)
        samples = settings.get("samples", TRAINING)
        is_many = isinstance(samples, int) and samples > MANY_SAMPLES and "pool" not in settings
        return _read_source(name, settings, block) if is_many or block is not None else read_model(text, options)
    if is_folder(text):
        if block is not None:
            raise BadInput(f"block is {block} for the folder {text}; expected none, as each file is a block")
        return Source.from_files(text)
    model = read_model(text, options)
    return model if block is None else Source.from_model(model, block)


def is_folder(text: str) -> bool:
    """Return whether the text for a model names a folder of blocks."""
    return (
        not _is_domain(text) and _exists(text) and text_path(text).is_dir() and folder_format(text_path(text)) is None
    )


def _read_source(name: str, settings: dict[str, Any], block: int | None) -> Source:
    """Return draws of a domain in blocks."""
    for key in ("pool", "by"):
        if key in settings:
            raise BadInput(f"{key} is {settings[key]!r} for samples in blocks; expected none, as all of them count")
    samples = settings.pop("samples", TRAINING)
    domain = make_domain(name, settings)
    return Source.from_domain(domain, samples, seed=domain.seed, block=block)


def domain_of(model: UMDP) -> Domain | None:
    """Return the domain that a model was drawn from, or None if its layout names none."""
    spec = model.graph.layout.get("domain")
    if not isinstance(spec, str):
        return None
    name, _, rest = spec.partition(":")
    return make_domain(name, _domain_settings(rest))


def draw_unseen(model: UMDP, count: int, seed: int | None = None) -> UMDP:
    """Draw new samples from the domain of a model, by default with the seed after the domain's own."""
    domain = domain_of(model)
    if domain is None:
        raise BadInput(
            f"the model does not say which domain it is of; expected a model in place of {count} fresh draws"
        )
    if seed == domain.seed and domain.draws_training:
        raise BadInput(f"the seed of the fresh draws is {seed}, with which the model was drawn; expected another")
    return domain.sample(count, seed=domain.seed + 1 if seed is None else seed)


def read_policy_or_solution(path: str, model: UMDP | Source) -> Policy | Solution:
    """Return the policy or the solution in a file, for a model."""
    return cast(Policy | Solution, _read(path, Policy | Solution, "policy or a solution", model.graph))


def read_solution(path: str) -> Solution:
    """Return the solution in a file."""
    return cast(Solution, _read(path, Solution, "solution"))


def read_certificate(path: str) -> Certificate:
    """Return the certificate in the file of a solution."""
    solution = read_solution(path)
    if solution.certificate is None:
        raise BadInput(f"{path}: nothing was proved about other policies; expected a solution with a certificate")
    return solution.certificate


def parse_sample(text: str, model: UMDP) -> int:
    """Return the number of the only sample that is named."""
    found = parse_samples(text, model)
    if len(found) != 1:
        raise BadInput(f"there are {len(found)} samples; expected one, the true one")
    return found[0]


def parse_samples(text: str, model: UMDP) -> list[int]:
    """Return the numbers of samples that are called by their names, or by numbers from 0, with commas between them."""
    known = {model.sample_name(k): k for k in range(model.samples)}
    if text in known:  # a name may have commas
        return [known[text]]
    return [known[name] if name in known else _number_of(name, known) for name in map(str.strip, text.split(","))]


def _number_of(name: str, known: Mapping[str, int]) -> int:
    try:
        return int(name)
    except ValueError:
        raise unknown_name("sample", name, known) from None


def _known(kind: str, name: str, known: Mapping[str, type[T]], given: Iterable[str]) -> type[T]:
    """Return the class of that name; refuse an unknown name, or a parameter that the class does not have."""
    if name not in known:
        raise unknown_name(kind, name, known)
    parameters = [field.name for field in fields(cast(Any, known[name]))]
    for key in given:
        if key not in parameters:
            raise unknown_name(f"parameter of {name}", key, parameters)
    return known[name]


def _is_domain(text: str) -> bool:
    """Return whether the text names a domain, not a file."""
    name, colon, _ = text.partition(":")
    # One letter and a colon are a drive of Windows.
    return bool((colon or text in Domain.known) and not _exists(text) and "/" not in name and len(name) > 1)


def _exists(path: str) -> bool:
    """Return whether the file exists; text that cannot be a file name, such as one that is too long, has no file."""
    try:
        return text_path(path).exists()
    except (OSError, ValueError):
        return False


def _domain_settings(text: str) -> dict[str, Any]:
    return parse_settings(part for part in text.split(",") if part)


def _read(path: str, wanted: Any, what: str, graph: Graph | None = None, given: FileOptions = NO_OPTIONS) -> Any:
    thing = load(path, graph, **given._asdict())
    if not isinstance(thing, wanted):
        raise BadInput(f"{path}: it holds a {type(thing).__name__}; expected a {what}")
    return thing


def _value(text: str) -> Any:
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
