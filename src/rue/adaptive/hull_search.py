"""The search in the hull: where the belief moves, and when.

`search.py` continues here when a graph of beliefs makes slow progress. Points (`hull_kernels.py`) do not depend on the
belief, so that nothing is lost by moving. The next belief is the one nearest to that of the lower bound at which the
known vectors leave enough room (a level method on the whole simplex).

*Few samples first.* The fewer samples have a belief, the fewer points are enough for the same gap, and a bound for some
samples holds for all. So the hull begins with a few samples, the *active* ones, and gets more of them whenever the gap
between the lower bound and the game over the active samples alone is a small part of the whole gap. Points of few
samples stay useful: a sum for more samples may have them as its parts. The upper bound over all samples has vectors of
its own (`answers.py`).

*Small beliefs.* A sum of points has to be below a weight in each sample. A sample with a small belief adds hardly
anything to the regret, but its row of the program rules out most points of other beliefs. So it is left out.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rue._arrays import Array
from rue.active import Part
from rue.adaptive.answers import Answers
from rue.adaptive.belief_kernels import FORBIDDEN
from rue.adaptive.corners import add_corner_policy
from rue.adaptive.hull import Hull
from rue.adaptive.hull_kernels import OUTCOMES
from rue.adaptive.root_game import RootGame
from rue.solution import Inner, Limits, Status

if TYPE_CHECKING:
    from rue.adaptive.search import AdaptiveSearch

# The belief moves when its gap is this part of the whole, or when the upper bound there has fallen by less than a part
# of the whole gap in some rounds.
NEAR, STUCK, STUCK_ROUNDS = 0.5, 0.03, 3
# It moves to where the upper bound by the known vectors is this far above the lower bound, as a part of the whole gap.
LEVEL = 0.8
# With more samples than `MANY_SAMPLES`, the first `FIRST_ACTIVE` are active. When the gap between the lower bound and
# the game of the active ones alone is `FEW_LEFT` of the whole gap or less, one more becomes active, and another one for
# each `ONE_MORE` active ones.
MANY_SAMPLES, FIRST_ACTIVE, FEW_LEFT, ONE_MORE = 15, 4, 0.35, 8
# Beliefs are zero below this part of the relative gap, and at most below this.
LEAST_PART, MOST_LEAST_PART = 0.02, 1e-3
# The numbers that are read for trees of histories before samples become active, and then as a part of those that are
# read for points.
FIRST_NUMBERS, TREE_PART = 1e9, 4.0
# If all samples are active: rounds between two games; and vectors that are added at the duals of games, one after the
# other, as long as each takes this part of the gap away.
GAME_ROUNDS, ANSWERS, ANSWER_GAIN = 10, 20, 0.01
# The numbers that are read for trials of a round, for each outcome of the hull and sample; and how often they are left
# out if the upper bound has not fallen.
TRIAL_NUMBERS, TRIAL_PAUSE = 30.0, 4
# The part of the time left that the policy near the corners may take.
CORNER_PART = 0.2
# Seconds to write and to check a proof, for each outcome and sample; to make a policy and to judge it, for each next
# node (and each sample of it).
PROOF_SECONDS, NODE_SECONDS, NODE_SAMPLE_SECONDS = 1e-7, 2e-6, 1e-7


def policy_seconds(following: int, samples: int) -> float:
    """Estimate the time to make a policy with this many next nodes and to judge it.

    Most of the nodes of a hull's vectors are the same: they are merged before the judge sees them.
    """
    return following * (NODE_SECONDS + NODE_SAMPLE_SECONDS * samples)


@dataclass(eq=False)
class HullSearch:
    """A search with points in place of beliefs."""

    search: "AdaptiveSearch"
    hull: Hull = field(init=False)
    game: RootGame = field(init=False)  # over the active samples
    anchor: Array = field(init=False)  # the belief of the best lower bound, of the active samples
    worst: Array = field(init=False)  # the largest regret of a policy that was found without the active sample
    answers: Answers = field(init=False)
    pause: int = 0  # how often trials are left out

    def close(self, gap: float) -> Status:
        """Search until the gap is at most a fraction of the upper bound, or something stops it; return why it ended."""
        search, hull = self.search, self._start()
        uppers, gaps = [hull.upper], [np.inf]
        while True:
            began = search.run.seconds
            added = hull.round()
            search.belief_seconds = search.run.seconds - began
            if self._is_whole:
                self._follow_trials(hull.belief)
            search.proof_seconds = PROOF_SECONDS * int(hull.arrays.used[OUTCOMES]) * search.model.samples
            self._update_lower()
            search.run.iterations += 1
            uppers.append(hull.upper)
            arrived = not added or self._is_near() or self._is_stuck(uppers)
            self._improve_upper(arrived, len(uppers))
            status = search.status(f"{hull.points} points", gap)
            if status:
                return status
            if arrived:
                if search.stalls(gaps):
                    return Status.UNPROVED
                search.add_policies(1)
                left_out = hull.belief == 0
                self.worst = np.maximum(self.worst, np.where(left_out, hull.regret + self.game.offset, 0.0))
                self._activate()
                if not search.part.has_one_belief:
                    hull.move(self._next_belief())
                uppers = [hull.upper]

    def _start(self) -> Hull:
        """Return a hull at the belief of the lower bound, in place of the graph's nodes."""
        search, samples = self.search, self.search.model.samples
        search.write_proof()
        assert search.anchor is not None
        search.beliefs = search.graph.nodes
        search.graph.drop_nodes()
        limits = Limits(CORNER_PART * search.run.seconds_left)
        add_corner_policy(search.graph, Inner(limits, outer=search.run))
        self.answers = Answers(search)
        if samples > MANY_SAMPLES:
            self.answers.add(FIRST_NUMBERS)
        search.hull_sample = sample = self._first_active(search.game.dual)
        graph = search.graph
        if sample.size < samples:
            graph.memory /= 2
            graph = graph.restricted(sample)
        self.hull = search.hull = Hull.build(graph, samples)
        self.hull.out_of_time = search.out_of_time
        start = search.anchor if graph is search.graph else search.game.dual
        self.worst, self.anchor = np.zeros(sample.size), start[sample] / start[sample].sum()
        self._play()
        self.hull.move(self._cut(self.anchor))
        return self.hull

    def _first_active(self, belief: Array) -> Array:
        """Return the samples with the largest beliefs: some, and enough for a tail. All of them if they are few."""
        part, largest = self.search.part, np.argsort(-belief, kind="stable")
        enough = 2 * (int(np.searchsorted(np.cumsum(part.cap[largest]), 1.0)) + 1)
        if part.has_one_belief or max(MANY_SAMPLES, enough) >= belief.size:
            return np.arange(belief.size)
        return np.asarray(largest[: max(FIRST_ACTIVE, enough)])

    def _play(self) -> None:
        """Solve the game over the active samples, whose value is no less than what can be proved with them."""
        search, sample, graph = self.search, self.search.hull_sample, self.hull.graph
        if graph is search.graph:
            self.game = search.game
            return
        part = Part(graph.model, search.part.cap[sample], search.part.tail)
        self.game = RootGame(part, graph, search.offset[sample])
        self.game.update()

    def _activate(self) -> None:
        """Make the samples active that matter most by the game over all, once enough is proved with the others."""
        search = self.search
        self._play()
        while search.hull_sample.size < search.model.samples and self._left <= FEW_LEFT * (search.upper - search.lower):
            others = np.array(search.game.dual)
            others[search.hull_sample] = -1.0
            number = min(1 + search.hull_sample.size // ONE_MORE, int((others >= 0).sum()))
            new = np.argsort(-others, kind="stable")[:number]
            search.hull_sample = np.concatenate([search.hull_sample, new])
            self.hull.extend(self.hull.graph.extended(search.graph, search.hull_sample))
            self.worst, self.anchor = np.pad(self.worst, (0, number)), np.pad(self.anchor, (0, number))
            self._play()

    def _follow_trials(self, belief: Array) -> None:
        """Follow trials from a belief, for a part of the time that the hull takes; less often if they gain nothing."""
        if self.pause > 0:
            self.pause -= 1
            return
        graph, belief = self.search.graph, self.search.mixed(belief)
        before = graph.upper_at(belief)
        most = TRIAL_NUMBERS * float(self.hull.arrays.used[OUTCOMES]) * belief.size
        self.answers.follow_trials(belief, most)
        self.pause = 0 if graph.upper_at(belief) < before else TRIAL_PAUSE

    def _answer_duals(self) -> None:
        """Solve the game, and add a vector for its dual, in turn, as long as that lowers the upper bound."""
        search, last = self.search, np.zeros(0)
        search.update_game()
        for _ in range(ANSWERS):
            if search.game.solution is None or not search.lower < search.upper or search.out_of_time():
                break
            self._follow_trials(search.game.dual)
            belief = self._cut(search.game.dual)
            if np.array_equal(belief, last):  # its vector is infinite in some sample, and changes nothing
                break
            value = self.hull.answer(belief) + float(search.offset @ belief)
            if not value < search.upper - ANSWER_GAIN * (search.upper - search.lower):
                break
            last = belief
            search.update_game(estimate=False)

    def _improve_upper(self, arrived: bool, rounds: int) -> None:
        """Lower the upper bound over all samples: by trees if few are active, else at times near the hull's belief."""
        if not self._is_whole:
            self.search.update_game()
            self.answers.add(TREE_PART * self.hull.numbers)
        elif arrived or rounds % GAME_ROUNDS == 0:
            self._answer_duals()

    @property
    def _is_whole(self) -> bool:
        """Whether all samples were active from the start."""
        return self.hull.graph is self.search.graph

    @property
    def _left(self) -> float:
        """The gap between the lower bound and the game over the active samples."""
        return self.game.value - self.search.lower

    def _is_near(self) -> bool:
        """Return whether the gap at the belief is a small part of that over the active samples."""
        here = float(self.game.offset @ self.hull.belief) + self.hull.upper - self.search.lower
        return here <= NEAR * self._left

    def _is_stuck(self, uppers: list[float]) -> bool:
        """Return whether the upper bound at the belief falls only a little."""
        return len(uppers) > STUCK_ROUNDS and uppers[-1 - STUCK_ROUNDS] - uppers[-1] < STUCK * self._left

    def _update_lower(self) -> None:
        """Take the lower bound at the present belief if it is the best."""
        search, belief = self.search, self.hull.belief
        low = float(self.game.offset @ belief) + self.hull.lower
        if low > search.lower:
            self.anchor, search.anchor = belief, np.zeros(search.model.samples)
            search.anchor[search.hull_sample] = belief
            search.lower, search.hull_root = low, self.hull.root

    def _next_belief(self) -> Array:
        """Return the belief nearest to that of the lower bound at which the known vectors leave enough room."""
        if self.game.solution is None or not self._left > 0:
            return self._cut(self.game.dual)
        return self._cut(self.game.nearest(self.anchor, self.search.lower + LEVEL * self._left))

    def _cut(self, belief: Array) -> Array:
        """Leave out samples with a small belief.

        The policies found there need not be good in such a sample. If one is so bad that even a small belief matters,
        the sample keeps its belief; if one has an infinite regret there, it keeps some belief in any case.
        """
        search, part = self.search, self.game.part
        least = min(LEAST_PART * (1.0 - search.lower / search.upper), MOST_LEAST_PART) * part.cap
        small = (belief < least) & (belief * self.worst < least * search.upper)
        cut = np.maximum(np.where(small, 0.0, belief), np.where(self.worst >= FORBIDDEN, least, 0.0))
        return part.within(cut / cut.sum()) if cut.sum() > 0 else belief
