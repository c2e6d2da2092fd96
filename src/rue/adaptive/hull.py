"""The hull of points around its kernels: it is evaluated and extended, and gives vectors and certificates.

What the hull is, and how its bounds are computed, is described in `hull_kernels.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rue._arrays import Array, pointers
from rue._threads import in_parts
from rue.adaptive import hull_kernels as kernel
from rue.adaptive.belief_arrays import empty_array, enlarged
from rue.adaptive.belief_graph import BeliefGraph, OutOfMemory
from rue.adaptive.belief_kernels import BLOCK, COUNTS, FIXED, FOLLOWERS, NONE, STATES, VECTORS, layout
from rue.adaptive.hull_kernels import ACTIONS, LINKS, OUTCOMES, POINTS, HullArrays
from rue.adaptive.proof_kernels import Draft, lower_claims
from rue.adaptive.sum_kernels import CANDIDATES, Tableau, count_links, link, list_hull_proof
from rue.adaptive.vector_kernels import answer, backup_upper, scan_points
from rue.certificate import Certificate, margin, model_fingerprint

# The most links of an outcome.
MOST_LINKS = 10
# The part of the excess of all outcomes that are linked again in one round, and of those that become points.
LINK_PART, POINT_PART = 0.9, 0.5
# How many points are added at most in one round: a part of the points that are there, or this many; and how many
# outcomes are linked for each of them.
MOST, LEAST_MOST, LINK_MOST = 0.1, 64, 12
# Points with a smaller reach are left alone.
LEAST_REACH = 1e-9
# Sweeps of a backup, which ends when no bound rises by this fraction.
SWEEPS, RISE = 5, 1e-4
# Where no point was added: this many backups, until no bound rises by this fraction.
MANY_BACKUPS, LEAST_RISE = 500_000, 1e-9
# Outcomes or points that are done before another thread has started, and between two checks of the clock.
SMALL, AT_ONCE = 64, 20_000
# Numbers that are read in a round for each outcome, besides those for sums.
ROUND_NUMBERS = 500.0
# Rows of each group at the start.
START: dict[int | str, int] = {POINTS: 1024, ACTIONS: 1024, OUTCOMES: 4096}
# By how much arrays grow, if there is memory for it.
GROWTH = (2.0, 1.2, 1.0)


@dataclass(eq=False)
class Hull:
    """Points on a model, evaluated at one root at a time; the vectors are those of a graph of beliefs."""

    graph: BeliefGraph
    arrays: HullArrays
    root: int = NONE
    belief: Array = field(default_factory=lambda: np.zeros(0))  # of the root
    order: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # all points, the oldest first
    numbers: float = 0.0  # that have been read, an estimate
    out_of_time: Callable[[], object] = lambda: None  # asked between parts of long work

    @classmethod
    def build(cls, graph: BeliefGraph, most_samples: int) -> "Hull":
        """Return a hull without points. It may be extended to `most_samples`."""
        samples, links = graph.model.samples, min(most_samples, MOST_LINKS)
        sizes: dict[int | str, int] = {COUNTS: LINKS + 1, STATES: graph.model.graph.states, **START}
        sizes[LINKS] = links * START[OUTCOMES]
        arrays = {
            name: empty_array(word, sizes[group], samples)
            for name, (word, group) in layout(HullArrays).items()
            if group != FIXED
        }
        arrays["at_state"]["newest"] = NONE
        hull = cls(graph, HullArrays(**arrays, links=links))
        graph.others = hull._rows
        graph.other_bytes = hull.bytes
        return hull

    def extend(self, graph: BeliefGraph) -> None:
        """Go on with a graph for more samples, in which the points have no weight."""
        weight = np.zeros((self.arrays.weight.shape[0], graph.model.samples))
        weight[:, : self.graph.model.samples] = self.arrays.weight
        self.graph, self.arrays = graph, self.arrays._replace(weight=weight)
        graph.other_bytes = self.bytes

    @property
    def lower(self) -> float:
        """The lower bound of the root."""
        return float(self.arrays.lower[self.root])

    @property
    def upper(self) -> float:
        """The upper bound of the root."""
        return float(self.arrays.point["upper"][self.root])

    @property
    def regret(self) -> Array:  # [K]
        """The regrets of the policy of the root's upper bound; `FORBIDDEN` or more where they are infinite."""
        return np.asarray(self.graph.arrays.vectors.alpha[self.arrays.point["vector"][self.root]])

    @property
    def points(self) -> int:
        """The number of points."""
        return int(self.order.size)

    @property
    def bytes(self) -> int:
        """The memory of all arrays."""
        return sum(array.nbytes for array in self.arrays if isinstance(array, np.ndarray))

    def _rows(self) -> tuple[Array, Array]:
        """Return the rows that refer to vectors."""
        arrays = self.arrays
        return arrays.point[: arrays.used[POINTS]], arrays.outcome[: arrays.used[OUTCOMES]]

    def move(self, belief: Array) -> None:
        """Make the initial state with a belief the root."""
        self.belief = np.array(belief)
        self.graph.set_belief(belief)
        initial = np.array([self.graph.model.graph.initial], np.int32)
        place, _ = self._add(initial, self.belief[None])
        self.root = int(place[0])
        self._open_best(place)
        self._relax(self.order[::-1].copy())

    def round(self) -> int:
        """Link outcomes again, add points, and back up both bounds where the root leads.

        Return how many outcomes became points: new ones, or such as were there, and help from the next round on.
        """
        kernel.flow(self.arrays, self.order, self.root)
        reached = self.order[self.arrays.point["reach"][self.order] > LEAST_REACH]
        most = max(LEAST_MOST, int(MOST * self.points))
        self.numbers += ROUND_NUMBERS * float(self.arrays.used[OUTCOMES])
        outcome, excess, _ = self._outcomes(reached)
        self._link(_largest(outcome, excess, LINK_PART, LINK_MOST * most))
        outcome, _, missing = self._outcomes(reached)
        extended = _largest(outcome[missing > 0], missing[missing > 0], POINT_PART, most)
        added = self._extend(extended)
        # Points are mostly younger than those that lead to them.
        order = np.concatenate([reached, added])[::-1].copy()
        self._relax(order)
        if not added.size:  # cycles take many sweeps
            kernel.relax(self.graph.gaps, self.arrays, order, MANY_BACKUPS // order.size, LEAST_RISE)
        self._open_best(order)
        self._backup_upper(order)
        return int(extended.size)

    def _outcomes(self, chosen: Array) -> tuple[Array, Array, Array]:
        """Return the outcomes of the best choices of points whose sums lose something, and how much."""
        point = self.arrays.point[chosen]
        most = int(self.arrays.action["outcomes"][point["first_action"] + point["best"]].sum())
        outcome, excess, missing = np.empty(most, np.int64), np.empty(most), np.empty(most)
        count = kernel.list_outcomes(self.arrays, chosen, outcome, excess, missing)
        return outcome[:count], excess[:count], missing[:count]

    def _open_best(self, chosen: Array) -> None:
        """Give points the outcomes and links of their best choices, until the best one has some."""
        while chosen.size and not self.out_of_time():
            before, first = int(self.arrays.used[OUTCOMES]), 0
            while first < chosen.size:
                first = kernel.open_choices(self.graph.gaps, self.arrays, self.graph.arrays.vectors, chosen, first)
                if first < chosen.size:
                    self._make_room({OUTCOMES: self.arrays.outcome.size // 2 + self.graph.arrays.graph.widest})
            opened = np.arange(before, int(self.arrays.used[OUTCOMES]))
            self._link(opened)
            chosen = np.unique(self.arrays.outcome["point"][opened])

    def _link(self, chosen: Array) -> None:
        """Link outcomes again, as long as there is time."""
        number = self.arrays.at_state["number"][self.arrays.outcome["state"][chosen]]
        self.numbers += float(number.sum()) * self.graph.model.samples
        for first in range(0, chosen.size, AT_ONCE):
            if self.out_of_time():
                break
            last = min(first + AT_ONCE, chosen.size)
            in_parts(lambda i, j: self._link_part(chosen, i, j), first, last, self.graph.threads, SMALL)

    def _link_part(self, chosen: Array, first: int, last: int) -> None:
        samples = self.graph.model.samples
        whole, real = partial(np.empty, samples, np.int64), partial(np.empty, samples)
        candidates = (np.empty(CANDIDATES, np.int64), np.empty(CANDIDATES))
        square = np.empty((samples, samples))
        tableau = Tableau(whole(), whole(), square, real(), real(), real(), real(), *candidates)
        link(self.graph.gaps, self.arrays, self.graph.arrays.vectors, tableau, chosen, first, last)

    def _relax(self, order: Array) -> None:
        kernel.relax(self.graph.gaps, self.arrays, order, SWEEPS, RISE)

    def _backup_upper(self, chosen: Array) -> None:
        """Make new vectors at points, and let all of these points know them."""
        graph, longest = self.graph, int(self.graph.outcomes.max(initial=1))
        graph.make_room({VECTORS: graph.in_blocks(chosen.size), FOLLOWERS: chosen.size * longest})
        backup_upper(graph.gaps, self.arrays, graph.arrays.vectors, chosen)
        in_parts(
            lambda i, j: scan_points(self.arrays, graph.arrays.vectors, chosen, i, j),
            0, chosen.size, graph.threads, SMALL,
        )  # fmt: skip
        graph.prune_if_many()

    def answer(self, belief: Array) -> float:
        """Add the best vector at the initial state for a belief that one step from the known vectors gives."""
        graph = self.graph
        graph.make_room({VECTORS: 2 * BLOCK, FOLLOWERS: int(graph.outcomes.max(initial=1))})
        return float(answer(graph.gaps, graph.arrays.vectors, graph.model.graph.initial, np.array(belief)))

    def _extend(self, chosen: Array) -> Array:
        """Make outcomes points, unless there are such points; return the new ones."""
        weights = np.empty((chosen.size, self.graph.model.samples))
        kernel.set_weights(self.graph.gaps, self.arrays, self.graph.arrays.vectors, chosen, weights)
        place, is_new = self._add(self.arrays.outcome["state"][chosen], weights)
        self.arrays.outcome["twin"][chosen] = place
        self._open_best(place[is_new])
        return np.asarray(place[is_new])

    def _add(self, states: Array, weights: Array) -> tuple[Array, Array]:
        """Add points, except those that are there; return the place of each, and which are new."""
        actions = int(np.diff(self.graph.model.graph.choice_ptr)[states].sum())
        self._make_room({POINTS: self.graph.in_blocks(states.size), ACTIONS: actions})
        place, is_new = np.empty(states.size, np.int32), np.empty(states.size, bool)
        kernel.add_points(self.graph.gaps, self.arrays, self.graph.arrays.vectors, states, weights, place, is_new)
        self.order = np.concatenate([self.order, place[is_new]])
        return place, is_new

    def _make_room(self, wanted: dict[int, int]) -> None:
        """Make room for more rows in some groups, and more if memory allows."""
        arrays = self.arrays
        size = {POINTS: arrays.point.size, ACTIONS: arrays.action.size, OUTCOMES: arrays.outcome.size}
        least = {group: int(arrays.used[group]) + more for group, more in wanted.items()}
        small = [group for group in wanted if least[group] > size[group]]
        for factor in GROWTH:
            grown = {group: max(least[group], int(factor * size[group])) for group in small}
            if OUTCOMES in grown:
                grown[LINKS] = arrays.links * grown[OUTCOMES]
            if self._extra_bytes(grown) + self.graph.bytes <= self.graph.memory:
                return self._enlarge(grown)
        raise OutOfMemory

    def _extra_bytes(self, grown: dict[int, int]) -> int:
        """Return how much memory larger groups take, with the largest array twice, while it is copied."""
        arrays = [(getattr(self.arrays, name), group) for name, (_, group) in layout(HullArrays).items()]
        extra = [(grown[group] - array.shape[0]) * array[:1].nbytes for array, group in arrays if group in grown]
        copied = [array.nbytes for array, group in arrays if group in grown]
        return int(sum(extra) + max(copied, default=0))

    def _enlarge(self, grown: dict[int, int]) -> None:
        for name, (_, group) in layout(HullArrays).items():
            if group in grown:
                larger: Any = enlarged(getattr(self.arrays, name), grown[group])
                self.arrays = self.arrays._replace(**{name: larger})
        self.graph.other_bytes = self.bytes

    def certificate(self, objective: str, root: int, whole: BeliefGraph, sample: Array) -> tuple[Certificate, float]:
        """Return the proof of the lower bound of a root for the samples of a whole graph, and the bound that it proves.

        `sample[K]` are the numbers that the samples of the hull have there.
        """
        graph, arrays, own = self.graph, self.arrays, self.graph.model.graph
        at_state = np.diff(own.trans_ptr[own.choice_ptr])  # [S] outcomes of all choices
        links = int(count_links(arrays))
        points = np.full(self.points, root, np.int32)
        follow = np.empty(int(at_state[arrays.point["state"][self.order]].sum()), np.int32)
        sum_ptr = np.empty(int(arrays.used[OUTCOMES]) + 1, np.int64)
        sum_point, sum_share = np.empty(links, np.int32), np.empty(links)
        number = np.full(arrays.point.size, NONE, np.int32)
        count, followers, sums = list_hull_proof(
            graph.gaps, arrays, points, number, follow, sum_ptr, sum_point, sum_share
        )
        point, follow, sum_ptr = points[:count], follow[:followers], sum_ptr[: sums + 1]
        sum_point, sum_share = sum_point[: sum_ptr[-1]].copy(), sum_share[: sum_ptr[-1]].copy()
        follow = np.where(follow < NONE, count - 2 - follow, follow).astype(np.int32)
        state, weight, value = arrays.point["state"][point], arrays.weight[point], arrays.lower[point]
        follow_ptr = pointers(at_state[state])
        safe = 1.0 - max(2 * margin(whole.model, arrays.links), 1e-13)
        draft = Draft(state, weight, value, follow, follow_ptr, sum_ptr, sum_point, sum_share)
        lower_claims(graph.gaps, draft, safe)
        about = (objective, model_fingerprint(whole.model), 0.0, whole.potential)
        every = np.zeros((count, whole.model.samples))
        every[:, sample] = weight
        proof = Certificate(*about, state, every, value, follow, sum_ptr, sum_point, sum_share)
        return proof, float(value[0])


def _largest(outcome: Array, excess: Array, part: float, most: int) -> Array:
    """Return the outcomes that make up a part of the excess of all, and are not too many."""
    rank = np.argsort(-excess, kind="stable")
    enough = int(np.searchsorted(np.cumsum(excess[rank]), part * excess.sum())) + 1
    return np.asarray(outcome[rank[: min(enough, most)]])
