"""Check a proof that no policy does better than a bound. One file: Python, numpy, and nothing else.

    python checker.py MODEL.rue SOLUTION.rue           files written by rue.save
    python checker.py PROOF.json --exact --json        the same arrays as text; python -m rue.checker does the same

The file may be copied out of the package. It imports nothing of rue and shares no code with the solvers, with the judge
or with `rue.verify`. What it reads is described in docs/certificates.md, and the theorems are proved in docs/bounds.md.

*What is checked.* K samples on one graph; a choice c of a state s costs C(c) ∈ R^K, and its transition t leads to s'_t
with the probabilities T_t ∈ R^K: the stored numbers divided by the exact sum of their row. A proof has

- a potential h_k(s) ≥ 0, zero at goals. With it each choice has the gap g(c) = Σ_t T_t ∘ (C(c) + h(s'_t) − h(s)). It
  must not be negative. It is infinite in the samples where c may lead into a dead end.
- points (s_i, w_i, r_i), each of which claims that a policy from s_i pays at least r_i in gaps, weighted with w_i. For
  each transition t of each choice of s_i it names a point j at s'_t, or none. Then for each choice c of s_i

      r_i ≤ w_i·g(c) + Σ_t f_t,     f_t = r_j · min over {k: w_jk > 0} of (w_i∘T_t)_k / w_jk        with a point j
                                    f_t = min over choices d of s'_t of (w_i∘T_t)·g(d), 0 at goals  without

  and r_i = 0 at goals. In place of a point j there may be a sum of points of s'_t with shares λ_j > 0: it counts as a
  point with the weight Σ λ_j w_j and the value Σ λ_j r_j, since W is concave and homogeneous in the weight. Points may
  support each other in circles (Theorems 2 and 3 of docs/bounds.md).

Point 0 is at the initial state s_0. With its weights b, divided by their sum, every policy has

    a worst-case cost of at least   r_0 + Σ_k b_k h_k(s_0)
    a max regret of at least        r_0 − Σ_k b_k (V*_k(s_0) − h_k(s_0))

V*_k − h_k is the least expected sum of gaps in sample k, at most that of a policy which is searched for here: with any
x, n that are zero at goals, if n − T n > 0 at every state that the policy visits, it reaches a goal with probability
one and pays at most x + n · max((g + T x − x) / (n − T n), 0).

*Rounding.* A comparison is decided in floating point if it is certain, with a bound on all rounding errors. If not, it
is made again in exact rational arithmetic, as are the last two formulas always. With --exact all comparisons are.
"""

import argparse
import heapq
import json
import math
import sys
import zipfile
from dataclasses import dataclass, field
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

UNIT = 2.0**-53  # the largest relative error of one rounded operation
FLOOR = 1e-250  # sums below may have lost digits in underflow and count as zero where that claims less
SMALL_WEIGHT, LARGE_WEIGHT = 1e-60, 1e30  # weights below the first count as zero; none may be above the second
LARGE_VALUE, LARGE_COST = 1e150, 1e100  # the largest finite potential or claim, and the largest cost
ROW_TOLERANCE = 1e-8  # how far the sum of a row may be from one
LARGEST_TEXT = 100_000_000  # a text of more bytes is refused before it is read
CHUNK = 1 << 18  # numbers that are handled together
# Chains of at most FEW states are eliminated; others are swept, then eliminated if they have at most DENSE states.
FEW, SWEEPS, DENSE = 100, 20_000, 1_000
ROUNDS = 50  # of improving a policy

MODEL_ARRAYS = ("choice_ptr", "trans_ptr", "successor", "prob", "cost")
PROOF_ARRAYS = ("potential", "state", "weight", "value", "follow")
SUM_ARRAYS = ("sum_ptr", "sum_point", "sum_share")


class BadFile(Exception):
    """A file that holds no model or no certificate; the message is one line."""


class Refused(Exception):
    """A proof that does not hold; the message says where."""


class Model:
    """K samples on one graph. S states, C choices, T transitions; a state without choices is a goal."""

    def __init__(self, arrays: list[Array], initial: int, weight: Array) -> None:
        self.weight = weight  # [K] the probability of each sample
        self.choice_ptr, self.trans_ptr, self.successor, self.prob, self.cost = arrays  # [S+1] [C+1] [T] [T,K] [C,K]
        self.initial = initial
        self.states, (self.choices, self.samples) = self.choice_ptr.size - 1, self.cost.shape
        self.goal = np.diff(self.choice_ptr) == 0  # [S]
        self.choice_state = np.repeat(np.arange(self.states), np.diff(self.choice_ptr))  # [C]
        self.length = np.diff(self.trans_ptr)  # [C] the number of transitions of each choice
        self.trans_choice = np.repeat(np.arange(self.choices), self.length)  # [T]
        self.trans_state = self.choice_state[self.trans_choice]  # [T] the state that each transition leaves
        self.state_ptr = self.trans_ptr[self.choice_ptr]  # [S+1] where the transitions of each state begin
        total = np.add.reduceat(self.prob, self.trans_ptr[:-1], axis=0) if self.choices else self.cost
        self.share = self.prob / total[self.trans_choice]  # [T, K] the probabilities divided by the sum of their row

    def row(self, choice: int, sample: int) -> list[tuple[int, Fraction]]:
        """The transitions of a choice that are possible in a sample, with exact probabilities that sum to one."""
        own = range(*self.trans_ptr[choice : choice + 2].tolist())
        prob = [(t, Fraction(float(self.prob[t, sample]))) for t in own]
        total = sum(p for _, p in prob)
        return [(t, p / total) for t, p in prob if p]


class Proof(NamedTuple):
    """A certificate: a potential and P points, the first of them at the initial state."""

    objective: str  # "regret" or "cost"
    bound: float
    potential: Array  # [S, K]
    state: Array  # [P]
    weight: Array  # [P, K]
    value: Array  # [P]
    follow: Array  # for each point a point, or P + a sum, or -1, for all transitions of its state, in order
    follow_ptr: Array  # [P+1] where the followers of each point begin
    sum_ptr: Array  # [Q+1] where the points of each sum begin
    sum_point: Array
    sum_share: Array
    tail: float | None  # in a proof about a tail, no belief above the probability of its sample divided by this counts


def read(paths: list[str]) -> tuple[Model, Proof]:
    """Read the model of the first file and the certificate of the last. Whatever goes wrong here, a file is wrong."""
    path = paths[0]
    try:
        model = _model(_parts(Path(path))["model"])
        path = paths[-1]
        claims = _parts(Path(path))["certificate"]
        if "sample" in claims:
            model = _only(model, _whole(claims, "sample"))
        return model, _proof(claims, model)
    except BadFile as error:
        raise BadFile(f"{path}: {error}") from None
    except KeyError as error:
        raise BadFile(f"{path}: it has no {error.args[0]}; expected one") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadFile(f"{path}: it cannot be read ({reason})") from None


def _parts(path: Path) -> dict[str, Any]:
    """Return the model and the certificate that a file holds, as arrays by name."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(2) == b"PK":
            return _unpack(path, size)
    _expect(size <= LARGEST_TEXT, f"it has {size} bytes; expected {LARGEST_TEXT} at most, or a .rue file")
    return _header(path.read_bytes(), ("proof",))


def _header(text: bytes, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return a JSON object that begins as rue's files do."""
    odd = "it has {}, which is no JSON; expected null for an infinite potential"
    header = json.loads(text, parse_constant=lambda name: _expect(False, odd.format(name)))
    fits = isinstance(header, dict) and header.get("format") == "rue" and header.get("version") in (1, 2)
    _expect(fits, 'it is no file of rue; expected "format": "rue" and "version": 1 or 2')
    _expect(header.get("kind") in kinds, f"it holds a {header.get('kind')!r:.40}; expected one of {', '.join(kinds)}")
    return dict(header)


def _unpack(path: Path, size: int) -> dict[str, Any]:
    """Return the parts of a .rue file: an uncompressed zip of header.json and of one .npy for each array."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        _expect(len(members) == len(archive.infolist()), "two of its members have the same name")

        def member(name: str) -> bytes:
            info = members[name]
            fits = info.compress_type == zipfile.ZIP_STORED and info.file_size <= size
            _expect(fits, f"{name} is compressed or larger than the file")
            return archive.read(info)

        def arrays(names: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
            return {name: _from_npy(member(f"{prefix}{name}.npy"), name) for name in names}

        header = _header(member("header.json"), ("model", "solution"))
        if header["kind"] == "model":
            weight = arrays(("weight",)) if "weight.npy" in members else {}
            return {"model": {**arrays(MODEL_ARRAYS), **weight, "initial": header["graph"]["initial"]}}
        about = header["solution"].get("certificate")
        _expect(about is not None, "nothing was proved about other policies; expected a solution with a certificate")
        sums = arrays(SUM_ARRAYS, "certificate_") if "certificate_sum_ptr.npy" in members else {}
        part = arrays(("sample",), "certificate_") if "certificate_sample.npy" in members else {}
        return {"certificate": {**about, **arrays(PROOF_ARRAYS, "certificate_"), **sums, **part}}


def _from_npy(data: bytes, name: str) -> Array:
    stream = BytesIO(data)
    np.lib.format.read_magic(stream)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    body = memoryview(data)[stream.tell() :]
    fits = dtype.kind in "iuf" and not fortran and math.prod(shape) * dtype.itemsize == len(body)
    _expect(fits, f"{name} is no plain array of numbers")
    return np.frombuffer(body, dtype).reshape(shape)


def _whole(part: dict[str, Any], name: str) -> Array:
    array = np.array(part[name])
    fits = array.ndim == 1 and (not array.size or array.dtype.kind in "iu")
    _expect(fits, f"{name} has {array.ndim} axes of {array.dtype}; expected one axis of whole numbers")
    low, high = array.min(initial=0), array.max(initial=0)
    _expect(low >= -1 and high < 2**31, f"{name} has numbers from {low} to {high}; expected -1 to {2**31 - 1}")
    return array.astype(np.int64)


def _expect(fits: bool, problem: str) -> None:
    if not fits:
        raise BadFile(problem)


def _model(part: dict[str, Any]) -> Model:
    """Return a model whose arrays fit each other and whose rows are probabilities."""
    choice_ptr, trans_ptr, successor = (_whole(part, name) for name in MODEL_ARRAYS[:3])
    prob, cost = (np.array(part[name], float) for name in MODEL_ARRAYS[3:])
    initial, states = part["initial"], choice_ptr.size - 1
    ends = {"choice_ptr": (choice_ptr, trans_ptr.size - 1, 0), "trans_ptr": (trans_ptr, successor.size, 1)}
    for name, (ptr, end, least) in ends.items():
        fits = ptr.size > 0 and ptr[0] == 0 and ptr[-1] == end and bool((np.diff(ptr) >= least).all())
        _expect(fits, f"{name} does not rise from 0 to {end}")
    _expect(_within(successor, 0, states - 1), f"a successor is no state; expected 0 to {states - 1}")
    fits = type(initial) is int and 0 <= initial < states
    _expect(fits, f"the initial state is no state; expected 0 to {states - 1}")
    _expect(prob.ndim == 2 and prob.shape[0] == successor.size and prob.shape[1] > 0, "prob has no row per transition")
    _expect(cost.shape == (trans_ptr.size - 1, prob.shape[1]), "cost has no row per choice, or other samples than prob")
    _expect(_within(prob, 0.0, 1 + ROW_TOLERANCE), "a probability is negative, above 1 or no number")
    _expect(_within(cost, 0.0, LARGE_COST), f"a cost is negative, above {LARGE_COST} or no number")
    if successor.size:
        off = np.abs(np.add.reduceat(prob, trans_ptr[:-1], axis=0) - 1)
        worst = int(off.max(axis=1).argmax())
        _expect(_within(off, 0.0, ROW_TOLERANCE), f"the row of choice {worst} does not sum to 1")
    samples = prob.shape[1]
    weight = np.array(part["weight"], float) if "weight" in part else np.full(samples, 1 / samples)
    fits = weight.shape == (samples,) and _within(weight, 0.0, 1.0) and weight.sum() <= 1 + ROW_TOLERANCE
    _expect(fits, "weight has no probability for each sample, or they sum to more than 1")
    return Model([choice_ptr, trans_ptr, successor, prob, cost], initial, weight)


def _only(model: Model, sample: Array) -> Model:
    """Return some samples of a model."""
    fits = _within(sample, 0, model.samples - 1) and np.unique(sample).size == sample.size
    _expect(fits, f"sample names one twice, or none of the model; expected 0 to {model.samples - 1}")
    arrays = [model.choice_ptr, model.trans_ptr, model.successor, model.prob[:, sample], model.cost[:, sample]]
    return Model(arrays, model.initial, model.weight[sample])


def _proof(part: dict[str, Any], model: Model) -> Proof:
    """Return a certificate whose arrays fit the model, whatever they claim."""
    state, follow, objective, bound = _whole(part, "state"), _whole(part, "follow"), part["objective"], part["bound"]
    potential, weight, value = (np.array(part[name], float) for name in ("potential", "weight", "value"))
    _expect(objective in ("regret", "cost"), f"the objective is {objective!r:.40}; expected regret or cost")
    _expect(type(bound) in (int, float) and 0 <= bound <= LARGE_VALUE, "bound is no number from 0")
    _expect(potential.shape == (model.states, model.samples), "potential has no row per state and column per sample")
    _expect(state.size > 0 and _within(state, 0, model.states - 1), "state has no points, or names no state")
    _expect(int(state[0]) == model.initial, "point 0 is not at the initial state")
    _expect(weight.shape == (state.size, model.samples), "weight has no row per point and column per sample")
    _expect(value.shape == state.shape, "value has no entry per point")
    sums = _sums(part, state)
    _expect(_within(follow, -1, state.size + sums[0].size - 2), "follow names no point and no sum")
    follow_ptr = np.append(0, np.cumsum(np.diff(model.state_ptr)[state]))
    _expect(follow.size == follow_ptr[-1], "follow has no entry per transition of the states of all points")
    _expect(_within(weight, 0.0, LARGE_WEIGHT), f"a weight is negative, above {LARGE_WEIGHT} or no number")
    _expect(_within(value, 0.0, LARGE_VALUE), f"a value is negative, above {LARGE_VALUE} or no number")
    weight = np.where(weight < SMALL_WEIGHT, 0.0, weight)
    _expect(bool(weight.any(axis=1).all()), "a point has no weight")
    if not isinstance(part["potential"], np.ndarray):  # null in JSON
        potential = np.where(np.isnan(potential), np.inf, potential)
    tail = part.get("tail")
    fits = tail is None or (type(tail) in (int, float) and 0 < tail <= 1)
    _expect(fits, f"the tail is {tail!r:.40}; expected a number above 0 and at most 1")
    return Proof(objective, float(bound), potential, state, weight, value, follow, follow_ptr, *sums, tail)


def _sums(part: dict[str, Any], state: Array) -> tuple[Array, Array, Array]:
    """Return the sums of a certificate; none if it has no such arrays."""
    if not any(name in part for name in SUM_ARRAYS):
        return np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    ptr, point, share = _whole(part, "sum_ptr"), _whole(part, "sum_point"), np.array(part["sum_share"], float)
    fits = ptr.size > 0 and ptr[0] == 0 and bool((np.diff(ptr) > 0).all()) and ptr[-1] == point.size
    _expect(fits, "sum_ptr does not rise from 0 to the number of entries of sum_point")
    _expect(share.shape == point.shape, "sum_share has no entry per entry of sum_point")
    _expect(_within(point, 0, state.size - 1), "sum_point names no point")
    _expect(_within(share, 1 / LARGE_WEIGHT, LARGE_WEIGHT), f"a share is above {LARGE_WEIGHT}, or below its inverse")
    first = np.repeat(state[point[ptr[:-1]]], np.diff(ptr))
    _expect(bool((state[point] == first).all()), "a sum has points at different states")
    return ptr, point, share


def _within(array: Array, low: float, high: float) -> bool:
    return not array.size or bool(array.min() >= low and array.max() <= high)


def check(model: Model, proof: Proof, exact: bool = False) -> Fraction:
    """Return the lower bound that is proved, at least `proof.bound`; `Refused` says where the proof fails."""
    gaps = _Gaps.of(model, proof.potential, exact)
    _check_points(model, proof, gaps, exact)
    belief = [(k, Fraction(float(b))) for k, b in enumerate(proof.weight[0]) if b > 0]
    total, h = Fraction(float(proof.value[0])), proof.potential[model.initial].tolist()
    for k, b in belief:
        total += b * (Fraction(h[k]) if proof.objective == "cost" else -_excess(model, gaps, k))
    scale = sum(b for _, b in belief)
    if proof.tail is not None:  # beliefs need not sum to one, as nothing is negative
        if not all(model.weight[k] > 0 for k, _ in belief):
            raise Refused("point 0 has a belief in a sample without weight, which no tail allows")
        share, tail = [Fraction(p) for p in model.weight.tolist()], Fraction(proof.tail)
        scale = max(scale, Fraction(1), *(b * tail / share[k] for k, b in belief))
    proved = max(total / scale, Fraction(0))
    if proved < Fraction(proof.bound):
        raise Refused(f"the certificate claims a bound of {proof.bound!r}; its points prove {rounded_down(proved)!r}")
    return proved


def rounded_down(number: Fraction) -> float:
    """Return the largest floating-point number that is not larger."""
    near = float(number)
    return near if Fraction(near) <= number else math.nextafter(near, -math.inf)


@dataclass(frozen=True, eq=False)
class _Gaps:
    """The gaps of all choices in all samples, infinite where a dead end is risked."""

    model: Model
    potential: Array  # [S, K] zero at dead ends
    low: Array  # [C, K] rounded down, zero where infinite
    deadly: Array  # [C, K] whether it is infinite
    known: dict[tuple[int, int], Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, potential: Array, exact: bool) -> "_Gaps":
        """Return the gaps of a potential; `Refused` if one is negative."""
        made = cls(model, np.empty_like(potential), np.empty_like(model.cost), np.empty(model.cost.shape, bool))
        for k, h in enumerate(potential.T):
            alive, allowed = _safe(model, k)
            missing = f"no policy reaches a goal with probability one in sample {k}; expected one"
            _expect(bool(alive[model.initial]), missing)
            odd = ~((h >= 0) & (h <= LARGE_VALUE) | (h == np.inf) & ~alive) | model.goal & (h != 0)
            if odd.any():
                s = int(odd.argmax())
                raise Refused(f"the potential of state {s} is {float(h[s])} in sample {k}")
            made.potential[:, k] = np.where(alive, h, 0.0)
            low, falls = made._below(k)
            # No gap is negative where no successor is lower.
            for c in np.flatnonzero(allowed if exact else allowed & falls & (low < 0)).tolist():
                gap, s = made.exact(c, k), model.choice_state[c]
                if gap < 0:
                    raise Refused(f"the gap of choice {c} at state {s} is {float(gap)} in sample {k}")
            made.deadly[:, k] = ~allowed
            made.low[:, k] = np.where(allowed, np.maximum(low, 0.0), 0.0)
        return made

    def _below(self, k: int) -> tuple[Array, Array]:  # [C], [C]
        """Return the gaps in a sample, rounded down, and whether a successor is lower."""
        model, h, length = self.model, self.potential[:, k], self.model.length
        high, low, size = np.zeros((3, model.choices))  # `low` is what each rounding of `high` loses (Dekker, Knuth)
        choice, i = np.arange(model.choices), 0
        while choice.size:  # those that have an i-th transition
            transition = model.trans_ptr[choice] + i
            p, paid = model.prob[transition, k], model.cost[choice, k]
            ahead, here = h[model.successor[transition]], h[model.choice_state[choice]]
            rise, lost_1 = _two_sum(ahead, -here)
            step, lost_2 = _two_sum(paid, rise)
            part, lost_3 = _two_product(p, step)
            high[choice], lost_4 = _two_sum(high[choice], part)
            low[choice] += lost_4 + (lost_3 + p * (lost_1 + lost_2))
            size[choice] += p * (paid + ahead + here)
            i += 1
            choice = choice[length[choice] > i]
        # The second number is off by (n² + 4n + 12) UNIT² of the sum of sizes at most, and a little in underflow.
        lost = 3 * (length + 8.0) ** 2 * UNIT**2 * size + 1e-300 * length
        # The sum of the row is right to n roundings, and the gap to that many.
        gap = (high + low) / np.add.reduceat(model.prob[:, k], model.trans_ptr[:-1])
        error = 2 * lost + (length + 8) * UNIT * np.abs(gap)
        falling = (model.prob[:, k] > 0) & (h[model.successor] < h[model.trans_state])
        return gap - error, np.bincount(model.trans_choice[falling], minlength=model.choices) > 0

    def exact(self, c: int, k: int) -> Fraction:
        """Return a gap that is not infinite, without rounding."""
        if (c, k) not in self.known:
            model, h = self.model, self.potential[:, k]
            ahead = sum(p * Fraction(float(h[model.successor[t]])) for t, p in model.row(c, k))
            paid, here = Fraction(float(model.cost[c, k])), Fraction(float(h[model.choice_state[c]]))
            self.known[c, k] = paid + ahead - here
        return self.known[c, k]


def _safe(model: Model, k: int) -> tuple[Array, Array]:  # [S], [C]
    """Return the states of a sample from which a goal is reached surely, and the choices that stay among them."""
    possible, alive = model.prob[:, k] > 0, np.ones(model.states, bool)
    while True:
        allowed = alive[model.choice_state]
        allowed[model.trans_choice[possible & ~alive[model.successor]]] = False
        use = possible & allowed[model.trans_choice]
        found = _reached(model.goal, model.successor[use], model.trans_state[use])
        if (found == alive).all():
            return alive, allowed
        alive = found


def _reached(start: Array, tail: Array, head: Array) -> Array:  # [S]
    """Return what can be reached along edges, `start` included."""
    order = np.argsort(tail, kind="stable")
    head, ptr = head[order], np.searchsorted(tail[order], np.arange(start.size + 1))
    seen, front = start.copy(), np.flatnonzero(start)
    while front.size:
        ahead = head[_ranges(ptr[front], ptr[front + 1] - ptr[front])]
        front = np.unique(ahead[~seen[ahead]])
        seen[front] = True
    return seen


def _check_points(model: Model, proof: Proof, gaps: _Gaps, exact: bool) -> None:
    """Refuse a point that claims more than follows from the others for one of its choices."""
    state, follow, claim = proof.state, proof.follow, proof.value
    at_goal = np.flatnonzero(model.goal[state] & (claim > 0))
    if at_goal.size:
        raise Refused(f"point {at_goal[0]} is at a goal and claims {float(claim[at_goal[0]])}; expected 0")
    transition = _ranges(model.state_ptr[state], np.diff(proof.follow_ptr))
    where = np.append(state, state[proof.sum_point[proof.sum_ptr[:-1]]])
    wrong = np.flatnonzero((follow >= 0) & (where[follow] != model.successor[transition]))
    if wrong.size:
        j, t = int(follow[wrong[0]]), int(transition[wrong[0]])
        raise Refused(f"point {j} at state {where[j]} stands for transition {t} to {model.successor[t]}")
    most = int(np.diff(model.state_ptr).max()) * model.samples + 1
    points, size = _Points(model, proof, gaps), max(CHUNK // most, 1)
    for begin in range(0, state.size, size):
        part = np.arange(begin, min(begin + size, state.size))
        own, count = slice(*proof.follow_ptr[[begin, part[-1] + 1]]), np.diff(model.choice_ptr)[state[part]]
        point, choice = np.repeat(part, count), _ranges(model.choice_ptr[state[part]], count)
        if not exact:
            unsure = ~(claim[point] <= points.below(point, choice, transition[own], follow[own]))
            point, choice = point[unsure], choice[unsure]
        for i, c in zip(point.tolist(), choice.tolist(), strict=True):
            proved = points.exact(i, c)
            if isinstance(proved, Fraction) and Fraction(float(claim[i])) > proved:
                only = f"only {rounded_down(proved)} follows for choice {c}"
                raise Refused(f"point {i} at state {state[i]} claims {float(claim[i])}; {only}")


class _Points(NamedTuple):
    """The right-hand sides of the inequalities of all points."""

    model: Model
    proof: Proof
    gaps: _Gaps

    def below(self, point: Array, choice: Array, transition: Array, follow: Array) -> Array:
        """Return what follows for pairs of points and choices, rounded down."""
        model, proof, length = self.model, self.proof, self.model.length[choice]
        weight = proof.weight[np.repeat(point, length)] * model.share[transition]
        weight[weight < FLOOR] = 0.0
        ahead = np.empty(transition.size)
        named, alone = np.flatnonzero(follow >= 0), np.flatnonzero(follow < 0)
        there, value = self._claims(follow[named])
        ratio = np.divide(weight[named], there, out=np.full(there.shape, np.inf), where=there > 0)
        ahead[named] = value * ratio.min(axis=1)
        ahead[alone] = self._by_one_step(weight[alone], model.successor[transition[alone]])
        total = self._paid(proof.weight[point], choice)
        total += np.add.reduceat(ahead, np.cumsum(length) - length)
        # No term is negative: each product, quotient and sum adds a rounding, and a share may have one for each term.
        errors = model.samples + 2 * int(length.max(initial=0)) + 16
        errors += 4 * int(np.diff(proof.sum_ptr).max(initial=1))
        return np.where(total < FLOOR, 0.0, total * (1 - errors * UNIT))

    def _claims(self, follow: Array) -> tuple[Array, Array]:
        """Return the weights and values of followers, points or sums."""
        proof, points = self.proof, self.proof.state.size
        plain = np.minimum(follow, points - 1)
        weight, value, summed = proof.weight[plain], proof.value[plain], np.flatnonzero(follow >= points)
        if summed.size:
            first, last = proof.sum_ptr[follow[summed] - points], proof.sum_ptr[follow[summed] - points + 1]
            part, start = _ranges(first, last - first), np.cumsum(last - first) - (last - first)
            share, point = proof.sum_share[part], proof.sum_point[part]
            weight[summed] = np.add.reduceat(share[:, None] * proof.weight[point], start, axis=0)
            value[summed] = np.add.reduceat(share * proof.value[point], start)
        return weight, value

    def _paid(self, weight: Array, choice: Array) -> Array:
        """Return the weighted gaps of choices."""
        total = np.asarray(np.einsum("ij,ij->i", weight, self.gaps.low[choice]))
        total[((weight > 0) & self.gaps.deadly[choice]).any(axis=1)] = np.inf
        return total

    def _by_one_step(self, weight: Array, state: Array) -> Array:
        """Return what one step costs at least for weights that arrive at states; nothing at goals."""
        ptr, result = self.model.choice_ptr, np.zeros(state.size)
        inner = np.flatnonzero(~self.model.goal[state])
        first, count = ptr[state[inner]], np.diff(ptr)[state[inner]]
        paid = self._paid(np.repeat(weight[inner], count, axis=0), _ranges(first, count))
        result[inner] = np.minimum.reduceat(paid, np.cumsum(count) - count)
        return result

    def exact(self, i: int, c: int) -> Fraction | float:
        """Return what follows for a point and a choice, without rounding; it may be infinite."""
        model, proof = self.model, self.proof
        weight = {k: Fraction(float(w)) for k, w in enumerate(proof.weight[i]) if w > 0}
        arrive: dict[int, dict[int, Fraction]] = {}
        for k, w in weight.items():
            for t, p in model.row(c, k):
                arrive.setdefault(t, {})[k] = w * p
        place = int(proof.follow_ptr[i] - model.state_ptr[proof.state[i]])
        total = self._paid_exactly(weight, c)
        for t, there in arrive.items():
            total += self._ahead(there, int(model.successor[t]), int(proof.follow[place + t]))
        return total

    def _ahead(self, weight: dict[int, Fraction], state: int, follow: int) -> Fraction | float:
        if follow >= 0:
            there, value = self._claim_exactly(follow)
            return value * min(weight.get(k, Fraction(0)) / w for k, w in enumerate(there) if w > 0)
        own = range(*self.model.choice_ptr[state : state + 2].tolist())
        return min((self._paid_exactly(weight, c) for c in own), default=Fraction(0))

    def _claim_exactly(self, follow: int) -> tuple[list[Fraction], Fraction]:
        """Return the weight and the value of a follower, a point or a sum."""
        proof, total = self.proof, follow - self.proof.state.size
        terms = [(follow, Fraction(1))]
        if total >= 0:
            part = slice(*proof.sum_ptr[total : total + 2].tolist())
            shares = (Fraction(share) for share in proof.sum_share[part].tolist())
            terms = list(zip(proof.sum_point[part].tolist(), shares, strict=True))
        rows = [(share, [Fraction(w) for w in proof.weight[j].tolist()], proof.value[j]) for j, share in terms]
        weight = [sum((share * row[k] for share, row, _ in rows), Fraction(0)) for k in range(self.model.samples)]
        return weight, sum((share * Fraction(float(value)) for share, _, value in rows), Fraction(0))

    def _paid_exactly(self, weight: dict[int, Fraction], c: int) -> Fraction | float:
        if any(self.gaps.deadly[c, k] for k in weight):
            return math.inf
        return sum((w * self.gaps.exact(c, k) for k, w in weight.items()), Fraction(0))


def _excess(model: Model, gaps: _Gaps, k: int) -> Fraction:
    """Return at least V*_k − h_k at the initial state: the expected sum of gaps of a policy, proved exactly."""
    start = model.initial
    if model.goal[start]:
        return Fraction(0)
    first = choice = best = _toward_goals(model, gaps, k)
    least = np.inf
    for _ in range(ROUNDS):
        paid, _ = _estimate(model, gaps, k, choice)
        if paid[start] < least:
            best, least = choice, float(paid[start])
        rise = model.share[:, k] * (paid[model.successor] - paid[model.trans_state])
        change = gaps.low[:, k] + np.add.reduceat(rise, model.trans_ptr[:-1])
        better = np.flatnonzero(~gaps.deadly[:, k] & (change < -1e-13 * paid[model.choice_state]))
        if least <= 1e-15 * gaps.potential[start, k] or better.size == 0:
            break
        better = better[np.argsort(-change[better], kind="stable")]
        choice = choice.copy()
        choice[model.choice_state[better]] = better  # of several the last stays, which is the best
    proved = [bound for policy in (best, first) if (bound := _proved_sum(model, gaps, k, policy)) is not None]
    if not proved:
        raise Refused(f"no policy's cost could be proved in sample {k}, as its regret needs")
    return min(proved)


def _toward_goals(model: Model, gaps: _Gaps, k: int) -> Array:  # [S]
    """Return a policy that surely reaches a goal, -1 elsewhere: Dijkstra's algorithm with a gap / prob as length."""
    use = np.argsort(model.successor, kind="stable")
    use = use[(model.prob[use, k] > 0) & ~gaps.deadly[model.trans_choice[use], k]]
    ptr = np.searchsorted(model.successor[use], np.arange(model.states + 1)).tolist()
    length = np.minimum(gaps.low[model.trans_choice[use], k] / np.maximum(model.prob[use, k], 1e-100), 1e200).tolist()
    state, choice = model.trans_state[use].tolist(), model.trans_choice[use].tolist()
    taken = np.full(model.states, -1)
    queue = [(0.0, s, -1) for s in np.flatnonzero(model.goal).tolist()]
    done = [False] * model.states
    while queue:
        distance, s, by = heapq.heappop(queue)
        if not done[s]:
            done[s], taken[s] = True, by
            for e in range(ptr[s], ptr[s + 1]):
                heapq.heappush(queue, (distance + length[e], state[e], choice[e]))
    return taken


def _estimate(model: Model, gaps: _Gaps, k: int, choice: Array) -> tuple[Array, Array]:  # [S], [S]
    """Estimate the expected sums of gaps, and the expected steps, of a policy from each state; nothing is proved."""
    state = np.flatnonzero(choice >= 0)
    place, length = np.full(model.states, state.size), model.length[choice[state]]
    place[state] = np.arange(state.size)
    transition = _ranges(model.trans_ptr[choice[state]], length)
    row, column = np.repeat(np.arange(state.size), length), place[model.successor[transition]]
    prob = np.where(row == column, 0.0, model.share[transition, k])
    first = np.cumsum(length) - length
    leave = np.add.reduceat(prob, first)
    paid = np.column_stack([gaps.low[choice[state], k], np.ones(state.size)])
    with np.errstate(all="ignore"):
        paid /= leave[:, None]
        prob /= leave[row]
        x, converged = np.zeros((state.size + 1, 2)), False
        for sweep in range(0 if state.size <= FEW else SWEEPS):
            new = paid + np.add.reduceat(prob[:, None] * x[column], first, axis=0)
            converged = sweep % 16 == 0 and bool((np.abs(new - x[:-1]) <= 4 * UNIT * new).all())
            x[:-1] = new
            if converged:
                break
        solved = x[:-1] if converged or state.size > DENSE else _eliminate(row, column, prob, paid)
    x[:-1] = np.where(np.isfinite(solved), solved, LARGE_VALUE)
    return x[place, 0], x[place, 1]


def _eliminate(row: Array, column: Array, prob: Array, paid: Array) -> Array:
    """Return x = paid + prob x by elimination of one state after the other, without any subtraction."""
    size = paid.shape[0]
    full = np.zeros((size, size + 3))  # the states, all goals as one, and what is paid
    np.add.at(full, (row, column), prob)
    full[:, size + 1 :] = paid
    for i in range(size - 1, 0, -1):
        full[i] /= full[i, :i].sum() + full[i, size]
        full[:i] += full[:i, i, None] * full[i]
        np.fill_diagonal(full[:i, :i], 0.0)
    x = full[:, size + 1 :]
    x[0] /= full[0, size]
    for i in range(1, size):
        x[i] += full[i, :i] @ x[:i]
    return x


def _proved_sum(model: Model, gaps: _Gaps, k: int, choice: Array) -> Fraction | None:
    """Return at least the expected sum of gaps of a policy from the initial state; None if it is not shown to end."""
    paid, steps = ([Fraction(x) for x in column.tolist()] for column in _estimate(model, gaps, k, choice))
    worst = Fraction(0)
    use = np.flatnonzero((model.prob[:, k] > 0) & (choice[model.trans_state] == model.trans_choice))
    visited = _reached(np.arange(model.states) == model.initial, model.trans_state[use], model.successor[use])
    for s in np.flatnonzero(visited & ~model.goal).tolist():
        c = int(choice[s])
        row = [(int(model.successor[t]), p) for t, p in model.row(c, k)]
        drop = steps[s] - sum(p * steps[to] for to, p in row)
        if drop <= 0:
            return None
        worst = max(worst, (gaps.exact(c, k) + sum(p * paid[to] for to, p in row) - paid[s]) / drop)
    return paid[model.initial] + worst * steps[model.initial]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and what was lost, exactly (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and what was lost, exactly if nothing underflows (Dekker, Veltkamp)."""
    product, scaled_a, scaled_b = a * b, a * (2.0**27 + 1), b * (2.0**27 + 1)
    a_high, b_high = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _ranges(start: Array, length: Array) -> Array:
    """Return start[0], start[0]+1, …, for `length` numbers each, one after the other."""
    return np.asarray(np.repeat(start - np.cumsum(length) + length, length) + np.arange(int(length.sum())))


def main(arguments: list[str] | None = None) -> int:
    """Check the proof named on the command line; return 0 if proved, 1 if refused, 2 if files cannot be read."""
    parser = argparse.ArgumentParser("checker.py", description="Check a proof that no policy does better than a bound.")
    parser.add_argument("model", metavar="MODEL", help="a .rue file with a model, or a .json file with model and proof")
    parser.add_argument("solution", metavar="SOLUTION", nargs="?", help="a .rue file with a solution")
    parser.add_argument("--exact", action="store_true", help="make every comparison in exact rational arithmetic")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    facts: dict[str, Any] = {"proved": False, "exact": given.exact}
    try:
        model, proof = read([given.model, given.solution or given.model])
        facts |= {"objective": proof.objective, "points": int(proof.state.size)}
        facts |= {"bound": rounded_down(check(model, proof, given.exact)), "proved": True}
        what = {"regret": "max regret", "cost": "worst-case cost"}[proof.objective]
        if proof.tail is not None:
            facts["tail"] = proof.tail
            what = f"mean {proof.objective} in the worst {proof.tail:g} of the probability"
        status, line = 0, f"proved: {what} of every policy >= {facts['bound']!r}"
    except Exception as error:  # nothing that goes wrong is a proof
        status, outcome = (1, "refused") if isinstance(error, Refused) else (2, "error")
        known = isinstance(error, Refused | BadFile)
        reason = str(error) if known else f"it cannot be checked ({type(error).__name__}: {error})"
        facts["reason"] = " ".join(reason.split())
        line = f"{outcome}: {facts['reason']}"
    print(json.dumps(facts) if given.json else line, file=sys.stderr if status == 2 else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
