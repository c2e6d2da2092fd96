"""The command plot: figures of policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import rue
from rue import parsing
from rue._check import one_of
from rue.certificate import model_fingerprint
from rue.cli.options import Model, argument, option
from rue.cli.outputs import PICTURES, Target
from rue.cli.printing import distinct, say
from rue.errors import BadInput
from rue.given import read_policy
from rue.model import UMDP
from rue.solution import Solution


def plot(
    model: Model,
    policies: Annotated[list[str], argument(metavar="POLICY...", help="Files with policies or solutions.")],
    output: Annotated[str, option("--output", "-o", metavar="FILE", help="A .png, .svg or .pdf file.")],
    kind: Annotated[
        str | None,
        option(
            help="map: actions of the policy on a grid; regret: bars for each sample, of one or more policies; bounds: "
            "bounds over time, of solutions. Unless given, a map, or regret for other models and several policies."
        ),
    ] = None,
    samples: Annotated[str | None, option(metavar="0,3|all", help="Samples on the map, one panel each.")] = None,
    steps: Annotated[str | None, option(metavar="0,5,10", help="One panel for each time step, in one sample.")] = None,
) -> None:
    """Draw the actions of a policy on a map, its regret in each sample, or its bounds over time."""
    target = Target.check(output, "picture", PICTURES, inputs=[model, *policies])
    umdp = parsing.read_model(model)
    usual = "map" if len(policies) == 1 and "grid" in umdp.graph.layout else "regret"
    chosen = one_of("kind of picture", kind or usual, ("map", "regret", "bounds"))
    if chosen != "map" and (samples or steps):
        raise BadInput(f"samples or steps are given for a picture of {chosen}; expected them with a map")
    from rue import report  # imports matplotlib

    if chosen == "bounds":
        figure = report.draw_bounds({name: parsing.read_solution(path) for name, path in _names(policies).items()})
    elif chosen == "regret":
        regrets, bound = _regrets_of(umdp, policies)
        figure = report.draw_regrets(umdp, regrets, bound=bound)
    elif len(policies) > 1:
        raise BadInput(f"{len(policies)} policies are given; expected one for a map, or --kind regret")
    else:
        figure = report.draw_map(
            umdp,
            read_policy(policies[0], umdp),
            samples=range(umdp.samples) if samples == "all" else _whole_numbers("samples", samples),
            steps=_whole_numbers("steps", steps),
        )
    written = target.write(lambda path: report.save_figure(figure, path))
    say(f"{written.file}: {chosen}")
    raise typer.Exit(written.tell())


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Return the files by a short name: without folder and ending, if these names differ."""
    stems = [Path(path).stem for path in paths]
    return dict(zip(stems if len(set(stems)) == len(stems) else distinct(paths), paths, strict=True))


def _regrets_of(model: UMDP, paths: Sequence[str]) -> tuple[dict[str, Sequence[float]], float | None]:
    """Return the regrets of policies, and the best bound for all policies that one of their files has."""
    regrets, bound = {}, 0.0
    for name, path in _names(paths).items():
        thing = parsing.read_policy_or_solution(path, model)
        policy = thing.policy if isinstance(thing, Solution) else thing
        regrets[name] = rue.evaluate(model, policy).regret.tolist()
        proof = thing.certificate if isinstance(thing, Solution) else None
        if proof is not None and proof.objective == "regret" and proof.fingerprint == model_fingerprint(model):
            bound = max(bound, proof.bound)
    return regrets, bound or None


def _whole_numbers(name: str, text: str | None) -> list[int] | None:
    """Return the numbers of a text such as `0,3,5`."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{name} is {text!r}; expected whole numbers with commas between them, such as 0,3") from None
