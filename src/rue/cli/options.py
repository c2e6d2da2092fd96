"""Arguments and options of several commands."""

from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Argument(
        help="A .rue file, or a domain such as `disaster:width=8,height=8,samples=15,seed=1`.", show_default=False
    ),
]
PolicyFile = Annotated[
    str, typer.Argument(metavar="POLICY", help="A .rue file with a policy or a solution.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter; may be given more than once.")
]
By = Annotated[str, typer.Option(help="How to choose them: coverage, random or regret.")]
Test = Annotated[
    str | None,
    typer.Option(
        metavar="N|MODEL", help="Judge on N fresh draws of the model's domain, or on another model of the same graph.",
        show_default=False,
    ),
]  # fmt: skip
TestSeed = Annotated[
    int | None, typer.Option(help="Fixes the fresh draws; the domain's own plus one unless given.", show_default=False)
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write the result.", show_default=False)
]
ModelOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model.", show_default=False)
]
