"""Improve a controller without more nodes: what each node does, where it goes on, and where the controller starts.

At a controller with values v and visits n, let node i draw step e (a choice and the next node of each of its outcomes,
all known ones) with probability x_ie. To first order its cost in sample k is

    V_k + Σ_i Σ_e n_ik (q_ek − v_ik) x_ie,       Σ_e x_ie = 1,

with q_ek what the step costs with v to follow, and linear in the start weights too. The least worst case over x is a
linear program. Its dual is a belief b over the samples, and the step that node i needs most is the best one for the
weights b_k n_ik: it is found outcome by outcome, and added, until the program gets no better (column generation). Only
K of its rows are not sums of probabilities, so that few nodes are drawn at random.

The result is computed anew, and taken if it is better. If not, the next program may change probabilities by less (a
trust region). So the figure falls with each step that is taken, to a local optimum.
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue._highs import Ended, Program
from rue.controllers import merged
from rue.errors import SolverFailed
from rue.policy import Policy
from rue.shrinking.chains import Chain, Steps, controller, made_positive
from rue.solution import Run

# Programs at one controller, and the part of the figure that the next one has to gain.
PROGRAMS, GAIN = 8, 1e-4
# Nodes that are looked at, those that are visited most, and steps that are added at a time, at most.
MOST_NODES, MOST_STEPS = 2000, 600
# By how much probabilities may change at first; a step is taken if it gains this part of what was expected, and the
# next ones may be longer or shorter by these factors.
RADIUS, TAKEN, GOOD, LONGER, SHORTER, LEAST_RADIUS = 0.5, 0.1, 0.5, 2.0, 0.3, 0.002
# The search ends after `PATIENCE` improvements by less than the part `SMALL`.
SMALL, PATIENCE = 2e-3, 3
# Probabilities below this are dropped, and so are numbers of a program; none is above its inverse square root or so.
NEGLIGIBLE, LARGEST = 1e-9, 1e6
# A sample counts in the first belief by how near it is to the worst, as a part of the figure.
NEAR = 0.02


@dataclass(frozen=True, eq=False)
class ProgramSolution:
    """A solution of the program: probabilities of the old and new steps, start weights, and what is expected."""

    node: Array  # of each step
    steps: Steps
    weight: Array
    start: Array  # [N]
    expected: float
    belief: Array  # [K]


def improved(chain: Chain, target: float, rounds: int, run: Run) -> Chain:
    """Return a controller with no more nodes, and with no larger figure, as soon as that is at most `target`.

    It gives up where as many steps as are left would not reach the target, if each gained as much as the last one.
    """
    radius, small, belief = RADIUS, 0, None
    for left in range(rounds - 1, -1, -1):
        if chain.figure <= target or small >= PATIENCE or radius < LEAST_RADIUS or run.out_of_time():
            break
        solution = best_solution(chain, radius, run, belief)
        if solution is None or solution.expected > (1 - GAIN) * chain.figure:
            break
        belief = solution.belief
        found = Chain.of(chain.model, _drawn(chain, solution), chain.measure)
        gained = -1.0 if found is None else (chain.figure - found.figure) / (chain.figure - solution.expected)
        if found is None or gained <= TAKEN:
            radius *= SHORTER
            continue
        small += found.figure > (1 - SMALL) * chain.figure
        radius = min(1.0, LONGER * radius) if gained > GOOD else radius
        hopeless = target > 0 and found.figure - target > left * (chain.figure - found.figure)
        chain = found
        if hopeless:
            break
    return chain


def best_solution(
    chain: Chain, radius: float, run: Run, belief: Array | None = None, programs: int = PROGRAMS
) -> ProgramSolution | None:
    """Return the best solution to first order with probabilities that change by `radius` at most."""
    node, steps = chain.outcomes.entry_node, chain.entries
    seen: set[bytes] = set()
    solution: ProgramSolution | None = None
    belief = _first_belief(chain) if belief is None else belief
    for _ in range(programs):
        more_node, more = _needed(chain, belief, seen)
        if solution is not None and not more_node.size:
            break
        node, steps = np.append(node, more_node), steps.with_more(more)
        found = _program(chain, node, steps, radius, run)
        if found is None or run.out_of_time():
            break
        enough = solution is not None and found.expected > solution.expected - GAIN * chain.figure
        solution, belief = found, found.belief
        if enough:
            break
    return solution


def _first_belief(chain: Chain) -> Array:  # [K]
    """Return a belief in the samples that are nearly the worst."""
    figure = chain.cost - chain.measure.offset
    share = chain.measure.cap * np.exp((figure - figure.max()) / (NEAR * max(chain.figure, chain.measure.floor)))
    return np.asarray(share / share.sum()) if share.sum() > 0 else np.full(share.size, 1 / share.size)


def _needed(chain: Chain, belief: Array, seen: set[bytes]) -> tuple[Array, Steps]:
    """Return the nodes that gain by another step for a belief, most first, and that step, unless it was seen."""
    graph, policy = chain.model.graph, chain.policy
    weight = made_positive(belief) * chain.visits
    node = np.flatnonzero(_looked_at(chain) & (weight.sum(axis=1) > 0) & ~graph.goal[policy.node_state])
    steps, least = chain.best_steps(weight[node], policy.node_state[node])
    now = (weight[node] * chain.value[node]).sum(axis=1)
    gain = now - least
    chosen = np.argsort(-gain, kind="stable")[:MOST_STEPS]
    chosen = np.sort(chosen[gain[chosen] > 1e-9 * np.abs(now[chosen])])
    node, steps = node[chosen], steps.taken(graph, chosen)
    ends = np.cumsum(np.diff(graph.trans_ptr)[steps.choice])[:-1]
    fresh = []
    for i, following in enumerate(np.split(steps.following, ends) if node.size else ()):
        key = b"%d %d " % (node[i], steps.choice[i]) + following.tobytes()
        if key not in seen:
            seen.add(key)
            fresh.append(i)
    new = np.array(fresh, np.int64)
    return node[new], steps.taken(graph, new)


def _looked_at(chain: Chain) -> Array:  # [N]
    """Return which nodes may change: those that are visited most."""
    seen = np.ones(chain.policy.nodes, bool)
    seen[np.argsort(-chain.visits.sum(axis=1), kind="stable")[MOST_NODES:]] = False
    return seen


def _program(chain: Chain, node: Array, steps: Steps, radius: float, run: Run) -> ProgramSolution | None:
    """Return the best probabilities of the steps and of the start, or None if HiGHS fails or time runs out."""
    policy, samples = chain.policy, chain.model.samples
    old = np.append(policy.weight, np.zeros(node.size - policy.weight.size))
    change = chain.visits[node] * (chain.step_value(steps) - chain.value[node])  # [steps, K]
    free = np.flatnonzero((np.bincount(node, minlength=policy.nodes)[node] > 1) & _looked_at(chain)[node])
    first = chain.nodes_at(policy.graph.initial)
    scale = max(chain.figure, chain.measure.floor)
    # What does not depend on the program: the figure without its start. The old steps change nothing.
    fixed = chain.cost - chain.measure.offset - chain.start[first] @ chain.value[first]
    owner, row = np.unique(node[free], return_inverse=True)
    capped = bool(chain.measure.cap.min() < 1.0)
    table = np.vstack([change[free], chain.value[first]]).T / scale
    table = np.clip(np.where(np.abs(table) < NEGLIGIBLE, 0.0, table), -LARGEST, LARGEST)
    moving, extra = free.size + first.size, 1 + (samples if capped else 0)
    now = np.append(old[free], chain.start[first])
    top_row, top_column = np.nonzero(table)
    sum_row = samples + np.append(row, np.full(first.size, owner.size))
    worst = np.arange(samples)
    sums = np.ones(owner.size + 1)
    program = Program(
        cost=np.concatenate([np.zeros(moving), [1.0], chain.measure.cap if capped else []]),
        lower=np.concatenate([np.maximum(now - radius, 0.0), [-np.inf], np.zeros(extra - 1)]),
        upper=np.concatenate([np.minimum(now + radius, 1.0), np.full(extra, np.inf)]),
        row=np.concatenate([top_row, worst, worst if capped else [], sum_row]).astype(np.int64),
        column=np.concatenate(
            [top_column, np.full(samples, moving), moving + 1 + worst if capped else [], np.arange(moving)]
        ).astype(np.int64),
        value=np.concatenate(
            [table[top_row, top_column], -np.ones(samples * (2 if capped else 1)), np.ones(moving)]
        ),
        row_lower=np.append(np.full(samples, -np.inf), sums),
        row_upper=np.append(-fixed / scale, sums),
    )  # fmt: skip
    try:
        found = program.solve(run.seconds_left)
    except SolverFailed:
        return None
    if found.status is not Ended.OPTIMAL or found.x is None or found.row_dual is None:
        return None
    weight, start = old, np.zeros(policy.nodes)
    weight[free], start[first] = found.x[: free.size], found.x[free.size : moving]
    belief = np.maximum(-found.row_dual[:samples], 0.0)
    total = float(belief.sum())
    return ProgramSolution(node, steps, weight, start, found.objective * scale, belief / total if total > 0 else belief)


def _drawn(chain: Chain, solution: ProgramSolution) -> Policy:
    """Return the controller that draws the steps with the probabilities of a solution."""
    graph, policy = chain.model.graph, chain.policy
    used = np.flatnonzero(solution.weight > NEGLIGIBLE)
    used = used[np.argsort(solution.node[used], kind="stable")]
    node, weight = solution.node[used], solution.weight[used]
    total = np.bincount(node, weight, policy.nodes)
    steps = solution.steps.taken(graph, used)
    count = np.bincount(node, minlength=policy.nodes)
    part = (policy.node_state, count, steps.choice, weight / total[node], steps.following)
    return merged(controller(graph, part, np.where(solution.start > NEGLIGIBLE, solution.start, 0.0)))
