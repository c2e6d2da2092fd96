"""Gaps of a potential and the proved cost of a policy, in one sample: what a certificate is checked with.

A potential h_k(s), zero at goals, turns the costs of sample k into gaps (`certificate.py`)

    g_k(c) = C̄_k(c) + Σ T_k(c,s') (h_k(s') − h_k(s))                                    c a choice of s

`gap_below` rounds them down, and refuses a potential with a negative gap. `safe_potential` lowers a potential a little,
so that it passes. `OneSample.least_cost` bounds V*_k from above by the cost of a policy, found and proved again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rue._arrays import Array, members_with_owner, places, read_only
from rue._check import in_all
from rue._linear import solve_chain
from rue._rounding import TWICE_ROUNDOFF, UNDERFLOW
from rue._threads import cores, each
from rue.certificate_kernels import drift, spread
from rue.errors import NotProved, SolverFailed
from rue.model import UMDP, Graph

# No claim and no finite potential is larger, and it stands for infinite gaps.
LARGE_VALUE = 1e150
# Gaps, relative to the largest cost, up to which a choice is taken for a policy of least cost, in turn.
NEAR = (1e-10, 1e-8, 1e-6, 1e-4, 2.0)
# A choice improves a policy if it does by this fraction.
FALL = 1e-12
# Rounds of policy iteration, and of lowering a potential.
ROUNDS = 100
# Fractions by which a potential is lowered, in turn, to make room for rounding.
ROOM = (0.0, 1e-12, 1e-9, 1e-6)
# Samples that are worked on at the same time, at most: each takes about as much memory as three columns of the model.
MOST_THREADS = 8


def gap_below(model: UMDP, potential: Array) -> Array:  # [C, K]
    """Return the gaps of a potential, rounded down; `NotProved` if one may be negative."""
    return _by_sample(model, model.graph.choices, lambda sample, k: sample.gap_below(potential[:, k]))


def safe_potential(model: UMDP, lower: Array) -> Array:  # [S, K]
    """Return lower bounds on the optimal values, lowered a little where rounding might make a gap negative."""
    return _by_sample(model, model.graph.states, lambda sample, k: sample.lowered(lower[:, k]))


def _by_sample(model: UMDP, rows: int, work: Callable[["OneSample", int], Array]) -> Array:  # [rows, K]
    """Return what is computed for each sample, in threads; no sample's result is there twice."""
    result = np.empty((rows, model.samples))

    def fill(k: int) -> None:
        result[:, k] = work(OneSample.of(model, k), k)

    each(fill, range(model.samples), min(cores(), MOST_THREADS))
    return result


@dataclass(frozen=True, eq=False)
class OneSample:
    """One sample of a model, and what can be done in it without ever risking a dead end."""

    graph: Graph
    prob: Array  # [T]
    cost: Array  # [C]
    alive: Array  # [S] states from which a goal can be reached with probability one
    allowed: Array  # [C] choices that never leave them
    name: str

    @classmethod
    def of(cls, model: UMDP, sample: int) -> "OneSample":
        """Return a sample of a model, with the states and choices from which no dead end is risked."""
        graph, prob = model.graph, np.array(model.prob[:, sample])
        live = prob > 0
        alive = np.ones(graph.states, bool)
        while True:
            strays = np.zeros(graph.choices, bool)
            if not alive.all():
                strays = np.logical_or.reduceat(live & ~alive[graph.successor], graph.trans_ptr[:-1])
            allowed = alive[graph.choice_state] & ~strays
            found = _toward(graph, live & allowed[graph.trans_choice], graph.goal) >= 0
            if (found | ~alive).all():
                return cls(graph, prob, np.array(model.cost[:, sample]), alive, allowed, model.sample_name(sample))
            alive &= found

    def drift(self, value: Array, paid: Array) -> tuple[Array, Array, Array]:  # [C], [C], [C]
        """Return what each choice pays plus the rise of the value, its rounding error, and whether the value may fall.

        Differences are taken first: what the value is does not matter, nor does a self-loop.
        """
        graph = self.graph
        numbers = (np.array(array, np.float64) for array in (value, paid))  # writable and contiguous, for the kernel
        total, size, falls = drift(graph.trans_ptr, graph.choice_state, graph.successor, self.prob, *numbers)
        return total, TWICE_ROUNDOFF * (np.diff(graph.trans_ptr) + 8) * size + UNDERFLOW, falls

    def gap_below(self, potential: Array) -> Array:  # [C]
        """Return the gaps, rounded down; infinite where a dead end is risked. `NotProved` if one may be negative."""
        graph = self.graph
        odd = ~((potential >= 0) & (potential <= LARGE_VALUE)) & ~((potential == np.inf) & ~self.alive)
        odd |= graph.goal & (potential != 0)
        if odd.any():
            state = int(np.flatnonzero(odd)[0])
            expected = "0 at a goal" if graph.goal[state] else "0 or more, and infinite only at a dead end"
            raise NotProved(
                f"the potential of state {graph.state_name(state)} is {potential[state]} in sample {self.name}; "
                f"expected {expected}; {in_all(int(odd.sum()))}"
            )
        gap, error, falls = self.drift(np.where(self.alive, potential, 0.0), self.cost)
        wrong = np.flatnonzero(self.allowed & falls & ~(gap >= error))
        if wrong.size:
            c = int(wrong[0])
            raise NotProved(
                f"the gap of {graph.describe_choice(c)} is {gap[c]} ± {error[c]:.1e} in sample {self.name}; "
                f"expected 0 or more; {in_all(wrong.size)}"
            )
        return np.where(self.allowed, np.maximum(gap - error, 0.0), np.inf)

    def lowered(self, value: Array) -> Array:  # [S]
        """Return the value, or little less, such that no gap is negative, rounding included; infinite at dead ends."""
        graph = self.graph
        length, first = np.diff(graph.trans_ptr), graph.trans_ptr[:-1]
        other = np.where(graph.successor != self.graph.trans_state, self.prob, 0.0)
        leave = np.add.reduceat(other, first)
        for room in ROOM:
            potential = np.where(self.alive, value, 0.0) * (1 - room)
            for _ in range(ROUNDS):
                gap, error, falls = self.drift(potential, self.cost)
                wrong = np.flatnonzero(self.allowed & falls & ~(gap >= error))
                if wrong.size == 0:
                    return np.where(self.alive, potential, np.inf)
                # No gap is negative where no successor is lower; this ends the loop on free cycles.
                ahead = potential[graph.successor]
                lowest = np.minimum.reduceat(np.where(self.prob > 0, ahead, np.inf), first)[wrong]
                backup = (self.cost + np.add.reduceat(other * ahead, first))[wrong] / leave[wrong]
                enough = np.maximum(lowest, backup * (1 - 8 * TWICE_ROUNDOFF * (length[wrong] + 8)))
                np.minimum.at(potential, graph.choice_state[wrong], enough)
        return np.where(self.alive, 0.0, np.inf)

    def least_cost(self, potential: Array) -> float:
        """Return an upper bound on V* at the initial state: the proved cost of a policy, improved while it can be."""
        graph, inner = self.graph, self.alive & ~self.graph.goal
        if graph.goal[graph.initial]:
            return 0.0
        choice, best = self._near(np.where(self.alive, potential, 0.0)), np.inf
        for _ in range(ROUNDS):
            found = self._evaluate(choice, inner)
            if found is None:  # from some state it almost never ends, which it may not visit
                found = self._evaluate(choice, self._visited(choice))
                return best if found is None else min(best, self._cost_at_start(choice, *found))
            best = min(best, self._cost_at_start(choice, *found))
            gap = self.drift(found[0], self.cost)[0]
            better = np.flatnonzero(self.allowed & (gap < -FALL * found[0][graph.choice_state]))
            if better.size == 0:
                break
            # From a proper policy each improvement is proper. The best choice of a state comes last, and stays.
            better = better[np.argsort(-gap[better], kind="stable")]
            choice[graph.choice_state[better]] = better
        return best

    def _near(self, potential: Array) -> Array:  # [S]
        """Return a policy that reaches a goal from each alive state, by choices of small gaps where they lead there.

        Each state goes towards one that is nearer, so that free cycles are avoided.
        """
        graph = self.graph
        gap = self.drift(potential, self.cost)[0]
        scale = float(potential.max() + self.cost.max(initial=0.0))
        choice, done = np.full(graph.states, -1), graph.goal.copy()
        for near in NEAR:
            usable = self.allowed & (gap <= near * scale)
            use = (self.prob > 0) & usable[graph.trans_choice] & ~done[graph.trans_state]
            toward = _toward(graph, use, done)
            taken = np.flatnonzero(use & (toward[graph.trans_state] == graph.successor))
            choice[graph.trans_state[taken]] = graph.trans_choice[taken]
            done |= toward >= 0
        return choice

    def _evaluate(self, choice: Array, inner: Array) -> tuple[Array, Array] | None:  # [S], [S]
        """Estimate a policy's cost and steps from the states `inner`, which it leaves only for goals.

        None if they are beyond all numbers.
        """
        graph, states = self.graph, np.flatnonzero(inner)
        place = places(states, graph.states, states.size)
        transition, row = members_with_owner(graph.trans_ptr, choice[states])
        column = place[graph.successor[transition]]
        prob = np.where(row == column, 0.0, self.prob[transition])
        leave = np.bincount(row, weights=prob, minlength=states.size)
        paid = np.column_stack([self.cost[choice[states]], np.ones(states.size)])
        solved = np.zeros((graph.states, 2))
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                solved[states] = solve_chain(row, column, prob / leave[row], paid / leave[:, None])
            except SolverFailed:
                return None
        return (solved[:, 0], solved[:, 1]) if (solved < LARGE_VALUE).all() else None

    def _visited(self, choice: Array) -> Array:  # [S]
        """Return the states, goals aside, that a policy can come to."""
        graph = self.graph
        taken = choice[self.graph.trans_state] == graph.trans_choice
        start = np.arange(graph.states) == graph.initial
        ptr = read_only(graph.trans_ptr[graph.choice_ptr])
        every = read_only(np.arange(graph.transitions, dtype=np.int32))
        return np.asarray((spread(ptr, every, graph.successor, taken & (self.prob > 0), start) >= 0) & ~graph.goal)

    def _cost_at_start(self, choice: Array, value: Array, steps: Array) -> float:
        """Return an upper bound on the policy's cost from estimates of its costs v and steps n; infinite if unproved.

        With r = |c + Pv − v| and d = n − Pn > 0 wherever the policy goes, it is proper and its cost is at most
        v + max(r/d)·n.
        """
        used = choice[self._visited(choice)]
        gap, error, _ = self.drift(value, self.cost)
        rise, blur, _ = self.drift(steps, np.zeros(self.cost.size))
        off, drop = (np.abs(gap) + error)[used], (-rise - blur)[used]
        if not ((drop > 0) & np.isfinite(off)).all():
            return np.inf
        start = self.graph.initial
        return float((value[start] + (off / drop).max() * steps[start]) * (1 + 4 * TWICE_ROUNDOFF))


def _toward(graph: Graph, live: Array, start: Array) -> Array:  # [S]
    """Search backwards along live transitions; return where each state leads to, at least 0 if it leads to `start`."""
    return np.asarray(spread(*graph.predecessors, graph.trans_state, live, start.copy()))
