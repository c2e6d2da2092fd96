"""The command line: thin. It reads what people type, calls the library, and prints.

Human output goes through rich; `--json` prints one JSON object on standard output and nothing else. Exit status: 0
done, 1 not solved, 2 bad input with one line on standard error.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

import rue
from rue import experiments, specs
from rue._check import one_of
from rue._plain import plain
from rue.certificate import model_fingerprint
from rue.domains import DOMAINS
from rue.errors import BadInput, RueError
from rue.evaluate import Evaluation
from rue.info import common_samples, describe, has_duplicates
from rue.io.files import write_text
from rue.io.logs import NEXT_STATE, Row, read_log
from rue.model import UMDP
from rue.solution import Interval, Limits, Progress, Solution, Solver, Status
from rue.solvers import solve as run_solver
from rue.warm import warm_up

app = typer.Typer(
    help="Plan when the model is uncertain: one policy with small worst-case regret over many possible models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

MODELS, POLICIES, EXPERIMENTS = "Models", "Policies", "Experiments"
LONGEST_LIST = 30
SECONDS_BETWEEN_LINES = 30.0
OBJECTIVE = " The objective is what the method itself minimises, at most; for reg it bounds the regret."
SELDOM = 10

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
Seconds = Annotated[float | None, typer.Option(help="Stop after so many seconds with the best policy so far.")]
Test = Annotated[
    str | None,
    typer.Option(
        metavar="N|MODEL", help="Judge on N fresh draws of the model's domain, or on another model of the same graph.",
        show_default=False,
    ),
]  # fmt: skip
TestSeed = Annotated[
    int | None, typer.Option(help="Fixes the fresh draws; the domain's own and one unless given.", show_default=False)
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write the result.", show_default=False)
]


@app.callback(invoke_without_command=True)
def _about(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"rue {rue.__version__}")
        raise typer.Exit


@app.command(rich_help_panel=MODELS)
def generate(
    domain: Annotated[str, typer.Argument(help=f"{', '.join(DOMAINS)}.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Fixes the problem and its samples.", show_default=False)],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model.", show_default=False)
    ],
    settings: Settings = None,
    samples: Annotated[
        int | None, typer.Option(help="How many samples; 15, or the forecasts of the glider.", show_default=False)
    ] = None,
    pool: Annotated[int | None, typer.Option(help="Draw so many and choose the samples out of them.")] = None,
    by: Annotated[str, typer.Option(help="How to choose them: coverage, random or regret.")] = "coverage",
    as_json: Json = False,
) -> None:
    """Draw samples of a built-in domain and write them to a file."""
    given = specs.parse_settings([f"seed={seed}", *(settings or ())])
    model = specs.sample_domain(domain, given, samples=samples, pool=pool, by=by)
    rue.save(output, model)
    if as_json:
        _print_json({"file": output, **describe(model)})
    else:
        _console().print(f"{output}: {model!r}", soft_wrap=True)


@app.command(rich_help_panel=MODELS)
def learn(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A CSV file of logged transitions, with a header.", show_default=False)
    ],
    initial: Annotated[str, typer.Option(metavar="STATE", help="Where every episode starts.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Fixes the samples.", show_default=False)],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model.", show_default=False)
    ],
    goal: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Where an episode ends; may be given more than once.", show_default=False),
    ] = None,
    samples: Annotated[int, typer.Option(help="How many samples to draw from the posterior.")] = 1000,
    choose: Annotated[
        int | None, typer.Option("--select", help="Keep so many of them; all unless given.", show_default=False)
    ] = None,
    by: Annotated[str, typer.Option(help="How to choose them: coverage, random or regret.")] = "coverage",
    prior: Annotated[float, typer.Option(help="Pseudo-counts of each outcome.")] = 1.0,
    support: Annotated[
        str, typer.Option(help="Outcomes of a choice: state, what followed its state, or observed, what followed it.")
    ] = "state",
    cost_noise: Annotated[float, typer.Option(help="Noise of the costs, in standard errors of their mean.")] = 0.0,
    discount: Annotated[float | None, typer.Option(help="Discount future costs.", show_default=False)] = None,
    state: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns that make up the state.")] = "state",
    action: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns of the action.")] = "action",
    cost: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the cost.")] = "cost",
    next_state: Annotated[str, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns of the next state.")] = NEXT_STATE,
    episode: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The next row with the same entry here has the next state.", show_default=False
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="The state after the last row of an episode.", show_default=False),
    ] = None,
    drop_unfinished: Annotated[
        bool, typer.Option("--drop-unfinished", help="Leave out the last row of an episode that has no next state.")
    ] = False,
    dead_ends: Annotated[
        bool,
        typer.Option("--dead-ends", help="States that the log never leaves, and that are no goals, are dead ends."),
    ] = False,
    encoding: Annotated[
        str | None, typer.Option(help="Of the file, if not UTF-8 or UTF-16.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw samples from the posterior of logged transitions (state, action, cost, next state)."""
    source = read_log(
        log, state=_columns(state), action=_columns(action), cost=cost, next_state=_columns(next_state),
        episode=episode, end=end, unfinished="drop" if drop_unfinished else "refuse", encoding=encoding,
    )  # fmt: skip
    with _ProgressBar(as_json, math.inf) as progress:
        rows = _CountedRows(source, progress)
        counts = rue.count_transitions(
            rows, initial=initial, goals=goal or (), unvisited="dead end" if dead_ends else "refuse"
        )
    model = rue.from_counts(
        counts, samples=samples, seed=seed, prior=prior, support=cast(Any, support), cost_noise=cost_noise,
        discount=discount,
    )  # fmt: skip
    model = model if choose is None else rue.select(model, choose, by=by, seed=seed)
    rue.save(output, model)
    seldom = int((counts.tried < SELDOM).sum())
    if as_json:
        _print_json({"log": log, "rows": rows.count, "seldom_tried": seldom, "file": output, **describe(model)})
        return
    console = _console()
    console.print(
        f"{log}: {rows.count} rows, {counts.choice_ptr.size - 1} states, {counts.action.size} choices, {seldom} of "
        f"them tried fewer than {SELDOM} times",
        soft_wrap=True,
    )
    console.print(f"{output}: {model!r}", soft_wrap=True)


@app.command(rich_help_panel=MODELS)
def info(model: Model, as_json: Json = False) -> None:
    """Say what a model is: its size, whether one policy can reach the goal in all samples, duplicates."""
    facts = describe(specs.read_model(model))
    if as_json:
        _print_json({"model": model, **facts})
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), _in_words(key, value))
    _console().print(table)


@app.command(rich_help_panel=POLICIES)
def solve(
    model: Model,
    method: Annotated[
        str, typer.Option(help=f"{', '.join(sorted(Solver.known))}; short forms: reg-s1, reg-h3, cemr-d1.")
    ] = "reg",
    settings: Settings = None,
    seconds: Seconds = None,
    iterations: Annotated[
        int | None, typer.Option(help="Stop after so many rounds with the best policy so far.")
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Find a policy, with its exact regret in each sample. Ctrl-C stops with the best policy so far.

    The result is written as .rue, or only its policy as .json or .csv.
    """
    solver = specs.parse_method(method, specs.parse_settings(settings or ()))
    limits = Limits(math.inf if seconds is None else seconds, math.inf if iterations is None else iterations)
    umdp = _read_model_and_warm_up(model, [solver])
    with _ProgressBar(as_json, limits.seconds) as progress:
        solution = run_solver(umdp, solver, limits=limits, progress=progress)
    if output is not None:
        rue.save(output, solution)
    if as_json:
        _print_json({"model": model, "file": output, **_solution_facts(umdp, solution)})
    else:
        _print_solution(umdp, solution, output)
    raise typer.Exit(1 if solution.status is Status.INFEASIBLE else 0)


@app.command(rich_help_panel=POLICIES)
def evaluate(
    model: Model,
    policy: PolicyFile,
    test: Test = None,
    seed: TestSeed = None,
    independent: Annotated[
        bool, typer.Option("--independent", help="The samples of the model in --test are independent draws.")
    ] = False,
    confidence: Annotated[
        float | None, typer.Option(help="Of what is said about fresh samples; 0.95 unless given.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """The exact cost and regret of a policy in each sample of a model, or in samples that it has not seen.

    With --test, what was seen says how likely a fresh sample is to be worse: if the unseen ones are independent draws.
    """
    if test is None and (independent or seed is not None or confidence is not None):
        raise BadInput("a seed, a confidence or --independent is given; expected them with --test only")
    umdp, given = specs.read_model(model), specs.read_policy_or_solution(policy)
    controller = given.policy if isinstance(given, Solution) else given
    facts = {"model": model, "policy": policy, **_verdict_facts(umdp, rue.evaluate(umdp, controller))}
    unseen = None if test is None else _Unseen.read(umdp, test, seed, independent, given)
    if unseen is not None:
        verdict = rue.evaluate(unseen.model, controller)
        scenario = unseen.scenario(verdict, 0.95 if confidence is None else confidence)
        facts["test"] = {**unseen.facts, **_verdict_facts(unseen.model, verdict), "scenario": scenario}
    if as_json:
        _print_json(facts)
    elif unseen is None:
        _print_verdict(facts)
    else:
        _print_verdict(facts["test"])
        _console().print(unseen.in_words(facts), soft_wrap=True)


@app.command(rich_help_panel=POLICIES)
def compare(
    model: Model,
    methods: Annotated[
        str, typer.Option(help="Names with commas between them; short forms: reg-d3, reg-h3, cemr-s1.")
    ] = ",".join(specs.METHODS),
    seconds: Annotated[
        float, typer.Option(help="Stop each method after so many seconds with its best policy so far.")
    ] = 30.0,
    test: Test = None,
    seed: TestSeed = None,
    page: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Also write an .html page.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Solve a model with several methods and put their policies side by side, with how far each is from the best."""
    solvers = [specs.parse_method(name) for name in methods.split(",") if name.strip()]
    if not solvers:
        raise BadInput(
            f"no method is named in {methods!r}; expected names with commas between them, such as reg,average"
        )
    if page is not None:
        _check_page_name(page)
    limits = Limits(seconds)
    umdp = _read_model_and_warm_up(model, solvers)
    unseen = None if test is None else _Unseen.read(umdp, test, seed)
    solutions = []
    for solver in solvers:
        # A fresh model has nothing worked out beforehand, so that the times can be compared.
        fresh = replace(umdp)
        with _ProgressBar(as_json, limits.seconds) as progress:
            solutions.append(run_solver(fresh, solver, limits=limits, progress=progress, bound=False))
    solutions = _with_common_bound(umdp, solutions)
    verdicts = None if unseen is None else [rue.evaluate(unseen.model, solution.policy) for solution in solutions]
    if as_json:
        facts: dict[str, Any] = {"model": model, "methods": [_solution_facts(umdp, s) for s in solutions]}
        if unseen is not None and verdicts is not None:
            facts["test"] = unseen.facts
            for method, verdict in zip(facts["methods"], verdicts, strict=True):
                method["test"] = _verdict_facts(unseen.model, verdict)
        _print_json(facts)
    else:
        _print_comparison(model, umdp, solutions, verdicts)
        if unseen is not None:
            _console().print(f"On test: {unseen}.", style="dim", soft_wrap=True)
    if page is not None:
        _write_comparison(page, model, umdp, solutions, unseen, verdicts)
        if not as_json:
            _console().print(f"{page}: the same as a page, with maps", soft_wrap=True)


@app.command(rich_help_panel=POLICIES)
def verify(
    model: Model,
    solution: Annotated[str, typer.Argument(metavar="SOLUTION", help="A .rue file with a solution.")],
    as_json: Json = False,
) -> None:
    """Check the proof in a solution that no policy of any kind does better than its bound."""
    umdp, certificate = specs.read_model(model), specs.read_certificate(solution)
    try:
        proved = rue.verify(umdp, certificate)
    except rue.NotProved as error:
        print(f"rue: {solution}: {' '.join(str(error).split())}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        facts = {"objective": certificate.objective, "bound": proved, "points": certificate.points}
        _print_json({"model": model, "solution": solution, **facts})
        return
    what = "max regret" if certificate.objective == "regret" else "worst-case cost"
    _console().print(
        f"proved: no policy has a {what} below {_at_least(proved)} ({certificate.points} points, worked out again)",
        soft_wrap=True,
    )


@app.command(rich_help_panel=POLICIES)
def plot(
    model: Model,
    policies: Annotated[
        list[str], typer.Argument(metavar="POLICY...", help="Files with policies or solutions.", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A .png, .svg or .pdf file.", show_default=False)
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="map: what the policy does on a grid; regret: bars for each sample, of several policies; bounds: how "
            "they came together, of solutions. A map, or for other models and several policies the regrets.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        str | None, typer.Option(metavar="0,3|all", help="Samples on the map, one panel each.", show_default=False)
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="0,5,10", help="One panel for each time step, in one sample.", show_default=False),
    ] = None,
) -> None:
    """Draw what a policy does, its regret in each sample, or how its bounds came together."""
    umdp = specs.read_model(model)
    usual = "map" if len(policies) == 1 and "grid" in umdp.graph.layout else "regret"
    chosen = one_of("kind of picture", kind or usual, ("map", "regret", "bounds"))
    if chosen != "map" and (samples or steps):
        raise BadInput(f"samples or steps are given for a picture of {chosen}; expected them with a map")
    from rue import report  # slow to import, and needed here alone

    if chosen == "bounds":
        figure = report.draw_bounds({name: specs.read_solution(path) for name, path in _names(policies).items()})
    elif chosen == "regret":
        regrets, bound = _regrets_of(umdp, policies)
        figure = report.draw_regrets(umdp, regrets, bound=bound)
    elif len(policies) > 1:
        raise BadInput(f"{len(policies)} policies are given; expected one for a map, or --kind regret")
    else:
        figure = report.draw_map(
            umdp,
            specs.read_policy(policies[0]),
            samples=range(umdp.samples) if samples == "all" else _whole_numbers("samples", samples),
            steps=_whole_numbers("steps", steps),
        )
    report.save_figure(figure, output)
    _console().print(f"{output}: {chosen}", soft_wrap=True)


@app.command(rich_help_panel=POLICIES)
def simulate(
    model: Model,
    policy: PolicyFile,
    sample: Annotated[int, typer.Option(help="Which sample is the truth.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Fixes the episodes.", show_default=False)],
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 1000,
    max_steps: Annotated[int, typer.Option(help="Cut an episode off after so many steps.")] = 1_000_000,
    as_json: Json = False,
) -> None:
    """Run a policy in one sample, and compare its mean cost with the exact value."""
    umdp, controller = specs.read_model(model), specs.read_policy(policy)
    episodes_run = rue.simulate(umdp, controller, sample=sample, episodes=episodes, seed=seed, max_steps=max_steps)
    exact = float(rue.evaluate(umdp, controller).value[sample])
    low, high = episodes_run.interval
    facts = {
        "sample": umdp.sample_name(sample),
        "episodes": episodes,
        "mean_cost": episodes_run.mean,
        "interval": [low, high],
        "level": episodes_run.level,
        "exact_cost": exact,
        "mean_steps": float(episodes_run.steps.mean()),
        "cut_off": int((~episodes_run.reached).sum()),
    }
    if as_json:
        _print_json({"model": model, "policy": policy, **facts})
        return
    _console().print(
        f"sample {facts['sample']}: mean cost {_number(episodes_run.mean)} over {episodes} episodes, "
        f"{episodes_run.level:.0%} interval [{_number(low)}, {_number(high)}]; exact {_number(exact)}; "
        f"mean steps {_number(float(episodes_run.steps.mean()))}; {facts['cut_off']} cut off",
        soft_wrap=True,
    )  # fmt: skip


@app.command(rich_help_panel=MODELS)
def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="A .rue file.", show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="A .rue file, or .json or .csv for a policy.", show_default=False)
    ],
) -> None:
    """Write a file in another format: policies as .json or .csv, with the names of states and actions."""
    rue.save(target, rue.load(source))


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


class _CountedRows:
    """Rows of a log, counted as they pass, with a report now and then."""

    def __init__(self, rows: Iterable[Row], progress: Callable[[Progress], None]) -> None:
        self._rows, self._progress = rows, progress
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        start = time.monotonic()
        for row in self._rows:
            self.count += 1
            if self.count % 10_000 == 0:
                self._progress(Progress(f"{self.count} rows read", time.monotonic() - start, self.count, None))
            yield row


experiment = typer.Typer(
    help="Many methods on many problems, into a store of records; again and only what is missing is done.",
    no_args_is_help=True,
)
app.add_typer(experiment, name="experiment", rich_help_panel=EXPERIMENTS)

StoreFolder = Annotated[str, typer.Argument(metavar="DIR", help="A store of `rue experiment run`.", show_default=False)]


@experiment.command("run")
def run_all(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A .toml file.", show_default=False)],
    store: Annotated[str, typer.Option(metavar="DIR", help="Where the records go.", show_default=False)],
    jobs: Annotated[int | None, typer.Option(help="Processes on this machine; one, unless given.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Do again what failed.")] = False,
    as_json: Json = False,
) -> None:
    """Do all runs of an experiment that its store does not have yet. Ctrl-C stops; the same command goes on."""
    if jobs is not None and scheduler is not None:
        raise BadInput(f"jobs is {jobs} and the scheduler {scheduler}; expected one of the two")
    wanted = experiments.read_spec(spec)
    cluster = nullcontext() if scheduler is None else experiments.dask_executor(scheduler)
    with cluster as executor, _RunsBar(as_json, len(wanted.tasks())) as progress:
        summary = experiments.run_experiment(
            wanted, store, jobs=1 if jobs is None else jobs, executor=executor, retry=retry, progress=progress
        )
    if as_json:
        _print_json({"spec": spec, "store": store, **asdict(summary)})
    else:
        _console().print(f"{store}: {summary}", soft_wrap=True)
    raise typer.Exit(130 if summary.stopped else 1 if summary.failed else 0)


@experiment.command("tables")
def print_tables(
    store: StoreFolder,
    form: Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")] = "text",
    output: Output = None,
) -> None:
    """Regrets, times and significance by domain and size, as text, Markdown, LaTeX or CSV."""
    records, missing = _records(store)
    results = experiments.Results.of(records, experiments.Store(Path(store)).reference)
    text = experiments.write_tables(experiments.make_tables(results), form)
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_text(output, text)
        _console().print(f"{output}: {len(records)} runs", soft_wrap=True)
    if missing:
        print(f"rue: {missing} runs are missing; `rue experiment run` goes on with them", file=sys.stderr)


@app.command(rich_help_panel=EXPERIMENTS)
def report(
    store: StoreFolder,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="An .html file.", show_default=False)
    ] = "report.html",
) -> None:
    """One page of an experiment that needs no network: a summary, tables that sort, figures, each problem with maps."""
    records, missing = _records(store)
    _check_page_name(output)
    from rue.report.page import experiment_page  # slow to import

    place = experiments.Store(Path(store))
    results = experiments.Results.of(records, place.reference)
    with _PagesBar() as progress:
        page = experiment_page(
            records, results, experiments.make_tables(results), load_model=specs.read_model,
            load_solution=place.solution, title=place.title, spec=place.spec, progress=progress,
        )  # fmt: skip
    write_text(output, page)
    rest = f"; {missing} runs are missing" if missing else ""
    _console().print(f"{output}: {len(records)} runs, {len(page.encode()) / 1e6:.1f} MB{rest}", soft_wrap=True)


def _check_page_name(name: str) -> None:
    if Path(name).suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"{name}: the page ends in {Path(name).suffix or 'nothing'!r}; expected .html")
    if not Path(name).parent.is_dir():
        raise BadInput(f"{name}: there is no such folder; expected one to write to")


def _records(store: str) -> tuple[list[dict[str, Any]], int]:
    """What a store has of its last experiment, and how many runs are missing."""
    records, missing = experiments.Store(Path(store)).current()
    if not records:
        raise BadInput(f"{store}: there are no records of the experiment that was last run; expected some")
    return records, missing


def _names(paths: Sequence[str]) -> dict[str, str]:
    """A short name for each file: without its folder, where that tells them apart."""
    stems = [Path(path).stem for path in paths]
    return dict(zip(stems if len(set(stems)) == len(stems) else _distinct(paths), paths, strict=True))


def _regrets_of(model: UMDP, paths: Sequence[str]) -> tuple[dict[str, Sequence[float]], float | None]:
    """The regrets of policies by the judge, and the best bound that one of their files has for all policies."""
    regrets, bound = {}, 0.0
    for name, path in _names(paths).items():
        thing = specs.read_policy_or_solution(path)
        policy = thing.policy if isinstance(thing, Solution) else thing
        regrets[name] = rue.evaluate(model, policy).regret.tolist()
        proof = thing.certificate if isinstance(thing, Solution) else None
        if proof is not None and proof.objective == "regret" and proof.fingerprint == model_fingerprint(model):
            bound = max(bound, proof.bound)
    return regrets, bound or None


def _whole_numbers(name: str, text: str | None) -> list[int] | None:
    """`0,3,5` as numbers."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{name} is {text!r}; expected whole numbers with commas between them, such as 0,3") from None


def _read_model_and_warm_up(model: str, solvers: Sequence[Solver]) -> UMDP:
    """The model, read while what the solvers need is made ready."""
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(specs.read_model, model)
        wait([reading], timeout=0.1)
        if not reading.done() or reading.exception() is None:  # a bad model is told at once
            _warm_up(solvers)
        return reading.result()


def _warm_up(solvers: Sequence[Solver]) -> None:
    """Compile what the solvers need, which happens once after installation, before any clock is started."""
    console = Console(stderr=True, highlight=False, quiet=not sys.stderr.isatty())
    notice = threading.Timer(2.0, lambda: console.print("compiling, once after installation …", style="dim"))
    notice.daemon = True
    notice.start()
    try:
        warm_up(solvers)
    finally:
        notice.cancel()


class _ProgressBar:
    """Shows a bar on standard error once two seconds have passed, with the stage and the current interval."""

    def __init__(self, silent: bool, seconds: float) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._silent = silent or not self._console.is_terminal
        self._total = seconds if math.isfinite(seconds) else None
        self._bar: Bar | None = None
        self._task = TaskID(0)
        self._bounds = ""
        self._lock = threading.Lock()

    def __enter__(self) -> "_ProgressBar":
        return self

    def __call__(self, progress: Progress) -> None:
        if self._silent or progress.seconds < 2:
            return
        with self._lock:
            if self._bar is None:
                columns = (
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TextColumn("{task.completed:.0f} s"),
                    TextColumn("{task.fields[bounds]}"),
                )
                self._bar = Bar(*columns, console=self._console, transient=True)
                self._task = self._bar.add_task(progress.stage, total=self._total, bounds="")
                self._bar.start()
            if progress.objective is not None:
                self._bounds = str(progress.objective).replace("[", "\\[")
            self._bar.update(self._task, description=progress.stage, completed=progress.seconds, bounds=self._bounds)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _write_comparison(
    path: str, text: str, model: UMDP, solutions: Sequence[Solution], unseen: "_Unseen | None",
    verdicts: Sequence[Evaluation] | None,
) -> None:  # fmt: skip
    """The page of a comparison."""
    from rue.report.page import compare_page  # slow to import

    names = _distinct([specs.short_name(solution.solver) for solution in solutions])
    judged = None if verdicts is None else dict(zip(names, verdicts, strict=True))
    page = compare_page(
        text, model, dict(zip(names, solutions, strict=True)), None if unseen is None else unseen.model, judged
    )
    write_text(path, page)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one comes twice."""
    return [
        name if names[:i].count(name) == 0 else f"{name} ({names[:i].count(name) + 1})" for i, name in enumerate(names)
    ]


class _PagesBar:
    """Shows on standard error how many problems of a page are drawn."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("drawing problem {task.completed:.0f} of {task.total:.0f}"), BarColumn())
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=1)

    def __enter__(self) -> "_PagesBar":
        self._bar.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


class _RunsBar:
    """Shows on standard error how many runs of an experiment are done; where nobody looks, a line now and then."""

    def __init__(self, silent: bool, total: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._silent = silent
        self._told = time.monotonic()
        columns = (
            TextColumn("{task.completed:.0f} of {task.total:.0f} runs"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = Bar(
            *columns, console=self._console, transient=True, disable=silent or not self._console.is_terminal
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "_RunsBar":
        self._bar.start()
        return self

    def __call__(self, progress: experiments.Advance) -> None:
        record = progress.record
        words = f"{record['group']} {record['size']} {record['method']}"
        failed = f", {progress.failed} failed" if progress.failed else ""
        self._bar.update(self._task, completed=progress.done, description=words + failed)
        if self._silent or self._console.is_terminal or time.monotonic() - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told = time.monotonic()
        self._console.print(f"{progress.done} of {progress.total} runs{failed}")

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _console() -> Console:
    """Standard output: names are printed as they are, and nothing is cut where nobody reads along."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    return Console(markup=False, highlight=False, width=width)


def _solution_facts(model: UMDP, solution: Solution) -> dict[str, Any]:
    return {
        "method": specs.short_name(solution.solver),
        "solver": solution.solver.name,
        "parameters": asdict(solution.solver),
        "status": solution.status.value,
        "objective": {"measures": solution.solver.measures, **_bounds(solution.objective)},
        "max_regret": _bounds(solution.max_regret),
        "gap": solution.gap,
        "mean_regret": solution.mean_regret,
        "regret": {model.sample_name(k): regret for k, regret in enumerate(solution.regret)},
        "seconds": solution.seconds,
        "counters": dict(solution.counters),
    }


def _bounds(interval: Interval) -> dict[str, float]:
    return {"lower": interval.lower, "upper": interval.upper}


def _verdict_facts(model: UMDP, verdict: Evaluation) -> dict[str, Any]:
    return {
        "max_regret": verdict.max_regret,
        "mean_regret": verdict.mean_regret,
        "worst_sample": verdict.worst_sample,
        "error": verdict.error,
        "samples": [model.sample_name(k) for k in range(model.samples)],
        "value": verdict.value.tolist(),
        "optimal": verdict.optimal.tolist(),
        "regret": verdict.regret.tolist(),
    }


def _print_verdict(facts: Mapping[str, Any]) -> None:
    console, names, regret = _console(), facts["samples"], facts["regret"]
    table = _table("sample", "cost", "optimal", "regret")
    for k in _listed(range(len(names)), regret):
        table.add_row(names[k], _number(facts["value"][k]), _number(facts["optimal"][k]), _number(regret[k]))
    console.print(table)
    _say_rest(console, len(names))
    console.print(
        f"max regret {_number(facts['max_regret'])} in sample {names[facts['worst_sample']]}, mean "
        f"{_number(facts['mean_regret'])}; every figure is exact to {facts['error']:.1e}",
        soft_wrap=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Unseen:
    """Samples that a policy was not made for, and what may be said of fresh ones after them."""

    model: UMDP
    facts: Mapping[str, Any]
    doubt: str | None  # why nothing can be said of fresh samples

    @classmethod
    def read(
        cls, planned: UMDP, text: str, seed: int | None, independent: bool = False, policy: object = None
    ) -> "_Unseen":
        """So many fresh draws of the model's own domain, or another model on the same graph."""
        drawn = text.strip().isdecimal()
        if not drawn and seed is not None:
            raise BadInput(f"a seed is given for {text}; expected it only with a number of fresh draws, such as 100")
        model = specs.draw_unseen(planned, int(text), seed) if drawn else specs.read_model(text)
        seen = common_samples(planned, model)
        return cls(model, {"test": text, "seen_before": seen}, _doubt(model, text, seen, drawn or independent, policy))

    def __str__(self) -> str:
        seen = self.facts["seen_before"]
        return f"{self.model.samples} samples, {seen or 'none'} of which the methods have seen"

    def scenario(self, verdict: Evaluation, confidence: float) -> dict[str, Any] | None:
        """How likely a fresh sample is to be worse than all of these, where that can be said."""
        exceedance = verdict.exceedance(confidence)
        if self.doubt or not math.isfinite(verdict.max_regret):
            return None
        return {"confidence": confidence, "exceeds_max_regret_at_most": exceedance, "samples": self.model.samples}

    def in_words(self, facts: Mapping[str, Any]) -> str:
        """The same for people, beside the samples that were planned with."""
        scenario = facts["test"]["scenario"]
        planned = (
            f"In the {len(facts['samples'])} samples of the model the max regret is {_number(facts['max_regret'])}."
        )
        if scenario is None:
            reason = self.doubt or "the policy may miss the goal in some of these"
            return f"{planned} Nothing is said about fresh samples: {reason}."
        return (
            f"{planned} With {100 * scenario['confidence']:g} % confidence, a fresh sample has more regret than "
            f"{_number(facts['test']['max_regret'])} with a probability of at most "
            f"{_safely(100 * scenario['exceeds_max_regret_at_most'], 2, ROUND_CEILING)} %."
        )


def _doubt(model: UMDP, text: str, seen: int, independent: bool, policy: object) -> str | None:
    """Why test samples say nothing about fresh ones, if so."""
    proof = policy.certificate if isinstance(policy, Solution) else None
    if proof is not None and proof.fingerprint == model_fingerprint(model):
        return "the policy was planned with these samples"
    # Where there are few possible samples, draws are often alike, and that they are says nothing.
    if seen and not has_duplicates(model):
        return f"{seen} of the {model.samples} test samples are the model's own"
    return (
        None if independent else f"{text} may hold other than independent draws (--independent says that it does not)"
    )


def _print_solution(model: UMDP, solution: Solution, output: str | None) -> None:
    console = _console()
    worst = max(range(model.samples), key=lambda k: solution.regret[k])
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("solver", str(solution.solver))
    table.add_row("status", solution.status.value)
    table.add_row("proved", _proved(solution))
    table.add_row("max regret", f"{_number(solution.max_regret.upper)} in sample {model.sample_name(worst)}")
    table.add_row("any policy", _least(solution))
    table.add_row("mean regret", _number(solution.mean_regret))
    table.add_row("seconds", f"{solution.seconds:.3g}")
    console.print(table)
    regrets = _table("sample", "regret")
    for k in _listed(range(model.samples), solution.regret):
        regrets.add_row(model.sample_name(k), _number(solution.regret[k]))
    console.print(regrets)
    _say_rest(console, model.samples)
    if output is not None:
        console.print(f"written to {output}", soft_wrap=True)


def _print_comparison(
    text: str, model: UMDP, solutions: Sequence[Solution], verdicts: Sequence[Evaluation] | None
) -> None:
    console = _console()
    graph = model.graph
    console.print(
        f"{text}: {graph.states} states, {graph.choices} choices, {model.samples} samples",
        highlight=False,
        soft_wrap=True,
    )
    # There is room for one of the two in a terminal of 80 letters.
    last = ["objective"] if verdicts is None else ["test max", "test mean"]
    table = _table("method", "max regret", "at least", "gap", "mean regret", *last, "seconds")
    best = min(solution.max_regret.upper for solution in solutions)
    for number, solution in enumerate(solutions):
        status = "" if solution.status is Status.SOLVED else f" ({solution.status.value})"
        regret = _number(solution.max_regret.upper)
        table.add_row(
            specs.short_name(solution.solver) + status,
            Text(regret, style="bold" if solution.max_regret.upper == best else ""),
            _at_least(solution.max_regret.lower),
            _percent(solution.gap),
            _number(solution.mean_regret),
            *(
                [_number(_rounded_up(solution.objective.upper))]
                if verdicts is None
                else map(_number, (verdicts[number].max_regret, verdicts[number].mean_regret))
            ),
            f"{solution.seconds:.3f}",
        )
    console.print(table)
    console.print(
        "Regrets are the judge's: exact, in the worst sample and on average. No policy of any kind has a max regret "
        "below what stands under 'at least', and the gap is how far a method may be from the best."
        + (OBJECTIVE if verdicts is None else ""),
        style="dim",
    )  # fmt: skip


def _least(solution: Solution) -> str:
    """How much max regret nobody can avoid."""
    if solution.certificate is None:
        return "nothing is proved about other policies"
    return f"has at least {_at_least(solution.max_regret.lower)}, proved; the gap is {_percent(solution.gap)}"


def _with_common_bound(model: UMDP, solutions: Sequence[Solution]) -> list[Solution]:
    """The solutions with the best lower bound that any of them, or a search of its own, has proved for all policies."""
    bound = max(solution.max_regret.lower for solution in solutions)
    if any(math.isfinite(solution.max_regret.upper) for solution in solutions):
        bound = max(bound, rue.lower_bound(model))
    return [
        replace(s, max_regret=Interval(min(bound, s.max_regret.upper), s.max_regret.upper)) for s in solutions
    ]  # fmt: skip


def _proved(solution: Solution) -> str:
    """What is proved of the solver's own objective."""
    low, high = solution.objective.lower, solution.objective.upper
    close = math.isfinite(high) and high - low <= 1e-6 * max(1.0, high)
    return f"{solution.solver.measures} ≤ {_number(_rounded_up(high))}" + (
        "" if close else f", optimum ≥ {_at_least(low)}"
    )


def _rounded_up(value: float) -> float:
    """A bound that is as true, and easier to read than a rounding error."""
    return max(value, 1e-12) if value > 0 else value


def _table(*columns: str) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i > 0, overflow="fold")
    return table


def _listed(samples: range, regret: Sequence[float]) -> list[int]:
    """All samples, or the worst ones where there are many."""
    if len(samples) <= LONGEST_LIST:
        return list(samples)
    return sorted(samples, key=lambda k: -regret[k])[:LONGEST_LIST]


def _say_rest(console: Console, samples: int) -> None:
    if samples > LONGEST_LIST:
        console.print(f"the {LONGEST_LIST} worst of {samples} samples; --json lists all", style="dim")


def _at_least(value: float) -> str:
    """A proved lower bound: rounded down, so that what is shown is proved too."""
    return "∞" if math.isinf(value) else _safely(value, 5, ROUND_FLOOR)


def _safely(value: float, digits: int, rounding: str) -> str:
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))):.{digits}g}"


def _percent(fraction: float) -> str:
    return "∞" if math.isinf(fraction) else f"{100 * fraction:.2g} %"


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.5g}"


def _in_words(key: str, value: Any) -> str:
    if key == "memory":
        return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"
    if key == "cost_range":
        return f"{_number(value[0])} to {_number(value[1])}"
    if isinstance(value, bool) and key != "proper_policy":
        return "yes" if value else "no"
    if key == "proper_policy":
        return {True: "one policy reaches a goal in every sample", None: "not known; every sample has one of its own"}[
            value
        ]
    if key == "duplicate_samples":
        return "; ".join(" = ".join(group) for group in value) or "none"
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _print_json(facts: Mapping[str, Any]) -> None:
    """One JSON object; infinities, which JSON does not have, as the string "inf"."""
    print(json.dumps(plain(facts)))


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
        print(f"rue: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
