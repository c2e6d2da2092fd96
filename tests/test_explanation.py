"""Explanations: shares of regret against exact fractions, what belongs to the proof, and what is said."""

import dataclasses
import json
import math
import signal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from models import Shape, lively, models_with_controllers
from naive import Naive, controller_value
from test_visits import exact_visits

import rue
from rue import explanation
from rue.explanation import MOST_SAMPLES


def crossing(samples: int = 2) -> rue.UMDP:
    """Left is best in even samples, right in odd ones; a look at the start tells them apart."""
    builder = rue.Builder(samples)
    even = np.arange(samples) % 2 == 0
    builder.add("start", "look", {"green": np.where(even, 0.9, 0.2), "red": np.where(even, 0.1, 0.8)}, cost=0.5)
    for state in ("green", "red"):
        builder.add(state, "left", {"end": 1.0}, cost=np.where(even, 1.0, 5.0))
        builder.add(state, "right", {"end": 1.0}, cost=np.where(even, 5.0, 1.0))
    return builder.goal("end").build()


@given(models_with_controllers(Shape(states=3, samples=2)))
def test_the_shares_of_choices_are_exact_and_sum_to_the_regret(pair):
    model, policy = pair
    naive = Naive(model)
    gap = naive.regret_gap()
    found = rue.explain(model, policy)
    assert found.sample.tolist() == list(range(model.samples))
    for k in range(model.samples):
        cost = controller_value(naive, policy, k)
        if cost == math.inf:
            assert not found.paid[:, k].any()
            assert found.diagnosis is not None
            continue
        exact = [Fraction(0)] * model.graph.choices
        visits = exact_visits(model, policy, k)
        for node in range(policy.nodes):
            for entry in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
                c = int(policy.choice[entry])
                if visits[node]:
                    exact[c] += visits[node] * Fraction(float(policy.weight[entry])) * gap[c][k]
        assert sum(exact) == cost - naive.optimal(k)[naive.initial]
        assert found.paid[:, k] == pytest.approx([float(x) for x in exact], rel=1e-8, abs=1e-8)
        assert found.paid[:, k].sum() == pytest.approx(found.verdict.regret[k], rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_shares_of_adaptive_policies_sum_to_the_regret(seed):
    model = lively(seed)
    solution = rue.solve(model, rue.Adaptive())
    found = rue.explain(model, solution)
    assert found.paid.sum(axis=0) == pytest.approx(np.array(solution.regret), abs=1e-9)
    assert found.belief == pytest.approx(solution.certificate.belief)
    assert found.bound == solution.certificate.bound
    ((first, *_), worst) = found.most_paid(), int(np.argmax(solution.regret))
    assert first.sample == worst
    assert first.regret == found.paid[:, worst].max()


def test_the_words_name_the_belief_the_dispute_the_evidence_and_the_price():
    model = crossing()
    found = rue.explain(model, rue.solve(model, rue.Adaptive()))
    assert {one.state for one in found.disputes} == {model.graph.state_number["green"], model.graph.state_number["red"]}
    assert all(one.loss == 4.0 for one in found.disputes)
    assert [one.best for one in found.disputes] == [((1, (0,)), (2, (1,)))] * 2
    red = next(one for one in found.evidence if one.outcome == model.graph.state_number["red"])
    assert (red.likely, red.unlikely, red.probability) == (1, 0, pytest.approx((0.8, 0.1)))
    assert red.log_ratio == pytest.approx(math.log(8))
    sections = found.sections()
    assert list(sections) == [
        "Samples that matter", "Where samples disagree", "What tells samples apart", "What the regret is paid for",
    ]  # fmt: skip
    assert "2 of 2 samples" in sections["Samples that matter"][1]
    assert any("8 times as likely in sample 1 (0.8) as in sample 0 (0.1)" in line for line in found.lines())
    assert any("costs 4 more than" in line for line in found.lines())


def test_samples_that_hardly_matter_are_told_apart_from_those_without_belief():
    model = crossing()
    three = rue.UMDP(model.graph, np.repeat(model.prob, [1, 2], axis=1), np.repeat(model.cost, [1, 2], axis=1))
    solution = rue.solve(three, rue.Adaptive())

    def said(belief):
        certificate = solution.certificate
        weight = certificate.weight.copy()
        weight[0] = belief
        proof = dataclasses.replace(certificate, weight=weight)
        return " ".join(
            rue.explain(three, dataclasses.replace(solution, certificate=proof, regret_certificate=None)).lines()
        )

    assert "over 2 of 3 samples: 0 (0.6), 1 (0.4)" in said([0.6, 0.4, 0.0])
    assert "Samples with no belief do not matter for the bound: it holds without them (1 of 3)." in said(
        [0.6, 0.4, 0.0]
    )
    assert "Samples with a belief of 0.0001 or less hardly matter for the bound (1 of 3)." in said(
        [0.6, 0.3999, 0.0001]
    )
    assert "matter for the bound" not in said([0.6, 0.3, 0.1])


def test_a_policy_alone_or_a_proof_about_another_model_has_no_belief():
    model = crossing()
    solution = rue.solve(model, rue.Adaptive())
    assert rue.explain(model, solution.policy).belief is None
    other = rue.UMDP(model.graph, model.prob, 2 * model.cost)
    found = rue.explain(other, solution)
    assert found.belief is None
    assert "Nothing is proved" in found.lines()[1]


def test_rounding_is_not_what_is_paid_and_names_with_commas_have_quotes():
    """Two steps at 0.95 a year: V* and the costs differ by rounding at each choice of the best policy."""
    builder = rue.Builder(["slow, strong", "fast, strong"], discount=0.97)
    builder.add("well", "none", {"well": [0.9, 0.7], "ill": [0.1, 0.3]}, reward=0.95)
    builder.add("well", "drug", {"well": 0.85, "ill": 0.15}, reward=0.9)
    builder.add("ill", "operate", {"well": 0.5, "ill": 0.41, "dead": 0.09}, reward=0.4)
    builder.add("ill", "wait", {"ill": 0.9, "dead": 0.1}, reward=0.45)
    model = builder.goal("dead").build()
    found = rue.explain(model, rue.Policy.stationary(model, ["none", "operate", "none", ""]))
    assert {one.regret > 1e-9 for k in (0, 1) for one in found.most_paid(k)} == {True}
    assert (found.paid > 0).any()
    lines = found.lines()
    assert not any("(0 %)" in line or "more than operate" in line for line in lines)
    assert any('in sample "fast, strong"' in line for line in lines)


def test_where_samples_agree_nothing_disagrees_and_nothing_is_paid():
    builder = rue.Builder(2)
    builder.add("a", "go", {"end": 1.0}, cost=1.0).add("a", "wait", {"end": 1.0}, cost=2.0)
    model = builder.goal("end").build()
    found = rue.explain(model, rue.Policy.stationary(model, ["go", ""]))
    assert not found.disputes
    assert not found.evidence
    assert found.most_paid() == ()
    text = " ".join(found.lines())
    assert "one action is the best in all samples" in text
    assert "No outcome that the policy sees tells the samples apart" in text
    assert "there is no regret to be paid" in text


def test_infinite_regret_names_the_state_the_samples_and_the_way_out():
    builder = rue.Builder(2)
    builder.add("start", "left", {"end": [1.0, 0.0], "pit": [0.0, 1.0]}, cost=1.0)
    builder.add("start", "right", {"end": [0.0, 1.0], "pit": [1.0, 0.0]}, cost=1.0)
    builder.add("pit", "wait", {"pit": 1.0}, cost=1.0)
    model = builder.goal("end").build()
    found = rue.explain(model, rue.Policy.stationary(model, ["left", "", "wait"]))
    why = " ".join(found.sections()["Why the regret is infinite"])
    assert "dead end pit" in why
    assert "samples 0 and 1 clash" in why
    assert "What would end this clash" in why
    assert found.most_paid(1) == ()
    assert found.most_paid(0) == ()  # finite, and without regret
    assert json.loads(json.dumps(found.facts()["diagnosis"]))["proper"] == "none"


def test_of_many_samples_the_believed_and_the_worst_are_looked_at():
    model = crossing(40)
    solution = rue.solve(model, rue.Adaptive())
    found = rue.explain(model, solution)
    assert found.sample.size == MOST_SAMPLES
    left_out = np.setdiff1d(np.arange(40), found.sample)
    assert found.belief[found.sample].min() >= found.belief[left_out].max()
    missing = int(left_out[0])
    with pytest.raises(rue.BadInput, match="was not looked at"):
        found.most_paid(missing)


def test_an_outcome_that_is_impossible_in_a_sample_rules_it_out():
    builder = rue.Builder(2)
    builder.add("a", "go", {"b": [0.5, 0.0], "c": [0.5, 1.0]}, cost=1.0)
    builder.add("b", "go", {"end": 1.0}, cost=1.0).add("c", "go", {"end": 1.0}, cost=1.0)
    model = builder.goal("end").build()
    found = rue.explain(model, rue.Policy.stationary(model, ["go"] * 4))
    assert math.inf in {one.log_ratio for one in found.evidence}
    assert any("impossible in sample 1, which it rules out" in line for line in found.lines())


def test_facts_are_named_and_entries_limited():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    solution = rue.solve(model, rue.Adaptive())
    found = rue.explain(model, solution, entries=2)
    facts = found.facts()
    assert len(facts["disagreements"]) <= 2
    assert len(facts["evidence"]) <= 2
    assert set(facts["paid"]) == set(facts["samples"])
    (one, *_) = facts["paid"][facts["worst_sample"]]
    assert one["state"] in model.graph.state_label
    assert one["action"] in model.graph.action_label
    assert facts["belief"] and sum(facts["belief"].values()) == pytest.approx(1)


def test_a_limit_leaves_samples_out():
    model = lively(1)
    solution = rue.solve(model, rue.Adaptive())
    cache, told = rue.Cache(), []
    whole = rue.explain(model, solution, cache=cache, progress=told.append)
    assert whole.left_out == 0
    assert told[-1].stage == f"explain: {model.samples} of {model.samples} samples"
    short = rue.explain(model, solution, limits=rue.Limits(seconds=0), cache=cache)
    assert (short.sample.size, short.left_out) == (1, model.samples - 1)
    k = int(short.sample[0])
    assert k in (int(whole.belief.argmax()), int(whole.verdict.regret.argmax()))
    assert short.paid[:, 0] == pytest.approx(whole.paid[:, whole.sample.tolist().index(k)])
    text = " ".join(short.lines())
    assert "were left out" in text
    assert "all samples" not in text and "same probabilities" not in text  # one sample says nothing about the others
    assert text.count("Too few samples were looked at to compare them.") == 2
    assert short.facts()["left_out"] == short.left_out


def test_ctrl_c_leaves_samples_out():
    model = lively(2)
    solution = rue.solve(model, rue.Adaptive())

    def press(told: rue.Progress) -> None:
        if told.stage.startswith("explain: 2 "):
            signal.raise_signal(signal.SIGINT)

    assert rue.explain(model, solution, progress=press).left_out == model.samples - 2


def test_what_was_not_judged_in_time_is_not_looked_at(monkeypatch):
    model = lively(1)
    solution = rue.solve(model, rue.Adaptive())
    verdict = rue.evaluate(model, solution.policy)
    regret = np.where(np.arange(model.samples) == 1, verdict.regret, np.inf)
    late = dataclasses.replace(verdict, regret=regret, complete=False)
    monkeypatch.setattr(explanation, "judge", lambda *_: late)
    found = rue.explain(model, solution)
    assert found.sample.tolist() == [1]
    assert found.diagnosis is None
    assert "Time ran out before the policy was judged" in found.lines()[0]
    monkeypatch.setattr(explanation, "judge", lambda *_: dataclasses.replace(late, regret=np.full_like(regret, np.inf)))
    none = rue.explain(model, solution)
    assert none.sample.size == 0
    assert "one action is the best" not in " ".join(none.lines())
    assert none.facts()["samples"] == []


def test_nothing_is_said_of_samples_that_were_not_looked_at():
    """Of more samples than are looked at, and where the policy misses the goal in all of them."""
    builder = rue.Builder(MOST_SAMPLES + 3)
    builder.add("a", "go", {"goal": 1.0}, cost=1.0).add("a", "stay", {"a": 1.0}, cost=1.0)
    model = builder.goal("goal").build()
    best = " ".join(rue.explain(model, rue.Policy.stationary(model, [0, -1])).lines())
    assert f"one action is the best in the {MOST_SAMPLES} samples that were looked at." in best
    assert f"tells the {MOST_SAMPLES} samples that were looked at apart" in best
    lost = " ".join(rue.explain(model, rue.Policy.stationary(model, [1, -1])).lines())
    assert "one action is the best" not in lost and "same probabilities" not in lost
