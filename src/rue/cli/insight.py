"""Commands that look into a policy: explain."""

from typing import Annotated

import typer

import rue
from rue import parsing
from rue.cli.options import Json, Model, argument
from rue.cli.printing import print_json, say

Solution = Annotated[str, argument(metavar="SOLUTION", help="A file with a solution or a policy.")]


def explain(
    model: Model,
    solution: Solution,
    entries: Annotated[int, typer.Option(help="The most entries of each list.")] = 5,
    as_json: Json = False,
) -> None:
    """Say why a policy has its regret: which samples matter, where they disagree, and what is paid for.

    If a regret is infinite, also where the policy is lost, which samples clash, and the way out.
    """
    umdp, found = parsing.read_model(model), parsing.read_policy_or_solution(solution)
    explanation = rue.explain(umdp, found, entries=entries)
    if as_json:
        print_json({"model": model, "solution": solution, **explanation.facts()})
        return
    for title, lines in explanation.sections().items():
        say(title, style="bold")
        for line in lines:
            say(f"- {line}")
