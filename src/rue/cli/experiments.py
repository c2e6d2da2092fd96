"""Commands on experiments: experiment run, tables and figures, report."""

from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import typer

from rue import experiments, parsing
from rue._check import one_of, text_path
from rue.cli.options import Jobs, Json, Output, Scheduler, argument, option
from rue.cli.outputs import PAGES, TABLES, Target
from rue.cli.printing import complain, print_json, say
from rue.cli.progress import Bar, RunsBar
from rue.errors import BadInput
from rue.formats.writing import check_writable, make_folder, write_text
from rue.workers import open_executor

experiment = typer.Typer(
    help="Run many methods on many problems, with a store of records; a second run does only what is missing.",
    no_args_is_help=True,
)

FIGURES = ("svg", "pdf", "png")

StoreFolder = Annotated[str, argument(metavar="DIR", help="A store of `rue experiment run`.")]


@experiment.command("run")
def run_all(
    spec: Annotated[str, argument(metavar="SPEC", help="A .toml file.")],
    store: Annotated[str, option(metavar="DIR", help="Where the records go.")],
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed tasks again.")] = False,
    as_json: Json = False,
) -> None:
    """Run what the store does not have yet of an experiment. Ctrl-C stops; the same command goes on."""
    wanted = experiments.read_spec(spec)
    with open_executor(jobs, scheduler) as executor, RunsBar(as_json, len(wanted.tasks())) as progress:
        summary = experiments.run_experiment(wanted, store, executor=executor, retry=retry, progress=progress)
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
    """Write regrets, times and significance by domain and size, as text, Markdown, LaTeX or CSV."""
    target = Target.check(output, "table", TABLES)
    found = StoredResults.read(store)
    text = experiments.write_tables(experiments.make_tables(found.results), form)
    written = target.write(lambda path: write_text(path, text))
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        say(f"{written.file}: {len(found.records)} runs")
    found.say_missing()
    raise typer.Exit(written.tell())


@experiment.command("figures")
def draw_figures(
    store: StoreFolder,
    output: Annotated[str, option("--output", "-o", metavar="FOLDER", help="Where the files go.")],
    form: Annotated[str, typer.Option("--format", help="svg, pdf or png.")] = "svg",
) -> None:
    """Draw regret and time over size, regret against time, and distance to the bound: a file for each figure."""
    ending = one_of("format", form, FIGURES)
    found = StoredResults.read(store)
    folder = make_folder(output)
    check_writable(folder / f"figure.{ending}")
    from rue.report import draw_experiment, save_figure  # imports matplotlib

    for picture in draw_experiment(found.results):
        path = folder / f"{picture.name}.{ending}"
        save_figure(picture.figure, path)
        say(f"{path}: {picture.title}")
    found.say_missing()


def report(
    store: StoreFolder,
    output: Annotated[str, option("--output", "-o", metavar="FILE", help="An .html file.")] = "report.html",
) -> None:
    """Write a page of an experiment that needs no network: a summary, tables, figures, each problem with maps."""
    found = StoredResults.read(store)
    target = Target.check(output, "page", PAGES)
    from rue.report.page import experiment_page  # imports matplotlib

    with Bar("drawing problem {task.completed:.0f} of {task.total:.0f}", total=1) as bar:
        bar.draw()
        page = experiment_page(
            found.records, found.results, experiments.make_tables(found.results), load_model=parsing.read_model,
            load_solution=found.store.solution, title=found.store.title, spec=found.store.spec,
            progress=lambda done, total: bar.draw(completed=done, total=total),
        )  # fmt: skip
    written = target.write(lambda path: write_text(path, page))
    say(f"{written.file}: {len(found.records)} runs, {len(page.encode()) / 1e6:.1f} MB")
    found.say_missing()
    raise typer.Exit(written.tell())


class StoredResults(NamedTuple):
    """What a store has of the experiment that was last run."""

    store: experiments.Store
    records: list[dict[str, Any]]
    missing: int  # runs without a record
    results: experiments.Results

    @classmethod
    def read(cls, folder: str) -> "StoredResults":
        """Read a store; raise BadInput if it has no records of that experiment."""
        store = experiments.Store(text_path(folder))
        records, missing = store.current()
        if not records:
            raise BadInput(f"{folder}: there are no records of the experiment that was last run; expected some")
        return cls(store, records, missing, experiments.Results.of(records, store.reference))

    def say_missing(self) -> None:
        """Say, one line each, how many runs are missing and how many are by another version of rue."""
        if self.missing:
            complain(f"{self.missing} runs are missing; `rue experiment run` goes on with them")
        this = experiments.code_version()
        makers = [record.get("task", {}).get("rue", "an older version") for record in self.records]
        others = sorted({*makers} - {this})
        if others:
            count = sum(maker in others for maker in makers)
            complain(
                f"{count} of {len(makers)} runs are by another version of rue ({', '.join(others)}; this is "
                f"{this}); `rue experiment run` does them anew"
            )
