"""The propositions of the paper as functions: what an adversary can do, and how far that is from the true regret.

*Proposition 1* (regret Bellman equation). The regret of a proper policy is what its gaps come to:

    reg(s, π) = Σ_a π(s,a) [ Q^gap(s,a) + Σ T(s,a,s') reg(s', π) ],    Q^gap(s,a) = C̄(s,a) + Σ T(s,a,s') V*(s') − V*(s)

*Proposition 2* said that n = 1 is exact where the uncertainties of different state-action pairs are independent. The
corrigendum withdraws it: the adversary's gaps use the V* of the sample that is applied now, the true regret that of
the sample that is applied afterwards. n = 1 is exact for no class of models, and nothing here claims it.

*Proposition 3* bounds what the adversary σ^1, who picks a sample at every step, adds to the true max regret:

    0 ≤ max over σ^1 of reg(s_0, π) − max over k of reg_k(s_0, π) ≤ (δ_C + 2 δ_V* + 2 δ_T C_max H) H

`constants` gives all of these numbers for a policy.

*Definition 7 and Proposition 4.* With one n-step option for each state a sample becomes the n-step option MDP

    T^o(s, s') = Pr(s' after n steps),    C^o(s) = V^n(s) + Σ T^o(s, s') V*(s') − V*(s)

which is `option_model`; `option_policy` is the controller that follows the options. The regret against σ^n, who picks a
sample every n steps, is the robust cost of the n-step option model.

*Proposition 5.* Its first half, max over σ^n of reg(s_0, π) ≥ max over k of reg_k(s_0, π), holds for every policy and
n: `adversary_regret` is that upper bound. For a fixed policy it does not rise from n to k·n, as the adversary has fewer
chances to change the sample. Its second half says the same of the best policies with n-step and with k·n-step
options. That needs history-dependent options: an option of k·n steps must be able to do what k options of n steps do,
each of which knows the state where it began. For options that depend on state and time alone, which are those of the
paper's method, it is false (`tests/data/cases/prop5.json`: 0 for n = 2 and 5 for n = 4).

*The adversary* moves at steps 0, n, 2n, … He sees the node of the controller, but no draw before it is made: neither
the choices of a randomised policy within the next n steps nor the draw of the first node. With n beyond the length of
every episode he is left with one sample, and the bound is the true max regret.

*How, and what is proved.* Against a fixed policy the adversary has a Markov decision process with a state for each
node where he moves and a choice for each sample. Whether all of his policies end is decided on the graph; if not, the
regret is infinite. His best policy is found by policy iteration with sparse factorisations. The result is proved by
two inequalities: v + εw ≥ the backup of v + εw in all samples bounds from above, and v − εw ≤ the backup of v − εw
under his answer bounds from below, where w counts options. Rounding and the errors of V* are on the safe side.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, members, members_with_owner, places
from rue._check import flag, in_all, number_array, whole_number
from rue._linear import solve_chain
from rue._rounding import TWICE_ROUNDOFF, UNDERFLOW
from rue.controllers import put_together
from rue.errors import BadInput, SolverFailed
from rue.evaluation import evaluate
from rue.judge import visited_nodes
from rue.model import UMDP, Graph, check_model, check_same_graph
from rue.policy import Policy, check_policy
from rue.solution import Cache, Interval
from rue.values import OptimalValues, optimal_values, regret_gap

# Most rounds of the adversary's policy iteration; the proof holds for any result.
ROUNDS = 200
# Chances below this are left out of a chain that is factorised; the proof leaves nothing out.
NEGLIGIBLE = 1e-20
# Most steps between two moves of the adversary: each is a product with the matrix of all places.
MOST_STEPS = 10_000


@dataclass(frozen=True)
class Constants:
    """The numbers of Prop. 3 for a policy. Differences and H are rounded up, so that the bound is one."""

    delta_C: float  # δ_C: costs of a choice in two samples differ by no more  # noqa: N815
    delta_T: float  # δ_T: half the distance of a choice's transition probabilities in two samples is no more  # noqa: N815
    delta_V: float  # δ_V*: optimal values of a state in two samples differ by no more  # noqa: N815
    C_max: float  # no cost is more
    H: float  # no visited node is further from a goal, in expected steps, against every adversary
    bound: float  # (δ_C + 2 δ_V* + 2 δ_T C_max H) H
    adversary: Interval  # max over σ^1 of reg(s_0, π)
    true: Interval  # max over k of reg_k(s_0, π), by the judge

    @property
    def excess(self) -> Interval:
        """The difference to the true max regret, which lies between 0 and `bound` by Prop. 3."""
        if self.adversary.lower == np.inf:
            return Interval(0.0 if self.true.lower == np.inf else np.inf, np.inf)
        return Interval(max(self.adversary.lower - self.true.upper, 0.0), self.adversary.upper - self.true.lower)


def constants(model: UMDP, policy: Policy, *, visited: bool = False) -> Constants:
    """Return the constants and the bound of Prop. 3 for any policy, with the adversary's and the true regret.

    H bounds the expected number of steps to a goal against every adversary who changes the sample at each step, from
    each node that can be visited. The initial state alone is not enough: the proof bounds V(s', π) by C_max·H at the
    successors s', and one of them may be further away. Infinite, as is the bound, if some adversary keeps the policy
    from the goal.

    The paper's constants range over all states and choices. With `visited` they range over those that the policy can
    meet, which is all that the proof needs, and gives a smaller bound. States that are dead ends in all samples do not
    count; one that is a dead end in some makes δ_V* infinite.
    """
    flag("visited", visited)
    adversary = _AdversaryProblem.build(model, policy, 1)
    cache = Cache()
    graph, values = model.graph, optimal_values(model, cache=cache)
    seen, used = np.full(graph.states, not visited), np.full(graph.choices, not visited)
    seen[policy.node_state[adversary.order]] = True
    used[adversary.choice] = True
    verdict = evaluate(model, policy, cache=cache)
    delta_cost = float(np.ptp(model.cost[used], axis=1).max(initial=0.0)) * (1 + TWICE_ROUNDOFF)
    delta_transition = _transition_distance(model, used)
    delta_value = _value_difference(values, seen)
    most_cost = float(model.cost[used].max(initial=0.0))
    steps = adversary.most_steps()
    bound = np.inf
    if np.isfinite(steps):
        one_step = delta_cost + 2 * delta_value + 2 * delta_transition * most_cost * steps
        bound = one_step * steps * (1 + 8 * TWICE_ROUNDOFF) if steps > 0 else 0.0
    true = Interval(max(verdict.max_regret - verdict.error, 0.0), verdict.at_most)
    regret = adversary.regret(values)
    return Constants(delta_cost, delta_transition, delta_value, most_cost, steps, bound, regret, true)


def adversary_regret(model: UMDP, policy: Policy, steps: int = 1) -> Interval:
    """Return proved bounds on max over σ^n of reg(s_0, π), n = `steps`: the upper bound of Prop. 5 for any policy.

    The adversary picks a sample at steps 0, n, 2n, … Infinite if he can keep the policy from the goal.
    """
    problem = _AdversaryProblem.build(model, policy, whole_number("steps", steps, 1, MOST_STEPS))
    return problem.regret(optimal_values(model))


@dataclass(frozen=True, eq=False)
class OptionModel:
    """The n-step option MDP of each sample (the paper's Definition 7), with one option for each state.

    The numbers are plain floating point. Where there is no option, `transition` is zero and `cost` infinite; `cost` is
    infinite as well at dead ends and where the option may lead into one.
    """

    steps: int
    transition: Array  # [K, S, S] T^o: where the option of a state leads
    value: Array  # [K, S] V^n: the expected cost of its steps
    cost: Array  # [K, S] C^o: its regret, V^n + Σ T^o V* − V*


def option_model(model: UMDP, options: ArrayLike) -> OptionModel:
    """Return T^o and C^o for given options.

    `options[S, n, S]` holds choices: what the option of the first state takes at step t in the second state. Numbers
    with a point, `options[S, n, C]`, are the probabilities of choices instead. −1, or no probability at all, is for
    states that the option never reaches. An option stops early at a goal, and is executed n = `options.shape[1]` steps
    otherwise. The result is dense: it is meant for small models.
    """
    graph, table = check_model(model).graph, _OptionTable.check(model, options)
    shape = (model.samples, graph.states)
    transition, value = np.zeros((*shape, graph.states)), np.zeros(shape)
    missing = np.zeros(graph.states, bool)
    for state in range(graph.states):
        own = slice(graph.choice_ptr[state], graph.choice_ptr[state + 1])
        missing[state] = not graph.goal[state] and not table.weight(state, 0)[own].any()
        if missing[state]:
            continue
        place = np.zeros((graph.states, model.samples))
        place[state] = 1.0
        for time in range(table.steps):
            weight = table.weight(state, time)
            table.check_needed(state, time, weight, place.max(axis=1) > 0)
            flow = weight[:, None] * place[graph.choice_state]
            value[:, state] += (flow * model.cost).sum(axis=0)
            place = np.where(graph.goal[:, None], place, 0.0)
            np.add.at(place, graph.successor, flow[graph.trans_choice] * model.prob)
        transition[:, state] = place.T
    best = optimal_values(model).value.T  # [K, S]
    with np.errstate(invalid="ignore"):
        later = np.where(transition > 0, transition * best[:, None, :], 0.0).sum(axis=2)
        cost = np.where(np.isinf(best) | missing, np.inf, value + later - best)
    return OptionModel(table.steps, transition, value, np.maximum(cost, 0.0))


def option_policy(model: UMDP, options: ArrayLike) -> Policy:
    """Return the controller that follows the options of `option_model`, one after the other.

    It remembers the state where the option began and the step within it.
    """
    table = _OptionTable.check(check_model(model), options)
    graph, ever = model.graph, model.ever_live
    nodes: list[tuple[int, int, int]] = []  # state where the option began, step (-1: none is followed), state
    number: dict[tuple[int, int, int], int] = {}

    def node(began: int, time: int, state: int) -> int:
        key = (state, 0, state) if time == table.steps or graph.goal[state] else (began, time, state)
        if key not in number:
            number[key] = len(nodes)
            nodes.append(key)
        return number[key]

    count: list[int] = []
    choice: list[int] = []
    weight: list[float] = []
    following: list[int] = []
    node(graph.initial, 0, graph.initial)
    for began, time, state in nodes:  # grows as it is read
        taken = np.arange(graph.choice_ptr[state], graph.choice_ptr[state + 1])
        if time < 0:  # no sample leads here
            taken, chance = taken[:1], np.ones(graph.choices)
        else:
            chance = table.weight(began, time)
            table.check_needed(began, time, chance, np.arange(graph.states) == state)
            taken = taken[chance[taken] > 0]
        count.append(taken.size)
        choice += taken.tolist()
        weight += chance[taken].tolist()
        for c in taken:
            for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                to = int(graph.successor[t])
                following.append(node(to, -1, to) if time < 0 or not ever[t] else node(began, time + 1, to))
    now = [state for _, _, state in nodes]
    part = (np.array(now), np.array(count), np.array(choice, np.int64), np.array(weight), np.array(following, np.int64))
    return put_together(graph, [part], np.zeros(1, np.int64), np.ones(1))


def _transition_distance(model: UMDP, used: Array) -> float:
    """Return δ_T: half the largest Σ |T_i − T_j| over choices in use and pairs of samples."""
    graph = model.graph
    keep = used[graph.trans_choice]
    # A choice may name a successor twice; distances are between the sums.
    pair = graph.trans_choice[keep].astype(np.int64) * graph.states + graph.successor[keep]
    pairs, group = np.unique(pair, return_inverse=True)
    if pairs.size == 0:
        return 0.0
    prob = np.zeros((pairs.size, model.samples))
    np.add.at(prob, group, model.prob[keep])
    first = np.flatnonzero(np.append(True, np.diff(pairs // graph.states) > 0))
    largest = 0.0
    for k in range(model.samples):
        distance = np.add.reduceat(np.abs(prob - prob[:, k : k + 1]), first, axis=0)
        largest = max(largest, float(distance.max()))
    longest = int(np.diff(np.append(first, pairs.size)).max())
    return 0.5 * largest * (1 + TWICE_ROUNDOFF * (longest + 2))


def _value_difference(values: OptimalValues, seen: Array) -> float:
    """Return δ_V*: the largest difference of a state's optimal values in two samples."""
    count = seen & ~values.dead.all(axis=1)
    if values.dead[count].any():
        return np.inf
    highest, lowest = values.upper[count].max(axis=1), values.lower[count].min(axis=1)
    return float((highest - lowest).max(initial=0.0)) * (1 + TWICE_ROUNDOFF)


def _gap_error(model: UMDP, values: OptimalValues) -> float:
    """Return a bound on the error of any gap: the errors of V*, and of the sum itself."""
    longest = int(np.diff(model.graph.trans_ptr).max(initial=0))
    largest = float(model.cost.max(initial=0.0)) + 2 * float(values.value[~values.dead].max(initial=0.0))
    return 2 * values.error + TWICE_ROUNDOFF * (longest + 4) * largest


@dataclass(frozen=True, eq=False)
class _AdversaryProblem:
    """The adversary's problem against a fixed policy. M visited nodes that are no goals; rows are (node, sample)."""

    model: UMDP
    policy: Policy
    steps: int
    order: Array  # [M] nodes
    start: Array  # [D] places of the start nodes; M at a goal
    owner: Array  # [e] the place whose entry it is
    choice: Array  # [e]
    weight: Array  # [e]
    step: Any  # [M·K, M·K] sparse: one step within a sample
    ends: Array  # [M·K] whether a step may lead to a goal

    @classmethod
    def build(cls, model: UMDP, policy: Policy, steps: int) -> "_AdversaryProblem":
        from scipy.sparse import csr_array

        check_same_graph(model, check_policy(policy).graph)
        graph, samples = model.graph, model.samples
        order = visited_nodes(model, policy)
        size = order.size
        place = places(order, policy.nodes, size)
        entry, owner = members_with_owner(policy.entry_ptr, order)
        choice = policy.choice[entry]
        trans, taken = members_with_owner(graph.trans_ptr, choice)
        source = owner[taken]
        target = place[policy.next_node[members(policy.next_ptr, entry)]]
        prob = policy.weight[entry[taken], None] * model.prob[trans]
        possible = model.prob[trans] > 0
        ends = np.zeros((size + 1, samples), bool)
        np.logical_or.at(ends, np.where(target == size, source, size), possible)
        j, k = np.nonzero(possible & (target < size)[:, None])
        at = (source[j] * samples + k, target[j] * samples + k)
        step = csr_array((prob[j, k], at), shape=(size * samples, size * samples))
        return cls(
            model, policy, steps, order, place[policy.start_node], owner, choice, policy.weight[entry],
            step, ends[:size].ravel(),
        )  # fmt: skip

    @cached_property
    def live(self) -> Any:
        """`step` with ones where it has entries."""
        live = self.step.copy()
        live.data[:] = 1.0
        return live

    @cached_property
    def moves(self) -> Array:  # [M]
        """The places at which the adversary moves after the first time: those at steps n, 2n, …"""
        size = self.order.size
        found, fresh = np.zeros((2, size), bool)
        fresh[self.start[self.start < size]] = True
        backward = self.live.T.tocsr()
        while fresh.any():
            front = np.repeat(fresh, self.model.samples)
            for _ in range(self.steps):
                front = backward @ front.astype(float) > 0
            ahead = front.reshape(size, self.model.samples).any(axis=1)
            fresh = ahead & ~found
            found |= ahead
        return found

    @cached_property
    def proper(self) -> bool:
        """Whether the policy reaches a goal with probability one against every adversary.

        If not, there are places among which he can stay for ever: the largest set of them with, at each, a sample in
        which n steps lead nowhere else.
        """
        size, stay = self.order.size, self.moves.copy()
        while stay.any():
            inside = np.repeat(stay, self.model.samples)
            for _ in range(self.steps):
                inside = ~(self.ends | (self.live @ (~inside).astype(float) > 0))
            still = stay & inside.reshape(size, self.model.samples).any(axis=1)
            if (still == stay).all():
                return False
            stay = still
        return True

    def regret(self, values: OptimalValues) -> Interval:
        """Return bounds on the regret of the policy against the best adversary."""
        if not self.proper:
            return Interval(np.inf, np.inf)
        gap, error = regret_gap(self.model, values), _gap_error(self.model, values)
        if not np.isfinite(error):
            return Interval(0.0, np.inf)
        # An infinite gap is where the policy never is in that sample: it would be improper.
        gap = np.where(np.isfinite(gap), gap, 0.0)
        paid, above, below = (self._paid(g) for g in (gap, gap + error, np.maximum(gap - error, 0.0)))
        try:
            value, reply = self._worst_case(paid)
            count, _ = self._worst_case(np.ones_like(paid))
        except SolverFailed:
            return Interval(0.0, np.inf)
        return self._prove(above, below, value, reply, count)

    def most_steps(self) -> float:
        """Return H: a bound on the expected number of steps from any visited node, for n = 1; infinite if improper."""
        if not self.proper:
            return np.inf
        size = self.order.size
        ones = np.ones((size, self.model.samples))
        try:
            count, _ = self._worst_case(ones)
        except SolverFailed:
            return np.inf
        drop = self._drop(count, self._carry(count))[self.moves]
        short = float(drop.min(initial=1.0))
        if not short > 0:
            return np.inf
        # count / short falls by one at least with every step, so that no adversary can make it last longer.
        count = count / min(short, 1.0)
        first = (ones + self._carry(count))[self.start[self.start < size]].max(initial=0.0)
        return float(max(count.max(initial=0.0), first)) * (1 + self._unit)

    @property
    def _unit(self) -> float:
        """The relative rounding error of n steps of probabilities and costs: all terms are positive."""
        terms = int(np.diff(self.step.indptr).max(initial=0)) + int(np.bincount(self.owner).max(initial=0))
        return TWICE_ROUNDOFF * (self.steps * (terms + 4) + 8)

    def _paid(self, gap: Array) -> Array:  # [M, K]
        """Return what n steps from each place cost in each sample."""
        once = np.zeros((self.order.size, self.model.samples))
        np.add.at(once, self.owner, self.weight[:, None] * gap[self.choice])
        total = np.zeros(once.size)
        for _ in range(self.steps):
            total = once.ravel() + self.step @ total
        return np.asarray(total.reshape(once.shape))

    def _carry(self, value: Array) -> Array:  # [M, K]
        """Return the expected value after n steps from each place in each sample."""
        flat = np.repeat(value, self.model.samples)
        for _ in range(self.steps):
            flat = self.step @ flat
        return np.asarray(flat.reshape(value.size, self.model.samples))

    def _at_start(self, block: Array) -> Array:  # [K]
        """Return the mean over the start nodes."""
        return np.asarray(self.policy.start_weight @ np.vstack([block, np.zeros(self.model.samples)])[self.start])

    def _worst_case(self, paid: Array) -> tuple[Array, Array]:
        """Compute the adversary's best policy by policy iteration: values [M] and the sample that he picks."""
        nodes = np.flatnonzero(self.moves)
        value, reply = np.zeros(self.order.size), paid.argmax(axis=1)
        if nodes.size == 0:
            return value, reply
        for _ in range(ROUNDS):
            value[nodes] = solve_chain(*self._option_rows(nodes, reply[nodes]), paid[nodes, reply[nodes]])
            backup = paid + self._carry(value)
            best = backup.argmax(axis=1)
            # A sample is replaced only by a better one, so that ties do not lead to cycles.
            better = np.flatnonzero(np.take_along_axis(backup, best[:, None], 1)[:, 0] * (1 - 1e-13) > value)
            better = better[self.moves[better] & (best[better] != reply[better])]
            if better.size == 0:
                break
            reply[better] = best[better]
        return value, reply

    def _option_rows(self, nodes: Array, reply: Array) -> tuple[Array, Array, Array]:
        """Return the chain from move to move under his policy: row, column and probability."""
        from scipy.sparse import csr_array

        own = nodes * self.model.samples + reply
        rows = csr_array((np.ones(nodes.size), (np.arange(nodes.size), own)), shape=(nodes.size, self.step.shape[0]))
        for _ in range(self.steps):
            rows = rows @ self.step
            rows.data[rows.data < NEGLIGIBLE] = 0.0
            rows.eliminate_zeros()
        place = places(nodes, self.order.size, nodes.size)
        flat = rows.tocoo()
        return flat.row, place[flat.col // self.model.samples], flat.data

    def _drop(self, count: Array, carried: Array) -> Array:  # [M, K]
        """Return by how much the weight falls with an option, at least."""
        return np.asarray(count[:, None] - carried - self._unit * (count[:, None] + carried))

    def _prove(self, above: Array, below: Array, value: Array, reply: Array, count: Array) -> Interval:
        """Return bounds from the inequalities of the module's docstring, with w = `count`."""
        unit, moves = self._unit, self.moves
        carried, counted = self._carry(value), self._carry(count)
        drop = self._drop(count, counted)[moves]
        if not (drop > 0).all():
            return Interval(0.0, np.inf)
        now = value[:, None]
        over = (above + carried - now + unit * (above + carried + now) + UNDERFLOW)[moves]
        epsilon = float((over / drop).max(initial=0.0))
        upper = self._at_start(above + carried + epsilon * counted).max() * (1 + 2 * unit)
        short = (now - below - carried + unit * (below + carried + now) + UNDERFLOW)[moves]
        answer = reply[moves][:, None]
        epsilon = float((np.take_along_axis(short, answer, 1) / np.take_along_axis(drop, answer, 1)).max(initial=0.0))
        lost = epsilon * counted
        lower = self._at_start(below + carried - lost - 2 * unit * (below + carried + lost)).max()
        return Interval(max(float(lower), 0.0), float(upper))


@dataclass(frozen=True, eq=False)
class _OptionTable:
    """Options as a user gives them: choices [S, n, S], or probabilities of choices [S, n, C]."""

    graph: Graph
    entries: Array
    steps: int
    randomised: bool

    @classmethod
    def check(cls, model: UMDP, options: ArrayLike) -> "_OptionTable":
        graph = model.graph
        given = number_array("options", options)
        randomised = not np.issubdtype(np.asarray(options).dtype, np.integer)
        last = graph.choices if randomised else graph.states
        if given.ndim != 3 or given.shape[0] != graph.states or given.shape[2] != last or given.shape[1] < 1:
            what = f"[{graph.states} states, steps, {last} {'choices' if randomised else 'states'}]"
            raise BadInput(f"options has shape {given.shape}; expected {what}")
        if randomised:
            cls._check_weights(graph, given)
            return cls(graph, given, given.shape[1], True)
        choice = given.astype(np.int64)
        owner = graph.choice_state[np.clip(choice, 0, graph.choices - 1)]
        wrong = np.argwhere((choice < -1) | (choice >= graph.choices) | ((choice >= 0) & (owner != np.arange(last))))
        if len(wrong):
            state, time, here = (int(i) for i in wrong[0])
            raise BadInput(
                f"the option of state {graph.state_name(state)} takes choice {choice[state, time, here]} at step "
                f"{time} in state {graph.state_name(here)}; expected a choice of that state, or -1; "
                f"{in_all(len(wrong))}"
            )
        return cls(graph, choice, choice.shape[1], False)

    @staticmethod
    def _check_weights(graph: Graph, weight: Array) -> None:
        total = np.zeros((graph.states, *weight.shape[:2]))
        np.add.at(total, graph.choice_state, np.moveaxis(weight, 2, 0))
        total = np.moveaxis(total, 0, 2)  # by option, step and state
        wrong = np.argwhere(~((np.abs(total - 1) <= 1e-8) | (total == 0)))
        if len(wrong) or not (weight >= 0).all():
            state, time, here = (int(i) for i in wrong[0]) if len(wrong) else (0, 0, 0)
            raise BadInput(
                f"probabilities of the option of state {graph.state_name(state)} at step {time} in state "
                f"{graph.state_name(here)} sum to {total[state, time, here]:.10g} or some are negative; expected 0 or "
                f"more and 1 in sum, or none; {in_all(max(len(wrong), 1))}"
            )

    def weight(self, state: int, time: int) -> Array:  # [C]
        """Return the probability of each choice at a step of the option of a state."""
        if self.randomised:
            return np.asarray(self.entries[state, time])
        weight = np.zeros(self.graph.choices)
        chosen = self.entries[state, time]
        weight[chosen[chosen >= 0]] = 1.0
        return weight

    def check_needed(self, state: int, time: int, weight: Array, here: Array) -> None:
        """Refuse an option that reaches a state for which it has no choice."""
        graph = self.graph
        total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
        lost = np.flatnonzero(here & ~graph.goal & (total == 0))
        if lost.size:
            raise BadInput(
                f"the option of state {graph.state_name(state)} has no choice at step {time} in state "
                f"{graph.state_name(int(lost[0]))}, where it may be; expected one; {in_all(lost.size)}"
            )
