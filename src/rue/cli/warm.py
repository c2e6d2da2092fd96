"""The command warm: compile before anything is needed."""

from typing import Annotated

import typer

from rue import parsing
from rue.cli.options import Json
from rue.cli.printing import print_json, say
from rue.cli.progress import CompileNotice
from rue.compilation import compile_ahead


def warm(
    methods: Annotated[
        str | None,
        typer.Option(help="Names with commas between them; what these need alone.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile everything now, which otherwise happens at the first use after installation."""
    solvers = None if methods is None else [parsing.parse_method(name) for name in methods.split(",") if name.strip()]
    with CompileNotice() as notice:
        done = compile_ahead(solvers, notice)
    if as_json:
        print_json({"kernels": done.kernels, "seconds": done.seconds, "folder": done.folder})
    else:
        where = f"kept in {done.folder}" if done.folder else "for this process alone: nothing can be kept"
        say(f"{done.kernels} kernels are ready after {done.seconds:.1f} s of the processor, {where}")
