"""All commands, in the order of the help, and how they end."""

import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

import rue
from rue.cli import models, policies
from rue.cli.compare import compare
from rue.cli.experiments import experiment, report
from rue.cli.plot import plot
from rue.cli.printing import complain
from rue.cli.warm import warm
from rue.errors import RueError

COMMANDS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Models": (models.generate, models.learn, models.info, models.convert),
    "Policies": (policies.solve, policies.evaluate, compare, policies.verify, plot, policies.simulate),
    "Experiments": (report,),
    "Installation": (warm,),
}

app = typer.Typer(
    help="Plan when the model is uncertain: one policy with small worst-case regret over many possible models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(experiment, name="experiment", rich_help_panel="Experiments")


@app.callback(invoke_without_command=True)
def _about(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"rue {rue.__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line; anything that is wrong with the input is one line on standard error and status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a plain terminal shows strange names as it can
    try:
        status = app(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except RueError as error:
        message = str(error)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # The command-line parser's own complaints; typer has moved their class about between versions.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()
    if message:
        complain(message)
    sys.exit(2)
