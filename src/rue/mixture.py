"""A mixture of policies: one of them is drawn at the start, once, and followed to the end.

With the regret vectors of a pool of policies as columns, the best mixture is a matrix game, a linear program:

    min over x of  max over k of  Σ_j x_j reg_k(π_j),      x ≥ 0,  Σ_j x_j = 1

*The pool* begins with each sample's optimal policy, `Regret()`, `WorstCase()` and `Average()`. The dual of the game is
a belief b over the samples, and a policy with Σ_k b_k reg_k(π) below the value of the game improves it: such policies
are searched for, added, and the game is solved again, until none is found.

*The search.* The stationary deterministic policy with the least Σ_k b_k V_k(π) is NP-hard to find, so the search is
local, from the policies of the pool that are best for b and from the one that picks the least Σ_k b_k Q*_k(s,a). At
each state it takes the choice with the least Σ_k b_k f_k(s) Q_k(s,a), where f_k(s) is how often the state is entered,
in a sweep from the goals outward; then it evaluates the policy exactly, and takes back the changes with the smaller
gains as long as the sum did not fall. Where no state is entered twice the sweep is exact; elsewhere the evaluation sees
to it that the sum falls with each step.

*Ties.* Among the mixtures of equal max regret the one with the lowest mean regret is taken, by a second linear
program.

*What is guaranteed.* All regrets are the judge's. `objective` bounds the least max regret of a mixture *of the pool*:
from above by the judge, from below by the belief, min over j of Σ_k b_k reg_k(π_j). "solved" says that no policy was
found that improves the mixture. It need not be the best over all policies, and policies that learn the sample while
they go can be better still. It is never worse than `BestSample` or any policy of the pool. Policies that miss the goal
in some sample are left out.
"""

from dataclasses import dataclass, field

import numpy as np

from rue import mixture_kernels as mixture
from rue import structure_kernels as reach
from rue._arrays import Array
from rue._linear import ranges, solve_chain
from rue.baselines import Average
from rue.controllers import mix_policies
from rue.errors import SolverFailed
from rue.fallbacks import infeasible
from rue.judge import judge
from rue.matrix_game import Game, solve_game
from rue.model import UMDP, surely_reaching
from rue.policy import Policy, complete_choices
from rue.recursion.objectives import Regret, WorstCase
from rue.recursion.one_step import policy_at_hand
from rue.solution import Inner, Interval, Outcome, Run, Solver, Status
from rue.structure import sweep_order
from rue.values import OptimalValues, optimal_values, regret_gap

# A new policy must improve the value of the game by this fraction.
WORTH = 1e-5
# Policies of the pool from which each search starts.
STARTS = 3
# Sweeps of a search after which it takes what it has.
PATIENCE = 20
# A sum of values fell if it did by this fraction.
FALL = 1e-11
# A search minds every sample a little, or it would not care whether a goal is reached in the others.
LEAST_BELIEF = 1e-6
# Sweeps of an evaluation, and the relative change with which they end; beyond it the policy is factorised.
SWEEPS = 400
CLOSE = 1e-13
# A policy that takes more steps is as good as improper.
MOST_STEPS = 1e9


@dataclass(frozen=True)
class Mixture(Solver):
    """A policy drawn once, at the start, from a pool, such that the max regret is least."""

    name = "mixture"
    measures = "regret"

    def kernels(self) -> frozenset[str]:
        """What `run` may call."""
        return frozenset(("mixture_kernels", "one_step_kernels", "row_kernels", "controller_kernels"))

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Fill the pool, then solve the game and search for policies that improve it, in turns."""
        values = optimal_values(model, run=run)
        pool = _Pool(model, run)
        status = _fill(pool, values, run)
        if not pool.policies:
            policy = policy_at_hand(model, values, run)
            pool.add(policy, pool.judge(policy))
        if not pool.policies:
            if status:
                return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), status)
            return infeasible(model, run)
        game = pool.play()
        if status is None and model.samples > 1:
            search = _Search.build(model, values)
            while True:
                run.report(f"mixture: {len(pool.policies)} policies", Interval(0.0, game.value + pool.error))
                found = _improve(pool, game, search, run)
                status = run.stop()
                if not found:
                    break
                game = pool.play()
                if status:
                    break
        policy = mix_policies(pool.policies, game.weight)
        verdict = judge(model, policy, run.afterwards())
        upper = verdict.at_most
        # A pool that a limit left unfinished proves nothing.
        lower = 0.0 if status else max(game.lower - pool.error, 0.0)
        objective = Interval.proved(lower, upper, "the least max regret of a mixture of the pool")
        run.report(f"mixture: {len(pool.policies)} policies", objective)
        return Outcome(policy, objective, status or Status.SOLVED)


@dataclass(eq=False)
class _Pool:
    """Policies with finite regret in all samples, and their regrets."""

    model: UMDP
    run: Run
    policies: list[Policy] = field(default_factory=list)
    regrets: list[Array] = field(default_factory=list)
    choices: list[Array] = field(default_factory=list)  # of those that are stationary and deterministic; else empty
    error: float = 0.0

    def judge(self, policy: Policy) -> Array | None:  # [K]
        """The regrets of a policy, if they are finite and proved to be."""
        try:
            verdict = judge(self.model, policy, self.run.afterwards())
        except SolverFailed:  # it hardly ever ends
            return None
        if not np.isfinite(verdict.max_regret + verdict.error):
            return None
        self.error = max(self.error, verdict.error)
        return verdict.regret

    def add(self, policy: Policy, regret: Array | None, choice: Array | None = None) -> None:
        """Keep a policy whose regrets are finite."""
        if regret is not None:
            self.policies.append(policy)
            self.regrets.append(regret)
            self.choices.append(np.empty(0, np.int64) if choice is None else choice)

    def play(self) -> Game:
        """The best mixture of the pool."""
        return solve_game(np.column_stack(self.regrets))

    def has(self, choice: Array) -> bool:
        """Whether a policy is there already."""
        return any(np.array_equal(choice, other) for other in self.choices)


def _fill(pool: _Pool, values: OptimalValues, run: Run) -> Status | None:
    """The first policies of the pool; says why it stopped early."""
    model = pool.model
    candidates: list[Solver | int] = [*range(model.samples), Regret(), WorstCase(), Average()]
    for candidate in candidates:
        status = run.stop()
        if status:
            return status
        if isinstance(candidate, Solver):
            choice = _choices_of(candidate.run(model, Inner(outer=run)).policy)
        else:
            choice = complete_choices(model.graph, values.choice[:, candidate])
        run.iterations += 1
        if choice is not None and not pool.has(choice):
            policy = Policy.from_choices(model.graph, choice)
            pool.add(policy, pool.judge(policy), choice)
            run.count("policies")
        run.report(f"mixture: judged {run.iterations} of {len(candidates)}")
    return run.stop()


def _choices_of(policy: Policy) -> Array | None:  # [S]
    """The choice of each state, if the policy is stationary and deterministic; the first where it says nothing."""
    if not (policy.is_stationary and policy.is_deterministic):
        return None
    choice = np.full(policy.graph.states, -1)
    choice[policy.node_state[np.diff(policy.entry_ptr) > 0]] = policy.choice
    return complete_choices(policy.graph, choice)


def _improve(pool: _Pool, game: Game, search: "_Search", run: Run) -> bool:
    """Add the policies that a search for the game's belief finds, if they improve the game; tells whether any did."""
    model, found = pool.model, False
    belief = (1 - LEAST_BELIEF) * game.belief + LEAST_BELIEF / model.samples
    known = [j for j in range(len(pool.choices)) if pool.choices[j].size]
    known.sort(key=lambda j: float(belief @ pool.regrets[j]))
    for start in [search.greedy(belief), *(pool.choices[j] for j in known[:STARTS])]:
        if run.stop():
            break
        choice = search.respond(belief, start, run)
        if choice is None or pool.has(choice):
            continue
        run.iterations += 1
        run.count("policies")
        policy = Policy.from_choices(model.graph, choice)
        regret = pool.judge(policy)
        if regret is not None and game.belief @ regret < game.value * (1 - WORTH):
            pool.add(policy, regret, choice)
            found = True
    return found


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for policies with a small Σ_k b_k V_k(π)."""

    model: UMDP
    order: Array  # states, nearest to a goal first
    gap: Array  # [C, K]

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues) -> "_Search":
        graph = model.graph
        order = sweep_order(model, model.ever_live, np.ones(graph.states, bool), np.ones(graph.choices, bool))
        return cls(model, order, regret_gap(model, values))

    def greedy(self, belief: Array) -> Array:  # [S]
        """The policy that picks the least Σ_k b_k Q*_k(s,a) at each state."""
        graph = self.model.graph
        gap = np.append(self.gap @ belief, np.inf)
        # The first of the smallest of each state: choices of a state lie side by side.
        by_gap = np.lexsort((gap[:-1], graph.choice_state))
        choice = np.full(graph.states, -1)
        choice[~graph.goal] = by_gap[graph.choice_ptr[:-1][~graph.goal]]
        return complete_choices(graph, choice)

    def respond(self, belief: Array, start: Array, run: Run) -> Array | None:  # [S]
        """A policy that no sweep improves, or the best within the patience; None if the start is improper."""
        now = self.look(belief, start, np.zeros((start.size, belief.size)), run)
        if now is None:
            return None
        waiting = False
        for _ in range(PATIENCE):
            then = None if run.stop() else self.step(belief, now, run)
            if then is None:
                break
            fell = then.total < now.total * (1 - FALL)
            if waiting and not fell:
                break
            waiting = not fell  # only what is never entered has changed: the next sweep may go there
            now = then
        return now.choice

    def step(self, belief: Array, now: "_Look", run: Run) -> "_Look | None":
        """One sweep, and the largest part of its changes that makes the sum fall; None if there is none."""
        model, graph = self.model, self.model.graph
        weight = belief * self.entries(now.choice)
        felt_at = weight.max(axis=1) > 0
        weight[~felt_at] = belief
        proposal, gain, value = now.choice.copy(), np.zeros(graph.states), now.value.copy()
        mixture.improve(
            self.order, graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, model.cost,
            weight, value, proposal, gain, 1e-12,
        )  # fmt: skip
        changed = np.flatnonzero(proposal != now.choice)
        # What is never entered can change freely: only the others count, those with the largest gain first.
        felt = changed[felt_at[changed]]
        felt = felt[np.argsort(-gain[felt], kind="stable")]
        take = felt.size
        while take > 0:
            trial = proposal.copy()
            trial[felt[take:]] = now.choice[felt[take:]]
            then = self.look(belief, trial, value, run)
            if then is not None and then.total < now.total * (1 - FALL):
                return then
            if run.stop():
                return None
            take //= 2
        if felt.size == changed.size:
            return None
        proposal[felt] = now.choice[felt]
        return self.look(belief, proposal, now.value, run)

    def look(self, belief: Array, choice: Array, guess: Array, run: Run) -> "_Look | None":
        """The values of a policy, by sweeps from a guess or by factorisation; None if it is improper in some sample."""
        run.count("evaluations")
        model, graph = self.model, self.model.graph
        proper = self._proper(choice)  # [S, K]
        if not proper[graph.initial].all():
            return None
        value = np.where(proper, np.where(np.isfinite(guess), guess, 0.0), np.inf)
        slowest = mixture.settle(
            self.order, choice, graph.trans_ptr, graph.successor, model.prob, model.cost, proper, value,
            SWEEPS, CLOSE,
        )  # fmt: skip
        if slowest > CLOSE:
            for k in range(model.samples):
                solved = self._factorise(choice, k, proper[:, k], model.cost[choice, k])
                if solved is None:
                    return None
                value[:, k] = np.where(proper[:, k], solved, np.inf)
        return _Look(choice, value, float(belief @ value[graph.initial]))

    def entries(self, choice: Array) -> Array:  # [S, K]
        """How often a policy enters each state from another one, as far as the sweeps have counted."""
        model, graph = self.model, self.model.graph
        entered, pending = np.zeros((2, graph.states, model.samples))
        pending[graph.initial] = 1.0
        mixture.entries(
            self.order, choice, graph.trans_ptr, graph.successor, model.prob, pending, entered, SWEEPS, CLOSE
        )
        return np.asarray(entered)

    def _factorise(self, choice: Array, sample: int, proper: Array, paid: Array) -> Array | None:  # [S]
        """The values of a policy in a sample; None if the chain is numerically singular."""
        model, graph = self.model, self.model.graph
        states = np.flatnonzero(proper & ~graph.goal)
        place = np.full(graph.states, states.size)
        place[states] = np.arange(states.size)
        taken = choice[states]
        length = np.diff(graph.trans_ptr)[taken]
        trans = ranges(graph.trans_ptr[taken], length)
        row, column = np.repeat(np.arange(states.size), length), place[graph.successor[trans]]
        prob = model.prob[trans, sample]
        right = np.column_stack([paid[states], np.ones(states.size)])
        try:
            solved = solve_chain(row, column, prob, right)
        except SolverFailed:
            return None
        # A chain that hardly ever ends is singular to the computer; each state takes one step at least.
        if not (solved[:, 1] > 0.5).all() or solved[:, 1].max(initial=0.0) > MOST_STEPS:
            return None
        value = np.zeros(graph.states)
        value[states] = solved[:, 0]
        return value

    def _proper(self, choice: Array) -> Array:  # [S, K]
        """In which samples a policy reaches a goal from each state with probability one."""
        model, graph = self.model, self.model.graph
        within = np.zeros(graph.choices, bool)
        within[choice[~graph.goal]] = True
        seen, _ = reach.backward(
            *graph.predecessors, graph.trans_choice, graph.choice_state, graph.goal,
            np.ones(graph.states, bool), within, model.always_live,
        )  # fmt: skip
        if seen.all():
            return np.ones((graph.states, model.samples), bool)
        columns = [surely_reaching(model.graph, model.prob[:, k] > 0, within)[0] for k in range(model.samples)]
        return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class _Look:
    """What a policy comes to in each sample."""

    choice: Array  # [S]
    value: Array  # [S, K]
    total: float  # Σ_k b_k V_k
