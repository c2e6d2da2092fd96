"""Proofs that no policy does better than a bound, and the check of such a proof.

*Gaps.* A potential h_k(s), zero at goals, turns the costs of sample k into gaps

    g_k(c) = C̄_k(c) + Σ T_k(c,s') (h_k(s') − h_k(s))                                    c a choice of s

If no gap is negative, h is a lower bound on V*_k, and a policy π that reaches a goal with probability one in sample k
has V_k(π) = h_k(s_0) + E_k[Σ_t g_k(s_t,a_t)]. A choice that may lead into a dead end of the sample has an infinite gap.

*Weights.* For weights w ∈ R^K_+ on the samples let W(s,w) be the infimum of Σ_k w_k E_k[Σ g_k] from s over all policies
that reach a goal with probability one in each sample with w_k > 0. W is zero at goals, never negative, homogeneous and
monotone in w, and with T_t the probabilities of a transition in all samples, and ∘ entry by entry,

    W(s,w) = min over choices c of s of  w·g(c) + Σ_t W(s'_t, w∘T_t)

*A certificate* is a set of points (s_i, w_i, r_i), each of which claims that W(s_i,w_i) ≥ r_i. For each transition t of
each choice of s_i it names the point j at s'_t from which the rest follows, or none:

    W(s'_t, w_i∘T_t) ≥ r_j · min over {k: w_jk > 0} of (w_i∘T_t)_k / w_jk                            with a point j
    W(s'_t, w_i∘T_t) ≥ min over choices c of s'_t of  (w_i∘T_t)·g(c)                                 without

A follower may also be a *sum* of points at s'_t with shares λ_j > 0. W is concave and homogeneous in w, so that
W(s, Σ λ_j w_j) ≥ Σ λ_j W(s, w_j): the sum counts as a point with the weight Σ λ_j w_j and the value Σ λ_j r_j.

The proof holds if each r_i is at most the right-hand side of the equation above with these bounds in it. Points may
support each other in circles: applied n times, the inequalities bound W by r_i less what is claimed for the weight that
has not reached a goal after n steps, and that vanishes as n grows.

*What is proved.* Point 0 is at the initial state, and its weights are a belief b. Then for each policy π of any class

    max over k of V_k(π)          ≥ r_0 + Σ_k b_k h_k(s_0)                                           objective "cost"
    max over k of V_k(π) − V*_k   ≥ r_0 + Σ_k b_k (h_k(s_0) − V*_k(s_0))                             objective "regret"

since the left-hand side is infinite if π may miss the goal in some sample. V*_k is replaced by the cost of a policy
that is searched for here.

*A part of the samples.* The maximum over some samples is at most the maximum over all. So a certificate may be about a
part of the samples, `sample`, and is one for the whole model.

*A tail.* The mean of the worst part α of the probability is the largest Σ_k b_k reg_k(π) over all b with b_k ≤ p_k/α
and a sum of at most one (`risk.py`), with p the weights of the samples. So the same certificate is about the tail if
its belief keeps to these caps; one that does not proves its bound divided by the largest b_k α/p_k.

*Independence.* `verify` uses the model, and nothing of the solvers, of the judge or of their V*. A solver that makes a
certificate uses this module: `safe_potential` for a potential that passes, `gap_below` for the gaps that the check will
use, and `margin`: each r_i is below the fraction 1 − `margin` of what it follows from. `rue.checker` makes the same
check and shares no code with this module.

*Rounding* is on the safe side everywhere, for all rows that sum to one and agree with those of the model to the last
digits. The last digits of what `verify` returns may differ from machine to machine, so that `bound` should be a little
less.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rue._arrays import Array, pointers, ranges, read_only
from rue._check import in_all, index_array, one_of, real_number
from rue._linear import solve_chain
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF
from rue._threads import cores, in_parts
from rue.certificate_kernels import Claims, GapModel, check_points
from rue.errors import BadInput, NotProved, SolverFailed
from rue.model import UMDP, Graph
from rue.risk import caps_of, check_tail

# Twice the rounding error of one operation, so that products of such errors are covered as well.
TWICE_ROUNDOFF = 2 * UNIT_ROUNDOFF
# Weights, probabilities, gaps and values of points below this count as zero, so that their products are normal numbers.
SMALL = 1e-60
# The largest weight of a point lies between the inverse of this and this.
LARGE_WEIGHT = 1e30
# No claim and no finite potential is larger, and it stands for infinite gaps.
LARGE_VALUE = 1e150
# How far the sum of a belief may be from one.
BELIEF_TOLERANCE = 1e-9
# Gaps, relative to the largest cost, up to which a choice is taken for a policy of least cost, in turn.
NEAR = (1e-10, 1e-8, 1e-6, 1e-4, 2.0)
# A choice improves a policy if it does by this fraction.
FALL = 1e-12
# Rounds of policy iteration, and of lowering a potential.
ROUNDS = 100
# Fractions by which a potential is lowered, in turn, to make room for rounding.
ROOM = (0.0, 1e-12, 1e-9, 1e-6)
# Numbers that are handled together in the check of the points: they stay in the cache.
CHUNK = 1 << 16
# Points that are checked before another thread has started.
SMALL_PART = 64


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof that no policy has a smaller max regret, or worst-case cost, than `bound`. P points."""

    objective: str  # "regret" or "cost"
    fingerprint: str  # of the model, or of the part of it that `sample` names: `model_fingerprint`
    bound: float
    potential: Array  # [S, K]; infinite at dead ends of a sample
    state: Array  # [P]; point 0 is at the initial state
    weight: Array  # [P, K]; those of point 0 are the belief
    value: Array  # [P]
    follow: Array  # for each point a point, or P + a sum, or -1, for all transitions of its state, in order
    sum_ptr: Array = field(default_factory=lambda: np.zeros(1, np.int64))  # [Q+1] where the points of each sum begin
    sum_point: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    sum_share: Array = field(default_factory=lambda: np.zeros(0))
    sample: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # [K] the samples of a larger model, in order
    tail: float | None = None  # the level of the tail that the bound is about; None: the maximum

    def __post_init__(self) -> None:
        one_of("objective", self.objective, ("regret", "cost"))
        if self.tail is not None:
            object.__setattr__(self, "tail", check_tail(self.tail))
        object.__setattr__(self, "bound", real_number("bound", self.bound, "a number, 0 or more", 0))
        for name, dtype in _FIELDS.items():
            try:
                array: Array = np.asarray(getattr(self, name)).astype(dtype, order="C", casting="same_kind", copy=False)
            except (TypeError, ValueError):
                raise BadInput(f"{name} of the certificate is no array of {np.dtype(dtype)}") from None
            object.__setattr__(self, name, read_only(array.copy()) if array.flags.writeable else array)

    @property
    def belief(self) -> Array:  # [K]
        """The belief under which no policy does better."""
        return np.asarray(self.weight[0])

    @property
    def is_of_max_regret(self) -> bool:
        """Whether it is about the max regret over the samples."""
        return self.objective == "regret" and self.tail is None

    @property
    def points(self) -> int:
        """P, the number of points."""
        return int(self.state.size)

    @property
    def sums(self) -> int:
        """Q, the number of sums of points."""
        return int(self.sum_ptr.size) - 1

    def follow_ptr(self, graph: Graph) -> Array:  # [P+1]
        """Return where the followers of each point begin."""
        return pointers(np.diff(graph.trans_ptr[graph.choice_ptr])[self.state])

    def to_json(self, model: UMDP) -> str:
        """Return the numbers of the model and the proof as one JSON text, which `rue.checker` reads.

        If the proof is about a part of the samples, the text holds only these.
        """
        _check_types(model, self)
        weight = _weight(model, self)
        model = _part(model, self)
        _check_form(model, self, self.tail is not None)
        graph = model.graph
        arrays = {name: getattr(graph, name).tolist() for name in ("choice_ptr", "trans_ptr", "successor")}
        numbers = {"prob": model.prob.tolist(), "cost": model.cost.tolist(), "initial": graph.initial}
        proof = {name: getattr(self, name) for name in ("objective", "fingerprint", "bound")}
        left_out = {"sample"} if self.sums else {"sample", "sum_ptr", "sum_point", "sum_share"}
        proof |= {name: getattr(self, name).tolist() for name in _FIELDS if name not in left_out}
        if self.tail is not None:
            numbers["weight"], proof["tail"] = weight.tolist(), self.tail
        # JSON knows no infinity.
        proof["potential"] = [[x if math.isfinite(x) else None for x in row] for row in proof["potential"]]
        header = {"format": "rue", "version": 1, "kind": "proof"}
        return json.dumps({**header, "model": arrays | numbers, "certificate": proof}, allow_nan=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copies and pickles are made: anew, so that they are frozen and checked like any other."""
        arrays = (getattr(self, name) for name in _FIELDS)
        return Certificate, (self.objective, self.fingerprint, self.bound, *arrays, self.tail)

    def __repr__(self) -> str:
        what = self.objective if self.tail is None else f"{self.objective} in the worst {self.tail:g}"
        return f"Certificate({what} of every policy at least {self.bound:.6g}, {self.points} points)"


_FIELDS = {
    "potential": np.float64, "state": np.int32, "weight": np.float64, "value": np.float64, "follow": np.int32,
    "sum_ptr": np.int64, "sum_point": np.int32, "sum_share": np.float64, "sample": np.int64,
}  # fmt: skip


def model_fingerprint(model: UMDP) -> str:
    """Return a hash of the whole model, numbers included."""

    def compute() -> str:
        digest = hashlib.sha256(model.graph.fingerprint.encode())
        for array in (model.prob, model.cost):
            digest.update(str(array.shape).encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:32]

    return model.remember("fingerprint", compute)


def verify(model: UMDP, certificate: Certificate) -> float:
    """Return the lower bound that a certificate proves: at least its `bound`, or `NotProved` says what fails.

    Everything is worked out again from the model; nothing of the solvers, of the judge or of `rue.values` is used.
    """
    _check_types(model, certificate)
    cap = None if certificate.tail is None else caps_of(_weight(model, certificate), certificate.tail)
    proved = proved_by(_part(model, certificate), certificate, cap)
    if not proved >= certificate.bound:
        raise NotProved(f"the certificate claims a bound of {certificate.bound!r}; its points prove {proved!r}")
    return proved


def proved_by(model: UMDP, certificate: Certificate, cap: Array | None) -> float:
    """Return the lower bound that a certificate about all samples of a model proves, whatever it claims.

    `cap[K]` limits the belief of each sample, if it is about a tail. `NotProved` if its points do not hold.
    """
    _check_form(model, certificate, cap is not None)
    gap = np.empty_like(model.cost)
    least = np.zeros(model.samples)
    for k in range(model.samples):
        sample = _Sample.of(model, k)
        gap[:, k] = sample.gap_below(certificate.potential[:, k])
        if certificate.objective == "regret" and certificate.belief[k] > 0:
            least[k] = sample.least_cost(certificate.potential[:, k])
    _check_points(model, certificate, gap)
    return _at_root(model, certificate, least, cap)


def gap_below(model: UMDP, potential: Array) -> Array:  # [C, K]
    """Return the gaps of a potential, rounded down; `NotProved` if one may be negative."""
    return np.column_stack([_Sample.of(model, k).gap_below(potential[:, k]) for k in range(model.samples)])


def safe_potential(model: UMDP, lower: Array) -> Array:  # [S, K]
    """Return lower bounds on the optimal values, lowered a little where rounding might make a gap negative."""
    return np.column_stack([_Sample.of(model, k).lowered(lower[:, k]) for k in range(model.samples)])


def margin(model: UMDP, terms: int = 1) -> float:
    """Return the fraction of what a point follows from that is kept back for rounding errors.

    No sum has more than this many `terms`.
    """
    longest = int(np.diff(model.graph.trans_ptr).max(initial=0))
    return TWICE_ROUNDOFF * (model.samples + longest + 2 * terms + 16)


def _part(model: UMDP, certificate: Certificate) -> UMDP:
    """Return the samples of a model that a certificate is about."""
    return model.subset(certificate.sample) if certificate.sample.size else model


def _weight(model: UMDP, certificate: Certificate) -> Array:  # [K]
    """Return the weights of the samples that a certificate is about."""
    return np.asarray(model.weight[certificate.sample] if certificate.sample.size else model.weight)


def _check_types(model: UMDP, certificate: Certificate) -> None:
    """Refuse what is no model and no certificate, and a certificate about samples that the model does not have."""
    if not isinstance(model, UMDP):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP")
    if not isinstance(certificate, Certificate):
        raise BadInput(f"the certificate is a {type(certificate).__name__}; expected a rue.Certificate")
    if certificate.sample.size:
        index_array("sample of the certificate", certificate.sample, model.samples)


def _check_form(model: UMDP, certificate: Certificate, is_tail: bool) -> None:
    """Refuse what is no certificate for this model, whatever it claims."""
    if certificate.fingerprint != model_fingerprint(model):
        raise BadInput(
            f"the certificate is for another model (fingerprint {certificate.fingerprint}); "
            f"expected {model_fingerprint(model)}"
        )
    graph, points, samples = model.graph, certificate.points, model.samples
    _expect(certificate.potential.shape == (graph.states, samples), "potential has another shape than the model")
    _expect(certificate.state.ndim == 1 and points > 0, "state is empty or has several axes")
    _expect(certificate.weight.shape == (points, samples), "weight has no row for each point")
    _expect(certificate.value.shape == (points,), "value has no entry for each point")
    _expect(_within(certificate.state, 0, graph.states - 1), "state is out of range")
    _expect(certificate.follow.shape == (certificate.follow_ptr(graph)[-1],), "follow has no entry for each transition")
    _check_sums(certificate)
    _expect(_within(certificate.follow, -1, points + certificate.sums - 1), "follow is out of range")
    _expect(_within(certificate.weight, 0.0, LARGE_WEIGHT), "weight is negative or no number")
    _expect(_within(certificate.weight.max(axis=1), 1 / LARGE_WEIGHT, LARGE_WEIGHT), "weight is nearly zero at a point")
    _expect(_within(certificate.value, 0.0, LARGE_VALUE), "value is negative or no number")
    _expect(certificate.state[0] == graph.initial, "state of point 0 is not the initial state")
    total = certificate.belief.sum()
    _expect(total <= 1 + BELIEF_TOLERANCE, "weight of point 0 sums to more than 1")
    _expect(is_tail or total >= 1 - BELIEF_TOLERANCE, "weight of point 0 does not sum to 1")


def _check_sums(certificate: Certificate) -> None:
    """Refuse sums without points, of points that do not exist or that have different states, and useless shares."""
    ptr, point, share = certificate.sum_ptr, certificate.sum_point, certificate.sum_share
    fits = ptr.ndim == 1 and ptr.size > 0 and ptr[0] == 0 and (np.diff(ptr) > 0).all()
    _expect(bool(fits), "sum_ptr does not rise from 0, or a sum is empty")
    _expect(point.shape == share.shape == (ptr[-1],), "sum_point or sum_share has no entry for each point of a sum")
    _expect(_within(point, 0, certificate.points - 1), "sum_point is out of range")
    _expect(_within(share, 1 / LARGE_WEIGHT, LARGE_WEIGHT), "sum_share is nearly zero, too large or no number")
    state = certificate.state[point]
    _expect(bool((state == np.repeat(state[ptr[:-1]], np.diff(ptr))).all()), "sum has points at different states")


def _expect(fits: bool, problem: str) -> None:
    if not fits:
        raise BadInput(f"the certificate cannot be used: its {problem}")


def _within(array: Array, low: float, high: float) -> bool:
    return not array.size or bool(array.min() >= low and array.max() <= high)


def _at_root(model: UMDP, certificate: Certificate, least: Array, cap: Array | None) -> float:
    """Return what point 0 proves, rounded down; a regret or cost is never negative. `cap[K]` limits its belief."""
    used = np.flatnonzero(certificate.belief > 0)
    belief = certificate.belief[used]
    if not np.isfinite(least[used]).all():
        worst = int(used[~np.isfinite(least[used])][0])
        raise NotProved(f"no policy's cost could be proved in sample {model.sample_name(worst)}, as its regret needs")
    terms = np.append(belief * (certificate.potential[model.graph.initial, used] - least[used]), certificate.value[0])
    error = TWICE_ROUNDOFF * 4 * math.fsum(np.abs(terms)) + SMALL
    # A belief that sums to a little more than one proves that much less.
    total = math.fsum(belief) * (1 + 4 * TWICE_ROUNDOFF)
    if cap is not None:
        if not (cap[used] > 0).all():
            raise NotProved("the certificate has a belief in a sample without weight, which no tail allows")
        # What counts are beliefs below the caps; they need not sum to one, as nothing is negative.
        total = max(total, 1.0, float((belief / cap[used]).max()) * (1 + 4 * TWICE_ROUNDOFF))
    return max((math.fsum(terms) - error) / total * (1 - 4 * TWICE_ROUNDOFF), 0.0)


def _check_points(model: UMDP, certificate: Certificate, gap: Array) -> None:
    """Refuse points that claim more than follows from the others."""
    points = _Points.of(model, certificate, gap)
    points.check_followers()
    # Most points pass a plain sum, compiled; the others may be on a free cycle, which needs more care.
    unsure = np.flatnonzero(~points.follow_plainly())
    proved = points.value.copy()
    for part in points.parts(unsure):
        proved[part] = points.backup(part)
    short = np.flatnonzero(~(points.value <= proved))
    if short.size:
        i = int(short[0])
        raise NotProved(
            f"point {i} at state {model.graph.state_name(certificate.state[i])} claims {float(certificate.value[i])}; "
            f"only {float(proved[i])} follows; {short.size} points claim too much in all"
        )


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of a certificate without numbers so small that they lose precision.

    The smaller weights make weaker claims, and these are what is checked.
    """

    graph: Graph
    prob: Array  # [T, K]
    full_prob: Array  # [T, K] with those that are so small
    gap: Array  # [C, K]
    state: Array  # [P]
    weight: Array  # [P, K]
    value: Array  # [P]
    follow: Array
    follow_ptr: Array  # [P+1]
    sum_ptr: Array  # [Q+1]
    sum_point: Array
    sum_share: Array
    margin: float

    @classmethod
    def of(cls, model: UMDP, certificate: Certificate, gap: Array) -> "_Points":
        finite_gap = np.minimum(_without_small(gap), LARGE_VALUE)  # writable, always
        weight, value = _without_small(certificate.weight), _without_small(certificate.value)
        follow, follow_ptr = certificate.follow, certificate.follow_ptr(model.graph)
        numbers = (_without_small(model.prob), model.prob, finite_gap)
        sums = (certificate.sum_ptr, certificate.sum_point, certificate.sum_share)
        terms = int(np.diff(certificate.sum_ptr).max(initial=1))
        own = (certificate.state, weight, value, follow, follow_ptr, *sums)
        return cls(model.graph, *numbers, *own, margin(model, terms))

    def check_followers(self) -> None:
        """Refuse followers at another state than that of the outcome."""
        graph = self.graph
        first = graph.trans_ptr[graph.choice_ptr[self.state]]
        expected = graph.successor[ranges(first, np.diff(self.follow_ptr))]
        state = np.concatenate([self.state, self.state[self.sum_point[self.sum_ptr[:-1]]]])
        wrong = np.flatnonzero((self.follow >= 0) & (state[self.follow] != expected))
        if wrong.size:
            at = int(wrong[0])
            name, other = graph.state_name, int(self.follow[at])
            point = int(np.searchsorted(self.follow_ptr, at, side="right")) - 1
            raise BadInput(
                f"point {point} is followed by point {other} at state {name(state[other])}; "
                f"expected one at state {name(expected[at])}; {in_all(wrong.size, 'follower')}"
            )

    def follow_plainly(self) -> Array:  # [P]
        """Return which points claim no more than the sum of what follows, rounded down."""
        graph, follows = self.graph, np.zeros(self.state.size, bool)
        model = GapModel(graph.choice_ptr, graph.trans_ptr, graph.successor, self.prob, self.gap)
        sums = (self.sum_ptr, self.sum_point, self.sum_share)
        claims = Claims(self.state, self.weight, self.value, self.follow, self.follow_ptr, *sums)
        in_parts(
            lambda first, last: check_points(model, claims, 1 - self.margin, first, last, follows),
            0, self.state.size, cores(), SMALL_PART,
        )  # fmt: skip
        return follows

    def parts(self, points: Array) -> Iterator[Array]:
        """Return some points, in parts that share a state."""
        order = points[np.argsort(self.state[points], kind="stable")]
        size = max(CHUNK // self.weight.shape[1], 1)
        ends = np.flatnonzero(np.diff(self.state[order])) + 1
        for first, last in zip([0, *ends], [*ends, order.size], strict=True):
            for start in range(first, last, size):
                yield order[start : min(start + size, last)]

    def backup(self, part: Array) -> Array:
        """Return what follows for points that share a state, rounded down."""
        graph, state = self.graph, int(self.state[part[0]])
        if graph.goal[state]:
            return np.zeros(part.size)
        weight, place = self.weight[part], self.follow_ptr[part]
        least = np.full(part.size, np.inf)
        for c in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
            total = weight @ self.gap[c]
            for i, t in enumerate(range(graph.trans_ptr[c], graph.trans_ptr[c + 1])):
                total += self.ahead(part, weight * self.prob[t], int(graph.successor[t]), self.follow[place + i])
            total *= 1 - self.margin
            short = np.flatnonzero(total < self.value[part])
            if short.size:
                level = short[self.keeps_level(part[short], weight[short], c, place[short])]
                total[level] = self.value[part[level]]
            np.minimum(least, total, out=least)
            place = place + (graph.trans_ptr[c + 1] - graph.trans_ptr[c])
        return least

    def keeps_level(self, part: Array, weight: Array, c: int, place: Array) -> Array:
        """Return whether claims follow for a choice with the same probabilities T in all samples that have weight.

        W(s', T w) = T W(s', w), and the probabilities sum to one, so that r ≤ w·g + Σ_t T_t r_t is
        0 ≤ w·g + Σ_t T_t (r_t − r), where nothing is lost to rounding on a free cycle with the same claim.
        """
        graph, claim = self.graph, self.value[part]
        up, down = weight @ self.gap[c], np.zeros(part.size)
        even = np.ones(part.size, bool)
        for i, t in enumerate(range(graph.trans_ptr[c], graph.trans_ptr[c + 1])):
            prob = self.full_prob[t, weight.argmax(axis=1)]
            even &= ((self.full_prob[t] == prob[:, None]) | (weight == 0)).all(axis=1)
            follow = self.follow[place + i]
            same = (follow >= 0) & (follow < self.state.size)
            same[same] = (self.weight[follow[same]] == weight[same]).all(axis=1)
            there = self.ahead(part, weight, int(graph.successor[t]), follow)
            rise = np.where(same, there, there * (1 - self.margin)) - claim
            up += prob * np.maximum(rise, 0.0)
            # A product may vanish in rounding, but what can be lost is lost in the end.
            down += prob * np.maximum(-rise, 0.0) + UNDERFLOW * ((prob > 0) & (rise < 0))
        return np.asarray(even & (up * (1 - self.margin) >= down * (1 + self.margin)))

    def ahead(self, part: Array, weight: Array, state: int, follow: Array) -> Array:
        """Return what the followers prove for weights that arrive at a state."""
        gap = self.gap[self.graph.choice_ptr[state] : self.graph.choice_ptr[state + 1]]
        named = np.flatnonzero(follow >= 0)
        result = np.zeros(part.size)
        if gap.size and named.size < part.size:
            result = (weight @ gap.T).min(axis=1)
        if named.size:
            there, value = self.claims_of(follow[named])
            share = np.full(there.shape, np.inf)
            np.divide(weight[named], there, out=share, where=there > 0)
            result[named] = value * share.min(axis=1)
        return np.asarray(result)

    def claims_of(self, follow: Array) -> tuple[Array, Array]:  # [N, K], [N]
        """Return the weights and values of some followers."""
        plain = np.minimum(follow, self.state.size - 1)
        weight, value = self.weight[plain].copy(), self.value[plain].copy()
        named = np.flatnonzero(follow >= self.state.size)
        if named.size:
            total = follow[named] - self.state.size
            size = (self.sum_ptr[total + 1] - self.sum_ptr[total]).astype(np.int64)
            part, first = ranges(self.sum_ptr[total], size), np.cumsum(size) - size
            share, point = self.sum_share[part], self.sum_point[part]
            weight[named] = np.add.reduceat(share[:, None] * self.weight[point], first, axis=0)
            value[named] = np.add.reduceat(share * self.value[point], first)
        return weight, value


def _without_small(array: Array) -> Array:
    """Return the array, read-only, with numbers close to zero replaced by zero."""
    small = (array > 0) & (array < SMALL)
    return read_only(np.where(small, 0.0, array)) if small.any() else array


@dataclass(frozen=True, eq=False)
class _Sample:
    """One sample of a model, and what can be done in it without ever risking a dead end."""

    graph: Graph
    prob: Array  # [T]
    cost: Array  # [C]
    alive: Array  # [S] states from which a goal can be reached with probability one
    allowed: Array  # [C] choices that never leave them
    name: str

    @classmethod
    def of(cls, model: UMDP, sample: int) -> "_Sample":
        graph = model.graph
        prob = np.ascontiguousarray(model.prob[:, sample])
        alive = np.ones(graph.states, bool)
        while True:
            strays = np.logical_or.reduceat((prob > 0) & ~alive[graph.successor], graph.trans_ptr[:-1])
            allowed = alive[graph.choice_state] & ~strays
            use = (prob > 0) & allowed[graph.trans_choice]
            found = _spread(graph.successor[use], graph.trans_state[use], graph.goal) >= 0
            if (found | ~alive).all():
                return cls(graph, prob, model.cost[:, sample], alive, allowed, model.sample_name(sample))
            alive &= found

    def drift(self, value: Array, paid: Array) -> tuple[Array, Array, Array]:  # [C], [C], [C]
        """Return what each choice pays plus the rise of the value, its rounding error, and whether the value may fall.

        Differences are taken first: what the value is does not matter, nor does a self-loop.
        """
        graph, first = self.graph, self.graph.trans_ptr[:-1]
        rise = value[graph.successor] - value[self.graph.trans_state]
        part = self.prob * rise
        total = paid + np.add.reduceat(part, first)
        size = paid + np.add.reduceat(np.abs(part), first)
        falls = np.logical_or.reduceat((self.prob > 0) & (rise < 0), first)
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
            if found is None:  # from some state it hardly ever ends, which it may not visit
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
            use = np.flatnonzero((self.prob > 0) & usable[graph.trans_choice] & ~done[self.graph.trans_state])
            toward = _spread(graph.successor[use], self.graph.trans_state[use], done)
            taken = use[toward[self.graph.trans_state[use]] == graph.successor[use]]
            choice[self.graph.trans_state[taken]] = graph.trans_choice[taken]
            done |= toward >= 0
        return choice

    def _evaluate(self, choice: Array, inner: Array) -> tuple[Array, Array] | None:  # [S], [S]
        """Estimate a policy's cost and steps from the states `inner`, which it leaves only for goals.

        None if they are beyond all numbers.
        """
        graph, states = self.graph, np.flatnonzero(inner)
        place = np.full(graph.states, states.size)
        place[states] = np.arange(states.size)
        length = np.diff(graph.trans_ptr)[choice[states]]
        transition = ranges(graph.trans_ptr[choice[states]], length)
        row, column = np.repeat(np.arange(states.size), length), place[graph.successor[transition]]
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
        use = (self.prob > 0) & (choice[self.graph.trans_state] == graph.trans_choice)
        start = np.arange(graph.states) == graph.initial
        return np.asarray((_spread(self.graph.trans_state[use], graph.successor[use], start) >= 0) & ~graph.goal)

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


def _spread(tail: Array, head: Array, start: Array) -> Array:  # [S]
    """Search breadth first along edges; return where each state is entered from, at least 0 for what is reached."""
    # Slow to import, and needed only here.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    states, first = start.size, np.flatnonzero(start)
    ends = (np.append(tail, np.full(first.size, states)), np.append(head, first))
    edges = csr_array((np.ones(ends[0].size), ends), shape=(states + 1, states + 1))
    return np.asarray(breadth_first_order(edges, states)[1][:states])
