"""The command compare: several methods on one model."""

import math
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

import rue
from rue import parsing
from rue._text import distinct, percent_text
from rue.adaptive.report_bound import bound_certificate
from rue.cli.facts import diagnosis_of_solution, is_solved, objective_facts, solution_facts, verdict_facts
from rue.cli.options import Avoid, Const, Goal, Json, Model, Reward, Test, TestSeed, file_options, option
from rue.cli.outputs import PAGES, Target
from rue.cli.printing import at_least, at_most, average_in_words, console, number, print_json, print_table, say
from rue.cli.progress import ProgressBar, read_and_warm_up, units_of_objective
from rue.cli.unseen import Unseen
from rue.errors import BadInput
from rue.formats.writing import write_text
from rue.given import GivenPolicy, read_policy
from rue.judge import Evaluation
from rue.model import UMDP
from rue.risk import USUAL_TAIL
from rue.solution import Interval, Limits, Solution, Solver, Status
from rue.solving import solve as run_solver
from rue.table import Cell

TAIL = f"tail {USUAL_TAIL:g}"
LEGEND = (
    "Regrets are exact: max regret is that of the worst sample, mean the average by the weights of the samples, tail "
    f"the average of the worst {100 * USUAL_TAIL:g} %. 'at least' is a proved lower bound on the max regret of every "
    "policy; the gap is how far the policy may be from the best."
)
OBJECTIVE = " 'objective' is an upper bound on what the solver minimises; for reg it bounds the regret."


def compare(
    model: Model,
    methods: Annotated[
        str, typer.Option(help="Names with commas between them; short forms: reg-d3, reg-h3, cemr-s1.")
    ] = ",".join(parsing.METHODS),
    seconds: Annotated[
        float, typer.Option(help="Stop each method after these seconds with its best policy so far.")
    ] = 30.0,
    test: Test = None,
    seed: TestSeed = None,
    policies: Annotated[
        list[str] | None,
        option(
            "--policy", metavar="FILE", help="Judge your own policy beside them: .csv, .json or .rue; may be repeated."
        ),
    ] = None,
    page: Annotated[str | None, option("--report", metavar="FILE", help="Also write an .html page.")] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Solve a model with several methods and compare their policies, with how far each is from the best.

    With --policy, policies from files are judged beside them.

    Ctrl-C stops the method that is running with its best policy so far. In a terminal you are then asked whether to
    stop this method only, or all; elsewhere all are stopped. Results so far are printed. Pressed twice, it ends the
    command. Exit status: 0 if every method finished with a finite regret, 1 if one did not or was not run.
    """
    solvers = [parsing.parse_method(name) for name in methods.split(",") if name.strip()]
    given = [GivenPolicy(path) for path in policies or ()]
    if not solvers and not given:
        raise BadInput(
            f"no method is named in {methods!r}; expected names with commas between them, such as reg,average"
        )
    target = Target.check(page, "page", PAGES, inputs=[model, *(policies or ())])
    limits = Limits(seconds)
    umdp = read_and_warm_up(lambda: _read_all(model, given, file_options(goal, reward, avoid, const)), solvers)
    solvers = [*given, *solvers]
    unseen = None if test is None else Unseen.read(umdp, test, seed)
    with _noting_ctrl_c() as presses:
        solutions = _solve_all(umdp, solvers, limits, as_json, presses)
        not_run = [parsing.short_name(solver) for solver in solvers[len(solutions) :]]
        solutions = _with_common_bound(umdp, solutions, search=not not_run)
        verdicts = None if unseen is None else [rue.evaluate(unseen.model, solution.policy) for solution in solutions]
    comparison = MethodComparison(model, umdp, solutions, not_run, unseen, verdicts, limits)
    if as_json:
        print_json(comparison.facts())
    else:
        comparison.show()
    written = target.write(comparison.write_page)
    if written.file is not None and not as_json:
        say(f"{written.file}: the same as a page{', with maps' if 'grid' in umdp.graph.layout else ''}")
    raise typer.Exit(max(written.tell(), 0 if not not_run and all(map(is_solved, solutions)) else 1))


def _read_all(model: str, given: Sequence[GivenPolicy], taken: parsing.FileOptions) -> UMDP:
    """Return the model; the policies are read as well, so that errors are found before anything runs."""
    umdp = parsing.read_model(model, taken)
    for one in given:
        read_policy(one.file, umdp)
    return umdp


@contextmanager
def _noting_ctrl_c() -> Iterator[list[int]]:
    """Yield a list that records Ctrl-C, except when a solver handles it; the second press ends the command."""
    presses: list[int] = []

    def note(number: int, _: object) -> None:
        if presses:
            raise KeyboardInterrupt
        presses.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)


def _solve_all(
    model: UMDP, solvers: Sequence[Solver], limits: Limits, silent: bool, presses: list[int]
) -> list[Solution]:
    """Return the solutions of the methods that were run before all of them were stopped by Ctrl-C."""
    solutions: list[Solution] = []
    for solver in solvers:
        # A copy of the model has no cached results, so that the times can be compared.
        with ProgressBar(silent, limits.seconds, units_of_objective(model, solver)) as progress:
            solutions.append(run_solver(replace(model), solver, limits=limits, progress=progress, bound=False))
        stopped = presses or solutions[-1].status is Status.INTERRUPTED
        if stopped and not _goes_on([parsing.short_name(one) for one in solvers[len(solutions) - 1 :]], presses):
            break
    return solutions


def _goes_on(names: Sequence[str], presses: list[int]) -> bool:
    """Ask whether to stop only the first of some methods, or all; without a terminal, all are stopped."""
    stopped, *left = names
    if not left or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(
        f"\n{stopped} was stopped; {', '.join(left)} would follow. Stop this method only, or all? [this/all] ",
        end="", file=sys.stderr, flush=True,
    )  # fmt: skip
    presses.append(signal.SIGINT)  # so that one more Ctrl-C ends the question
    try:
        answer = sys.stdin.readline().strip().lower()
    except KeyboardInterrupt:
        answer = ""
    presses.clear()
    return answer in ("t", "this")


def _with_common_bound(model: UMDP, solutions: Sequence[Solution], search: bool) -> list[Solution]:
    """Return the solutions with the best lower bound for all policies that one of them, or a search, has proved."""
    bound, proof = max(((s.max_regret.lower, s.regret_certificate) for s in solutions), key=lambda pair: pair[0])
    if search and any(math.isfinite(solution.max_regret.upper) for solution in solutions):
        found = bound_certificate(model)
        if found is not None and found.bound > bound:
            bound, proof = found.bound, found

    def sharpened(one: Solution) -> Solution:
        around = Interval(min(bound, one.max_regret.upper), one.max_regret.upper)
        return replace(one, max_regret=around, regret_certificate=proof)

    return [sharpened(one) for one in solutions]


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """Solutions of one model, with their evaluations on test samples, if there are any."""

    text: str  # the model as given on the command line
    model: UMDP
    solutions: Sequence[Solution]
    not_run: Sequence[str]  # methods left out after Ctrl-C
    unseen: Unseen | None
    verdicts: Sequence[Evaluation] | None  # on the test samples
    limits: Limits  # of each method

    def facts(self) -> dict[str, Any]:
        """Return all of it as `--json` prints it."""
        methods = [solution_facts(self.model, solution) for solution in self.solutions]
        facts: dict[str, Any] = {"model": self.text, "methods": methods, "not_run": list(self.not_run)}
        if self.unseen is not None and self.verdicts is not None:
            facts["test"] = self.unseen.facts
            for method, verdict in zip(methods, self.verdicts, strict=True):
                method["test"] = self._tested(self.unseen, verdict)
        return facts

    @property
    def average_error(self) -> float:
        """The largest distance of a regret from that of averages in the long run, over all methods and samples."""
        tested = [float(verdict.average_error.max()) for verdict in self.verdicts or ()]
        return max([*tested, *(solution.average_error for solution in self.solutions)])

    @staticmethod
    def _tested(unseen: Unseen, verdict: Evaluation) -> dict[str, Any]:
        return {**verdict_facts(unseen.model, verdict), "scenario": unseen.scenario(verdict)}

    def fresh_in_words(self) -> str:
        """Return what is known of fresh samples for the best method, which the test samples did not choose."""
        if self.unseen is None or self.verdicts is None:
            return ""
        best = min(range(len(self.solutions)), key=lambda place: self.solutions[place].max_regret.upper)
        words = self.unseen.fresh_in_words(self._tested(self.unseen, self.verdicts[best]))
        return f"{parsing.short_name(self.solutions[best].solver)}: {words}"

    def show(self) -> None:
        """Print all of it for people."""
        graph = self.model.graph
        say(f"{self.text}: {graph.states} states, {graph.choices} choices, {self.model.samples} samples")
        # A terminal of 80 characters has room for one of the two.
        last = ["mean", TAIL, "objective"] if self.verdicts is None else ["test max", "test mean", "test tail"]
        status = [] if all(solution.status is Status.SOLVED for solution in self.solutions) else ["status"]
        columns = ["method", "max regret", "at least", "gap", *last, "seconds", *status]
        print_table(columns, [self._row(place)[: len(columns)] for place in range(len(self.solutions))])
        console().print(LEGEND + (OBJECTIVE if self.verdicts is None else ""), style="dim")
        if self.model.units.average:
            say(f"Regrets are averages {average_in_words(self.model.units.averages(self.average_error))}.")
        if self.unseen is not None:
            say(f"On test: {self.unseen}.", style="dim")
            say(self.fresh_in_words())
        self._say_what_is_wrong()
        if self.not_run:
            say(f"Stopped by Ctrl-C; not run: {', '.join(self.not_run)}.")

    def _say_what_is_wrong(self) -> None:
        """Print why regrets are infinite: first what concerns single policies, then what concerns the model."""
        found = [diagnosis_of_solution(self.model, solution) for solution in self.solutions]
        methods: dict[str, list[str]] = {}  # by the line that concerns them
        for solution, diagnosis in zip(self.solutions, found, strict=True):
            for line in () if diagnosis is None else diagnosis.about_policy():
                methods.setdefault(line, []).append(parsing.short_name(solution.solver))
        for line, names in methods.items():
            say(f"{', '.join(names)}: {line}")
        every = [line for diagnosis in found if diagnosis is not None for line in diagnosis.about_model()]
        for line in dict.fromkeys(every):
            say(line)

    def _row(self, place: int) -> list[str | Cell]:
        solution, regret = self.solutions[place], self.solutions[place].max_regret
        best = min(other.max_regret.upper for other in self.solutions)
        if self.verdicts is None:
            last = [*map(number, (solution.mean_regret, solution.tail(USUAL_TAIL))), self._objective(solution)]
        else:
            test = self.verdicts[place]
            last = [*map(number, (test.max_regret, test.mean_regret, test.tail(USUAL_TAIL)))]
        return [
            parsing.short_name(solution.solver),
            Cell(number(regret.upper), best=regret.upper == best),
            at_least(regret.lower),
            percent_text(solution.gap),
            *last,
            f"{solution.seconds:.3f}",
            solution.status.value,
        ]

    def _objective(self, solution: Solution) -> str:
        facts = objective_facts(solution)
        return number(facts["lower"]) if solution.is_reward else at_most(facts["upper"])

    def _about_averages(self) -> dict[str, str]:
        units = self.model.units
        return {"Averages": average_in_words(units.averages(self.average_error))} if units.average else {}

    def write_page(self, path: Path) -> None:
        """Write all of it as a page."""
        from rue.report.page import compare_page

        names = distinct([parsing.short_name(solution.solver) for solution in self.solutions])
        judged = None if self.verdicts is None else dict(zip(names, self.verdicts, strict=True))
        tested = None if self.unseen is None else self.unseen.model
        page = compare_page(
            self.text,
            self.model,
            dict(zip(names, self.solutions, strict=True)),
            tested,
            judged,
            fresh=self.fresh_in_words(),
            about={
                "Date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
                "Limit": f"{self.limits.seconds:g} s for each method",
                **self._about_averages(),
            },
        )
        write_text(path, page)
