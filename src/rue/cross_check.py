"""Compare the results of the engines with each other. A contradiction between them is an error, never clipped.

Three engines compute results, and each proves its own: optimal values (`values.py`), the judge (`judge.py`) and the
solvers, with certificates that `certificate.verify` checks. In addition,

- *optimal values* are checked by Bellman's inequalities: the lower end is no more than the backup of any choice, the
  upper end no less than that of its policy, and that policy reaches a goal;
- *the judge's* costs are no less than V*, its figure is no more than the solver's own upper bound, where the solver has
  one on the same quantity, and the cost in the worst sample is computed a second time, by a sparse factorisation of
  the policy's chain (of policies with up to `MOST_ENTRIES` outcomes), else step by step;
- *a bound* for all policies holds for this one too: bound ≤ max regret + error.

After a limit the second computations of a large model may be cut off; the solution then counts it.
"""

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from rue._arrays import Array, members_with_owner, places
from rue._check import in_all
from rue._linear import solve_chain
from rue._threads import each
from rue.certificate import Certificate
from rue.errors import Contradiction, SolverFailed
from rue.formats import save
from rue.judge import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solution, Solver
from rue.structure import surely_reaching
from rue.values import OptimalValues
from rue.visits import PolicyChain

# By how much a backup may miss a bound on V*, as a fraction of it: more than rounding, less than any defect.
SLACK = 1e-9
# Numbers that are processed at a time.
CHUNK = 1 << 20
# The cost of a policy is computed a second time: by factorisation if its nodes have at most this many outcomes, else
# step by step, with at most this many multiplications, until the probability of unfinished episodes is below this.
MOST_ENTRIES, MOST_PRODUCTS, UNFINISHED = 20_000, 500_000_000, 1e-12
# By how much the two may differ: a part of the cost, and a part for each expected step.
DIFFERENCE, DIFFERENCE_BY_STEP = 1e-6, 1e-12
# A chain that takes more steps is not computed a second time: its factors may be no more than rounding errors.
MOST_STEPS = 1e12


def check_values(model: UMDP, values: OptimalValues, run: Run) -> bool:
    """Raise `Contradiction` if bounds on V* do not satisfy Bellman's inequalities, or its policies miss the goal.

    Return False if a limit left some of them unchecked.
    """
    lower = np.where(values.dead, np.inf, values.lower)
    size = max(CHUNK // model.samples, 1)
    checks = [partial(_check_choices, model, values, lower, i, size) for i in range(0, model.graph.choices, size)]
    checks += [partial(_check_policy_of, model, values, k) for k in range(model.samples)]
    return all(each(lambda check: _in_time(check, run), checks, run.threads))


def _in_time(check: Callable[[], None], run: Run) -> bool:
    """Do a check, if there is time; return whether there was."""
    if run.out_of_time():
        return False
    check()
    return True


def _check_choices(model: UMDP, values: OptimalValues, lower: Array, first: int, size: int) -> None:
    """Check that the lower end of V* is no more than the backup of some of the choices, in all samples."""
    some = np.arange(first, min(first + size, model.graph.choices))
    state = model.graph.choice_state[some]
    short = lower[state] > _backup(model, some, lower) * (1 + SLACK)
    _refuse(model, values, short & ~values.dead[state], state, "above the cost of a choice")


def _check_policy_of(model: UMDP, values: OptimalValues, k: int) -> None:
    """Check that the upper end of V* in one sample is the cost of a policy, or more."""
    graph = model.graph
    state = np.flatnonzero(np.isfinite(values.upper[:, k]) & ~graph.goal)
    choice = values.choice[state, k]
    upper = values.upper[:, k : k + 1]
    short = _backup(model, choice, upper, k)[:, 0] > upper[state, 0] * (1 + SLACK)
    within = np.zeros(graph.choices, bool)
    within[choice] = True
    short |= ~surely_reaching(graph, model.prob[:, k] > 0, within)[0][state]
    both = np.zeros((state.size, model.samples), bool)
    both[:, k] = short
    _refuse(model, values, both, state, "below the cost of its policy")


def _backup(model: UMDP, choice: Array, value: Array, sample: int | None = None) -> Array:  # [n, K]
    """Return the cost of choices with these values to follow, in all samples or in one."""
    graph = model.graph
    columns = slice(None) if sample is None else slice(sample, sample + 1)
    transition, owner = members_with_owner(graph.trans_ptr, choice)
    first = np.searchsorted(owner, np.arange(choice.size))
    prob = model.prob[transition, columns]
    ahead = np.where(prob > 0, value[graph.successor[transition]], 0.0)
    paid = model.cost[choice, columns]
    return np.asarray(paid + np.add.reduceat(prob * ahead, first) if choice.size else paid)


def _refuse(model: UMDP, values: OptimalValues, wrong: Array, state: Array, what: str) -> None:
    """Raise `Contradiction` for the first wrong value, if there is one."""
    if wrong.any():
        i, k = (int(index[0]) for index in np.nonzero(wrong))
        low, high = values.lower[state[i], k], values.upper[state[i], k]
        raise Contradiction(
            f"the optimal value of state {model.graph.state_name(state[i])} in sample {model.sample_name(k)}, "
            f"[{low!r}, {high!r}], is {what}; {in_all(int(wrong.sum()), 'value', 'so')}"
        )


def check_judge(model: UMDP, policy: Policy, verdict: Evaluation, run: Run) -> bool:
    """Raise `Contradiction` if the cost in the worst sample is not what a second computation finds.

    Return False if there was no time for it.
    """
    k = verdict.worst_sample
    if run.out_of_time():
        return False
    found = _cost_and_steps(model, policy, k, run) if np.isfinite(verdict.value[k]) else None
    if found is None:
        return not run.out_of_time()
    cost, steps = found
    if abs(cost - verdict.value[k]) > verdict.error + (DIFFERENCE + DIFFERENCE_BY_STEP * steps) * cost:
        raise Contradiction(
            f"the judge finds a cost of {float(verdict.value[k])!r} ± {verdict.error:.1e} in sample "
            f"{model.sample_name(k)}; a second computation finds {cost!r}"
        )
    return True


def _cost_and_steps(model: UMDP, policy: Policy, k: int, run: Run) -> tuple[float, float] | None:
    """Return the expected cost and steps of a policy in a sample, or None if that takes too long."""
    chain = PolicyChain.build(model, policy, k)
    paid = np.bincount(policy.entry_node, weights=policy.weight * model.cost[policy.choice, k], minlength=policy.nodes)
    if chain.source.size <= MOST_ENTRIES:
        return cost_by_factorisation(chain, paid)
    return cost_by_steps(chain, paid, run)


def cost_by_steps(chain: PolicyChain, paid: Array, run: Run) -> tuple[float, float] | None:
    """Return expected cost and steps, summed until almost no episode is unfinished, or None if that takes too long."""
    from scipy.sparse import csr_array  # slow to import

    inner, row, column, prob = _visited_part(chain)
    use = column < inner.size
    step = csr_array((prob[use], (column[use], row[use])), shape=(inner.size, inner.size))
    weight, paid = chain.start[inner], paid[inner]
    cost, steps = 0.0, 0.0
    for _ in range(MOST_PRODUCTS // max(prob.size, inner.size, 1)):
        unfinished = float(weight.sum())
        if unfinished < UNFINISHED:
            return cost, steps
        if run.out_of_time():
            return None
        cost, steps = cost + float((weight * paid).sum()), steps + unfinished  # without BLAS and its threads
        weight = step @ weight
    return None


def cost_by_factorisation(chain: PolicyChain, paid: Array) -> tuple[float, float] | None:
    """Return expected cost and steps by a linear system, or None if rounding is in the way."""
    inner, row, column, prob = _visited_part(chain)
    others = row != column  # a node that stays pays again
    row, column, prob = row[others], column[others], prob[others]
    leave = np.bincount(row, prob, inner.size)
    if not (leave > 0).all():
        return None
    right = np.column_stack([paid[inner], np.ones(inner.size)]) / leave[:, None]
    try:
        solved = solve_chain(row, column, prob / leave[row], right)
    except SolverFailed:  # the chain is numerically singular; the judge does not factorise it
        return None
    if not ((solved[:, 1] > 0.5) & (solved[:, 1] < MOST_STEPS)).all():  # each node takes a step at least
        return None
    cost, steps = chain.start[inner] @ solved
    return float(cost), float(steps)


def _visited_part(chain: PolicyChain) -> tuple[Array, Array, Array, Array]:
    """Return the nodes that are visited and no goals, and the edges out of them: from, to and probability.

    Edges have the places of nodes among these; that of a goal is one too large.
    """
    inner = np.flatnonzero(chain.reached() & ~chain.goal)
    place = places(inner, chain.goal.size, inner.size)
    row, column = place[chain.source], place[chain.target]
    use = row < inner.size
    return inner, row[use], column[use], chain.prob[use]


def max_regret(solver: Solver, outcome: Outcome, verdict: Evaluation, certificate: Certificate | None) -> Interval:
    """Return the proved interval around the least max regret of any policy; `Contradiction` if the engines disagree."""
    judged = solver.judged(verdict.regret, verdict.value, verdict.weight)
    if judged is not None and judged - verdict.error > outcome.objective.upper:
        raise Contradiction(
            f"{solver} proves a {solver.measures} of at most {outcome.objective.upper!r} for its policy; "
            f"the judge finds {judged!r} ± {verdict.error:.1e}"
        )
    proved = certificate.bound if certificate is not None else 0.0
    return Interval.proved(proved, verdict.at_most, "the least max regret of any policy")


@dataclass(eq=False)
class EvidenceFile:
    """The model, or what is in memory of a source, and once there is one, the solution: what shows a contradiction."""

    model: UMDP | None
    solution: Solution | None = None

    def attached(self, problem: Contradiction) -> Contradiction:
        """Return the contradiction, with the name of a file that holds the evidence."""
        folder = Path(tempfile.mkdtemp(prefix="rue-contradiction-"))
        if self.model is not None:
            save(folder / "model.rue", self.model)
        if self.solution is not None:
            save(folder / "solution.rue", self.solution)
        path = folder / "contradiction.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("message.txt", f"{problem}\n")
            for part in sorted(folder.glob("*.rue")):
                archive.write(part, part.name)
                part.unlink()
        return Contradiction(f"{problem}. This is a bug of rue: please send us {path}")
