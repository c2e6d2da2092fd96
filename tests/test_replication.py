"""Published differences: which pairs the paper tells apart, and what became of them here."""

import math

import pytest
from test_tables import only, record, table

from rue.experiments.published_figures import ELEVEN, PAPER
from rue.experiments.replication import compare_orders, told_apart
from rue.experiments.results import Results
from rue.experiments.tables import make_tables, write_tables


def test_the_pairs_that_the_paper_tells_apart_have_its_own_p_values():
    p = {(better, worse): value for better, worse, value in told_apart(PAPER["disaster"], "train")}
    printed = {
        ("reg-d1", "cemr-d2"): 0.017, ("reg-d1", "best"): 0.004, ("reg-d3", "reg-d2"): 0.014,
        ("reg-d3", "reg-s1"): 0.0015, ("cemr-d3", "reg-d1"): 0.018, ("cemr-d3", "robust"): 0.019,
        ("best", "cemr-s1"): 0.031, ("robust", "best"): 0.007,
    }  # fmt: skip
    for pair, value in printed.items():
        assert p[pair] == pytest.approx(value, rel=0.15)
    for pair in [("cemr-d2", "best"), ("best", "average"), ("reg-d1", "robust")]:  # 0.30, 0.31, 0.47
        assert pair not in p
    assert all(PAPER["disaster"]["train"][better] < PAPER["disaster"]["train"][worse] for better, worse in p)


def rows(*columns):
    """Records of methods in columns of regrets, on the same problems."""
    names = ("reg-d1", "best", "robust", "average")
    return [
        record(name, f"seed={i}", regret)
        for name, column in zip(names, columns, strict=False)
        for i, regret in enumerate(column)
    ]


def published(**mean):
    names = {name.replace("_", "-"): value for name, value in mean.items()}
    return {"problems": dict.fromkeys(names, 100), "train": names, "train deviation": dict.fromkeys(names, 0.1)}


def test_same_other_and_equal():
    steps = [1 + i / 100 for i in range(20)]
    group = only(rows(steps, [2 * x for x in steps], [2 * x for x in steps], [1.5] * 20))
    given = published(reg_d1=0.9, best=0.5, robust=0.3, average=0.7, adaptive=0.1)
    found = {(order.better, order.worse): order for order in compare_orders(group, given, "train")}
    assert len(found) == 6  # adaptive is not here
    assert found["robust", "best"].found == "equal" and found["robust", "best"].p == 1.0
    assert found["average", "reg-d1"].found == "other" and found["average", "reg-d1"].significant
    assert found["best", "average"].found == "other"
    group = only(rows(steps, [x + (0.1 if i % 2 else -0.09) for i, x in enumerate(steps)]))
    (order,) = compare_orders(group, published(reg_d1=0.5, best=0.6), "train")
    assert order.found == "same" and not order.significant and order.published < 1e-6


def test_problems_without_one_of_the_two_do_not_count_and_infinite_regrets_do():
    group = only(rows([1.0, 1.0, 1.0, None], [2.0, 2.0, math.inf, 0.1], [0.5, 0.5, 0.5, 0.5]))
    found = {
        (order.better, order.worse): order.found
        for order in compare_orders(group, published(reg_d1=0.9, best=0.5, robust=0.2), "train")
    }
    assert found == {("best", "reg-d1"): "other", ("robust", "best"): "same", ("robust", "reg-d1"): "same"}


def test_pairs_with_no_problems_in_common_are_left_out():
    group = only(rows([1.0, None, 1.0], [None, 2.0, 2.0], [1.0, 2.0, 3.0]))
    found = compare_orders(group, published(reg_d1=0.9, best=0.5, robust=0.2), "train")
    assert {(order.better, order.worse) for order in found} == {("robust", "best"), ("robust", "reg-d1")}


def test_without_deviations_or_problems_nothing_is_told_apart():
    figures = published(reg_d1=0.2, best=0.9)
    for missing in ("problems", "train deviation"):
        assert not list(told_apart({name: value for name, value in figures.items() if name != missing}, "train"))
    assert not list(told_apart(published(reg_d1=0.50, best=0.51), "train"))


def test_the_table_counts_and_names_what_differs():
    results = Results.of([record(name, f"seed={i}", 1.0 + i) for name in ELEVEN for i in range(3)], ELEVEN)
    shown = table(make_tables(results), "orders")
    assert [cell.text for cell in shown.rows[0].cells] == ["49", "0", "0"]
    assert len(shown.notes) == 1 and shown.notes[0].count("; ") == 48
    assert shown.notes[0].startswith("Not so here, train: reg-d1 below cemr-d1 (here equal); ")
    assert "reg-d3 below reg-d1" in write_tables([shown], "markdown")
    other = Results.of(rows([1.0, 2.0], [2.0, 3.0]))
    assert not [one for one in make_tables(other) if one.kind == "orders"]
