"""Arguments and options of several commands."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from rue.parsing import FileOptions

# Without a default in the help: it has none, or the help text tells it.
argument = partial(typer.Argument, show_default=False)
option = partial(typer.Option, show_default=False)

Model = Annotated[
    str,
    argument(
        help="A .rue file, a file or folder in another format (see docs/formats.md), or a domain such as "
        "`disaster:width=8,height=8,samples=15,seed=1`."
    ),
]
PolicyFile = Annotated[str, argument(metavar="POLICY", help="A file with a policy or a solution: .rue, .json or .csv.")]
Goal = Annotated[
    str | None, option("--goal", metavar="LABEL", help="The label of goals, where a file has several labels.")
]
Reward = Annotated[
    str | None, option("--reward", metavar="NAME", help="The rewards that are costs, where a file has several.")
]
Avoid = Annotated[
    str | None,
    option(
        "--avoid",
        metavar="LABEL",
        help='Maximise the probability of a goal before states with this label; "" if there are none to avoid.',
    ),
]
Const = Annotated[
    list[str] | None,
    option(
        "--const",
        metavar="p=0.1:0.1:0.5",
        help="Constants of a .prism or .jani model; each combination is a sample. May be given more than once.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Nothing on standard error but errors: no progress, no warnings.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter; may be given more than once.")
]
By = Annotated[str, typer.Option(help="How to choose them: coverage, random or regret.")]
Test = Annotated[
    str | None,
    option(
        metavar="N|MODEL", help="Judge on N fresh draws of the model's domain, or on another model of the same graph."
    ),
]
TestSeed = Annotated[int | None, option(help="Fixes the fresh draws; the domain's own plus one unless given.")]
Output = Annotated[str | None, option("--output", "-o", metavar="FILE", help="Where to write the result.")]
ModelOutput = Annotated[str, option("--output", "-o", metavar="FILE", help="Where to write the model.")]
Jobs = Annotated[int | None, option(metavar="N", help="Processes on this machine; one, unless given.")]
Scheduler = Annotated[str | None, option(metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786.")]
Block = Annotated[int | None, option(metavar="N", help="Judge this number of samples at a time.")]


def file_options(goal: str | None, reward: str | None, avoid: str | None, const: Sequence[str] | None) -> FileOptions:
    """Return what to take of a file, as it is given on the command line."""
    return FileOptions(goal, reward, tuple(const) if const else None, avoid)
