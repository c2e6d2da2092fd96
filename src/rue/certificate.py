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
certificate uses the same `potential.py` as the check: `safe_potential` for a potential that passes, `gap_below` for the
gaps; and `margin`: each r_i is below the fraction 1 − `margin` of what it follows from. `rue.checker` makes the same
check and shares no code with these modules.

*Rounding* is on the safe side everywhere, for all rows that sum to one and agree with those of the model to the last
digits. The last digits of what `verify` returns may differ from machine to machine, so that `bound` should be a little
less.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rue._arrays import Array, pointers, ranges, read_only
from rue._check import in_all, index_array, one_of, real_number
from rue._rounding import TWICE_ROUNDOFF, UNDERFLOW
from rue._threads import cores, each, in_parts
from rue.certificate_kernels import Claims, GapModel, check_points
from rue.errors import BadInput, NotProved
from rue.model import UMDP, Graph
from rue.potential import LARGE_VALUE, MOST_THREADS, OneSample
from rue.risk import caps_of, check_tail

# Weights, probabilities, gaps and values of points below this count as zero, so that their products are normal numbers.
SMALL = 1e-60
# The largest weight of a point lies between the inverse of this and this.
LARGE_WEIGHT = 1e30
# How far the sum of a belief may be from one.
BELIEF_TOLERANCE = 1e-9
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

    def to_json(self, model: "UMDP | InBlocks") -> str:
        """Return the numbers of the model and the proof as one JSON text, which `rue.checker` reads.

        If the proof is about a part of the samples, the text holds only these.
        """
        _check_types(model, self)
        part, weight = _part(model, self)
        _check_form(part, self, self.tail is not None)
        graph = part.graph
        arrays = {name: getattr(graph, name).tolist() for name in ("choice_ptr", "trans_ptr", "successor")}
        numbers = {"prob": part.prob.tolist(), "cost": part.cost.tolist(), "initial": graph.initial}
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
        """Make copies and pickles by the constructor, which freezes and checks their arrays."""
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


@runtime_checkable
class InBlocks(Protocol):
    """Samples that are drawn when they are asked for, such as those of a `rue.Source`."""

    @property
    def samples(self) -> int:
        """How many there are."""

    def part(self, samples: Array) -> tuple[UMDP, Array]:
        """Return a model of some samples, and their probabilities among all."""


def verify(model: UMDP | InBlocks, certificate: Certificate) -> float:
    """Return the lower bound that a certificate proves: at least its `bound`, or `NotProved` says what fails.

    Everything is computed again from the model; nothing of the solvers, of the judge or of `rue.values` is used. Of a
    source only the samples are drawn that the certificate names.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> solution = rue.solve(model, rue.Adaptive(gap=0.01))
    >>> rue.verify(model, solution.certificate) >= solution.max_regret.lower
    True
    """
    _check_types(model, certificate)
    part, weight = _part(model, certificate)
    cap = None if certificate.tail is None else caps_of(weight, certificate.tail)
    proved = proved_by(part, certificate, cap)
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

    def work(k: int) -> None:
        sample = OneSample.of(model, k)
        gap[:, k] = sample.gap_below(certificate.potential[:, k])
        if certificate.objective == "regret" and certificate.belief[k] > 0:
            least[k] = sample.least_cost(certificate.potential[:, k])

    each(work, range(model.samples), min(cores(), MOST_THREADS))
    _check_points(model, certificate, gap)
    return _at_root(model, certificate, least, cap)


def margin(model: UMDP, terms: int = 1) -> float:
    """Return the relative rounding error of the sum that a point's claim follows from.

    No sum has more than this many `terms`.
    """
    longest = int(np.diff(model.graph.trans_ptr).max(initial=0))
    return TWICE_ROUNDOFF * (model.samples + longest + 2 * terms + 16)


def _part(model: UMDP | InBlocks, certificate: Certificate) -> tuple[UMDP, Array]:
    """Return the samples of a model that a certificate is about, and their weights in the whole."""
    sample = certificate.sample if certificate.sample.size else np.arange(model.samples)
    if isinstance(model, InBlocks):
        return model.part(sample)
    return model.subset(sample) if certificate.sample.size else model, np.asarray(model.weight[sample])


def _check_types(model: UMDP | InBlocks, certificate: Certificate) -> None:
    """Refuse what is no model and no certificate, and a certificate about samples that the model does not have."""
    if not isinstance(model, UMDP | InBlocks):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP or a rue.Source")
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
