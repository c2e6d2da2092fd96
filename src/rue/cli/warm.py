"""The command warm: compile all kernels ahead of use."""

from typing import Annotated

from rue import parsing
from rue.cli.options import Json, option
from rue.cli.printing import print_json, say
from rue.cli.progress import CompileNotice
from rue.compilation import compile_ahead


def warm(
    methods: Annotated[str | None, option(help="Names with commas between them: compile only what these need.")] = None,
    as_json: Json = False,
) -> None:
    """Compile all kernels now; otherwise they are compiled at the first use after installation."""
    solvers = None if methods is None else [parsing.parse_method(name) for name in methods.split(",") if name.strip()]
    with CompileNotice() as notice:
        done = compile_ahead(solvers, notice)
    if as_json:
        print_json({"kernels": done.kernels, "seconds": done.seconds, "folder": done.folder})
    else:
        where = f"kept in {done.folder}" if done.folder else "for this process alone: nothing can be kept"
        say(f"{done.kernels} kernels are ready after {done.seconds:.1f} s of the processor, {where}")
