"""Adaptive: the least max regret over all policies, of any memory, from both sides.

*Duality.* A policy that remembers its history and draws lots has a regret vector, one entry for each sample. The set of
these vectors is convex, so (docs/bounds.md has the proof and its conditions)

    min over π of  max over k of  reg_k(π)   =   max over beliefs b of  [ min over π of  Σ_k b_k reg_k(π) ]

In the inner problem the state is known and the sample is not: its value depends on the state and on the probabilities
of the samples given the history, a *belief*. It is solved on a graph of beliefs (`belief_kernels.py`) with lower and
upper bounds.

*Upper bound.* Each vector at the initial state is the regret in each sample of a real controller. A matrix game over
these vectors gives the best mixture to draw from at the start; its value is the upper bound. The policies of all cheap
methods are among them (`portfolio.py`).

*Lower bound.* For any b, the graph's lower bound at the root holds for every policy. The best one is the lower bound,
and its proof is written as a certificate (`certificate.py`), which anybody can check.

*The search* stays at one belief for some rounds. Each round visits the graph from the root by the actions that are best
by the lower bounds, backs up both bounds, and expands the nodes whose gaps add most to that of the root. Weights are
not normalised, so that the gap of a node is what it adds at the root. When the gap at the root is small compared to the
whole gap, the belief moves from where the lower bound is best towards the dual of the game, until the known vectors
leave room for the next step (a level method on a line): the raw dual would jump from side to side. The graph does not
depend on the belief, so nothing is lost by moving.

*The hull.* Where each outcome tells little about the sample, almost no two histories have the same likelihood, and a
graph of beliefs stays shallow. A search whose gap shrinks only a little when the graph doubles goes on with points and
sums of points (`hull_search.py`). Where only few beliefs can be reached, all of them are listed (`finite.py`).

*Tails.* The mean of the worst part α of the probability is a maximum over beliefs with caps, b_k ≤ p_k/α (`risk.py`).
They are a convex set, so that duality holds as before. The game at the root has these caps, and a belief between two
that keep to them does so too. With α = 1 there is one belief, p. Many samples are searched in parts (`active.py`).

*Worst-case cost.* Σ_k b_k V_k(π) = Σ_k b_k V*_k + Σ_k b_k reg_k(π): the same search with V*_k at the initial state
added to each regret (`objective="cost"`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from rue._arrays import Array
from rue._check import one_of, real_number, whole_number
from rue.active import Part, SolverInParts, at_most, judges_room
from rue.adaptive.belief_graph import BeliefGraph, OutOfMemory
from rue.adaptive.belief_kernels import NONE
from rue.adaptive.few_nodes import search_few_nodes
from rue.adaptive.finite import solve_finite
from rue.adaptive.free_moves import Merged, merge_free
from rue.adaptive.hull import Hull
from rue.adaptive.hull_search import HullSearch, policy_seconds
from rue.adaptive.portfolio import MEAN_METHODS, METHODS, start_policies
from rue.adaptive.root_game import RootGame
from rue.adaptive.verified import verified
from rue.certificate import Certificate
from rue.compilation import HULL
from rue.controllers import handed_over
from rue.fallbacks import infeasible, no_policy_reaches, wandering
from rue.judge import Evaluation, ends_from, judge
from rue.matrix_game import solve_game
from rue.model import UMDP, typical_cost
from rue.policy import Policy
from rue.recursion.one_step import policy_at_hand
from rue.risk import caps_of, check_tail, worst_mean
from rue.simplification import SIMPLE
from rue.solution import Interval, Outcome, Run, Status
from rue.values import OptimalValues, optimal_values

GIGABYTE = 1e9
GRAPH_KERNELS = ("belief_kernels", "expansion_kernels", "growth_kernels", "proof_kernels")
# The belief moves when its gap is this part of the whole, or after this many rounds.
NEAR, PATIENCE = 0.25, 40
# It moves until the upper bound by the known vectors is this far above the lower bound, as a part of the whole gap.
LEVEL = 0.6
# When a graph has this many beliefs, and whenever their number has doubled, the hull takes over if the gap is still
# more than this part of what it was before, and more than this multiple of the gap that is asked for. There are fewer
# beliefs, in proportion, with more samples than this.
GRAPH_BELIEFS, STILL_WIDE, FAR, FEW_SAMPLES = 10_000, 0.7, 1.5, 15
# The least belief of each sample, or the search would ignore its regret: a part of the relative gap, with limits.
LEAST_BELIEF, MOST_LEAST_BELIEF, LEAST_LEAST_BELIEF = 0.01, 1e-4, 1e-9
# A gap is closed at this fraction of the upper bound, or at this fraction of a typical cost.
CLOSED, CLOSED_COST = 1e-8, 1e-11
# The part of the wanted gap that the search aims at, since the proof and the judge may differ in the last digits.
AIM = 0.99
# The time for the policies of other methods: a part of the time limit, and at most these seconds. Some come before the
# search, one whenever the belief moves, the rest at the end. A sample's policy counts as this part of a method.
START_PART, START_SECONDS, FIRST_METHODS, SAMPLE_PART = 0.2, 2.0, 5, 1 / 32
# Time that is reserved for policy and proof: a part of the time so far, seconds for each next node of the policy (and
# each sample of it), for each follower and sample of the proof, and a multiple of the time to write it. A proof takes
# at least PROOF_BACKUPS times as long as a backup of the graph.
LAST_PART, NODE_SECONDS, NODE_SAMPLE_SECONDS, PROOF_SECONDS, WRITING = 0.02, 1e-6, 3e-7, 2e-8, 3.0
PROOF_BACKUPS = 2.0
# Rounds between two games, and beliefs in which the gap has to shrink by a tenth, or the search gives up: fewer where
# no node is left to expand.
GAME_ROUNDS, STALE, STALE_CLOSED, SHRINK = 10, 100, 20, 0.9
# What a policy may lose, as a part of its regret, to be safe in worlds that are none of the samples: nothing.
SPARE = 1e-9
# Regrets beyond this are infinite.
INFINITE = 1e80


@dataclass(frozen=True)
class Adaptive(SolverInParts):
    """Minimise the max regret over all policies, to within a fraction `gap` of it, with a certificate.

    `tail` α minimises the mean regret over the worst part α of the samples' probability instead: 1 is the mean, by the
    weights of the samples, and near 0 it is the maximum. `of="value"` makes `gap` a fraction of the least optimal value
    of a sample instead of the max regret. A difference of `absolute` between upper and lower end is always small
    enough. `objective="cost"` minimises the expected cost in place of the regret. `memory`, in gigabytes, bounds the
    graph. `nodes` makes the policy smaller in the end (`rue.simplify`), to at most that number, if possible.
    `solution.objective` bounds the optimum over all policies, of any size.
    """

    name = "adaptive"
    gap: float = 0.05
    tail: float | None = field(default=None, kw_only=True)
    of: str = field(default="regret", kw_only=True)
    absolute: float = field(default=0.0, kw_only=True)
    objective: str = field(default="regret", kw_only=True)
    memory: float = field(default=2.0, kw_only=True)
    nodes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        real_number("gap", self.gap, "0 or more", 0)
        if self.tail is not None:
            check_tail(self.tail)
        one_of("of", self.of, ("regret", "value"))
        real_number("absolute", self.absolute, "0 or more", 0)
        one_of("objective", self.objective, ("regret", "cost"))
        real_number("memory", self.memory, "0.01 or more, in gigabytes", 0.01)
        if self.nodes is not None:
            whole_number("nodes", self.nodes, 1)

    @property
    def measures(self) -> str:  # type: ignore[override]
        """What the objective is."""
        if self.tail is None:
            return "regret" if self.objective == "regret" else "worst-case cost"
        return f"mean {self.objective}" + ("" if self.tail == 1 else f" of the worst {100 * self.tail:g} %")

    def judged(self, regret: Array, value: Array, weight: Array) -> float | None:
        """Return the objective of a policy from its regrets and costs in all samples."""
        return worst_mean(regret if self.objective == "regret" else value, caps_of(weight, self.tail))

    def kernels(self) -> frozenset[str]:
        """Return the kernel files that `run` may call, with those of the methods that give start policies."""
        own = frozenset((*GRAPH_KERNELS, *HULL, "controller_kernels"))
        return own.union(*(method.kernels() for method in (*METHODS, SIMPLE)))

    @property
    def in_parts(self) -> bool:
        """Whether many samples are searched in parts: few nodes are for all samples together."""
        return self.nodes is None

    @property
    def refines(self) -> bool:
        """Whether a part may be searched again to a smaller gap."""
        return True

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Search, and then find a policy with few nodes if that is asked for."""
        if self.nodes is None:
            return super().run(model, run)
        return search_few_nodes(model, replace(self, nodes=None), self.nodes, run)

    def run_part(self, part: Part, run: Run) -> Outcome:
        """Add the policies of other methods, then search until the gap is closed."""
        model = part.model
        small = merge_free(model)
        if small is not None:
            reduced = replace(part, model=small.model, policies=(), memo={})
            return self._with_free_moves(small, self.run_part(reduced, run), part, run)
        graph = model.graph
        values = optimal_values(model, run=run)
        if no_policy_reaches(model, run):
            return infeasible(model, run)
        if not values.complete:
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), run.stop() or Status.UNPROVED)
        if graph.goal[graph.initial]:
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, 0.0))
        search = self._begin(part, values, run)
        least = float(values.lower[graph.initial].min())
        relative = max(part.finer * self.gap if self.of == "regret" else 0.0, part.loose)
        search.slack = part.finer * self._slack(least)
        return search.outcome(search.close(AIM * relative), relative)

    def _begin(self, part: Part, values: OptimalValues, run: Run) -> "AdaptiveSearch":
        """Return a search that goes on where the one for other samples ended, or a new one."""
        last = part.memo.get("search")
        if isinstance(last, AdaptiveSearch) and last.can_grow:
            search = last.grown(part, values, run)
        else:
            search = AdaptiveSearch.start(part, values, self.objective, self.memory * GIGABYTE, run)
            search.waiting = self._start_policies(part, values, run)
        part.memo["search"] = search
        return search

    def _start_policies(self, part: Part, values: OptimalValues, run: Run) -> Iterator[tuple[str, Policy]]:
        """Yield policies to start from: known ones and those of the samples, or those of other methods as well."""
        yield from (("known", policy) for policy in part.policies)
        limited = run.limits.seconds < math.inf
        seconds = min(START_SECONDS, START_PART * run.limits.seconds) if limited else math.inf
        methods = None if self.tail is None else MEAN_METHODS
        yield from start_policies(part.model, values, run, 0.0 if part.policies else seconds, methods)

    def _slack(self, least: float) -> float:
        """Return a difference of the bounds that is small enough, with the least optimal value of a sample."""
        return max(self.absolute, self.gap * least if self.of == "value" else 0.0)

    def is_close(self, lower: float, upper: float, least: float) -> bool:
        """Return whether the bounds are close enough, with the least optimal value of a sample."""
        relative = max(self.gap, 2 * CLOSED) * upper if self.of == "regret" else 0.0
        return upper < np.inf and upper - lower <= max(relative, self._slack(least))

    def _with_free_moves(self, small: Merged, outcome: Outcome, part: Part, run: Run) -> Outcome:
        """Return the outcome for the model with free moves, from that of the model without."""
        proof, policy, status = outcome.certificate, small.policy(outcome.policy), outcome.status
        if status is Status.INFEASIBLE:
            return Outcome(policy, outcome.objective, status)
        certificate = verified(part, small.certificate(proof) if proof is not None else None, run)
        if proof is not None and certificate is None and status is Status.SOLVED:  # rounding prevented it
            status = Status.UNPROVED
        lower = certificate.bound if certificate is not None else 0.0
        upper = at_most(judge(small.whole, policy, run.afterwards()), self.objective, part.cap)
        return Outcome(policy, Interval.proved(lower, upper, f"the least {self.objective}"), status, certificate)


@dataclass(eq=False)
class AdaptiveSearch:
    """The state of a search: the graph, both bounds, and where they come from."""

    part: Part
    objective: str
    run: Run
    graph: BeliefGraph
    offset: Array  # [K] what is added to the graph's regrets: h − V* at the initial state, or h for costs
    scale: float
    lower: float = 0.0
    anchor: Array | None = None  # [K] the belief of the lower bound
    written: bool = True  # whether the proof of the lower bound has been written
    proof: Certificate | None = None  # the best one so far
    proof_value: float = -np.inf  # the bound of the best proof so far, also of an earlier one
    game: RootGame = field(init=False)
    waiting: Iterator[tuple[str, Policy]] = field(default_factory=lambda: iter(()))  # policies of other methods
    policy_seconds: float = 0.0  # estimate: until the policy is judged
    proof_seconds: float = 0.0  # estimate: until the proof is verified
    belief_seconds: float = 0.0  # of the last move to another belief
    backup_seconds: float = 0.0  # of the last backup
    most_beliefs: float = math.inf
    slack: float = 0.0  # a difference of upper and lower end that is small enough
    hull: Hull | None = None  # once it has taken over
    beliefs: int = 0  # of the graph before that
    hull_root: int = NONE  # the point of the hull that proves the lower bound; NONE if it is not of the hull
    hull_sample: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # the samples of the hull
    finite_tried: bool = False
    earlier: tuple[Part, Certificate] | None = None  # the proof of the lower bound, if it is one for other samples
    stage: str = "adaptive"

    def __post_init__(self) -> None:
        self.game = RootGame(self.part, self.graph, self.offset)

    @classmethod
    def start(cls, part: Part, values: OptimalValues, objective: str, memory: float, run: Run) -> "AdaptiveSearch":
        """Return a search with an empty graph of at most `memory` bytes."""
        model = part.model
        graph = BeliefGraph.build(model, values, memory, run.threads)
        initial = model.graph.initial
        offset = graph.potential[initial] - (values.value[initial] if objective == "regret" else 0.0)
        search = cls(part, objective, run, graph, offset, typical_cost(model))
        graph.out_of_time = search.out_of_time
        return search

    @property
    def model(self) -> UMDP:
        """The samples that are searched."""
        return self.part.model

    @property
    def can_grow(self) -> bool:
        """Whether the search can go on with other samples."""
        return self.hull is None and self.graph.nodes > 0

    def grown(self, part: Part, values: OptimalValues, run: Run) -> "AdaptiveSearch":
        """Return a search on other samples that goes on from here: those that stay, in order, and then new ones."""
        if np.array_equal(self.part.sample, part.sample):  # to a smaller gap
            self.part, self.run = part, run
            self.game.part = part
            return self
        self.write_proof()
        kept = np.flatnonzero(np.isin(self.part.sample, part.sample))
        new = np.arange(kept.size, part.model.samples)
        graph = self.graph.grown(part.model, values, kept)
        initial = part.model.graph.initial
        base = values.value[initial, new] if self.objective == "regret" else 0.0
        offset = np.append(self.offset[kept], graph.potential[initial, new] - base)
        search = AdaptiveSearch(part, self.objective, run, graph, offset, self.scale, lower=self.lower)
        search.earlier = self.earlier if self.proof is None else (self.part, self.proof)
        search.proof_value = self.proof_value
        if self.anchor is not None:
            search.anchor = part.within(np.append(self.anchor[kept], np.zeros(new.size)))
        search.waiting = start_policies(part.model.subset(new), values.subset(new), run, 0.0)
        search.finite_tried = self.finite_tried
        graph.out_of_time = search.out_of_time
        return search

    @property
    def upper(self) -> float:
        """The value of the game."""
        return self.game.value

    def add_policies(self, methods: float) -> None:
        """Add the start policies of some more methods; those of the samples come first."""
        while methods > 0 and self.run.stop() is None:
            name, policy = next(self.waiting, ("", None))
            if policy is None:
                break
            self.graph.add_policy(policy)
            self.run.count("start policies")
            self.run.report(f"{self.stage}: {name}")
            methods -= SAMPLE_PART if name.startswith("sample ") else 1

    def close(self, gap: float) -> Status:
        """Search until the gap is at most a fraction of the upper bound, or something stops it; return why it ended."""
        try:
            self.add_policies(FIRST_METHODS)
            status = self.run.stop() or self._close_gap(gap)
            if status in (None, Status.UNPROVED):
                status = self._close_finite(gap) or status or HullSearch(self).close(gap)
            # No policy of another method may be better, also with a large gap.
            self.add_policies(math.inf if status is Status.SOLVED else 0)
        except OutOfMemory:
            status = Status.MEMORY_LIMIT
        self.update_game()
        self.graph.prune_vectors()
        return status

    def _close_gap(self, gap: float) -> Status | None:
        """Search in the graph; return why it ended, or None if the hull is to continue."""
        self.update_game()
        self.graph.move(self.mixed(self.game.dual) if self.anchor is None else self._next_belief())
        rounds, gaps = 0, [np.inf]
        many, wide = GRAPH_BELIEFS * min(1.0, FEW_SAMPLES / self.model.samples), np.inf
        while True:
            began = self.run.seconds
            self.graph.backup()
            self.backup_seconds = self.run.seconds - began
            self._update_lower()
            self.run.iterations += 1
            rounds += 1
            here = self.graph.upper - self.graph.lower
            arrived = here <= NEAR * (self.upper - self.lower) < np.inf or rounds >= PATIENCE or not self.graph.expanded
            if arrived or rounds % GAME_ROUNDS == 0:
                self.update_game()
            status = self.status(f"{self.graph.nodes} beliefs", gap)
            if status:
                return status
            if arrived:
                if self.stalls(gaps, STALE if self.graph.expanded else STALE_CLOSED):
                    return None if self._has_hull else Status.UNPROVED
                self.write_proof()
                self.add_policies(1)
                began = self.run.seconds
                if not self.part.has_one_belief:
                    self.graph.move(self._next_belief())
                self.belief_seconds = self.run.seconds - began
                rounds = 0
            else:
                if self.graph.nodes > many and self._has_hull:
                    if self.upper - self.lower > max(STILL_WIDE * wide, FAR * gap * self.upper):
                        return None
                    many, wide = 2 * many, self.upper - self.lower
                self.graph.expand()
                status = self.out_of_time()
                if status:
                    return status

    def _close_finite(self, gap: float) -> Status | None:
        """Solve the model exactly if few beliefs can be reached; return None if they are many. It is tried once."""
        if self.finite_tried or self.most_beliefs < math.inf:
            return None
        self.finite_tried = True
        found = solve_finite(
            self.graph, self.part, self.objective, self.offset, partial(self._is_closed, gap=gap), self.run
        )
        if not isinstance(found, Certificate):
            return found
        self.update_game()
        lower = max(float(found.value[0] + self.offset @ found.belief), 0.0)
        if lower > self.lower or self._is_closed(lower, self.upper, gap, AIM):
            self.lower = self.proof_value = lower
            self.proof, self.anchor, self.written, self.hull_root = found, found.belief, True, NONE
        return self.status(f"all {found.points} beliefs", gap)

    def status(self, size: str, gap: float) -> Status | None:
        """Report the bounds; return why the search ends here, or None."""
        self.run.report(f"{self.stage}: {size}", Interval.expected(self.lower, self.upper))
        return Status.SOLVED if self._is_closed(self.lower, self.upper, gap, AIM) else self._stop()

    def stalls(self, gaps: list[float], window: int = STALE) -> bool:
        """Add the gap to those at earlier beliefs; return whether it shrank only a little in the last of them."""
        gaps.append(self.upper - self.lower)
        return len(gaps) > window and not gaps[-1] < SHRINK * gaps[-1 - window]

    @property
    def _has_hull(self) -> bool:
        """Whether the hull may continue: not in a short search, nor where no policy with a finite regret is known.

        Nor in a search in parts: points of the hull cannot be used again for other samples.
        """
        return not self.part.sample.size and self.most_beliefs == math.inf and bool(np.isfinite(self.upper))

    def _update_lower(self) -> None:
        """Take the lower bound at the present belief if it is the best."""
        low = float(self.offset @ self.graph.belief) + self.graph.lower
        if low > self.lower or self.anchor is None:
            self.lower, self.anchor, self.written = max(low, 0.0), self.graph.belief, False

    def update_game(self, estimate: bool = True) -> None:
        """Solve the game at the root; with `estimate`, estimate the time that its policy takes."""
        self.game.update()
        if estimate and self.game.solution is not None and self.run.seconds_left < np.inf:
            self.policy_seconds = self._seconds_of(self.graph.size_of(self.graph.favourites))

    def _seconds_of(self, following: int) -> float:
        """Estimate the time to make a policy with this many next nodes and to judge it, twice.

        Most of the nodes of a hull's vectors are the same: they are merged before the judge sees them. Behind these
        nodes there may be those of all given policies.
        """
        if self.hull is not None:
            return policy_seconds(following, self.model.samples) + self.graph.policy_seconds
        return 2 * following * (NODE_SECONDS + NODE_SAMPLE_SECONDS * self.model.samples) + self.graph.policy_seconds

    def _stop(self) -> Status | None:
        if self.graph.nodes > self.most_beliefs:
            return Status.ITERATION_LIMIT
        return self.out_of_time() or self.run.stop()

    def out_of_time(self) -> Status | None:
        """Return TIME_LIMIT if the time left is needed for policy and proof, another reason to stop, or None."""
        proof_seconds = max(self.proof_seconds, PROOF_BACKUPS * self.backup_seconds)
        needed = LAST_PART * self.run.seconds + self.policy_seconds + proof_seconds + self.belief_seconds
        return Status.TIME_LIMIT if self.run.seconds_left < needed else self.run.out_of_time()

    def _is_closed(self, lower: float, upper: float, gap: float, part: float = 1.0) -> bool:
        """Return whether the bounds differ by a small fraction of the upper one, or by a small absolute amount."""
        if not np.isfinite(upper):
            return False
        enough = max(part * self.slack, CLOSED_COST * self.scale)
        return upper - lower <= max(gap, CLOSED) * upper or upper - lower <= enough

    def _next_belief(self) -> Array:  # [K]
        """Go from the belief of the lower bound towards the dual, until the known vectors leave enough room."""
        assert self.anchor is not None
        if self.game.solution is None:
            return self.mixed(self.game.dual)
        return self.mixed(self.game.toward_dual(self.anchor, self.lower + LEVEL * (self.upper - self.lower)))

    def mixed(self, belief: Array) -> Array:  # [K]
        """Return the belief mixed with a little of that in the middle."""
        relative = (self.upper - self.lower) / self.upper if 0 < self.upper < np.inf else 1.0
        least = min(max(LEAST_BELIEF * relative, LEAST_LEAST_BELIEF), MOST_LEAST_BELIEF)
        return np.asarray((1 - least) * belief + least * self.part.centre)

    def write_proof(self) -> None:
        """Write the proof of the best lower bound, while the graph is still at its belief."""
        if self.written or self.anchor is not self.graph.belief:
            return
        began = self.run.seconds
        proof, low = self.graph.certificate(self.objective)
        took = self.run.seconds - began
        self.proof_seconds = WRITING * took + PROOF_SECONDS * proof.follow.size * self.model.samples
        self.written = True
        low += float(self.offset @ self.graph.belief)
        if low > self.proof_value:
            self.proof, self.proof_value = proof, low

    def certificate(self) -> Certificate | None:
        """Return the best proof, verified: that of the graph if rounding prevents that of the hull."""
        self.write_proof()
        if self.hull is not None and self.hull_root != NONE:
            proof, low = self.hull.certificate(self.objective, self.hull_root, self.graph, self.hull_sample)
            low += float(self.offset @ proof.belief)
            if low > self.proof_value:
                found = verified(self.part, proof, self.run)
                if found is not None:
                    self.proof, self.proof_value = proof, low
                    return found
        if self.proof is None and self.earlier is not None:
            return verified(*self.earlier, self.run)
        return verified(self.part, self.proof, self.run)

    def _judged_policy(self) -> tuple[Policy, Evaluation]:
        """Return the best mixture as a controller, judged; a policy that needs no search if none is finite."""
        self.update_game()
        known, matrix = self.game.vectors, self.game.matrix
        if not known.size:
            policy = policy_at_hand(self.model, None, self.run)
            return policy, self._judge(policy)
        verdict = None
        # The judge may find an infinite cost for a controller that almost never ends, and have no time for a large one.
        given = self.graph.is_given(known)
        for usable in (np.ones(known.size, bool), given):
            if verdict is None or (usable.any() and not np.isfinite(verdict.max_regret)):
                weight = solve_game(matrix[:, usable], self.part.cap).weight
                used = known[usable][weight > 0]
                if (
                    given.any()
                    and 0.5 * self._seconds_of(self.graph.size_of(used)) > self.run.afterwards().seconds_left
                ):
                    continue
                policy = self.graph.controller(used, weight[weight > 0])
                verdict = self._judge(policy)
        if verdict is None or not verdict.complete:
            return self._single_policy(known, matrix, given)
        return policy, verdict

    def _single_policy(self, known: Array, matrix: Array, given: Array) -> tuple[Policy, Evaluation]:
        """Return the best of the given policies, which are small: they are judged however little time is left."""
        if given.any():
            best = known[given][matrix[:, given].max(axis=0).argmin()]
            policy = self.graph.controller(np.array([best]), np.ones(1))
        else:
            policy = policy_at_hand(self.model, None, self.run)
        return policy, judge(self.model, policy, Run(cache=self.run.cache, threads=self.run.threads))

    def _judge(self, policy: Policy) -> Evaluation:
        return judge(self.model, policy, self.run.afterwards())

    def _safer(self, policy: Policy) -> Policy:
        """Return the policy with another one in its place where it would miss the goal in some sample.

        The history there is impossible in such a sample, so that it adds no regret. But it may be possible in a world
        that is none of the samples. One of the given policies, which ends in all samples, continues from there.
        """
        lost = np.logical_not(ends_from(self.model, policy).all(axis=1))
        if not lost.any():
            return policy
        # One node for each state: as many nodes as states may be two for one state and none for another.
        every = np.arange(self.model.graph.states)
        whole = (given for given in self.graph.policies if np.array_equal(given.node_state, every))
        safe = next((given for given in whole if ends_from(self.model, given).all()), None)
        return handed_over(policy, lost, wandering(self.model) if safe is None else safe)

    def outcome(self, status: Status, gap: float) -> Outcome:
        """Return the judged policy and the certificate; solved if the proved bounds are close enough."""
        certificate = self.certificate()
        lower = certificate.bound if certificate is not None else 0.0
        if lower > INFINITE or status is Status.INFEASIBLE:
            return infeasible(self.model, self.run)
        policy, verdict = self._judged_policy()
        upper = at_most(verdict, self.objective, self.part.cap)
        # The judge and the check may each differ in the last digits from the bounds of the search.
        allowed = max(gap, 2 * CLOSED)
        room = judges_room(verdict.error, upper, float(self.graph.potential[self.model.graph.initial].max()))
        closed = self._is_closed(lower, upper - room, allowed)
        if status is Status.SOLVED and not closed and self._close_finite(AIM * gap) is Status.SOLVED:
            return self.outcome(status, gap)  # rounding prevented the graph's own proof
        safer = self._safer(policy)
        with_it = at_most(self._judge(safer), self.objective, self.part.cap)
        if with_it <= (1 + SPARE) * upper and (not closed or self._is_closed(lower, with_it, allowed)):
            policy, upper = safer, with_it
        self.run.count("beliefs", self.graph.nodes + self.beliefs)
        if self.hull is not None:
            self.run.count("points", self.hull.points)
        self.run.count("nodes", policy.nodes)
        objective = Interval.proved(lower, upper, f"the least {self.objective}")
        if status in (Status.SOLVED, Status.UNPROVED):  # the judge's error may be all that is left
            status = Status.SOLVED if closed else Status.UNPROVED
        self.run.report("adaptive: proved", objective)
        return Outcome(policy, objective, status, certificate)
