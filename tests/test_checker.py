"""The independent checker: it agrees with `rue.verify`, and neither accepts a bound that is not true."""

import ast
import dataclasses
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import lively
from naive import Naive
from test_certificate import (
    MODELS,
    exact_bound,
    free_circle,
    hardly_ever_ending,
    loop,
    loop_certificate,
    regrets,
    some_certificate,
    tree_certificate,
)

import rue
from rue import checker

SOURCE = Path(checker.__file__)
MODEL = ("choice_ptr", "trans_ptr", "successor")
FIELDS = ("potential", "state", "weight", "value", "follow")


def as_read(model, certificate):
    """The model and the proof as the checker has them."""
    graph = model.graph
    arrays = {name: getattr(graph, name) for name in MODEL}
    read = checker._model({**arrays, "prob": model.prob, "cost": model.cost, "initial": graph.initial})
    proof = {name: getattr(certificate, name) for name in ("objective", "bound", *FIELDS)}
    return read, checker._proof(proof, read)


def checked(model, certificate, exact=False):
    """The bound that the checker proves, or None."""
    try:
        return checker.check(*as_read(model, certificate), exact)
    except (checker.Refused, checker.BadFile):
        return None


def verified(model, certificate):
    """The bound that `rue.verify` proves, or None."""
    try:
        return rue.verify(model, certificate)
    except (rue.NotProved, rue.BadInput):
        return None


# --- What is true is accepted ---


@settings(max_examples=60)
@given(st.data())
def test_it_agrees_with_verify_and_with_a_twin_in_exact_arithmetic(data):
    model = data.draw(MODELS)
    certificate = some_certificate(data, model)
    proved, exact = checked(model, certificate), checked(model, certificate, exact=True)
    assert certificate.bound <= proved <= exact <= exact_bound(model, certificate)
    assert verified(model, certificate) <= exact
    for column in regrets(model, certificate.objective):
        assert exact <= max(column)


@settings(max_examples=25)
@given(MODELS, st.sampled_from(["regret", "cost"]))
def test_it_accepts_what_adaptive_proves(model, objective):
    solution = rue.solve(model, rue.Adaptive(gap=0.01, objective=objective))
    if solution.certificate is None:
        return
    proved = checked(model, solution.certificate)
    assert solution.certificate.bound <= proved <= checked(model, solution.certificate, exact=True)
    assert proved <= upper_end(model, solution, objective)


def upper_end(model, solution, objective):
    """What the best policy found costs at most, by the judge."""
    verdict = rue.evaluate(model, solution.policy)
    worst = verdict.max_regret if objective == "regret" else verdict.value.max()
    return float(worst) + 2 * verdict.error


@settings(max_examples=60)
@given(st.data())
def test_it_refuses_what_the_twin_refuses(data):
    model = data.draw(MODELS)
    made = some_certificate(data, model)
    factor = 1 + data.draw(st.sampled_from([1e-15, 1e-12, 1e-6, 0.5]))
    raised = dataclasses.replace(made, value=made.value * factor, bound=0.0)
    if data.draw(st.booleans()):
        raised = dataclasses.replace(raised, value=made.value, potential=made.potential * factor)
    truth = exact_bound(model, raised)
    for exact in (False, True):
        assert (checked(model, raised, exact) is None) == (truth is None)


def test_free_moves_need_no_room_for_rounding():
    model, circle = free_circle()
    value = circle.value
    assert float(checked(model, circle)) == pytest.approx(1.9)
    for wrong in ([1.9 * (1 + 1e-9)] * 2, [value[0], value[0] * (1 + 1e-15)], [1.8, value[0]]):
        assert checked(model, dataclasses.replace(circle, value=wrong)) is None


@pytest.mark.parametrize("out", [5e-324, 1e-310, 1e-200, 1e-20])
def test_the_least_chance_to_leave_counts(out):
    model = rue.UMDP(loop().graph, [[1.0, 1.0], [out, out]], [[0.0, 0.0]])
    assert checked(model, loop_certificate(model, 0.4)) is None
    assert checked(model, loop_certificate(model, 0.0)) == 0


def test_chains_that_hardly_ever_end():
    for seed in range(5):
        model = hardly_ever_ending(seed)
        read, proof = as_read(model, tree_certificate(model, np.ones(1), 1, potential=np.zeros((3, 1))))
        gaps = checker._Gaps.of(read, proof.potential, False)
        exact = Naive(model).optimal(0)[0]
        assert exact <= checker._excess(read, gaps, 0) <= exact * (1 + Fraction(1, 1000))


def test_policies_are_improved_where_the_potential_says_nothing():
    for seed in range(10):
        model = lively(seed)
        read = as_read(model, tree_certificate(model, np.ones(model.samples) / model.samples, 1))[0]
        gaps = checker._Gaps.of(read, np.zeros((model.graph.states, model.samples)), False)
        best = rue.optimal_values(model)
        for k in range(model.samples):
            least = float(checker._excess(read, gaps, k))
            assert best.lower[0, k] <= least <= best.upper[0, k] * (1 + 1e-12)


@pytest.mark.parametrize("sweeps", [True, False])
def test_both_ways_to_solve_a_chain(monkeypatch, sweeps):
    monkeypatch.setattr(checker, "FEW", 0 if sweeps else 1000)
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(2, seed=1)
    read = as_read(model, tree_certificate(model, np.ones(2) / 2, 1))[0]
    gaps = checker._Gaps.of(read, np.zeros((model.graph.states, 2)), False)
    best = rue.optimal_values(model)
    for k in range(2):
        least = float(checker._excess(read, gaps, k))
        assert least == pytest.approx(best.upper[model.graph.initial, k], rel=1e-12)


@pytest.mark.parametrize("error", [-9e-9, 0.0, 9e-9])
def test_rows_are_divided_by_their_exact_sum(error, tmp_path):
    # One state that stays with probability p / (p + q): the least cost is (p + q) / q.
    p, q = 0.5, 0.5 + error
    truth = (Fraction(p) + Fraction(q)) / Fraction(q)
    for claim, fine in (
        (float(truth * (1 - Fraction(1, 10**12))), True),
        (float(truth * (1 + Fraction(1, 10**12))), False),
    ):
        proof = {
            "format": "rue", "version": 1, "kind": "proof",
            "model": {
                "choice_ptr": [0, 1, 1], "trans_ptr": [0, 2], "successor": [0, 1], "initial": 0,
                "prob": [[p], [q]], "cost": [[1]],
            },
            "certificate": {
                "objective": "cost", "bound": 0, "potential": [[0], [0]],
                "state": [0], "weight": [[1]], "value": [claim], "follow": [0, -1],
            },
        }  # fmt: skip
        path = tmp_path / "proof.json"
        path.write_text(json.dumps(proof))
        for options in ([], ["--exact"]):
            assert checker.main([str(path), *options]) == (0 if fine else 1)


def by_hand(cost, moves, **proof):
    """A model and a certificate: the choices of state s are moves[s], each {successor: probabilities}."""
    own = [list(range(sum(map(len, moves[:s])), sum(map(len, moves[: s + 1])))) for s in range(len(moves))]
    rows = [row for choices in moves for row in choices]
    pairs = [(to, p) for row in rows for to, p in row.items()]
    model = checker._model(
        {
            "choice_ptr": np.cumsum([0, *map(len, own)]),
            "trans_ptr": np.cumsum([0, *map(len, rows)]),
            "successor": [to for to, _ in pairs],
            "prob": [np.broadcast_to(p, 2) for _, p in pairs],
            "cost": [np.broadcast_to(c, 2) for c in cost],
            "initial": 0,
        }
    )
    whole = {"objective": "cost", "bound": 0, "potential": np.zeros((len(moves), 2)), "state": [0]}
    whole |= {"weight": np.full((len(proof["value"]), 2), 0.5)} | proof
    return model, checker._proof(whole, model)


NEAR = 1e-12
STAY = [{0: [0.75, 0.25], 1: [0.25, 0.75]}], []  # one state that is left some time
DOORS = [{2: [1, 0], 1: [0, 1]}, {2: 1}], [{1: 1}], []  # a risk, a safe way, a trap, a goal
WAY = [{1: 1}], [{2: 1}, {2: 1}], []  # one way to a state with two


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("largest", "make"),
    [
        # The share of a point is the least over the samples: r ≤ 1 + r / 4.
        (4 / 3, lambda r: by_hand([1], STAY, value=[r], follow=[0, -1])),
        # Samples without weight do not count in it: r ≤ 1 + 3 r / 4.
        (4, lambda r: by_hand([1], STAY, value=[r], follow=[0, -1], weight=[[1, 0]])),
        # A point claims for the worst of its choices, and one step costs what the best choice there does.
        (1, lambda r: by_hand([2, 1], [[{1: 1}, {1: 1}], []], value=[r], follow=[-1, -1])),
        (1, lambda r: by_hand([0, 1, 3], WAY, value=[r], follow=[-1])),
        (2, lambda r: by_hand([1, 1, 3], WAY, value=[r, 1], state=[0, 1], follow=[1, -1, -1])),
        # All transitions count, each with its probability.
        (1.25, lambda r: by_hand(
            [0, 1, 2], [[{1: 0.75, 2: 0.25}], [{3: 1}], [{3: 1}], []], value=[r], follow=[-1, -1]
        )),
        # Who believes in sample 2 does not take the risk, who does not does.
        (5, lambda r: by_hand([0, 5, 1], DOORS, value=[r], follow=[-1] * 3)),
        (0, lambda r: by_hand([0, 5, 1], DOORS, value=[r], follow=[-1] * 3, weight=[[1, 0]])),
        (5, lambda r: by_hand([0, 5, 1], DOORS, value=[r], follow=[-1] * 3, weight=[[1, 1e-50]])),
        (0, lambda r: by_hand([0, 5, 1], DOORS, value=[r], follow=[-1] * 3, weight=[[1, 1e-70]])),
        # A potential is no larger than the least cost, zero at goals, and infinite at dead ends at most.
        (3, lambda h: by_hand(
            [2, 1], [[{1: 1}], [{2: 1}], []], value=[0], follow=[-1], potential=[[h, h], [1, 1], [0, 0]]
        )),
        (4, lambda h: by_hand([2], [[{0: 0.5, 1: 0.5}], []], value=[0], follow=[-1] * 2, potential=[[h, 4], [0, 0]])),
        (0, lambda h: by_hand([2], [[{1: 1}], []], value=[0], follow=[-1], potential=[[0, 0], [0, h]])),
        (5, lambda h: by_hand(
            [0, 5, 1], DOORS, value=[0], follow=[-1] * 3, potential=[[0, h], [1, np.inf], [0, 0]]
        )),
        # No claim at goals, and no bound above what point 0 says.
        (0, lambda r: by_hand([2], [[{1: 1}], []], value=[0, r], state=[0, 1], follow=[1])),
        (4, lambda b: by_hand([4], [[{1: 1}], []], value=[4], follow=[-1], bound=b)),
        (4, lambda b: by_hand([4], [[{1: 1}], []], value=[12], follow=[-1], weight=[[1.5, 1.5]], bound=b)),
        (4, lambda b: by_hand([4], [[{1: 1}], []], value=[0], follow=[-1], potential=[[4, 4], [0, 0]], bound=b)),
        # One door costs 4 in one sample and nothing in the other, the second the reverse: the regret is 2.
        (2, lambda b: by_hand(
            [[4, 0], [0, 4]], [[{1: 1}, {1: 1}], []], value=[2], follow=[-1, -1], bound=b, objective="regret"
        )),
        # With one door there is nothing to regret, whatever the potential.
        (0, lambda b: by_hand([[4, 1]], [[{1: 1}], []], value=[2.5], follow=[-1], bound=b, objective="regret")),
        (0, lambda b: by_hand(
            [1], STAY, value=[1.1], follow=[0, -1], bound=b, objective="regret"
        )),
    ],
)  # fmt: skip
def test_every_clause_is_sharp(largest, make, exact):
    """The largest number that holds is accepted, a little more is not."""
    checker.check(*make(largest * (1 - NEAR)), exact)
    if largest == int(largest):
        checker.check(*make(largest), exact)
    with pytest.raises(checker.Refused):
        checker.check(*make(largest * (1 + NEAR) + NEAR), exact)


def test_gaps_are_rounded_down_and_hardly_at_all():
    # A state, two that it leads to, and a goal; its potential is its cost as it is rounded, so that little is left.
    random = np.random.default_rng(0)
    for _ in range(300):
        p, cost, ahead = random.random(), 10.0 ** random.uniform(-3, 3), 10.0 ** random.uniform(-3, 3, 2)
        moves = [[{1: p, 2: 1 - p}], [{3: 1}], [{3: 1}], []]
        model, proof = by_hand([cost, 1, 1], moves, value=[0], follow=[-1, -1])
        gaps = checker._Gaps.of(model, proof.potential, False)
        gaps.potential[:3, 0] = cost + p * ahead[0] + (1 - p) * ahead[1], *ahead
        low, gap = Fraction(float(gaps._below(0)[0][0])), gaps.exact(0, 0)
        size = Fraction(cost + gaps.potential[:, 0].sum())
        assert abs(gap) < size / 10**15 and low <= gap <= low + abs(gap) / 10**14 + size / 10**28


def test_what_goes_round_for_ever_is_no_policy():
    # One may stay for free, or leave for 1.
    model, proof = by_hand([0, 1], [[{0: 1}, {1: 1}], []], value=[0], follow=[-1, -1])
    gaps = checker._Gaps.of(model, proof.potential, False)
    assert checker._proved_sum(model, gaps, 0, np.array([0, -1])) is None
    assert checker._proved_sum(model, gaps, 0, np.array([1, -1])) == 1


@pytest.mark.parametrize("exact", [False, True])
def test_points_stand_for_their_own_state(exact):
    with pytest.raises(checker.Refused, match="point 0 at state 0 stands for transition 0 to 1"):
        checker.check(*by_hand([0, 1, 3], WAY, value=[0], follow=[0]), exact)
    with pytest.raises(checker.BadFile, match="no policy reaches a goal"):
        checker.check(*by_hand([1, 1], [[{1: [0, 1], 0: [1, 0]}], [{1: 1}], []], value=[0], follow=[-1, -1]), exact)


# --- What is tampered with proves nothing false ---


@dataclass(frozen=True)
class Case:
    """A model, a true certificate, and a bound on what any true certificate can prove."""

    model: rue.UMDP
    certificate: rue.Certificate
    truth: float

    def accepts(self, tampered: rue.Certificate, exact: bool) -> bool:
        """Whether a tampered certificate is accepted; what it then proves must be true."""
        found = verified(self.model, tampered), checked(self.model, tampered, exact)
        for proved in found:
            assert proved is None or proved <= self.truth, (proved, self.truth, tampered)
        return found != (None, None)


@cache
def case(seed: int) -> Case:
    """A case of a random model; of its certificates that of `Adaptive`, or a tree."""
    objective = "cost" if seed % 4 == 3 else "regret"
    grid = rue.domains.Disaster(width=3, height=3, seed=seed)
    model = grid.sample(3, seed=seed) if seed % 5 == 4 else lively(seed)
    solution = rue.solve(model, rue.Adaptive(gap=0, objective=objective), limits=rue.Limits(seconds=20))
    proof = solution.certificate
    if proof is None or seed % 3 == 2:
        belief = np.ones(model.samples) / model.samples if proof is None else proof.belief
        proof = tree_certificate(model, belief, 2, objective)
    return Case(model, proof, upper_end(model, solution, objective))


Tamper = Callable[[np.random.Generator, Case, dict], None]


def some(random: np.random.Generator, array: np.ndarray) -> tuple:
    """A place in an array."""
    return tuple(int(random.integers(size)) for size in array.shape)


def step(random: np.random.Generator) -> float:
    """A factor close to one, or not."""
    return 1 + float(random.choice([-1, 1])) * 10.0 ** -random.uniform(0.1, 16)


def on_array(rule: Callable[[np.random.Generator, np.ndarray], None]) -> Callable[[str], Tamper]:
    """The rule for an array, to be named, of a certificate."""
    return lambda name: lambda random, case, arrays: rule(random, arrays[name])


@on_array
def change_entry(random, array):
    array[some(random, array)] *= step(random)


@on_array
def raise_entry(random, array):
    array[some(random, array)] += 10.0 ** random.uniform(-16, 1)


@on_array
def scale(random, array):
    array *= step(random)


@on_array
def swap(random, array):
    i, j = some(random, array), some(random, array)
    array[i], array[j] = array[j], array[i]


@on_array
def permute(random, array):
    array[:] = random.permutation(array)


@on_array
def zero(random, array):
    array[some(random, array)] = 0


@on_array
def exchange(random, array):
    """Make one row another."""
    array[random.integers(len(array))] = array[random.integers(len(array))]


def redirect(random, case, arrays):
    """Follow another point, at the right state if there is one."""
    place = some(random, arrays["follow"])
    wanted = arrays["state"][arrays["follow"][place]] if arrays["follow"][place] >= 0 else arrays["state"][0]
    arrays["follow"][place] = random.choice(np.flatnonzero(arrays["state"] == wanted))


def redirect_anywhere(random, case, arrays):
    arrays["follow"][some(random, arrays["follow"])] = random.integers(-1, len(arrays["state"]))


def follow_the_largest(random, case, arrays):
    """Let every transition be followed by the point with the largest claim at its state."""
    graph, value = case.model.graph, arrays["value"]
    ptr = graph.trans_ptr[graph.choice_ptr]
    lands = np.concatenate([graph.successor[ptr[s] : ptr[s + 1]] for s in arrays["state"]])
    if lands.size != arrays["follow"].size:
        return
    for s in np.unique(lands):
        own = np.flatnonzero(arrays["state"] == s)
        if own.size:
            arrays["follow"][lands == s] = own[value[own].argmax()]


def shift_belief(random, case, arrays):
    """Move some belief, or all, from one sample to another."""
    i, j = random.integers(case.model.samples, size=2)
    moved = arrays["weight"][0, i] * float(random.choice([1.0, 0.5, 1e-3, 1e-9]))
    arrays["weight"][0, i] -= moved
    arrays["weight"][0, j] += moved


def scale_point(random, case, arrays):
    """A point as it is, at another scale: true for the weights and a claim that are scaled alike."""
    i, factor = random.integers(len(arrays["value"])), 10.0 ** random.uniform(-20, 20)
    arrays["weight"][i] *= factor
    arrays["value"][i] *= factor * step(random)


def raise_potential(random, case, arrays):
    """The potential of all states but goals is raised alike: gaps hardly change."""
    arrays["potential"][~case.model.graph.goal] += 10.0 ** random.uniform(-16, 1)


def infinite_potential(random, case, arrays):
    arrays["potential"][some(random, arrays["potential"])] = np.inf


def lower_potential(random, case, arrays):
    """A weaker potential with larger gaps, and claims that are raised by as much."""
    factor = 1 - 10.0 ** -random.uniform(0.1, 16)
    lost = np.nanmax(np.where(np.isfinite(arrays["potential"]), arrays["potential"], 0)) * (1 - factor)
    arrays["potential"] *= factor
    arrays["value"] += lost


def no_points(random, case, arrays):
    """One step instead of a point, everywhere."""
    arrays["follow"][:] = -1


def raise_bound(random, case, arrays):
    arrays["bound"] = case.truth * (1 + 10.0 ** -random.uniform(0, 9)) + 1e-9


def change_state(random, case, arrays):
    arrays["state"][some(random, arrays["state"])] = random.integers(case.model.graph.states)


REAL = ("potential", "weight", "value")
TAMPERS: list[Tamper] = [
    *(make(name) for make in (change_entry, raise_entry, scale, swap, permute, zero, exchange) for name in REAL),
    *(make(name) for make in (swap, permute, exchange) for name in ("state", "follow")),
    redirect, redirect, redirect_anywhere, follow_the_largest, shift_belief, shift_belief, scale_point, raise_potential,
    infinite_potential, lower_potential, no_points, raise_bound, change_state,
]  # fmt: skip


def tampered(case: Case, change: Callable[[dict], None]) -> rue.Certificate:
    """A copy of a certificate that was changed, and claims nothing else unless told to."""
    arrays = {name: getattr(case.certificate, name).copy() for name in FIELDS} | {"bound": 0.0}
    with np.errstate(all="ignore"):
        change(arrays)
    return dataclasses.replace(case.certificate, **arrays)


def tamper_at_random(count: int, seeds: int) -> Counter:
    """Tamper `count` times with the certificates of some cases; what was accepted and what was refused."""
    counter: Counter = Counter()
    for number in range(count):
        random, own = np.random.default_rng(number), case(number % seeds)
        rules = random.choice(len(TAMPERS), int(random.integers(1, 4)))

        def change(arrays, random=random, rules=rules, own=own):
            for rule in rules:
                TAMPERS[rule](random, own, arrays)

        accepted = own.accepts(tampered(own, change), exact=number % 10 == 0)
        counter["accepted" if accepted else "refused"] += 1
    return counter


def systematic(seeds: int) -> Counter:
    """Each array of each case changed as a whole by fixed rules, with the rest as it is."""
    counter: Counter = Counter()
    rules: list[Tamper] = [
        *(
            lambda r, c, a, name=name, factor=factor: a.update({name: a[name] * factor})
            for name in REAL
            for factor in (1 + 1e-15, 1 + 1e-9, 1.01, 2.0, 0.5)
        ),
        lambda r, c, a: a.update(value=a["value"] + 1e-9),
        lambda r, c, a: a.update(value=np.full_like(a["value"], a["value"].max())),
        lambda r, c, a: a.update(weight=np.full_like(a["weight"], 1 / c.model.samples)),
        lambda r, c, a: a.update(weight=np.where(a["weight"] > 0, 1.0, 0.0)),
        lambda r, c, a: a.update(weight=a["weight"][:, ::-1]),
        lambda r, c, a: a.update(weight=a["weight"] / a["weight"].sum(axis=1, keepdims=True)),
        lambda r, c, a: a.update(potential=np.where(c.model.graph.goal[:, None], 0.0, a["potential"] + 1.0)),
        lambda r, c, a: a.update(potential=a["potential"][:, ::-1]),
        lambda r, c, a: a.update(potential=np.zeros_like(a["potential"])),
        lambda r, c, a: a.update(potential=np.full_like(a["potential"], np.inf)),
        lambda r, c, a: a.update(follow=np.where(a["follow"] < 0, a["follow"], 0)),
        lambda r, c, a: a.update(follow=a["follow"][::-1]),
        lambda r, c, a: a.update(bound=c.truth * (1 + 1e-6) + 1e-9),
        lambda r, c, a: a.update(value=a["value"] * 2, weight=a["weight"] * 2),
        lambda r, c, a: a.update(value=a["value"] * 2, follow=np.full_like(a["follow"], -1)),
        follow_the_largest,
        no_points,
    ]
    for seed in range(seeds):
        own = case(seed)
        for rule in rules:
            accepted = own.accepts(tampered(own, lambda a, rule=rule, own=own: rule(None, own, a)), exact=False)
            counter["accepted" if accepted else "refused"] += 1
    return counter


def test_tampered_certificates_prove_nothing_false():
    found = tamper_at_random(100, seeds=6)
    assert found["refused"] > 40 and found["accepted"] > 5, found


def test_certificates_changed_by_rule_prove_nothing_false():
    found = systematic(seeds=2)
    assert found["refused"] > 30 and found["accepted"] > 5, found


@pytest.mark.slow
def test_two_thousand_tampered_certificates_prove_nothing_false():
    random, by_rule = tamper_at_random(2000, seeds=40), systematic(seeds=7)
    print(f"at random: {dict(random)}; by rule: {dict(by_rule)}")
    assert random["refused"] > 800 and random["accepted"] > 100
    assert by_rule.total() >= 200


# --- Files ---


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a model, a solution, the same as JSON, and what is proved."""
    folder = tmp_path_factory.mktemp("files")
    model = lively(1)
    solution = rue.solve(model, rue.Adaptive())
    assert solution.certificate is not None and solution.certificate.bound > 0
    rue.save(folder / "m.rue", model)
    rue.save(folder / "s.rue", solution)
    (folder / "p.json").write_text(solution.certificate.to_json(model))
    return folder


def run(capsys, *arguments) -> tuple[int, str]:
    """The exit status and the one line that is printed."""
    status = checker.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    text = printed.err if status == 2 else printed.out
    assert text.endswith("\n") and text.count("\n") == 1 and not (printed.out and printed.err)
    return status, text.strip()


def test_all_forms_of_a_proof_say_the_same(files, capsys):
    status, line = run(capsys, files / "m.rue", files / "s.rue")
    assert status == 0 and line.startswith("proved: max regret of every policy >= 0.")
    bound = rue.load(files / "s.rue").certificate.bound
    assert float(line.split()[-1]) >= bound
    for arguments in (["p.json"], ["p.json", "s.rue"], ["m.rue", "p.json"], ["m.rue", "s.rue", "--exact"]):
        assert run(capsys, *(files / name if "." in name else name for name in arguments)) == (0, line)
    status, text = run(capsys, files / "p.json", "--json")
    assert json.loads(text) == {
        "proved": True, "exact": False, "objective": "regret", "bound": float(line.split()[-1]),
        "points": rue.load(files / "s.rue").certificate.points,
    }  # fmt: skip


def test_infinite_potentials_are_null_in_json(capsys, tmp_path):
    builder = rue.Builder(samples=2)
    builder.add("doors", "risk", {"goal": [1, 0], "trap": [0, 1]}, cost=0.0)
    builder.add("doors", "safe", {"goal": 1}, cost=5.0)
    builder.add("trap", "stay", {"trap": 1}, cost=1.0)
    builder.goal("goal")
    model = builder.build()
    proof = tree_certificate(model, np.array([0.5, 0.5]), 1)
    text = proof.to_json(model)
    assert np.isinf(proof.potential).any() and "null" in text and "Infinity" not in text
    (tmp_path / "p.json").write_text(text)
    status, line = run(capsys, tmp_path / "p.json")
    assert status == 0 and float(line.split()[-1]) == pytest.approx(2.5)
    with pytest.raises(rue.BadInput, match="another model"):
        proof.to_json(lively(1))


def test_it_runs_where_rue_cannot_be_imported(files, tmp_path):
    copy = shutil.copy(SOURCE, tmp_path)
    start = (
        "import runpy, sys; sys.modules['rue'] = None; del sys.argv[0]; runpy.run_path(sys.argv[0], None, '__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, copy, files / "m.rue", files / "s.rue"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(
        "proved: max regret of every policy >= "
    )


def test_it_imports_numpy_and_the_standard_library_alone():
    names = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module.split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"numpy"}


def test_refused_proofs_say_where(files, capsys):
    proof = json.loads((files / "p.json").read_text())
    for change, message in (
        ({"bound": 50}, "the certificate claims a bound of 50.0; its points prove 0."),
        ({"value": [9.0] * len(proof["certificate"]["value"])}, "claims 9.0; only"),
        ({"potential": [[9.0] * len(row) for row in proof["certificate"]["potential"]]}, "the potential of state"),
    ):
        path = files / "wrong.json"
        path.write_text(json.dumps({**proof, "certificate": {**proof["certificate"], **change}}))
        status, line = run(capsys, path)
        assert status == 1 and line.startswith("refused: ") and message in line
    path.write_text(json.dumps({**proof, "certificate": {**proof["certificate"], "bound": 50}}))
    status, line = run(capsys, path, "--json")
    assert status == 1 and json.loads(line)["proved"] is False and "50.0" in json.loads(line)["reason"]


WRONG = (None, "x", [], {}, [[]], -1, 2**70, 1e300, [None], ["x"], [[1.5]], [-5], [2**40], [[[0]]])


def test_odd_values_anywhere_in_the_text_end_in_one_line(files, capsys):
    proof = json.loads((files / "p.json").read_text())
    path = files / "odd.json"
    places = [(part, key) for part in ("model", "certificate") for key in proof[part] if key != "fingerprint"]
    places += [(None, key) for key in proof]
    for part, key in places:
        for value in WRONG:
            changed = json.loads(json.dumps(proof))
            (changed if part is None else changed[part])[key] = value
            path.write_text(json.dumps(changed))
            status, line = run(capsys, path)
            assert status in {1, 2}, (part, key, value, line)


def changed_texts(text: str) -> Iterator[bytes]:
    yield from (b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"null", b"1" * 10_000, text[:-5].encode())
    yield text.replace("0.", "NaN", 1).encode()
    yield text.replace("0.", "Infinity", 1).encode()
    yield text.replace("0.", "1e999", 1).encode()


def test_broken_files_end_in_one_line(files, capsys):
    random = np.random.default_rng(0)
    texts = list(changed_texts((files / "p.json").read_text()))
    for number in range(150):
        name = ("m.rue", "s.rue", "p.json")[number % 3]
        data = bytearray((files / name).read_bytes())
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(len(data)))
            match random.integers(4):
                case 0:
                    data[place] = random.integers(256)
                case 1:
                    del data[place : place + int(random.integers(1, 100))]
                case 2:
                    data[place:place] = bytes(random.integers(256, size=5, dtype=np.uint8))
                case 3:
                    data[place] ^= 1 << int(random.integers(8))
        broken = files / f"broken-{name}"
        broken.write_bytes(texts[number // 3] if name == "p.json" and number // 3 < len(texts) else data)
        names = {"m.rue": [broken, files / "s.rue"], "s.rue": [files / "m.rue", broken], "p.json": [broken]}[name]
        status, _ = run(capsys, *names)
        assert status in ({0, 1, 2} if name == "p.json" else {0, 2})
    for names in (["nowhere.rue"], ["."], ["s.rue", "m.rue"], ["m.rue", "m.rue"]):
        assert run(capsys, *(files / name for name in names))[0] == 2


def npy(shape: str, dtype: str = "<f8", data: bytes = b"") -> bytes:
    """An array in numpy's format, with a header that may say anything."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("prob.npy", npy("(1000000000000, 1000000000)")),
        ("prob.npy", npy("(-1, -8)", data=bytes(64))),
        ("prob.npy", npy("(2,", data=bytes(64))),
        ("prob.npy", npy("(2, 2)", dtype="|O", data=bytes(32))),
        ("prob.npy", npy("(0, 1000000000)")),
        ("cost.npy", npy("(1,)", dtype="<c16", data=bytes(16))),
        ("choice_ptr.npy", npy("(2,)", dtype="<i8", data=(0).to_bytes(8, "little") + (2**62).to_bytes(8, "little"))),
        ("trans_ptr.npy", npy("(2,)", dtype="<u8", data=b"\xff" * 16)),
        ("successor.npy", b""),
        ("header.json", b'{"format": "rue", "version": 1, "kind": "model", "graph": {"initial": 9999}}'),
        ("header.json", b'{"format": "rue", "version": 1, "kind": "model", "graph": 5}'),
        ("header.json", b"[]"),
    ],
)
def test_arrays_that_are_none(files, capsys, tmp_path, name, data):
    with zipfile.ZipFile(files / "m.rue") as archive, zipfile.ZipFile(tmp_path / "m.rue", "w") as other:
        for member in archive.namelist():
            other.writestr(member, data if member == name else archive.read(member))
    assert run(capsys, tmp_path / "m.rue", files / "s.rue")[0] == 2


def test_no_bomb_is_unpacked(files, capsys, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"format": "rue", "version": 1, "kind": "model", "graph": {"initial": 0}}')
        archive.writestr("choice_ptr.npy", npy("(8000000,)", "<i8", bytes(64_000_000)))
    (tmp_path / "bomb.rue").write_bytes(packed.getvalue())
    status, line = run(capsys, tmp_path / "bomb.rue", files / "s.rue")
    assert status == 2 and "compressed or larger than the file" in line
    with zipfile.ZipFile(tmp_path / "twice.rue", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("header.json", "{}")
        archive.writestr("header.json", "{}")
    assert "same name" in run(capsys, tmp_path / "twice.rue", files / "s.rue")[1]
