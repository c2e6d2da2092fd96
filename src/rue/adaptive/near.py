"""The part of a large model that is near the initial state: a smaller model, and the way back for certificates.

A bound at the initial state needs the states near it most. The smaller model has the first states in breadth-first
order, with all their choices, and the *border*: the states that these lead to besides. From a border state b one choice
leads to a goal, at the cost h_k(b) in sample k, with h the potential of the whole model (`certificate.py`), a lower
bound on V*_k. So each policy of the whole model is one of the smaller model that costs no more in any sample, and what
no policy of the smaller model can avoid, none of the whole model can.

With h as the potential in both, the gaps of the inner states are the same, and that of a border choice is zero. So the
points at inner states prove the same in the whole model: there the bound of one step, which is not negative, takes the
place of a point at the border. The certificate is about the whole model, and is checked like any other.
"""

from dataclasses import dataclass, replace

import numpy as np

from rue._arrays import Array, members, places, pointers, read_only
from rue.adaptive.proof_kernels import Draft, lower_claims
from rue.certificate import Certificate, margin, model_fingerprint
from rue.certificate_kernels import GapModel
from rue.model import UMDP, Graph
from rue.potential import gap_below, safe_potential
from rue.structure import visited_states
from rue.values import OptimalValues

# By which part the cost of a border choice is above the potential, so that rounding makes no gap negative. No
# certificate rests on it: there these gaps count as zero.
ROOM = 1e-11


@dataclass(frozen=True, eq=False)
class Near:
    """A whole model, its potential, and the part near the initial state."""

    whole: UMDP
    potential: Array  # [S, K] of the whole model
    model: UMDP  # the inner states, the border, and at the end a goal
    state: Array  # [S'] the state of the whole model; that of the last goal is -1
    inner: int  # how many of them are inner states, which come first

    @classmethod
    def of(cls, whole: UMDP, values: OptimalValues, numbers: int) -> "Near | None":
        """Return the part with about `numbers` probabilities; None if that is all, or a sample has a dead end there."""
        graph = whole.graph
        order = visited_states(graph, whole.ever_live)
        size = np.cumsum(np.diff(graph.trans_ptr[graph.choice_ptr])[order]) * whole.samples
        count = max(int(np.searchsorted(size, numbers)), 1)
        if count >= order.size or size[count - 1] > numbers:
            return None
        first = order[:count]
        transition = members(graph.trans_ptr[graph.choice_ptr], first)
        border = np.setdiff1d(graph.successor[transition], first)
        potential = safe_potential(whole, values.lower)
        if not np.isfinite(potential[np.append(first, border)]).all():
            return None
        return cls._cut(whole, potential, first, border)

    @classmethod
    def _cut(cls, whole: UMDP, potential: Array, first: Array, border: Array) -> "Near":
        """Return the model of these states."""
        graph = whole.graph
        left = border[~graph.goal[border]]  # goals of the whole model are goals
        state = np.concatenate([first, border, [-1]])
        goal = state.size - 1
        place = places(state[:-1], graph.states)
        choice = members(graph.choice_ptr, first)
        transition = members(graph.trans_ptr, choice)
        own = np.concatenate([np.diff(graph.choice_ptr)[first], ~graph.goal[border], [0]]).astype(np.int64)
        ones = np.ones(left.size, np.int64)
        cut = Graph(
            choice_ptr=pointers(own),
            action=np.concatenate([graph.action[choice], 0 * ones]),
            trans_ptr=pointers(np.concatenate([np.diff(graph.trans_ptr)[choice], ones])),
            successor=np.concatenate([place[graph.successor[transition]], goal * ones]),
            initial=int(place[graph.initial]),
        )
        prob = np.concatenate([whole.prob[transition], np.ones((left.size, whole.samples))])
        cost = np.concatenate([whole.cost[choice], potential[left] * (1 + ROOM)])
        model = UMDP(cut, read_only(prob), read_only(cost), weight=whole.weight)
        return cls(whole, potential, model, state, first.size)

    def certificate(self, found: Certificate) -> Certificate:
        """Return what a certificate of the part proves about the whole model."""
        inner = found.state < self.inner  # [P]
        number = np.where(inner, np.cumsum(inner) - 1, -1)
        kept = np.flatnonzero(inner)
        sums, points = self._sums(found, inner, number), int(kept.size)
        # A point, or a sum, that is no more there is replaced by the bound of one step: none.
        total = np.cumsum(sums.kept) - 1
        follower = np.concatenate([number, np.where(sums.kept, points + total, -1), [-1]])
        begin = found.follow_ptr(self.model.graph)
        follow = follower[found.follow[members(begin, kept)]].astype(np.int32)
        state, value = found.state[kept], found.value[kept].copy()
        weight = np.ascontiguousarray(found.weight[kept])
        draft = Draft(
            state, weight, value, follow, pointers(np.diff(begin)[kept]), sums.ptr, sums.point, sums.share,
        )  # fmt: skip
        terms = int(np.diff(sums.ptr).max(initial=1))
        lower_claims(self._gaps(), draft, 1.0 - max(2 * margin(self.whole, terms), 1e-13))
        return replace(
            found, fingerprint=model_fingerprint(self.whole), bound=0.0, potential=self.potential,
            state=self.state[state], weight=weight, value=value, follow=follow,
            sum_ptr=sums.ptr, sum_point=sums.point, sum_share=sums.share,
        )  # fmt: skip

    def _gaps(self) -> GapModel:
        """Return the gaps of the part with the potential of the whole model; zero at the border."""
        graph, states = self.model.graph, self.state[:-1]
        gap = gap_below(self.model, np.vstack([self.potential[states], np.zeros(self.model.samples)]))
        gap[graph.choice_ptr[self.inner] :] = 0.0
        return GapModel(graph.choice_ptr, graph.trans_ptr, graph.successor, self.model.prob, gap)

    def _sums(self, found: Certificate, inner: Array, number: Array) -> "_Sums":
        """Return the sums of points at inner states."""
        kept = inner[found.sum_point[found.sum_ptr[:-1]]]  # all points of a sum are at one state
        listed = members(found.sum_ptr, np.flatnonzero(kept))
        point = number[found.sum_point[listed]].astype(np.int32)
        ptr = pointers(np.diff(found.sum_ptr)[kept])
        return _Sums(kept, ptr, point, np.ascontiguousarray(found.sum_share[listed]))


@dataclass(frozen=True, eq=False)
class _Sums:
    """The sums of a certificate that are left."""

    kept: Array  # [Q] which
    ptr: Array
    point: Array
    share: Array
