"""The search in the hull: where the belief moves, and when.

`search.py` hands over to it when a graph of beliefs gets on slowly. Points (`hull_kernels.py`) do not depend on the
belief, so that nothing is lost by moving. The next belief is the one nearest to that of the lower bound at which the
known vectors leave enough room (a level method on the whole simplex).

*Small beliefs.* A sum of points has to be below a weight in each sample. A sample with a small belief adds hardly
anything to the regret, but its row of the program rules out most points of other beliefs. So it is left out.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rue._arrays import Array
from rue.adaptive.belief_kernels import FORBIDDEN
from rue.adaptive.corners import add_corner_policy
from rue.adaptive.hull import Hull
from rue.adaptive.hull_kernels import OUTCOMES
from rue.adaptive.sum_kernels import nearest_above
from rue.solution import Status

if TYPE_CHECKING:
    from rue.adaptive.search import AdaptiveSearch

# The belief moves when its gap is this part of the whole, or when the upper bound there has fallen by less than a part
# of the whole gap in some rounds.
NEAR, STUCK, STUCK_ROUNDS = 0.5, 0.03, 3
# It moves to where the upper bound by the known vectors is this far above the lower bound, as a part of the whole gap.
LEVEL = 0.8
# Steps of the method that finds the next belief.
PROJECTION_STEPS = 3000
# Beliefs are zero below this part of the relative gap, and at most below this.
LEAST_PART, MOST_LEAST_PART = 0.02, 1e-3
# Rounds between two games; and vectors that are added at the duals of games, one after the other, as long as each
# takes this part of the gap away.
GAME_ROUNDS, ANSWERS, ANSWER_GAIN = 10, 20, 0.01
# Trials of a round at most, and steps of each; the numbers that they read, for each outcome of the hull and sample.
TRIALS, STEPS, TRIAL_NUMBERS = 100, 200, 30.0
# How often they are left out if the upper bound has not fallen.
TRIAL_PAUSE = 4
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
    """A search that goes on with points in place of beliefs."""

    search: "AdaptiveSearch"
    hull: Hull = field(init=False)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    pause: int = 0  # how often trials are left out
    worst: Array = field(init=False)  # [K] the largest regret of a policy that was found without the sample

    def close(self, gap: float) -> Status:
        """Search until the gap is at most a fraction of the upper bound, or something stops it; return why it ended."""
        search, hull = self.search, self._start()
        uppers, gaps = [hull.upper], [np.inf]
        while True:
            began = search.run.seconds
            added = hull.round()
            search.belief_seconds = search.run.seconds - began
            self._follow_trials(search.graph.belief)
            search.proof_seconds = PROOF_SECONDS * int(hull.arrays.used[OUTCOMES]) * search.model.samples
            self._update_lower()
            search.run.iterations += 1
            uppers.append(hull.upper)
            arrived = not added or self._is_near() or self._is_stuck(uppers)
            if arrived or len(uppers) % GAME_ROUNDS == 0:
                self._answer_duals()
            status = search.status(f"{hull.points} points", gap)
            if status:
                return status
            if arrived:
                if search.stalls(gaps):
                    return Status.UNPROVED
                search.add_policies(1)
                left_out = search.graph.belief == 0
                self.worst = np.maximum(self.worst, np.where(left_out, hull.regret + search.offset, 0.0))
                if not search.part.has_one_belief:
                    hull.move(self._next_belief())
                uppers = [hull.upper]

    def _start(self) -> Hull:
        """Return a hull at the belief of the lower bound, in place of the graph's nodes."""
        search = self.search
        search.write_proof()
        assert search.anchor is not None
        search.beliefs = search.graph.nodes
        search.graph.drop_nodes()
        add_corner_policy(search.graph, CORNER_PART * search.run.seconds_left)
        self.worst = np.zeros(search.model.samples)
        self.hull = search.hull = Hull.build(search.graph)
        self.hull.out_of_time = search.out_of_time
        self.hull.move(self._cut(search.anchor))
        return self.hull

    def _follow_trials(self, belief: Array) -> None:
        """Follow trials from a belief, for a part of the time that the hull takes; less often if they bring nothing."""
        if self.pause > 0:
            self.pause -= 1
            return
        belief = self.search.mixed(belief)
        before = self.search.graph.upper_at(belief)
        most = TRIAL_NUMBERS * float(self.hull.arrays.used[OUTCOMES]) * belief.size
        self.hull.follow_trials(belief, self.random.random((TRIALS, STEPS)), most)
        self.pause = 0 if self.search.graph.upper_at(belief) < before else TRIAL_PAUSE

    def _is_near(self) -> bool:
        """Return whether the gap at the belief is a small part of the whole."""
        search = self.search
        here = float(search.offset @ search.graph.belief) + self.hull.upper - search.lower
        return here <= NEAR * (search.upper - search.lower)

    def _is_stuck(self, uppers: list[float]) -> bool:
        """Return whether the upper bound at the belief hardly falls."""
        left = self.search.upper - self.search.lower
        return len(uppers) > STUCK_ROUNDS and uppers[-1 - STUCK_ROUNDS] - uppers[-1] < STUCK * left

    def _update_lower(self) -> None:
        """Take the lower bound at the present belief if it is the best."""
        search = self.search
        low = float(search.offset @ search.graph.belief) + self.hull.lower
        if low > search.lower:
            search.lower, search.anchor, search.hull_root = low, search.graph.belief, self.hull.root

    def _answer_duals(self) -> None:
        """Solve the game, and add a vector for its dual, in turn, as long as that lowers the upper bound."""
        search, last = self.search, np.zeros(0)
        search.update_game()
        for _ in range(ANSWERS):
            if search.game is None or not search.lower < search.upper or search.out_of_time():
                break
            self._follow_trials(search.game.belief)
            belief = self._cut(search.game.belief)
            if np.array_equal(belief, last):  # its vector is infinite in some sample, and changes nothing
                break
            value = self.hull.answer(belief) + float(search.offset @ belief)
            if not value < search.upper - ANSWER_GAIN * (search.upper - search.lower):
                break
            last = belief
            search.update_game(estimate=False)

    def _next_belief(self) -> Array:  # [K]
        """Return the belief nearest to that of the lower bound at which the known vectors leave enough room."""
        search = self.search
        if search.game is None or search.anchor is None:
            return self._cut(search.dual())
        level = search.lower + LEVEL * (search.upper - search.lower)
        cuts = np.ascontiguousarray(search.matrix.T) / search.upper
        nearest = nearest_above(cuts, level / search.upper, np.array(search.anchor), PROJECTION_STEPS)
        # Where cuts are nearly parallel the method may not have come there. It would end at the same belief again.
        nearest = np.maximum(nearest, 0.0)
        return self._cut(search.toward_dual(search.part.within(nearest / nearest.sum()), level))

    def _cut(self, belief: Array) -> Array:  # [K]
        """Leave out samples with a small belief.

        The policies found there need not be good in such a sample. If one is so bad that even a small belief matters,
        the sample keeps its belief; if one has an infinite regret there, it keeps some belief in any case.
        """
        search = self.search
        least = min(LEAST_PART * (1.0 - search.lower / search.upper), MOST_LEAST_PART) * search.part.cap
        small = (belief < least) & (belief * self.worst < least * search.upper)
        cut = np.maximum(np.where(small, 0.0, belief), np.where(self.worst >= FORBIDDEN, least, 0.0))
        return search.part.within(cut / cut.sum()) if cut.sum() > 0 else belief
