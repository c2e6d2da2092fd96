"""Commands on experiments: experiment run, tables and figures, report."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rue import experiments, parsing
from rue._check import one_of
from rue.cli.options import Json, Output
from rue.cli.outputs import PAGES, TABLES, Target
from rue.cli.printing import complain, print_json, say
from rue.cli.progress import PagesBar, RunsBar
from rue.errors import BadInput
from rue.formats.writing import check_writable, make_folder, write_text

experiment = typer.Typer(
    help="Many methods on many problems, into a store of records; again and only what is missing is done.",
    no_args_is_help=True,
)

FIGURES = ("svg", "pdf", "png")

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
    with cluster as executor, RunsBar(as_json, len(wanted.tasks())) as progress:
        summary = experiments.run_experiment(
            wanted, store, jobs=1 if jobs is None else jobs, executor=executor, retry=retry, progress=progress
        )
    if as_json:
        print_json({"spec": spec, "store": store, **asdict(summary)})
    else:
        say(f"{store}: {summary}")
    raise typer.Exit(130 if summary.stopped else 1 if summary.failed else 0)


@experiment.command("tables")
def print_tables(
    store: StoreFolder,
    form: Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")] = "text",
    output: Output = None,
) -> None:
    """Regrets, times and significance by domain and size, as text, Markdown, LaTeX or CSV."""
    target = Target.check(output, "table", TABLES)
    records, missing = _records(store)
    results = experiments.Results.of(records, experiments.Store(Path(store)).reference)
    text = experiments.write_tables(experiments.make_tables(results), form)
    written = target.write(lambda path: write_text(path, text))
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        say(f"{written.file}: {len(records)} runs")
    _say_missing(records, missing)
    raise typer.Exit(written.tell())


@experiment.command("figures")
def draw_figures(
    store: StoreFolder,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.", show_default=False)
    ],
    form: Annotated[str, typer.Option("--format", help="svg, pdf or png.")] = "svg",
) -> None:
    """Regret and time over size, regret against time, distance to the bound: a file for each figure."""
    ending = one_of("format", form, FIGURES)
    records, missing = _records(store)
    folder = make_folder(output)
    check_writable(folder / f"figure.{ending}")
    from rue.report import draw_experiment, save_figure  # slow to import

    results = experiments.Results.of(records, experiments.Store(Path(store)).reference)
    for picture in draw_experiment(results):
        path = folder / f"{picture.name}.{ending}"
        save_figure(picture.figure, path)
        say(f"{path}: {picture.title}")
    _say_missing(records, missing)


def report(
    store: StoreFolder,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="An .html file.", show_default=False)
    ] = "report.html",
) -> None:
    """One page of an experiment that needs no network: a summary, tables that sort, figures, each problem with maps."""
    records, missing = _records(store)
    target = Target.check(output, "page", PAGES)
    from rue.report.page import experiment_page  # slow to import

    place = experiments.Store(Path(store))
    results = experiments.Results.of(records, place.reference)
    with PagesBar() as progress:
        page = experiment_page(
            records, results, experiments.make_tables(results), load_model=parsing.read_model,
            load_solution=place.solution, title=place.title, spec=place.spec, progress=progress,
        )  # fmt: skip
    written = target.write(lambda path: write_text(path, page))
    say(f"{written.file}: {len(records)} runs, {len(page.encode()) / 1e6:.1f} MB")
    _say_missing(records, missing)
    raise typer.Exit(written.tell())


def _records(store: str) -> tuple[list[dict[str, Any]], int]:
    """What a store has of its last experiment, and how many runs are missing."""
    records, missing = experiments.Store(Path(store)).current()
    if not records:
        raise BadInput(f"{store}: there are no records of the experiment that was last run; expected some")
    return records, missing


def _say_missing(records: Sequence[Mapping[str, Any]], missing: int) -> None:
    """Say, one line each, what the records lack: runs, and that this version of rue computed them."""
    if missing:
        complain(f"{missing} runs are missing; `rue experiment run` goes on with them")
    makers = [record.get("task", {}).get("rue", "an older version") for record in records]
    others = sorted({maker for maker in makers if maker != experiments.code_version()})
    if others:
        count = sum(maker in others for maker in makers)
        complain(
            f"{count} of {len(records)} runs are by another version of rue ({', '.join(others)}; this is "
            f"{experiments.code_version()}); `rue experiment run` does them anew"
        )
