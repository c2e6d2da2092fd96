"""All commands, in the order of the help, with error messages and exit status."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn, cast

import typer

import rue
from rue.cli import models, policies
from rue.cli.compare import compare
from rue.cli.experiments import experiment, report
from rue.cli.insight import explain, explore
from rue.cli.options import Quiet
from rue.cli.plot import plot
from rue.cli.printing import complain
from rue.cli.progress import be_quiet
from rue.cli.smaller import simplify
from rue.cli.warm import warm
from rue.errors import RueError

COMMANDS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Models": (models.generate, models.learn, models.info, models.convert),
    "Policies": (
        policies.solve,
        policies.evaluate,
        compare,
        policies.verify,
        simplify,
        plot,
        explain,
        explore,
        policies.simulate,
    ),
    "Experiments": (report,),
    "Installation": (warm,),
}

# Printed at the end of the help of each command.
EXAMPLES = {
    "generate": "rue generate disaster --set width=8 --set height=8 --samples 15 --seed 1 -o d8.rue",
    "learn": "rue learn log.csv --initial new --goal done --samples 1000 --select 15 --seed 1 -o m.rue",
    "info": "rue info d8.rue",
    "convert": "rue convert s.rue policy.csv",
    "solve": "rue solve d8.rue --set gap=0.01 --seconds 60 -o s.rue",
    "evaluate": "rue evaluate d8.rue s.rue --test 100",
    "compare": "rue compare d8.rue --methods reg-d3,milp,adaptive --seconds 30 --report d8.html",
    "verify": "rue verify d8.rue s.rue",
    "plot": "rue plot d8.rue s.rue -o policy.png",
    "simplify": "rue simplify d8.rue s.rue --loss 0.02 -o small.rue",
    "explain": "rue explain d8.rue s.rue",
    "explore": "rue explore d8.rue s.rue -o explore.html",
    "warm": "rue warm --methods reg-d3,adaptive",
    "simulate": "rue simulate d8.rue s.rue --sample 3 --episodes 1000 --seed 0",
    "report": "rue report results -o report.html",
    "run": "rue experiment run experiments/paper-small.toml --store results --jobs 2",
    "tables": "rue experiment tables results --format markdown -o tables.md",
    "figures": "rue experiment figures results -o figures",
}
HELP = {"help_option_names": ["-h", "--help"]}


def _with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes --quiet too."""

    @wraps(command)
    def quiet_command(*, quiet: bool = False, **given: Any) -> None:
        be_quiet(quiet)
        command(**given)

    signature = inspect.signature(command)
    added = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    vars(quiet_command)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), added])
    quiet_command.__annotations__ = {**command.__annotations__, "quiet": Quiet}
    return quiet_command


app = typer.Typer(
    help="Plan when the model is uncertain: one policy with small worst-case regret over many possible models.",
    epilog="Example: `rue compare disaster:width=8,height=8,samples=15,seed=1`\n\n"
    "Exit status: 0 done, 1 not solved, 2 bad input, 130 broken off by Ctrl-C.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(
    experiment, name="experiment", rich_help_panel="Experiments", context_settings=HELP,
    epilog=f"Example: `{EXAMPLES['run']}`",
)  # fmt: skip
for known in (*app.registered_commands, *experiment.registered_commands):
    name = known.name or getattr(known.callback, "__name__", "")
    known.epilog = f"Example: `{EXAMPLES[name]}`" if name in EXAMPLES else None
    known.context_settings = HELP
    known.callback = _with_quiet(cast(Callable[..., None], known.callback))


@app.callback(invoke_without_command=True)
def _about(version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"rue {rue.__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and exit. Bad input is one line on standard error and status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that cannot show all characters
    try:
        status = _command()(prog_name="rue", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except RueError as error:
        message = str(error)
    except typer.Abort:
        sys.exit(130)
    except BrokenPipeError:  # the reader has ended, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        # Errors of the command-line parser; their class has another place in each version of typer.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()
    if message:
        complain(message)
    sys.exit(2)


def _command() -> Any:
    """Return the command of the parser; in its help, shell completion has a panel of its own."""
    command = typer.main.get_command(app)
    for parameter in command.params:
        if parameter.name in ("install_completion", "show_completion"):
            vars(parameter)["rich_help_panel"] = "Shell completion"
    return command
