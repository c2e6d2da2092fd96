"""Weights of samples, and means, tails and quantiles of regrets, against fractions and through files."""

import copy
import itertools
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from models import Shape, umdps

import rue
from rue import risk
from rue.adaptive.free_moves import merge_free
from rue.description import describe

# Twins in fractions. Infinite values have no fraction, so values are numbers of quarters, and one may stand for them.


def exact_tail(value: list[int], weight: list[Fraction], tail: Fraction) -> Fraction:
    """The largest Σ b_k value_k over 0 ≤ b_k ≤ weight_k / tail, Σ b_k = 1: a vertex fills its caps in some order."""
    best = Fraction(-1)
    for order in itertools.permutations(range(len(value))):
        left, total = Fraction(1), Fraction(0)
        for k in order:
            taken = min(left, weight[k] / tail)
            left, total = left - taken, total + taken * value[k]
        best = max(best, total)
    return best


def exact_quantile(value: list[int], weight: list[Fraction], level: Fraction) -> int:
    reached = {r: sum(w for v, w in zip(value, weight, strict=True) if v <= r) for r in value}
    used = [r for r in value if any(v == r and w > 0 for v, w in zip(value, weight, strict=True))]
    return min(r for r in used if reached[r] >= level)


@st.composite
def weighted_values(draw: st.DrawFn) -> tuple[list[int], list[Fraction]]:
    size = draw(st.integers(1, 5))
    value = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size))
    parts = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any))
    return value, [Fraction(part, sum(parts)) for part in parts]


PARTS = st.fractions(0, 1, max_denominator=40)


@given(weighted_values(), PARTS.filter(bool), PARTS)
def test_tails_and_quantiles_equal_fractions(given_values, tail, level):
    value, weight = given_values
    numbers, shares = np.array(value, float), np.array([float(w) for w in weight])
    mean = sum(v * w for v, w in zip(value, weight, strict=True))
    assert risk.mean(numbers, shares) == pytest.approx(float(mean), abs=1e-12)
    assert risk.tail_mean(numbers, shares, float(tail)) == pytest.approx(
        float(exact_tail(value, weight, tail)), abs=1e-9
    )
    assert risk.quantile(numbers, shares, float(level)) == exact_quantile(value, weight, level)


@given(weighted_values(), PARTS.filter(bool))
@example(([3, 5], [Fraction(1), Fraction(0)]), Fraction(1, 40))
def test_the_belief_of_a_tail_is_one_that_is_allowed(given_values, tail):
    value, weight = given_values
    shares = np.array([float(w) for w in weight])
    belief = risk.worst_belief(np.array(value, float), risk.caps_of(shares, float(tail)))
    assert (belief >= 0).all() and belief.sum() == pytest.approx(1, abs=1e-12)
    assert (belief <= shares / float(tail) * (1 + 1e-9)).all()


@given(weighted_values())
def test_from_the_mean_to_the_worst(given_values):
    value, weight = given_values
    numbers, shares = np.array(value, float), np.array([float(w) for w in weight])
    tails = [risk.tail_mean(numbers, shares, tail) for tail in (1.0, 0.7, 0.3, 0.1, 1e-3, 1e-300, 5e-324)]
    assert tails == sorted(tails) or np.allclose(tails, sorted(tails))
    assert tails[0] == pytest.approx(risk.mean(numbers, shares))
    worst = numbers[shares > 0].max()
    assert tails[-1] == worst == risk.quantile(numbers, shares, 1.0)
    assert risk.quantile(numbers, shares, 0.0) == numbers[shares > 0].min()


def test_infinite_regrets_count_where_they_have_weight():
    value, weight = np.array([1.0, np.inf, 3.0]), np.array([0.5, 0.0, 0.5])
    assert risk.mean(value, weight) == 2.0
    assert risk.tail_mean(value, weight, 0.1) == 3.0 and risk.quantile(value, weight, 1.0) == 3.0
    some = np.array([0.5, 0.01, 0.49])
    assert risk.mean(value, some) == risk.tail_mean(value, some, 0.9) == math.inf
    assert risk.quantile(value, some, 0.99) == 3.0 and risk.quantile(value, some, 1.0) == math.inf


def test_a_hundred_thousand_weights_lose_no_quantile_to_rounding():
    value = np.arange(100_000.0)
    weight = np.random.default_rng(0).random(value.size)
    weight /= weight.sum()
    assert risk.quantile(value, weight, 1.0) == value[-1]
    assert risk.quantile(np.append(value, np.inf), np.append(weight, 0.0), 1.0) == value[-1]


@pytest.mark.parametrize("tail", [0, -0.1, 1.0001, math.nan, math.inf, "0.1", True, None])
def test_tails_that_are_none(tail):
    verdict = rue.evaluate(toy(), rue.Policy.stationary(toy(), [0, 0]))
    for found in (verdict, rue.solve(toy(), rue.Average(), bound=False)):
        with pytest.raises(rue.BadInput, match=r"^tail is .*; expected above 0 and at most 1$"):
            found.tail(tail)


@pytest.mark.parametrize("level", [-0.1, 1.1, math.nan, "0.5", None])
def test_quantiles_that_are_none(level):
    verdict = rue.evaluate(toy(), rue.Policy.stationary(toy(), [0, 0]))
    for found in (verdict, rue.solve(toy(), rue.Average(), bound=False)):
        with pytest.raises(rue.BadInput, match=r"^level is .*; expected 0 to 1$"):
            found.quantile(level)


# Weights of models.


def toy(weight=(1, 2, 5), samples=("a", "b", "c"), **more) -> rue.UMDP:
    """Two ways; the left one costs 4, the right one 1, 2 or 10. So going left has regrets 3, 2 and 0."""
    builder = rue.Builder(samples, weight=weight, **more)
    builder.add("start", "left", {"end": 1.0}, cost=4.0).add("start", "right", {"end": 1.0}, cost=[1.0, 2.0, 10.0])
    return builder.goal("end").build()


WEIGHT = [0.125, 0.25, 0.625]
LEFT = [0, 0]


def test_every_way_to_make_a_model_keeps_weights(tmp_path):
    model = toy()
    assert model.weight.tolist() == WEIGHT and model.sample_label == ("a", "b", "c") and model.is_weighted
    rue.save(tmp_path / "m.rue", model)
    layered = model.with_discount(0.5)
    for other in (
        rue.load(tmp_path / "m.rue"), copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)),
        replace(model), layered, toy(discount=0.9), model.subset([0, 1, 2]),
    ):  # fmt: skip
        assert other.weight.tolist() == WEIGHT and not other.weight.flags.writeable
    assert model.subset([2, 0]).weight.tolist() == pytest.approx([5 / 6, 1 / 6])
    assert rue.select(model, 3, by="random", seed=1).weight.sum() == pytest.approx(1)
    chosen = rue.select(model, 2, by="coverage")
    expected = [WEIGHT["abc".index(name)] for name in chosen.sample_label]
    assert chosen.weight.tolist() == pytest.approx([w / sum(expected) for w in expected])
    assert model.subset([0]).weight.tolist() == [1.0]
    assert toy(weight=(1, 0, 0)).subset([1, 2]).weight.tolist() == [0.5, 0.5]  # nothing is known of these two
    dense = rue.UMDP.from_dense([[[[0, 1.0]], [[0, 0]]]] * 2, [[[1.0], [0]], [[2.0], [0]]], goals=[1], weight=[1, 3])
    assert dense.weight.tolist() == [0.25, 0.75]


def test_posterior_samples_take_weights():
    model = rue.from_transitions(
        [("a", "go", 1.0, "b"), ("a", "go", 1.0, "a")], samples=3, seed=1, initial="a", goals=["b"]
    )
    assert not model.is_weighted and model.weight.tolist() == [1 / 3] * 3
    assert model.with_weight([0, 1, 3]).weight.tolist() == [0, 0.25, 0.75]


def test_merging_free_moves_keeps_weights():
    builder = rue.Builder(2, weight=[1, 3])
    builder.add("a", "over", {"b": 1.0}).add("b", "back", {"a": 1.0}).add(
        "b", "out", {"end": [0.5, 1.0], "a": [0.5, 0.0]}, 1
    )
    merged = merge_free(builder.goal("end").build())
    assert merged is not None and merged.model.weight.tolist() == [0.25, 0.75]


@given(umdps(Shape(samples=3)), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_weights_change_no_regret_of_any_method(model, parts):
    parts = parts[: model.samples]
    weighted = model.with_weight(parts) if any(parts) else model
    policy = rue.Policy.from_choices(model.graph, model.graph.choice_ptr[:-1].astype(int))
    plain, other = rue.evaluate(model, policy), rue.evaluate(weighted, policy)
    assert plain.regret.tolist() == other.regret.tolist()
    assert other.weight is weighted.weight


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        ([1, -1, 1], "the weight of sample b is -1.0; expected a finite number, 0 or more; 1 is off in all"),
        (
            [math.nan, 1, math.inf],
            "the weight of sample a is nan; expected a finite number, 0 or more; 2 are off in all",
        ),
        ([0, 0, 0], "the weight of every sample is 0; expected a positive weight in one at least"),
        ([1, 2], r"weight has shape \(2,\); expected one number for each of 3 samples"),
        ([[1, 2, 3]], r"weight has shape \(1, 3\); expected one number for each of 3 samples"),
        (1, r"weight has shape \(\); expected one number for each of 3 samples"),
        (["1", "2", "3"], "weight holds <U1 values; expected numbers"),
    ],
)
def test_bad_weights(weight, line):
    for make in (lambda: toy(weight=weight), lambda: toy(None).with_weight(weight)):
        with pytest.raises(rue.BadInput, match=f"^{line}$"):
            make()


def test_names_of_samples_in_a_builder():
    assert toy(None, samples=3).sample_label is None
    for samples, line in (
        ([], "samples is 0; expected a whole number, 1 or more"),
        ("abc", "samples is 'abc'; expected a whole number, 1 or more"),
        (["a", "a", "b"], "the sample label 'a' is used twice; expected a label of its own for each sample"),
    ):
        with pytest.raises(rue.BadInput, match=line):
            toy(None, samples=samples)


def test_huge_and_tiny_weights_are_divided_without_overflow():
    assert toy([1e308, 1e308, 1e308]).weight.tolist() == [1 / 3] * 3
    assert toy([5e-324, 5e-324, 0]).weight.tolist() == [0.5, 0.5, 0.0]


def test_the_average_model_is_averaged_by_weights():
    even, heavy = toy([1, 1, 1]), toy([1, 0, 0])
    assert rue.solve(even, rue.Average()).objective.upper == pytest.approx(4.0)  # the right way costs 13/3
    assert rue.solve(heavy, rue.Average()).objective.upper == pytest.approx(1.0)
    assert rue.solve(toy([2, 1, 1]), rue.Average()).objective.upper == pytest.approx(3.5)


def test_info_lists_weights():
    assert describe(toy())["weights"] == {"a": 0.125, "b": 0.25, "c": 0.625}
    assert "weights" not in describe(toy([1, 1, 1]))


# Evaluations and solutions.


def test_figures_of_a_verdict_by_hand():
    verdict = rue.evaluate(toy(), rue.Policy.stationary(toy(), LEFT))
    assert verdict.regret.tolist() == [3.0, 2.0, 0.0]
    assert verdict.max_regret == 3.0 and verdict.mean_regret == 0.875
    assert verdict.tail(0.25) == pytest.approx((0.125 * 3 + 0.125 * 2) / 0.25)
    assert verdict.tail(0.125) == verdict.tail(1e-9) == 3.0
    assert [verdict.quantile(level) for level in (0, 0.625, 0.63, 0.875, 0.9, 1)] == [0, 0, 2, 2, 3, 3]
    assert verdict.value_of_knowing.tolist() == [0.375, 0.5, 0.0]
    assert verdict.value_of_knowing.sum() == verdict.mean_regret


def test_what_is_worth_knowing_where_a_regret_is_infinite():
    builder = rue.Builder(2, weight=[1, 0])
    builder.add("a", "try", {"a": [0.5, 1.0], "b": [0.5, 0.0]}, cost=1.0).add("a", "go", {"b": 1.0}, cost=4.0).goal("b")
    model = builder.build()
    policy = rue.Policy.stationary(model, [0, 0])
    assert rue.evaluate(model, policy).value_of_knowing.tolist() == [0.0, 0.0]
    assert rue.evaluate(model.with_weight([1, 1]), policy).value_of_knowing.tolist() == [0.0, math.inf]


@given(umdps(Shape(dead_ends=False)), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_knowing_is_worth_at_least_that_when_one_plans_anew(model, parts):
    """The value of the indicator of k, with the best plan in either case, is at least weight × regret."""
    model = model.with_weight(parts[: model.samples]) if any(parts[: model.samples]) else model
    policy = rue.Policy.from_choices(model.graph, model.graph.choice_ptr[:-1].astype(int))
    verdict = rue.evaluate(model, policy)
    if not np.isfinite(verdict.value).all():
        return
    for k in range(model.samples):
        others, error = [j for j in range(model.samples) if j != k], verdict.error
        known = model.weight[k] * verdict.optimal[k]
        if any(model.weight[others] > 0):
            again = rue.solve(model.subset(others), rue.Average(), bound=False).policy
            judged = rue.evaluate(model.subset(others), again)
            cost, error = judged.value, error + judged.error
            kept = verdict.value[others]
            known += min(risk.mean(cost, model.weight[others]), risk.mean(kept, model.weight[others]))
        saved = risk.mean(verdict.value, model.weight) - known
        assert saved >= verdict.value_of_knowing[k] - 1e-9 - 4 * error


def test_a_solution_tells_the_same_as_the_judge(tmp_path):
    for model in (toy(), toy(None)):
        solution = rue.solve(model, rue.Regret())
        verdict = rue.evaluate(model, solution.policy)
        rue.save(tmp_path / "s.rue", solution)
        for found in (solution, rue.load(tmp_path / "s.rue")):
            assert found.weight == (tuple(WEIGHT) if model.is_weighted else ())
            assert found.mean_regret == verdict.mean_regret
            assert found.tail(0.3) == verdict.tail(0.3)
            assert found.quantile(0.5) == verdict.quantile(0.5)


def test_a_solution_needs_a_weight_for_each_sample():
    solution = rue.solve(toy(), rue.Average(), bound=False)
    with pytest.raises(rue.BadInput, match=r"^there are 2 weights; expected one for each of 3 samples$"):
        replace(solution, weight=(0.5, 0.5))


@pytest.mark.parametrize("weight", [(0.5, 0.5, 0.5), (-0.5, 1.0, 0.5), (0.0, 0.0, 0.0), (math.nan, 0.5, 0.5)])
def test_a_file_with_other_weights_is_refused(tmp_path, weight):
    rue.save(tmp_path / "s.rue", replace(rue.solve(toy(), rue.Average(), bound=False), weight=weight))
    with pytest.raises(rue.BadFile, match="regret_weight has other numbers; expected the probability of each sample"):
        rue.load(tmp_path / "s.rue")


# Weights from a file.


def test_weights_by_name_by_number_and_in_any_order(tmp_path):
    path, model = tmp_path / "w.csv", toy(None)
    for text in (
        "sample,weight\na,1\nb,2\nc,5\n",
        "sample,weight\n2,5\n0,1\n1,2\n",
        "weight;note;sample\n5,0;far;c\n\n1,0;near;a\n2,0;;1\n",
        "\ufeffsample\tweight\n c \t5\n a\t1\n b\t2e0\n",
    ):
        path.write_text(text, encoding="utf-8")
        assert rue.read_weights(path, model).tolist() == [1, 2, 5]
    path.write_text("sample,weight\n1,9\n2,1\n0,0\n")
    assert rue.read_weights(path, toy(None, samples=("2", "0", "1"))).tolist() == [1, 0, 9]  # names come first


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "the file is empty; expected a header with sample, weight"),
        ("a,1\nb,2\n", r"the first line looks like data \(a, 1\); expected a header with sample, weight"),
        ("sample,wait\na,1\n", "unknown column 'weight'; did you mean 'wait'"),
        ("sample,weight\na,1\nb,2\n", "sample 'c' has no weight; expected a line for each of 3 samples; 1"),
        ("sample,weight\na,1\nb,2\nd,3\n", "line 4: unknown sample 'd'; .*known: a, b, c; 1 line is off in all"),
        ("sample,weight\na,1\n3,3\n-1,3\n", "line 3: unknown sample '3'; .*2 lines are off in all"),
        ("sample,weight\na,1\na,2\n", "line 3: sample 'a' has a weight already; expected one line for it"),
        ("sample,weight\na,x\n", "line 2: the weight of sample 'a' is 'x'; expected a number, 0 or more"),
        ("sample,weight\na,-1\nb,nan\nc,inf\n", "line 2: the weight of sample 'a' is '-1'; .*3 lines are off in all"),
        ("sample,weight\na\n", "line 2: the weight of sample 'a' is ''; expected a number"),
        ("sample,weight\na,0\nb,0\nc,0\n", "every weight is 0; expected a positive one at least"),
        (f"sample,weight\n{'9' * 5000},1\n", "line 2: unknown sample '999"),
    ],
)  # fmt: skip
def test_bad_files_of_weights(tmp_path, text, line):
    path = tmp_path / "w.csv"
    path.write_text(text)
    with pytest.raises(rue.BadInput, match=line) as told:
        rue.read_weights(path, toy(None))
    assert str(told.value).startswith(str(path)) and "\n" not in str(told.value)


def test_no_file_of_weights(tmp_path):
    with pytest.raises(rue.BadInput, match="there is no such file"):
        rue.read_weights(tmp_path / "none.csv", toy(None))


# Records.


def test_records_and_tables_tell_mean_tail_and_quantile():
    spread = risk.spread(np.array([3.0, 2.0, 0.0]), np.array(WEIGHT))
    assert spread == {"mean": 0.875, "tail 0.1": 3.0, "quantile 0.9": 3.0, "quantile 0.99": 3.0}
    assert risk.spread(np.array([3.0, 2.0, 1.0]))["mean"] == pytest.approx(2.0)
    assert json.loads(json.dumps(spread)) == spread
