"""Commands that make and describe models: generate, learn, info, convert."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, cast

import typer

import rue
from rue import parsing
from rue._check import size_text
from rue._text import one_line, quoted
from rue.cli.facts import say_diagnosis
from rue.cli.options import (
    Avoid,
    By,
    Const,
    Goal,
    Json,
    Model,
    ModelOutput,
    Reward,
    Settings,
    argument,
    file_options,
    option,
)
from rue.cli.outputs import Target
from rue.cli.printing import average_in_words, number, print_facts, print_json, say
from rue.cli.progress import ProgressBar
from rue.description import describe
from rue.domains import Domain
from rue.errors import BadInput, arguments_called
from rue.formats import endings
from rue.formats.logs import NEXT_STATE, Row, read_log
from rue.formats.weights import read_weights
from rue.solution import Progress

SELDOM = 10
HEAVIEST = 5  # samples whose weights are printed
ROWS_BETWEEN_REPORTS = 10_000
# What messages of the library call its arguments, and what they are called here.
FLAGS = {
    'another encoding= such as "cp1252"': "another --encoding such as cp1252",
    "episode= if the next row has it": "--episode if the next row has it",
    'end=, or unfinished="drop"': "--end, or --drop-unfinished",
    'it in goals, or unvisited="dead end"': "it as a --goal, or --dead-ends",
    "pass discount= to from_dense or Builder": "give a --discount",
    "cost_noise": "--cost-noise",
}


def generate(
    domain: Annotated[str, argument(help=f"{', '.join(Domain.known)}.")],
    seed: Annotated[int, option(help="Fixes the problem and its samples.")],
    output: ModelOutput,
    settings: Settings = None,
    samples: Annotated[int | None, option(help="How many samples; 15, or the forecasts of the glider.")] = None,
    pool: Annotated[int | None, typer.Option(help="Draw this number and choose the samples out of them.")] = None,
    by: By = "coverage",
    as_json: Json = False,
) -> None:
    """Draw samples of a built-in domain and write them to a file."""
    target = Target.check(output, "model", endings(rue.UMDP))
    given = parsing.parse_settings([f"seed={seed}", *(settings or ())])
    model = parsing.sample_domain(domain, given, samples=samples, pool=pool, by=by)
    written = target.write(lambda path: rue.save(path, model))
    if as_json:
        print_json({"file": written.file, **describe(model)})
    else:
        say(f"{written.file}: {model!r}")
    raise typer.Exit(written.tell())


def learn(
    log: Annotated[str, argument(metavar="LOG", help="A CSV file of logged transitions, with a header.")],
    initial: Annotated[str, option(metavar="STATE", help="Where every episode starts.")],
    seed: Annotated[int, option(help="Fixes the samples.")],
    output: ModelOutput,
    goal: Annotated[
        list[str] | None, option(metavar="STATE", help="Where an episode ends; may be given more than once.")
    ] = None,
    samples: Annotated[int, typer.Option(help="How many samples to draw from the posterior.")] = 1000,
    choose: Annotated[int | None, option("--select", help="Keep this number of them; all unless given.")] = None,
    by: By = "coverage",
    prior: Annotated[float, typer.Option(help="Pseudo-counts of each outcome.")] = 1.0,
    support: Annotated[
        str, typer.Option(help="Outcomes of a choice: state, what followed its state, or observed, what followed it.")
    ] = "state",
    cost_noise: Annotated[float, typer.Option(help="Noise of the costs, in standard errors of their mean.")] = 0.0,
    discount: Annotated[float | None, option(help="Discount future costs.")] = None,
    average: Annotated[
        float | None, option(help="Minimise the average cost per step, by a discount near 1 such as 0.9999.")
    ] = None,
    state: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns that make up the state.")] = "state",
    action: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns of the action.")] = "action",
    cost: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the cost.")] = "cost",
    next_state: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns of the next state.")] = NEXT_STATE,
    episode: Annotated[
        str | None, option(metavar="COLUMN", help="The next row with the same entry here has the next state.")
    ] = None,
    end: Annotated[str | None, option(metavar="STATE", help="The state after the last row of an episode.")] = None,
    drop_unfinished: Annotated[
        bool, typer.Option("--drop-unfinished", help="Leave out the last row of an episode that has no next state.")
    ] = False,
    dead_ends: Annotated[
        bool,
        typer.Option("--dead-ends", help="States that the log never leaves, and that are no goals, are dead ends."),
    ] = False,
    encoding: Annotated[str | None, option(help="Of the file, if not UTF-8 or UTF-16.")] = None,
    as_json: Json = False,
) -> None:
    """Draw samples from the posterior of logged transitions (state, action, cost, next state)."""
    target = Target.check(output, "model", endings(rue.UMDP), inputs=[log])
    with arguments_called(FLAGS):
        source = read_log(
            log, state=_columns(state), action=_columns(action), cost=cost, next_state=_columns(next_state),
            episode=episode, end=end, unfinished="drop" if drop_unfinished else "refuse", encoding=encoding,
        )  # fmt: skip
        with ProgressBar(as_json, math.inf) as progress:
            rows = CountedRows(source, progress)
            counts = rue.count_transitions(
                rows, initial=initial, goals=goal or (), unvisited="dead end" if dead_ends else "refuse"
            )
        model = rue.from_counts(
            counts, samples=samples, seed=seed, prior=prior, support=cast(Any, support), cost_noise=cost_noise,
            discount=discount, average=False if average is None else average,
        )  # fmt: skip
        model = model if choose is None else rue.select(model, choose, by=by, seed=seed)
    written = target.write(lambda path: rue.save(path, model))
    seldom = int((counts.tried < SELDOM).sum())
    if as_json:
        about = {"log": log, "rows": rows.count, "after_goal": counts.after_goal, "seldom_tried": seldom}
        print_json({**about, "file": written.file, **describe(model)})
    else:
        left_out = f" ({counts.after_goal} of them left out, after a goal)" if counts.after_goal else ""
        say(
            f"{log}: {rows.count} rows{left_out}, {counts.choice_ptr.size - 1} states, {counts.action.size} choices, "
            f"{seldom} of them tried fewer than {SELDOM} times"
        )
        say(f"{written.file}: {model!r}")
    raise typer.Exit(written.tell())


def info(
    model: Model,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Describe a model: its size, weights, whether one policy can reach the goal in all samples, duplicates."""
    facts = describe(parsing.read_model(model, file_options(goal, reward, avoid, const)))
    if as_json:
        print_json({"model": model, **facts})
        return
    diagnosis = facts.pop("diagnosis")
    print_facts({key.replace("_", " "): _in_words(key, value) for key, value in facts.items()})
    say_diagnosis(diagnosis)


def convert(
    source: Annotated[str, argument(metavar="IN", help="A file, or a folder with a file for each sample.")],
    target: Annotated[str, argument(metavar="OUT", help="A file whose ending says its format.")],
    weights: Annotated[
        str | None, option(metavar="FILE", help="A CSV file sample,weight: the probabilities of a model's samples.")
    ] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
) -> None:
    """Write a file in another format: policies as .json or .csv, models as docs/formats.md tells.

    Where a file of the format has one sample, several samples give a folder. With --weights, write a
    model whose samples have these weights, which are divided by their sum.
    """
    thing = rue.load(source, **file_options(goal, reward, avoid, const)._asdict())
    what = "model" if isinstance(thing, rue.UMDP) else "policy"
    if weights is not None:
        if not isinstance(thing, rue.UMDP):
            raise BadInput(f"{source}: it holds a {type(thing).__name__}; expected a model for --weights")
        thing = thing.with_weight(read_weights(weights, thing))
    written = Target.check(target, what, endings(type(thing)), inputs=[source]).write(
        lambda path: rue.save(path, thing)
    )
    raise typer.Exit(written.tell())


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


class CountedRows:
    """Rows of a log, counted while they are read, with a report every `ROWS_BETWEEN_REPORTS` rows."""

    def __init__(self, rows: Iterable[Row], progress: Callable[[Progress], None]) -> None:
        self._rows, self._progress = rows, progress
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        start = time.monotonic()
        for row in self._rows:
            self.count += 1
            if self.count % ROWS_BETWEEN_REPORTS == 0:
                self._progress(Progress(f"{self.count} rows read", time.monotonic() - start, self.count, None))
            yield row


def _units_in_words(units: Mapping[str, Any]) -> str:
    """Return what the costs of a model were made of."""
    words = "rewards" if units["reward"] else "costs"
    if units["shift"]:
        steps = number(units["steps"])
        words += f", each shifted by {number(units['shift'])}; every policy takes {steps} steps, on average"
    return f"{words}; each episode costs {number(units['constant'])} more" if units["constant"] else words


def _in_words(key: str, value: Any) -> str:
    """Return a fact of a model as text."""
    if key == "memory":
        return size_text(value)
    if key == "weights":
        heaviest = sorted(value, key=lambda name: -value[name])[:HEAVIEST]
        more = f", and {len(value) - HEAVIEST} more" if len(value) > HEAVIEST else ""
        return ", ".join(f"{quoted(one_line(name))}: {number(value[name])}" for name in heaviest) + more
    if key == "made_of":
        return _units_in_words(value)
    if key == "average":
        return average_in_words(value)
    if key in ("cost_range", "reward_range"):
        return f"{number(value[0])} to {number(value[1])}"
    if key == "proper_policy":
        known = "one policy reaches a goal in every sample"
        none = "none reaches a goal in every sample; each has one of its own"
        return {True: known, False: none, None: "not known; every sample has one of its own"}[value]
    if key == "duplicate_samples":
        return "; ".join(" = ".join(map(one_line, group)) for group in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(", ".join(str(item) for item in value) if isinstance(value, list) else str(value))
