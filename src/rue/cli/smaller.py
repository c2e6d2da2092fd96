"""The command simplify: a policy with fewer nodes."""

import math
from typing import Annotated, Any

import typer

import rue
from rue import parsing
from rue._text import percent_text
from rue.cli.options import Avoid, Const, Goal, Json, Model, Output, Reward, file_options, option
from rue.cli.outputs import Target
from rue.cli.printing import at_least, complain, number, print_facts, print_json, say
from rue.cli.progress import ProgressBar
from rue.errors import BadInput
from rue.formats import endings
from rue.policy import Policy
from rue.risk import check_tail
from rue.solution import Limits, Solution, policy_of


def simplify(
    model: Model,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A file with a policy or a solution.")],
    loss: Annotated[
        float | None, option(help="How much may be lost, as a part of the policy's max regret: 0.02 for 2 %.")
    ] = None,
    nodes: Annotated[int | None, option(help="The most nodes.")] = None,
    tail: Annotated[
        float | None, option(help="Count the mean regret over the worst part of this size, not the max regret.")
    ] = None,
    seconds: Annotated[float | None, option(help="Stop after these seconds with the smallest policy so far.")] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Find a policy with fewer nodes, judged in all samples. Ctrl-C stops with the smallest so far.

    With --loss it is the smallest one found whose max regret is within the loss, with --nodes the best one found with
    at most that many nodes, with both it is within the loss. The result is written as .rue, .json or .csv. Exit status:
    1 if it has more nodes than --nodes.
    """
    if loss is None and nodes is None:
        raise BadInput("neither a loss nor a number of nodes is given; expected --loss 0.02, --nodes 20 or both")
    if tail is not None:
        check_tail(tail)
    limits = Limits(math.inf if seconds is None else seconds)
    target = Target.check(output, "policy", endings(Policy), inputs=[model, policy])
    umdp = parsing.read_model(model, file_options(goal, reward, avoid, const))
    given = parsing.read_policy_or_solution(policy, umdp)
    large = policy_of(given)
    with ProgressBar(as_json, limits.seconds) as progress:
        small = rue.simplify(umdp, large, nodes, loss, tail=tail, limits=limits, progress=progress)
    written = target.write(lambda path: rue.save(path, small))
    before, after = ({"nodes": one.nodes, **_figures(umdp, one, tail)} for one in (large, small))
    figure = "max_regret" if tail is None else "tail"
    lost = after[figure] / before[figure] - 1 if 0 < before[figure] < math.inf else 0.0
    bound = given.max_regret.lower if isinstance(given, Solution) else None
    facts = {"before": before, "after": after, "loss": lost, "bound": bound}
    if as_json:
        print_json({"model": model, "policy": policy, "file": written.file, **facts})
    else:
        _print(facts, tail)
        if written.file is not None:
            say(f"written to {written.file}")
    missed = nodes is not None and small.nodes > nodes
    if missed:
        complain(f"no policy with at most {nodes} nodes was found; the smallest has {small.nodes}")
    raise typer.Exit(max(written.tell(), int(missed)))


def _figures(model: rue.UMDP, policy: Policy, tail: float | None) -> dict[str, float]:
    """Return what the judge says of a policy."""
    verdict = rue.evaluate(model, policy)
    figures = {"max_regret": verdict.max_regret, "mean_regret": verdict.mean_regret}
    return figures if tail is None else {**figures, "tail": verdict.tail(tail)}


def _print(facts: dict[str, Any], tail: float | None) -> None:
    """Print nodes and regrets before and after."""
    before, after, bound = facts["before"], facts["after"], facts["bound"]
    rows = {"nodes": f"{after['nodes']} instead of {before['nodes']}"}
    names = {"max regret": "max_regret", "mean regret": "mean_regret"}
    if tail is not None:
        names[f"mean of the worst {100 * tail:g} %"] = "tail"
    rows |= {name: f"{number(after[key])} instead of {number(before[key])}" for name, key in names.items()}
    rows["lost"] = percent_text(max(facts["loss"], 0.0))
    if bound is not None:
        rows["any policy"] = f"has a max regret of at least {at_least(bound)}, proved"
    print_facts(rows)
