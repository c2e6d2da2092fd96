"""Commands that look into a policy: explain, explore."""

import math
from pathlib import Path
from typing import Annotated

import typer

import rue
from rue import parsing
from rue._check import size_text
from rue._text import one_line
from rue.cli.options import Avoid, Const, Goal, Json, Model, Reward, argument, file_options, option
from rue.cli.outputs import PAGES, Target
from rue.cli.printing import print_json, say
from rue.cli.progress import ProgressBar
from rue.formats.writing import write_text
from rue.solution import Limits

SolutionFile = Annotated[str, argument(metavar="SOLUTION", help="A file with a solution or a policy.")]
LARGE_PAGE = 5_000_000  # bytes


def explain(
    model: Model,
    solution: SolutionFile,
    entries: Annotated[int, typer.Option(help="The most entries of each list.")] = 5,
    seconds: Annotated[
        float | None, option(help="Leave out the samples for which these seconds do not suffice.")
    ] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Say why a policy has its regret: which samples matter, where they disagree, and what is paid for.

    If a regret is infinite, also where the policy is lost, which samples clash, and the way out. Ctrl-C stops with the
    samples so far.
    """
    limits = Limits(math.inf if seconds is None else seconds)
    umdp = parsing.read_model(model, file_options(goal, reward, avoid, const))
    found = parsing.read_policy_or_solution(solution, umdp)
    with ProgressBar(as_json, limits.seconds) as progress:
        explanation = rue.explain(umdp, found, entries=entries, limits=limits, progress=progress)
    if as_json:
        print_json({"model": model, "solution": solution, **explanation.facts()})
        return
    for title, lines in explanation.sections().items():
        say(title, style="bold")
        for line in lines:
            say(f"- {line}")


def explore(
    model: Model,
    solution: SolutionFile,
    output: Annotated[str, option("--output", "-o", metavar="FILE", help="An .html file.")],
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
) -> None:
    """Write a page in which the policy is played step by step, in any sample, with its belief, cost and regret.

    The page is one file and needs no network. A large one is announced with its size before it is written.
    """
    target = Target.check(output, "page", PAGES, inputs=[model, solution])
    umdp = parsing.read_model(model, file_options(goal, reward, avoid, const))
    found = parsing.read_policy_or_solution(solution, umdp)
    from rue.explorer import explorer_page  # imports matplotlib

    page = explorer_page(umdp, found, title=one_line(" · ".join(Path(name).name for name in (model, solution))))
    size = len(page.encode())
    if size > LARGE_PAGE:
        say(f"the page has {size_text(size)}")
    written = target.write(lambda path: write_text(path, page))
    say(f"{written.file}: {size_text(size)}; open it in a browser")
    raise typer.Exit(written.tell())
