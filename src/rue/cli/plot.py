"""The command plot: figures of policies."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import rue
from rue import parsing
from rue._check import one_of
from rue._text import distinct
from rue.certificate import model_fingerprint
from rue.cli.options import Avoid, Const, Goal, Model, Reward, argument, file_options, option
from rue.cli.outputs import PICTURES, Target
from rue.cli.printing import say
from rue.cli.progress import ProgressBar
from rue.errors import BadInput
from rue.given import read_policy
from rue.model import UMDP
from rue.policy import Policy
from rue.simulation import Paths
from rue.solution import Solution, policy_of

KINDS = ("map", "regret", "bounds", "belief", "trajectory", "graph", "frontier")
MOST_STEPS = 10_000  # of an episode in a picture
EPISODES = ("belief", "trajectory")  # kinds that need episodes
WITH_EPISODES = "a belief or a trajectory"


def plot(
    model: Model,
    policies: Annotated[list[str], argument(metavar="POLICY...", help="Files with policies or solutions.")],
    output: Annotated[str, option("--output", "-o", metavar="FILE", help="A .png, .svg or .pdf file.")],
    kind: Annotated[
        str | None,
        option(
            help="map: actions of the policy on a grid; regret: bars for each sample, of one or more policies; bounds: "
            "bounds over time, of solutions; belief: in each sample, over the steps of episodes; trajectory: where "
            "episodes went; graph: a small policy as boxes and arrows; frontier: max regret over the number of nodes, "
            "of smaller policies, which takes seconds to minutes. Unless given, a map, or regret for other models and "
            "several policies."
        ),
    ] = None,
    samples: Annotated[
        str | None,
        option(
            metavar="0,3|all",
            help="Samples on the map, by name or number from 0, one panel each; or the true sample of a "
            "belief or trajectory.",
        ),
    ] = None,
    steps: Annotated[str | None, option(metavar="0,5,10", help="One panel for each time step, in one sample.")] = None,
    episodes: Annotated[int | None, option(help="Of a belief or trajectory; one unless given.")] = None,
    seed: Annotated[int | None, option(help="Fixes the episodes of a belief or trajectory.")] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
) -> None:
    """Draw a policy on a map or as a graph, its regrets, bounds over time, beliefs, trajectories, or smaller ones."""
    target = Target.check(output, "picture", PICTURES, inputs=[model, *policies])
    umdp = parsing.read_model(model, file_options(goal, reward, avoid, const))
    usual = "map" if len(policies) == 1 and "grid" in umdp.graph.layout else "regret"
    chosen = one_of("kind of picture", kind or usual, KINDS)
    if (chosen != "map" and steps) or (chosen not in ("map", *EPISODES) and samples):
        raise BadInput(f"samples or steps are given for a picture of {chosen}; expected them with a map")
    if chosen not in EPISODES and (episodes is not None or seed is not None):
        raise BadInput(f"episodes or a seed are given for a picture of {chosen}; expected them with {WITH_EPISODES}")
    if chosen not in ("bounds", "regret") and len(policies) > 1:
        raise BadInput(f"{len(policies)} policies are given; expected one for a {chosen}, or --kind regret")
    from rue import report  # imports matplotlib

    if chosen in EPISODES:
        truth = None if samples is None else parsing.parse_samples(samples, umdp)
        paths = _paths_of(umdp, read_policy(policies[0], umdp), truth, episodes, seed)
        figure = (report.draw_belief if chosen == "belief" else report.draw_trajectory)(paths)
    elif chosen == "graph":
        figure = report.draw_graph(umdp, read_policy(policies[0], umdp))
    elif chosen == "bounds":
        figure = report.draw_bounds({name: parsing.read_solution(path) for name, path in _names(policies).items()})
    elif chosen == "regret":
        regrets, bound = _regrets_of(umdp, policies)
        figure = report.draw_regrets(umdp, regrets, bound=bound)
    elif chosen == "frontier":
        _, bound = _regrets_of(umdp, policies)
        with ProgressBar(silent=False, seconds=math.inf) as progress:
            points = rue.frontier(umdp, read_policy(policies[0], umdp), progress=progress)
        figure = report.draw_frontier(points, bound=bound)
    else:
        figure = report.draw_map(
            umdp,
            read_policy(policies[0], umdp),
            samples=_samples_on_map(umdp, samples),
            steps=_whole_numbers("steps", steps),
        )
    written = target.write(lambda path: report.save_figure(figure, path))
    say(f"{written.file}: {chosen}")
    raise typer.Exit(written.tell())


def _paths_of(
    model: UMDP, policy: Policy, samples: Sequence[int] | None, episodes: int | None, seed: int | None
) -> Paths:
    """Return episodes in a sample: the given one, or that with the largest regret."""
    if seed is None:
        raise BadInput(f"the seed of {WITH_EPISODES} is missing; expected --seed 1, or another whole number")
    if samples is not None and len(samples) != 1:
        raise BadInput(f"there are {len(samples)} samples; expected one, the true one, for {WITH_EPISODES}")
    sample = rue.evaluate(model, policy).worst_sample if samples is None else samples[0]
    count = 1 if episodes is None else episodes
    paths = rue.simulate(
        model, policy, sample=sample, episodes=count, seed=seed, max_steps=MOST_STEPS, paths=True
    ).paths
    assert paths is not None
    return paths


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Return the files by a short name: without folder and ending, if these names differ."""
    stems = [Path(path).stem for path in paths]
    return dict(zip(stems if len(set(stems)) == len(stems) else distinct(paths), paths, strict=True))


def _regrets_of(model: UMDP, paths: Sequence[str]) -> tuple[dict[str, Sequence[float]], float | None]:
    """Return the regrets of policies, and the best bound for all policies that one of their files has."""
    regrets, bound = {}, 0.0
    for name, path in _names(paths).items():
        thing = parsing.read_policy_or_solution(path, model)
        regrets[name] = rue.evaluate(model, policy_of(thing)).regret.tolist()
        proof = thing.certificate if isinstance(thing, Solution) else None
        if proof is not None and proof.objective == "regret" and proof.fingerprint == model_fingerprint(model):
            bound = max(bound, proof.bound)
    return regrets, bound or None


def _samples_on_map(model: UMDP, text: str | None) -> Sequence[int] | None:
    if text is None:
        return None
    return range(model.samples) if text == "all" else parsing.parse_samples(text, model)


def _whole_numbers(name: str, text: str | None) -> list[int] | None:
    """Return the numbers of a text such as `0,3,5`."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{name} is {text!r}; expected whole numbers with commas between them, such as 0,3") from None
