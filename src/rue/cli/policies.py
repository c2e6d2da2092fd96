"""Commands on one policy: solve, evaluate, verify, simulate."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

import rue
from rue import parsing
from rue._text import one_line, percent_text
from rue.active import SolverInParts
from rue.cli.blocks import evaluate_source
from rue.cli.facts import (
    diagnosis_facts,
    diagnosis_of_policy,
    is_solved,
    say_diagnosis,
    solution_facts,
    spread_words,
    verdict_facts,
)
from rue.cli.options import (
    Avoid,
    Block,
    Const,
    Goal,
    Jobs,
    Json,
    Model,
    Output,
    PolicyFile,
    Reward,
    Scheduler,
    Settings,
    Test,
    TestSeed,
    file_options,
    option,
)
from rue.cli.outputs import Target
from rue.cli.printing import (
    at_least,
    at_most,
    average_in_words,
    complain,
    number,
    print_facts,
    print_json,
    print_samples,
    say,
)
from rue.cli.progress import ProgressBar, read_and_warm_up, units_of_objective
from rue.cli.unseen import Unseen, planned_in_words, planned_scenario
from rue.errors import BadInput
from rue.formats import endings
from rue.formats.writing import write_text
from rue.given import read_policy
from rue.guarantees import USUAL_CONFIDENCE, USUAL_PROBABILITY
from rue.judge import Evaluation
from rue.model import UMDP
from rue.parsing import FileOptions
from rue.policy import Policy
from rue.risk import USUAL_TAIL, check_tail
from rue.solution import Limits, Solution, Solver, policy_of
from rue.solving import solve as run_solver
from rue.workers import open_executor
from rue.worlds import Source


def solve(
    model: Model,
    method: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(sorted(Solver.known))}; short forms: reg-s1, reg-h3, cemr-d1.",
            autocompletion=lambda: sorted(Solver.known),
        ),
    ] = "adaptive",
    settings: Settings = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after these seconds with the best policy so far.")] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Stop after this number of rounds with the best policy so far.")
    ] = None,
    independent: Annotated[
        bool, typer.Option("--independent", help="The samples of the model are independent draws, in their order.")
    ] = False,
    block: Block = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Find a policy, with its exact regret in each sample. Ctrl-C stops with the best policy so far.

    If a search used few of many independent draws, it also tells how likely a fresh sample is to be worse than all.

    For adaptive, mixture and milp, samples need not fit into memory: a domain with more than 10,000 of them, such as
    `disaster:samples=100000,seed=1`, is drawn and judged block by block, and a folder file by file. The samples of a
    domain in blocks are other draws than those of a model with the same seed, and depend on the size of the blocks.

    The result is written as .rue, or only its policy as .json or .csv. Exit status: 0 if the method finished with a
    finite regret, 1 if it did not (a limit, Ctrl-C, no proof, no policy).
    """
    solver = parsing.parse_method(method, parsing.parse_settings(settings or ()))
    limits = Limits(math.inf if seconds is None else seconds, math.inf if iterations is None else iterations)
    target = Target.check(output, "solution", endings(Solution), inputs=[model])
    spread = jobs is not None or scheduler is not None
    taken = file_options(goal, reward, avoid, const)
    umdp = read_and_warm_up(lambda: _samples(model, solver, block, spread, taken), [solver])
    bar = ProgressBar(as_json, limits.seconds, units_of_objective(umdp, solver))
    with open_executor(jobs, scheduler) as executor, bar as progress:
        solution = run_solver(umdp, solver, limits=limits, progress=progress, executor=executor)
    written = target.write(lambda path: rue.save(path, solution))
    facts = solution_facts(umdp, solution)
    scenario = planned_scenario(solution, independent or parsing.are_draws(model))
    if as_json:
        print_json({"model": model, "file": written.file, **facts, "scenario": scenario})
    else:
        _print_solution(umdp, solution, facts)
        if scenario is not None:
            say(planned_in_words(solution, scenario))
        say_diagnosis(facts["diagnosis"])
        if written.file is not None:
            say(f"written to {written.file}")
    if "judged samples" in solution.counters:
        complain(f"stopped: {solution.counters['judged samples']} of {umdp.samples} samples were judged")
    elif "cross-checks cut off" in solution.counters:
        complain("stopped: no time was left to compute all of V* and the regrets a second time")
    raise typer.Exit(max(written.tell(), 0 if is_solved(solution) else 1))


def _samples(text: str, solver: Solver, block: int | None, spread: bool, taken: FileOptions) -> UMDP | Source:
    """Read a model; or a source, if there are many samples or workers and the solver can work on some samples."""
    in_parts = isinstance(solver, SolverInParts) and solver.in_parts
    if not (block is not None or in_parts or parsing.is_folder(text)):
        return parsing.read_model(text, taken)
    found = parsing.read_model_or_source(text, block, taken)
    return Source.from_model(found) if spread and isinstance(found, UMDP) else found


def evaluate(
    model: Model,
    policy: PolicyFile,
    test: Test = None,
    seed: TestSeed = None,
    independent: Annotated[
        bool, typer.Option("--independent", help="The samples of the model in --test are independent draws.")
    ] = False,
    confidence: Annotated[float | None, option(help="Of what is said of fresh samples; 0.95 unless given.")] = None,
    probability: Annotated[
        float | None, option(help="Tell which regret a fresh sample exceeds with this probability; 0.05 unless given.")
    ] = None,
    tail: Annotated[float, typer.Option(help="Tell the mean over the worst part of this size.")] = USUAL_TAIL,
    block: Block = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Print the exact cost and regret of a policy in each sample of a model, or of a test set.

    Also what it would be worth to know the true sample. With --test, also how likely a fresh sample is to be worse, if
    the test samples are independent draws.

    A domain with more than 10,000 samples, such as `disaster:samples=100000,seed=1`, is drawn and judged block by
    block, and a folder file by file, so that they need not fit into memory. The samples of a domain in blocks are other
    draws than those of a model with the same seed, and depend on the size of the blocks.
    """
    fresh = (seed, confidence, probability)
    if test is None and (independent or any(given is not None for given in fresh)):
        raise BadInput("a seed, a confidence, a probability or --independent is given; expected them with --test only")
    check_tail(tail)
    umdp = parsing.read_model_or_source(model, block, file_options(goal, reward, avoid, const))
    given = parsing.read_policy_or_solution(policy, umdp)
    controller = policy_of(given)
    if jobs is not None or scheduler is not None or isinstance(umdp, Source):
        if test is not None:
            raise BadInput(f"a test is given for {model}, which is judged in blocks; expected one of the two")
        source = umdp if isinstance(umdp, Source) else Source.from_model(umdp)
        names = {"model": model, "policy": policy}
        raise typer.Exit(evaluate_source(source, controller, names, jobs, scheduler, as_json))
    facts = {"model": model, "policy": policy, **_judged(umdp, controller, rue.evaluate(umdp, controller), tail)}
    unseen = None if test is None else Unseen.read(umdp, test, seed, independent, given)
    if unseen is not None:
        verdict = rue.evaluate(unseen.model, controller)
        scenario = unseen.scenario(
            verdict,
            USUAL_CONFIDENCE if confidence is None else confidence,
            USUAL_PROBABILITY if probability is None else probability,
        )
        facts["test"] = {**unseen.facts, **_judged(unseen.model, controller, verdict, tail), "scenario": scenario}
    if as_json:
        print_json(facts)
    elif unseen is None:
        _print_verdict(facts, knowledge=True)
    else:
        _print_verdict(facts["test"], knowledge=False)
        say(unseen.in_words(facts))


def _judged(model: UMDP, policy: Policy, verdict: Evaluation, tail: float) -> dict[str, Any]:
    """Return an evaluation as `--json` prints it, with a diagnosis if a regret is infinite."""
    diagnosis = diagnosis_of_policy(model, policy, verdict.regret.tolist())
    return {**verdict_facts(model, verdict, tail), "diagnosis": diagnosis_facts(diagnosis)}


def verify(
    model: Model,
    solution: Annotated[str, typer.Argument(metavar="SOLUTION", help="A .rue file with a solution.")],
    block: Block = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Check the proof in a solution that no policy of any kind is better than its bound.

    Of samples in blocks only those are drawn that the proof is about; the size of the blocks is that of the solution.
    """
    umdp = parsing.read_model_or_source(model, block, file_options(goal, reward, avoid, const))
    certificate = parsing.read_certificate(solution)
    about = {"model": model, "solution": solution, "objective": certificate.objective, "points": certificate.points}
    about |= {} if certificate.tail is None else {"tail": certificate.tail}
    try:
        proved = rue.verify(umdp, certificate)
    except rue.NotProved as error:
        complain(f"{solution}: {error}")
        if as_json:
            print_json({**about, "proved": False, "reason": str(error)})
        raise typer.Exit(1) from None
    if certificate.objective == "cost":
        proved = umdp.units.figure(proved)
    if as_json:
        print_json({**about, "proved": True, "bound": proved})
        return
    is_reward = certificate.objective == "cost" and umdp.units.reward
    limit = f"above {number(proved)}" if is_reward else f"below {at_least(proved)}"
    figure = _proved_figure(umdp, certificate)
    say(f"proved: no policy has a {figure} {limit} ({certificate.points} points, checked again)")


def _proved_figure(model: UMDP | Source, certificate: rue.Certificate) -> str:
    """Return what a certificate bounds, in words."""
    if certificate.tail is None:
        return "max regret" if certificate.objective == "regret" else model.units.measures("worst-case cost")
    mean = "mean regret" if certificate.objective == "regret" else f"mean {model.units.value_name}"
    return mean if certificate.tail == 1 else f"{mean} in the worst {100 * certificate.tail:g} %"


def simulate(
    model: Model,
    policy: PolicyFile,
    sample: Annotated[str, option(metavar="SAMPLE", help="Which sample is the truth: its name, or its number from 0.")],
    seed: Annotated[int, option(help="Fixes the episodes.")],
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 1000,
    max_steps: Annotated[int, typer.Option(help="Cut an episode off after this number of steps.")] = 1_000_000,
    paths: Annotated[
        str | None, option(metavar="FILE", help="Also write each step to a .csv file: state, action, cost, beliefs.")
    ] = None,
    goal: Goal = None,
    reward: Reward = None,
    avoid: Avoid = None,
    const: Const = None,
    as_json: Json = False,
) -> None:
    """Run a policy in one sample, and compare its mean cost with the exact value."""
    target = Target.check(paths, "table of paths", (".csv",), inputs=[model, policy])
    umdp = parsing.read_model(model, file_options(goal, reward, avoid, const))
    controller = read_policy(policy, umdp)
    truth = parsing.parse_sample(sample, umdp)
    runs = rue.simulate(
        umdp, controller, sample=truth, episodes=episodes, seed=seed, max_steps=max_steps, paths=paths is not None
    )
    written = target.write(lambda path: write_text(path, runs.paths.to_csv() if runs.paths else ""))
    low, high = runs.interval
    facts: dict[str, Any] = {
        "sample": umdp.sample_name(truth),
        "episodes": episodes,
        "figure": umdp.units.value_name,
        "mean_cost": runs.mean,
        "interval": [low, high],
        "level": runs.level,
        "exact_cost": float(rue.evaluate(umdp, controller).value[truth]),
        "mean_steps": float(runs.steps.mean()),
        "cut_off": int((~runs.reached).sum()),
    }
    if as_json:
        print_json({"model": model, "policy": policy, "paths": written.file, **facts})
        raise typer.Exit(written.tell())
    say(
        f"sample {facts['sample']}: mean {umdp.units.value_name} {number(runs.mean)} over {episodes} episodes, "
        f"{runs.level:.0%} interval [{number(low)}, {number(high)}]; exact {number(facts['exact_cost'])}; "
        f"mean steps {number(facts['mean_steps'])}; {facts['cut_off']} cut off"
    )
    if written.file is not None:
        say(f"{written.file}: {int(runs.steps.sum())} steps")
    raise typer.Exit(written.tell())


def _print_solution(model: UMDP | Source, solution: Solution, facts: Mapping[str, Any]) -> None:
    names = [model.sample_name(k) for k in range(model.samples)]
    worst = max(range(model.samples), key=lambda k: solution.regret[k])
    tail, quantiles = spread_words(facts)
    bound = f"has a max regret of at least {at_least(solution.max_regret.lower)}, proved"
    print_facts({
        "max regret": f"{number(solution.max_regret.upper)} in sample {one_line(names[worst])}",
        "any policy": bound if solution.certificate is not None else "nothing is proved about other policies",
        "gap": percent_text(solution.gap) + ("" if solution.measures == "regret" else " of the max regret"),
        **({"average": average_in_words(facts["average"])} if "average" in facts else {}),
        "mean regret": f"{number(solution.mean_regret)}, {tail}",
        "quantiles": quantiles,
        "status": solution.status.value,
        "solver": str(solution.solver),
        "objective": _objective(solution, facts["objective"]),
        "seconds": f"{solution.seconds:.3g}",
    })  # fmt: skip
    weights = {"weight": solution.weight} if solution.weight else {}
    print_samples(names, {**weights, "regret": solution.regret})


def _objective(solution: Solution, facts: Mapping[str, Any]) -> str:
    """Return what the solver optimises and the bounds on it, in words."""
    low, high = facts["lower"], facts["upper"]
    steps = getattr(solution.solver, "steps", None)
    change = "" if steps is None else f", if the sample may change every {'step' if steps == 1 else f'{steps} steps'}"
    close = high - low <= 1e-6 * max(1.0, abs(high))
    if solution.is_reward:
        most = "" if close else f"; the most is at most {at_most(high)}"
        return f"{facts['measures']}{change}: at least {at_least(low)}{most}"
    least = "" if close else f"; the least is at least {at_least(low)}"
    return f"{facts['measures']}{change}: at most {at_most(high)}{least}"


def _print_verdict(facts: Mapping[str, Any], *, knowledge: bool) -> None:
    """Print an evaluation; with `knowledge`, also what it is worth to know the true sample."""
    names = facts["samples"]
    figures = {"weight": facts["weight"]} if "weight" in facts else {}
    figures |= {facts.get("figure", "cost"): facts["value"], "optimal": facts["optimal"], "regret": facts["regret"]}
    print_samples(names, figures | ({"worth knowing": facts["value_of_knowing"]} if knowledge else {}))
    tail, quantiles = spread_words(facts)
    say(
        f"max regret {number(facts['max_regret'])} in sample {names[facts['worst_sample']]}, mean "
        f"{number(facts['mean_regret'])}, {tail}; {quantiles}; every figure is exact to {facts['error']:.1e}"
    )
    if "average" in facts:
        say(f"Values and regrets are averages {average_in_words(facts['average'])}.")
    if knowledge:
        say(
            f"To know the true sample would save {number(facts['value_of_perfect_information'])} on average compared "
            "with this policy, its mean regret (the EVPI, if no policy has less); to know whether it is a certain one, "
            "at least what the last column says."
        )
    say_diagnosis(facts["diagnosis"])
