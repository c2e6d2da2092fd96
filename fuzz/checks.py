"""What must be true of every solution of every model. A check says what is wrong, if anything is."""

import itertools
import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import rue
from fuzz import exact
from fuzz.models import Random, Spec
from rue import checker
from tests.naive import Naive, sequence_form, tree_size

INF = math.inf
NOT_FOR_IT = "this check is not for it"
# A search that says "no limit" stops here all the same, and the watchdog bites much later.
LONG = 2.0
# Runs that take longer may have come upon a limit of time in some part, and may take very long without one.
QUICK = 0.3
# Up to which sizes exact arithmetic is used: states, nodes of a controller, policies to enumerate, choices of a tree.
STATES, NODES, POLICIES, TREE = 40, 60, 300, 400
# Where rows sum to one only nearly, figures may differ by this fraction.
LOOSE = 1e-5


@dataclass(frozen=True)
class Failure:
    """A check that failed, and how."""

    check: str
    detail: str


@dataclass(frozen=True)
class Job:
    """A solver and its limits."""

    solver: rue.Solver
    limits: rue.Limits = field(default_factory=lambda: rue.Limits(seconds=LONG))
    bound: bool = False

    def run(self, model: rue.UMDP) -> rue.Solution:
        """Solve a fresh copy, so that nothing is remembered."""
        return rue.solve(fresh(model), self.solver, limits=self.limits, bound=self.bound)

    @property
    def repeats(self) -> bool:
        """Whether a second run must be the same."""
        return self.limits.seconds >= LONG

    @property
    def limited(self) -> bool:
        """Whether its limits are meant to be reached."""
        return self.limits.seconds < LONG or self.limits.iterations < INF


def fresh(model: rue.UMDP) -> rue.UMDP:
    """The same model, as if just made."""
    return rue.UMDP(model.graph, model.prob, model.cost, weight=model.weight)


def draw_jobs(seed: int, samples: int, states: int) -> list[Job]:
    """The solvers of a seed, with limits."""
    random = np.random.default_rng([seed, 1])
    jobs = [Job(_draw_solver(random, samples, states), _draw_limits(random), bool(random.random() < 0.3))]
    while random.random() < 0.6:
        jobs.append(Job(_draw_solver(random, samples, states), _draw_limits(random), bool(random.random() < 0.3)))
    return jobs


def _draw_limits(random: Random) -> rue.Limits:
    kind = random.random()
    if kind < 0.75:
        return rue.Limits(seconds=LONG)
    if kind < 0.9:
        return rue.Limits(seconds=LONG, iterations=int(random.choice([0, 1, 2, 5, 20, 100])))
    return rue.Limits(seconds=float(random.choice([0.0, 1e-4, 1e-3, 0.01, 0.05])))


def _draw_solver(random: Random, samples: int, states: int) -> rue.Solver:
    kind = random.random()
    if kind < 0.5:
        method = (rue.Regret, rue.Regret, rue.MyopicRegret, rue.WorstCase)[random.integers(4)]
        options = str(random.choice(["deterministic", "stochastic", "history"]))
        small = samples <= 6 and states <= 8
        steps = int(random.integers(1, 4 if small else 3))
        engine = "highs" if small and steps == 2 and options != "stochastic" and random.random() < 0.1 else "auto"
        return method(steps, options, prune=bool(random.random() < 0.5), engine=engine)
    if kind < 0.8:
        objective = "regret" if random.random() < 0.7 else "cost"
        gap = float(random.choice([0.0, 1e-3, 0.05, 0.5]))
        tail = float(random.choice([1.0, 0.5, 0.1, 1e-9])) if random.random() < 0.3 else None
        return rue.Adaptive(gap, objective=objective, tail=tail)
    if kind < 0.88:
        gap = float(random.choice([0.0, 1e-7, 0.1]))
        return rue.ExactStationary(gap=gap, prune=bool(random.random() < 0.3))
    return (rue.Average(), rue.BestSample(), rue.Mixture(), rue.Mixture())[random.integers(4)]


@dataclass(eq=False)
class Look:
    """A model, what solvers said about it, and what is known exactly."""

    spec: Spec
    seed: int
    model: rue.UMDP
    jobs: list[Job]
    solutions: list[rue.Solution]
    elapsed: list[float]  # seconds that each job took in all

    @cached_property
    def naive(self) -> Naive:
        """The model in fractions."""
        return Naive(self.model)

    @cached_property
    def is_exact(self) -> bool:
        """Whether fractions can tell: rows that sum to one, and few states."""
        return self.spec.states <= STATES and exact.rows_sum_to_one(self.naive)

    @cached_property
    def optimal(self) -> list[list[Fraction | float]]:
        """V*_k of every state, for each sample."""
        return [exact.optimal(self.naive, k) for k in range(self.model.samples)]

    @cached_property
    def scale(self) -> float:
        """The largest cost of a step or of the best way, to which tolerances are relative."""
        best = rue.optimal_values(self.model).value[self.model.graph.initial].max()
        return max(float(best), float(self.model.cost.max(initial=0.0)) or 1.0)

    @cached_property
    def policies(self) -> list[rue.Policy]:
        """Those that solvers found, and some at random."""
        return [solution.policy for solution in self.solutions] + [
            random_policy(self.model, np.random.default_rng([self.seed, 2, i])) for i in range(2)
        ]

    @cached_property
    def verdicts(self) -> list[rue.Evaluation]:
        """What the judge says of the policies."""
        return [rue.evaluate(fresh(self.model), policy) for policy in self.policies]

    @cached_property
    def least(self) -> float:
        """No policy that is known has a max regret below this, with what the judge may be off."""
        return self.least_of("regret")

    def least_of(self, objective: str, tail: float | None = None) -> float:
        """The same for the max or for a tail of the regret or of the cost."""
        return self.within(min(self.reached(v, objective, tail) + v.error for v in self.verdicts))

    def reached(self, verdict: rue.Evaluation, objective: str, tail: float | None) -> float:
        """The max, or a tail, of what a policy comes to."""
        figures = (verdict.regret if objective == "regret" else verdict.value).tolist()
        return max(figures) if tail is None else exact.tail(figures, self.model.weight.tolist(), tail)

    def within(self, upper: float) -> float:
        """An upper bound with room for rows that do not sum to one."""
        return upper if self.is_exact else upper * (1 + LOOSE) + LOOSE * self.scale


def random_policy(model: rue.UMDP, random: Random) -> rue.Policy:
    """A stationary policy: one choice for each state, or any of them."""
    graph = model.graph
    if random.random() < 0.5:
        counts = np.diff(graph.choice_ptr)
        choice = graph.choice_ptr[:-1] + (random.random(graph.states) * counts).astype(int)
        return rue.Policy.from_choices(graph, np.where(counts > 0, choice, -1))
    weight = 1.0 / np.diff(graph.choice_ptr)[graph.choice_state]
    return rue.Policy.from_weights(graph, weight)


def check_optimal(look: Look) -> str | None:
    """V* lies in its interval, and is infinite where the graph says so."""
    if not look.is_exact:
        return NOT_FOR_IT
    values = rue.optimal_values(fresh(look.model))
    for k, s in itertools.product(range(look.model.samples), range(look.spec.states)):
        true = look.optimal[k][s]
        if not values.lower[s, k] <= true <= values.upper[s, k] or (true == INF) != bool(values.dead[s, k]):
            said = f"[{values.lower[s, k]!r}, {values.upper[s, k]!r}]"
            return f"V* of state {s} in sample {k} is {float(true)!r}, not in {said}"
    return None


def check_numbers(look: Look) -> str | None:
    """No figure is NaN, and no interval the wrong way round."""
    for solution in look.solutions:
        intervals = [solution.objective, solution.max_regret]
        intervals += [rue.Interval(p.lower, p.upper) for p in solution.trace]
        for interval in intervals:
            if not 0 <= interval.lower <= interval.upper:
                return f"{solution.solver}: interval {interval.lower!r}, {interval.upper!r}"
        if not all(r >= 0 for r in solution.regret) and not _rounding(look, solution):
            return f"{solution.solver}: regrets {solution.regret}"
    return None


def _rounding(look: Look, solution: rue.Solution) -> bool:
    error = rue.evaluate(fresh(look.model), solution.policy).error
    return all(r >= -error for r in solution.regret)


def check_judge(look: Look) -> str | None:
    """The judge's figures are as far from the truth as it says, at most."""
    applied = False
    for policy, verdict in zip(look.policies, look.verdicts, strict=True):
        if not look.is_exact or policy.nodes > NODES:
            continue
        applied = True
        for k in range(min(look.model.samples, 4)):
            value, steps = exact.controller_value(look.naive, policy, k)
            best = look.optimal[k][look.model.graph.initial]
            if value == INF:
                if verdict.value[k] != INF or verdict.regret[k] != INF:
                    return f"sample {k}: the judge says {verdict.value[k]!r}; the goal is missed"
            elif math.isfinite(verdict.error):
                # Weights of a policy sum to one only nearly.
                allowed = Fraction(verdict.error) + Fraction(1, 10**14) * (1 + steps) * value
                if not math.isfinite(verdict.value[k]) or abs(Fraction(float(verdict.value[k])) - value) > allowed:
                    return f"sample {k}: the judge says {verdict.value[k]!r} ± {verdict.error}; it is {float(value)!r}"
                if abs(Fraction(float(verdict.regret[k])) - (value - best)) > allowed:
                    said = f"{verdict.regret[k]!r} ± {verdict.error}"
                    return f"sample {k}: the judge says regret {said}; it is {float(value - best)!r}"
    return None if applied else NOT_FOR_IT


def check_bound(look: Look) -> str | None:
    """No policy is below what is proved for all policies."""
    for solution in look.solutions:
        if solution.max_regret.lower > look.least:
            return (
                f"{solution.solver}: max regret at least {solution.max_regret.lower!r}; some policy has {look.least!r}"
            )
        if isinstance(solution.solver, rue.Adaptive):
            least = look.least_of(solution.solver.objective, solution.solver.tail)
            if solution.objective.lower > least:
                return f"{solution.solver}: objective at least {solution.objective.lower!r}; some policy has {least!r}"
    return None


def check_upper(look: Look) -> str | None:
    """The upper end of an objective is no less than what the policy comes to."""
    for solution, verdict in zip(look.solutions, look.verdicts, strict=False):
        solver = solution.solver
        cost = isinstance(solver, rue.WorstCase) or (isinstance(solver, rue.Adaptive) and solver.objective == "cost")
        tail = solver.tail if isinstance(solver, rue.Adaptive) else None
        if isinstance(solver, rue.MyopicRegret | rue.Average) or not math.isfinite(solution.objective.upper):
            continue
        if solution.status is rue.Status.TIME_LIMIT and solution.max_regret.upper == INF:
            continue  # there was no time left for the judge
        reached = look.reached(verdict, "cost" if cost else "regret", tail)
        if reached - verdict.error > look.within(solution.objective.upper):
            said = f"objective at most {solution.objective.upper!r}"
            return f"{solver}: {said}; the policy has {reached!r} ± {verdict.error}"
        if verdict.max_regret != solution.max_regret.upper and not (
            abs(verdict.max_regret - solution.max_regret.upper) <= 2 * verdict.error
        ):
            return f"{solver}: max regret {solution.max_regret.upper!r}; the judge says {verdict.max_regret!r}"
    return None


def check_status(look: Look) -> str | None:
    """Solved means that what is proved is as close as was asked for; infeasible that nothing is finite."""
    for solution in look.solutions:
        solver, objective = solution.solver, solution.objective
        if solution.status is rue.Status.INFEASIBLE and objective.lower != INF:
            return f"{solver}: infeasible with the objective {objective}"
        if solution.status is rue.Status.SOLVED:
            if not math.isfinite(objective.upper):
                return f"{solver}: solved with the objective {objective}"
            wanted = 1e-6 if isinstance(solver, rue.recursion.objectives.Recursion) else getattr(solver, "gap", 1.0)
            allowed = max(wanted, 2e-6) * objective.upper + 1e-6 * look.scale
            if objective.width > allowed:
                return f"{solver}: solved with the objective {objective}"
        if solution.status in {rue.Status.MEMORY_LIMIT, rue.Status.INTERRUPTED}:
            return f"{solver}: {solution.status}"
    return None


def check_feasible(look: Look) -> str | None:
    """A search to the end says infeasible if and only if no policy has a finite regret."""
    about = [
        s for s, j in zip(look.solutions, look.jobs, strict=True)
        if isinstance(s.solver, rue.Adaptive) and not j.limited and (s.solver.tail is None or look.model.weight.all())
    ]  # fmt: skip
    possible = exact.feasible(look.naive) if about else None
    if possible is None:
        return NOT_FOR_IT
    for solution in about:
        if possible == (solution.status is rue.Status.INFEASIBLE) and solution.status is not rue.Status.TIME_LIMIT:
            return f"{solution.solver}: {solution.status} {solution.objective}; some policy is finite: {possible}"
        if possible and solution.objective.lower == INF:
            return f"{solution.solver}: {solution.status} {solution.objective}; some policy is finite"
    return None


def check_closes(look: Look) -> str | None:
    """A search to the end is solved, or finds that there is no policy, where few things can ever be known."""
    about = [
        s for s, j in zip(look.solutions, look.jobs, strict=True)
        if isinstance(s.solver, rue.Adaptive) and not j.limited and s.status is rue.Status.UNPROVED
    ]  # fmt: skip
    if not look.is_exact or not any(isinstance(s.solver, rue.Adaptive) for s in look.solutions):
        return NOT_FOR_IT
    if not about or look.scale > 1e9 or exact.count_beliefs(look.naive) is None:
        return None
    return f"{about[0].solver}: unproved {about[0].objective}; only {exact.count_beliefs(look.naive)} beliefs"


def check_enumeration(look: Look) -> str | None:
    """Against all stationary deterministic policies, and all answers of an adversary."""
    naive, applied = look.naive, False
    count = math.prod(max(len(own), 1) for own in naive.choices)
    if not look.is_exact or count > POLICIES:
        return NOT_FOR_IT
    replies = naive.samples ** sum(not g for g in naive.goal)
    for solution in look.solutions:
        solver, exactly = solution.solver, None
        if isinstance(solver, rue.ExactStationary) and not solver.prune and count * naive.samples <= 2 * POLICIES:
            exactly = _best_stationary(look)
        elif _is_single_steps(solver) and count * replies <= 4 * POLICIES:
            exactly = naive.best_deterministic(_gap(look, solver))
        if exactly is not None:
            applied = True
            if not solution.objective.lower <= exactly <= solution.objective.upper:
                said = f"[{solution.objective.lower!r}, {solution.objective.upper!r}]"
                return f"{solver}: objective {said}; it is {float(exactly)!r}"
            if solution.status is rue.Status.INFEASIBLE and exactly != INF:
                return f"{solver}: infeasible; it is {float(exactly)!r}"
    return None if applied else NOT_FOR_IT


def _is_single_steps(solver: rue.Solver) -> bool:
    recursion = isinstance(solver, rue.recursion.objectives.Recursion)
    return recursion and solver.steps == 1 and solver.options == "deterministic" and not solver.prune


def _best_stationary(look: Look) -> Fraction | float:
    naive, best = look.naive, INF
    for policy in naive.policies():
        worst: Fraction | float = Fraction(0)
        for k in range(naive.samples):
            value = naive.policy_value(policy, k, naive.initial)
            worst = max(worst, INF if value == INF else value - look.optimal[k][naive.initial])
            if worst >= best:
                break
        best = min(best, worst)
    return best


def _gap(look: Look, solver: rue.Solver) -> list[list[Fraction | float]]:
    naive = look.naive
    if isinstance(solver, rue.MyopicRegret):
        return naive.myopic_gap()
    if isinstance(solver, rue.WorstCase):
        return naive.cost
    gap: list[list[Fraction | float]] = [[INF] * naive.samples for _ in naive.outcomes]
    for s, k in itertools.product(range(naive.states), range(naive.samples)):
        best = look.optimal[k]
        for c in naive.choices[s]:
            row = naive.row(c, k)
            if best[s] != INF and all(best[t] != INF for t in row):
                gap[c][k] = naive.cost[c][k] + sum(p * best[t] for t, p in row.items()) - best[s]
    return gap


def check_histories(look: Look) -> str | None:
    """Where no history is long, against a linear program over all of them."""
    naive, depth = look.naive, look.spec.states
    if not look.is_exact or look.scale > 1e6 or _has_circle(look.spec) or tree_size(naive, depth, TREE) > TREE:
        return NOT_FOR_IT
    value = sequence_form(naive, depth, _gap(look, rue.Regret()))
    room = 1e-6 * max(look.scale, 1e-6)
    for solution in look.solutions:
        if not solution.max_regret.lower <= value + room or not solution.max_regret.upper >= value - room:
            return f"{solution.solver}: max regret {solution.max_regret}; the best is {value!r}"
        if isinstance(solution.solver, rue.Adaptive) and solution.status is rue.Status.SOLVED:
            gap = solution.solver.gap
            if _is_minimax(solution.solver) and solution.max_regret.upper * (1 - gap) > value + room:
                return f"{solution.solver}: max regret {solution.max_regret}; the best is {value!r}"
    return None


def _is_minimax(solver: rue.Solver) -> bool:
    """Whether it looks for the least max regret of all policies."""
    return isinstance(solver, rue.Adaptive) and solver.objective == "regret" and solver.tail is None


def _has_circle(spec: Spec) -> bool:
    """Whether some way comes back to where it was."""
    follow = {s: {t for c in spec.choices if c.state == s for t, _ in c.to} for s in range(spec.states)}
    while True:
        ends = {s for s, after in follow.items() if not after}
        if not ends:
            return bool(follow)
        follow = {s: after - ends for s, after in follow.items() if s not in ends}


def check_order(look: Look) -> str | None:
    """A mixture is no worse than the best sample's policy, and adaptive is worse than others by its gap at most."""
    full = [
        (s.solver, s) for s, j in zip(look.solutions, look.jobs, strict=True)
        if not j.limited and s.status is rue.Status.SOLVED
    ]  # fmt: skip
    applied = False
    for solver, solution in full:
        regret = solution.max_regret.upper
        if _is_minimax(solver):
            applied = True
            if regret * (1 - max(solver.gap, 1e-6)) > look.within(look.least) + 1e-9 * look.scale:
                return f"{solver}: max regret {regret!r}; some policy has {look.least!r}"
        if isinstance(solver, rue.Mixture):
            best = [s for other, s in full if isinstance(other, rue.BestSample)]
            applied |= bool(best)
            if best and regret > look.within(best[0].max_regret.upper) * (1 + 1e-6) + 1e-9 * look.scale:
                return f"{solver}: max regret {regret!r}; a sample's policy has {best[0].max_regret.upper!r}"
    return None if applied else NOT_FOR_IT


def check_certificate(look: Look) -> str | None:
    """Proofs are accepted as they are, by `rue.verify` and by the checker; changed ones only if they are still true."""
    random, applied = np.random.default_rng([look.seed, 3]), False
    for solution in look.solutions:
        proof = solution.certificate
        if proof is None:
            continue
        applied = True
        for accept in (rue.verify, by_checker):
            proved, least = _accepted(accept, look, proof), look.least_of(proof.objective, proof.tail)
            if proved is None or not proof.bound <= proved <= least:
                said = f"{accept.__name__} finds {proved!r} and it claims {proof.bound!r}"
                return f"{solution.solver}: {said}; some policy has {least!r}"
        for _ in range(3):
            changed = tamper(proof, random)
            for accept in (rue.verify, by_checker) if changed is not None else ():
                proved = _accepted(accept, look, changed)
                least = look.least_of(changed.objective, changed.tail)
                if proved is not None and not proved <= least:
                    return (
                        f"{solution.solver}: {accept.__name__} takes {proved!r} when changed; some policy has {least!r}"
                    )
    return None if applied else NOT_FOR_IT


def by_checker(model: rue.UMDP, proof: rue.Certificate) -> float:
    """What the independent checker finds."""
    try:
        parts = json.loads(proof.to_json(model))
        numbers = checker._model(parts["model"])
        return checker.rounded_down(checker.check(numbers, checker._proof(parts["certificate"], numbers)))
    except (checker.BadFile, checker.Refused, ValueError) as error:
        raise rue.NotProved(str(error)) from None


def _accepted(accept: Callable[[rue.UMDP, rue.Certificate], float], look: Look, proof: rue.Certificate) -> float | None:
    """What a proof is found to prove; None if it is refused."""
    try:
        return accept(fresh(look.model), proof)
    except rue.RueError:
        return None


def tamper(proof: rue.Certificate, random: Random) -> rue.Certificate | None:
    """The certificate with something else in one place, mostly claiming more; None if it cannot be made."""
    names = ["value", "weight", "potential", "follow", "state", "bound", "objective", "scale", "tail"]
    name = str(random.choice(names))
    if name == "tail":
        return replace(proof, tail=None if proof.tail else float(random.choice([1.0, 0.5, 1e-3])), bound=0.0)
    if name == "objective":
        return replace(proof, objective="cost" if proof.objective == "regret" else "regret")
    if name == "bound":
        return replace(proof, bound=0.0)
    if name == "scale":
        factor = float(random.choice([1.01, 2.0, 1e6, 1 + 1e-9]))
        return replace(proof, value=proof.value * factor, bound=0.0)
    array = np.array(getattr(proof, name))
    if not array.size:
        return None
    at = random.integers(array.size, size=int(random.integers(1, 4)))
    if name in {"follow", "state"}:
        array.flat[at] = random.integers(-1, max(proof.points, 2), at.size)
    else:
        odd = [0.0, 1.0, 1e-300, 1e30, INF, math.nan, -1.0, 2.0**-1074]
        with np.errstate(all="ignore"):
            array.flat[at] = odd[random.integers(len(odd))] if random.random() < 0.3 else array.flat[at] * 1.001
    try:
        return replace(proof, bound=0.0, **{name: array})
    except rue.RueError:
        return None


def check_repeat(look: Look) -> str | None:
    """The same call gives the same, to the last bit. One model in three is enough: it takes as long as all else."""
    applied = False
    if look.seed % 3:
        return NOT_FOR_IT
    for job, elapsed in zip(look.jobs, look.elapsed, strict=True):
        if not job.repeats or elapsed > QUICK:
            continue
        applied = True
        # A limit of seconds makes a result depend on the machine, also where it is not reached.
        counted = replace(job, limits=replace(job.limits, seconds=INF))
        one, other = fingerprint(counted.run(look.model)), fingerprint(counted.run(look.model))
        if one != other:
            return f"{job.solver}: {one} and then {other}"
    return None if applied else NOT_FOR_IT


def fingerprint(solution: rue.Solution) -> dict[str, Any]:
    """All that must be the same in two runs."""
    policy = solution.policy
    arrays = (
        policy.node_state,
        policy.entry_ptr,
        policy.choice,
        policy.weight,
        policy.next_node,
        policy.start_node,
        policy.start_weight,
    )
    return {
        "status": solution.status.value,
        "objective": (solution.objective.lower, solution.objective.upper),
        "max_regret": (solution.max_regret.lower, solution.max_regret.upper),
        "regret": solution.regret,
        "policy": hash(b"".join(array.tobytes() for array in arrays)),
    }


CHECKS: dict[str, Callable[[Look], str | None]] = {
    "optimal": check_optimal,
    "numbers": check_numbers,
    "judge": check_judge,
    "bound": check_bound,
    "upper": check_upper,
    "status": check_status,
    "feasible": check_feasible,
    "closes": check_closes,
    "enumeration": check_enumeration,
    "histories": check_histories,
    "order": check_order,
    "certificate": check_certificate,
    "repeat": check_repeat,
}


def examine(spec: Spec, seed: int, jobs: list[Job] | None = None) -> tuple[list[Failure], Counter[str]]:
    """What is wrong with what rue says about a model, and how often each check was applied."""
    done: Counter[str] = Counter()
    try:
        model = spec.build()
    except rue.BadInput as error:
        done["refused"] += 1
        wrongly = _wrongly_refused(spec, str(error))
        return ([Failure("refused", wrongly)] if wrongly else []), done
    solutions: list[rue.Solution] = []
    elapsed: list[float] = []
    jobs = draw_jobs(seed, model.samples, spec.states) if jobs is None else jobs
    for job in jobs:
        done["solved"] += 1
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "invalid value", RuntimeWarning)  # an operation that makes NaN
                solutions.append(job.run(model))
        except Exception as error:
            return [Failure("solves", f"{job.solver}, {job.limits}: {type(error).__name__}: {error}")], done
        elapsed.append(time.perf_counter() - began)
    look = Look(spec, seed, model, jobs, solutions, elapsed)
    failures = []
    for name, check in CHECKS.items():
        try:
            wrong = check(look)
        except rue.SolverFailed as error:
            wrong = f"SolverFailed: {error}"
        if wrong != NOT_FOR_IT:
            done[name] += 1
        if wrong not in (None, NOT_FOR_IT):
            failures.append(Failure(name, wrong))
    return failures, done


def _wrongly_refused(spec: Spec, message: str) -> str | None:
    """Why a refusal is wrong: only models are refused in which some sample has no way to a goal."""
    if "no policy reaches a goal" not in message:
        return message
    rows = {s: [c for c in spec.choices if c.state == s] for s in range(spec.states)}
    for k in range(spec.samples):
        alive = set(range(spec.states))
        while True:
            reached = {s for s in alive if not rows[s]}
            while True:
                stays = lambda c: all(t in alive for t, p in c.to if p[k] > 0)  # noqa: B023, E731
                near = lambda c: any(t in reached for t, p in c.to if p[k] > 0)  # noqa: B023, E731
                more = {s for s in alive - reached if any(stays(c) and near(c) for c in rows[s])}
                if not more:
                    break
                reached |= more
            if reached == alive:
                break
            alive = reached
        if spec.initial not in alive:
            return None
    return f"refused, but every sample has a way: {message}"
