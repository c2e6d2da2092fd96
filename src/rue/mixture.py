"""A mixture of policies: one of them is drawn once, at the start, and followed to the end.

With the regret vectors of a pool of policies as columns, the best mixture is a matrix game (`matrix_game.py`).

*The pool* begins with each sample's optimal policy, `Regret()`, `WorstCase()` and `Average()`. The dual of the game is
a belief b over the samples, and a policy with Σ_k b_k reg_k(π) below the value of the game improves it. Such policies
are searched for and added, and the game is solved again, until none is found.

*The search.* The stationary deterministic policy with the least Σ_k b_k V_k(π) is NP-hard to find, so the search is
local, from the policies of the pool that are best for b and from the one with the least Σ_k b_k Q*_k(s,a) at each
state. It takes at each state the choice with the least Σ_k b_k f_k(s) Q_k(s,a), where f_k(s) is how often the state is
entered, in a sweep from the goals outward. Then it evaluates the policy exactly, and takes back the changes with the
smaller gains as long as the sum did not fall. Where no state is entered twice the sweep is exact; elsewhere the
evaluation ensures that the sum falls with each step.

*Ties.* Among the mixtures of equal max regret the one with the lowest mean regret is taken, by a second linear
program.

*What is guaranteed.* All regrets are the judge's. `objective` bounds the least max regret of a mixture *of the pool*:
from above by the judge, from below by the belief, min over j of Σ_k b_k reg_k(π_j). "solved" means that no policy was
found that improves the mixture. It need not be the best over all policies, and policies that learn the sample while
they go can be better still. It is never worse than `BestSample` or any policy of the pool. Policies that miss the goal
in some sample are left out.

*Many samples* are searched in parts (`active.py`). The pool keeps what it has from part to part, and has the optimal
policies of the samples that were ever active only. A game with fewer rows has no larger value, so the lower end of the
last part, and the judge's figure over all samples, are bounds for mixtures of the last pool over all samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rue import mixture_kernels as kernel
from rue._arrays import Array, members_with_owner, places
from rue._linear import solve_chain
from rue._threads import pieces
from rue.active import Part, SolverInParts
from rue.baselines import Average
from rue.controllers import mix_policies, stationary_choices
from rue.errors import SolverFailed
from rue.fallbacks import infeasible
from rue.judge import Evaluation, judge, last_verdict
from rue.matrix_game import GameSolution, solve_game
from rue.model import UMDP
from rue.policy import Policy, complete_choices
from rue.recursion.objectives import Regret, WorstCase
from rue.recursion.one_step import policy_at_hand
from rue.solution import Inner, Interval, Limits, Outcome, Run, Solver, Status
from rue.structure import proper_in, reaching_goal, sweep_order
from rue.values import OptimalValues, optimal_values, regret_gap

# A new policy must improve the value of the game by this fraction.
WORTH = 1e-5
# Policies of the pool from which each search starts.
STARTS = 3
# Most sweeps of a search.
MOST_SWEEPS = 20
# A smaller relative change of a sum of values does not count.
FALL = 1e-11
# Every sample has this belief in a search, in all. Otherwise a goal need not be reached in samples without belief.
LEAST_BELIEF = 1e-6
# Sweeps of a policy evaluation, and the relative change at which they end. If they do not, the chain is factorised.
SWEEPS = 400
CLOSE = 1e-13
# Numbers that are swept between two checks of the clock: some tenths of a second.
WORK = 100_000_000
# A policy that takes more expected steps counts as improper.
MOST_STEPS = 1e9
# Time that is kept for each policy that is still to be judged, as a multiple of the longest judgement so far: a mixture
# is put together before.
JUDGING = 2.25


@dataclass(frozen=True)
class Mixture(SolverInParts):
    """A policy drawn once, at the start, from a pool, such that the max regret is least."""

    name = "mixture"
    measures = "regret"

    def kernels(self) -> frozenset[str]:
        """Return the kernel files that `run` may call."""
        return frozenset(("mixture_kernels", "one_step_kernels", "row_kernels", "controller_kernels"))

    @property
    def bounds_last(self) -> bool:
        """The bounds are about the pool, which grows from part to part."""
        return True

    def is_close(self, lower: float, upper: float, least: float) -> bool:
        """Return whether no other mixture of the pool is better, as far as that can be told."""
        return upper < np.inf and upper - lower <= WORTH * upper + FALL * least

    def run_part(self, part: Part, run: Run) -> Outcome:
        """Fill the pool; then solve the game and search for policies that improve it, in turns."""
        model = part.model
        values = optimal_values(model, run=run)
        pool = _Pool(model, run)
        status = _fill(pool, values, run, part.memo.get("choices", []))
        if not pool.policies:
            policy = policy_at_hand(model, values, run)
            pool.add(policy, pool.judge(policy))
        if not pool.policies:
            if status or pool.left_open:
                policy = policy_at_hand(model, values, run)
                return Outcome(policy, Interval(0.0, np.inf), status or Status.UNPROVED)
            return infeasible(model, run)
        game = pool.play()
        if status is None and model.samples > 1:
            search = _PolicySearch.build(pool, values)
            while not status:
                run.report(f"mixture: {len(pool.policies)} policies", Interval(0.0, game.value + pool.error))
                found = _improve(pool, game, search)
                status = pool.stop()
                if not found:
                    break
                game = pool.play()
        part.memo["choices"] = [choice for choice in pool.choices if choice.size]
        policy, verdict = pool.mix(game)
        # A pool that a limit left unfinished proves nothing.
        lower = 0.0 if status else max(game.lower - pool.error, 0.0)
        objective = Interval.proved(lower, verdict.at_most, "the least max regret of a mixture of the pool")
        run.report(f"mixture: {len(pool.policies)} policies", objective)
        return Outcome(policy, objective, status or Status.SOLVED)


@dataclass(eq=False)
class _Pool:
    """Policies with finite regret in all samples, and their regrets."""

    model: UMDP
    run: Run
    policies: list[Policy] = field(default_factory=list)
    verdicts: list[Evaluation] = field(default_factory=list)
    choices: list[Array] = field(default_factory=list)  # of those that are stationary and deterministic; else empty
    error: float = 0.0
    judge_seconds: float = 0.0  # the most that one policy took
    left_open: bool = False  # whether a policy may have finite regrets that were not proved

    def judge(self, policy: Policy) -> Evaluation | None:
        """Return the verdict on a policy; None if its regrets are infinite or not proved to be finite."""
        began = self.run.seconds
        try:
            verdict = judge(self.model, policy, self.run.afterwards())
        except SolverFailed:  # it almost never ends
            self.left_open = True
            return None
        self.judge_seconds = max(self.judge_seconds, self.run.seconds - began)
        self.left_open |= not np.isfinite(verdict.error)
        if not np.isfinite(verdict.max_regret + verdict.error):
            return None
        self.error = max(self.error, verdict.error)
        return verdict

    def add(self, policy: Policy, verdict: Evaluation | None, choice: Array | None = None) -> None:
        """Keep a policy whose regrets are finite."""
        if verdict is not None:
            self.policies.append(policy)
            self.verdicts.append(verdict)
            self.choices.append(np.empty(0, np.int64) if choice is None else choice)

    def searching(self) -> Inner:
        """Return a run for a search; it keeps time to judge one more policy, and then a mixture of all."""
        drawn = min(len(self.policies) + 1, self.model.samples)
        kept = JUDGING * self.judge_seconds * (drawn + 1)
        return Inner(Limits(seconds=max(self.run.seconds_left - kept, 0.0)), outer=self.run)

    def stop(self) -> Status | None:
        """Return why to stop searching now, or None to go on."""
        return self.searching().stop()

    def play(self) -> GameSolution:
        """Return the best mixture of the pool."""
        return solve_game(np.column_stack([verdict.regret for verdict in self.verdicts]))

    def mix(self, game: GameSolution) -> tuple[Policy, Evaluation]:
        """Return the best mixture and the verdict on it; if there is no time to judge it, the best policy of all."""
        policy = mix_policies(self.policies, game.weight)
        verdict = judge(self.model, policy, self.run.afterwards())
        if verdict.complete:
            return policy, verdict
        best = min(range(len(self.policies)), key=lambda j: self.verdicts[j].at_most)
        policy, known = self.policies[best], self.verdicts[best]
        return policy, last_verdict(self.model, policy, self.run, lambda: known)

    def has(self, choice: Array) -> bool:
        """Return whether the pool has a policy already."""
        return any(np.array_equal(choice, other) for other in self.choices)


def _fill(pool: _Pool, values: OptimalValues, run: Run, known: list[Array]) -> Status | None:
    """Fill the pool with its first policies, and known ones; return why it stopped early, if it did."""
    model = pool.model
    candidates: list[Solver | int | Array] = [*known, *range(model.samples), Regret(), WorstCase(), Average()]
    for candidate in candidates:
        status = pool.stop()
        if status:
            return status
        choice: Array | None
        if isinstance(candidate, Solver):
            choice = stationary_choices(candidate.run(model, pool.searching()).policy)
        elif isinstance(candidate, np.ndarray):
            choice = candidate
        else:
            choice = complete_choices(model.graph, values.choice[:, candidate])
        run.iterations += 1
        if choice is not None and not pool.has(choice):
            policy = Policy.from_choices(model.graph, choice)
            pool.add(policy, pool.judge(policy), choice)
            run.count("policies")
        run.report(f"mixture: judged {run.iterations} of {len(candidates)}")
    return pool.stop()


def _improve(pool: _Pool, game: GameSolution, search: "_PolicySearch") -> bool:
    """Add the policies that a search for the game's belief finds, if they improve the game; return whether any did."""
    model, run, found = pool.model, pool.run, False
    belief = (1 - LEAST_BELIEF) * game.belief + LEAST_BELIEF / model.samples
    known = [j for j in range(len(pool.choices)) if pool.choices[j].size]
    known.sort(key=lambda j: float(belief @ pool.verdicts[j].regret))
    for start in [search.greedy(belief), *(pool.choices[j] for j in known[:STARTS])]:
        if pool.stop():
            break
        choice = search.respond(belief, start)
        if choice is None or pool.has(choice):
            continue
        run.iterations += 1
        run.count("policies")
        policy = Policy.from_choices(model.graph, choice)
        verdict = pool.judge(policy)
        if verdict is not None and game.belief @ verdict.regret < game.value * (1 - WORTH):
            pool.add(policy, verdict, choice)
            found = True
    return found


@dataclass(frozen=True, eq=False)
class _PolicySearch:
    """The search for policies with a small Σ_k b_k V_k(π)."""

    pool: _Pool
    swept: kernel.SweptModel
    gap: Array  # [C, K]

    @classmethod
    def build(cls, pool: _Pool, values: OptimalValues) -> "_PolicySearch":
        model, graph = pool.model, pool.model.graph
        order = sweep_order(graph, model.ever_live)
        arrays = graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, model.cost
        return cls(pool, kernel.SweptModel(order, *arrays), regret_gap(model, values))

    @property
    def model(self) -> UMDP:
        return self.pool.model

    def greedy(self, belief: Array) -> Array:  # [S]
        """Return the policy with the least Σ_k b_k Q*_k(s,a) at each state."""
        graph = self.model.graph
        # Choices of a state lie side by side, so that the first of each state is the best.
        by_gap = np.lexsort((self.gap @ belief, graph.choice_state))
        choice = np.full(graph.states, -1)
        choice[~graph.goal] = by_gap[graph.choice_ptr[:-1][~graph.goal]]
        return complete_choices(graph, choice)

    def respond(self, belief: Array, start: Array) -> Array | None:  # [S]
        """Return a policy that no sweep improves, or that of the last sweep; None if the start is improper."""
        now = self.evaluate(belief, start, np.zeros((start.size, belief.size)))
        if now is None:
            return None
        waiting = False
        for _ in range(MOST_SWEEPS):
            then = None if self.pool.stop() else self.step(belief, now)
            if then is None:
                break
            fell = then.total < now.total * (1 - FALL)
            if waiting and not fell:
                break
            waiting = not fell  # only states that are never entered have changed; the next sweep may enter them
            now = then
        return now.choice

    def step(self, belief: Array, now: "_Evaluated") -> "_Evaluated | None":
        """Return the policy after one sweep, with as many of its changes as make the sum fall; None if none do."""
        weight = belief * self.entries(now.choice)
        felt_at = weight.max(axis=1) > 0
        weight[~felt_at] = belief
        proposal, gain, value = now.choice.copy(), np.zeros(now.choice.size), now.value.copy()
        kernel.improve(self.swept, weight, value, proposal, gain, 1e-12)
        changed = np.flatnonzero(proposal != now.choice)
        # States that are never entered can change freely. Of the others, those with the largest gain come first.
        felt = changed[felt_at[changed]]
        felt = felt[np.argsort(-gain[felt], kind="stable")]
        take = felt.size
        while take > 0:
            trial = proposal.copy()
            trial[felt[take:]] = now.choice[felt[take:]]
            then = self.evaluate(belief, trial, value)
            if then is not None and then.total < now.total * (1 - FALL):
                return then
            if self.pool.stop():
                return None
            take //= 2
        if felt.size == changed.size:
            return None
        proposal[felt] = now.choice[felt]
        return self.evaluate(belief, proposal, now.value)

    def evaluate(self, belief: Array, choice: Array, guess: Array) -> "_Evaluated | None":
        """Evaluate a policy, by sweeps from a guess or by factorisation.

        Return None if it is improper in some sample, or if there is no time.
        """
        self.pool.run.count("evaluations")
        model, graph = self.model, self.model.graph
        proper = self._proper(choice)  # [S, K]
        if not proper[graph.initial].all():
            return None
        value = np.where(proper, np.where(np.isfinite(guess), guess, 0.0), np.inf)
        if not self._sweep(lambda most: kernel.evaluate_policy(self.swept, choice, proper, value, most, CLOSE)):
            for k in range(model.samples):
                solved = None if self.pool.stop() else self._factorise(choice, k, proper[:, k])
                if solved is None:
                    return None
                value[:, k] = np.where(proper[:, k], solved, np.inf)
        return _Evaluated(choice, value, float(belief @ value[graph.initial]))

    def _sweep(self, sweeps: Callable[[int], float]) -> bool:
        """Sweep, with checks of the clock; return whether the values converged. `sweeps` returns the last change."""
        for most in pieces(SWEEPS, self.model.prob.size, WORK):
            if sweeps(most) <= CLOSE:
                return True
            if self.pool.stop():
                return False
        return False

    def entries(self, choice: Array) -> Array:  # [S, K]
        """Return how often a policy enters each state from another one, as far as the sweeps have counted."""
        entered, pending = np.zeros((2, self.model.graph.states, self.model.samples))
        pending[self.model.graph.initial] = 1.0
        self._sweep(lambda most: kernel.count_entries(self.swept, choice, pending, entered, most, CLOSE))
        return np.asarray(entered)

    def _factorise(self, choice: Array, sample: int, proper: Array) -> Array | None:  # [S]
        """Return the values of a policy in a sample; None if the chain is numerically singular."""
        model, graph = self.model, self.model.graph
        states = np.flatnonzero(proper & ~graph.goal)
        place = places(states, graph.states, states.size)
        taken = choice[states]
        trans, row = members_with_owner(graph.trans_ptr, taken)
        column, prob = place[graph.successor[trans]], model.prob[trans, sample]
        right = np.column_stack([model.cost[taken, sample], np.ones(states.size)])
        try:
            solved = solve_chain(row, column, prob, right)
        except SolverFailed:
            return None
        # A chain that almost never ends is numerically singular; each state takes one step at least.
        if not (solved[:, 1] > 0.5).all() or solved[:, 1].max(initial=0.0) > MOST_STEPS:
            return None
        value = np.zeros(graph.states)
        value[states] = solved[:, 0]
        return value

    def _proper(self, choice: Array) -> Array:  # [S, K]
        """Return in which samples a policy reaches a goal from each state with probability one."""
        model, graph = self.model, self.model.graph
        within = np.zeros(graph.choices, bool)
        within[choice[~graph.goal]] = True
        if reaching_goal(graph, model.always_live, within).size == graph.states:
            return np.ones((graph.states, model.samples), bool)
        return np.column_stack([proper_in(model, k, within)[0] for k in range(model.samples)])


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """The values of a policy."""

    choice: Array  # [S]
    value: Array  # [S, K]
    total: float  # Σ_k b_k V_k
