"""Why a regret is infinite: what is said is true on the graph, and all of it is said."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from models import Shape, models_with_controllers

import rue
from rue import diagnosis
from rue.diagnosis import diagnose
from rue.structure import proper_in


def weather() -> rue.UMDP:
    """The ford may drown one when it is wet."""
    builder = rue.Builder(3)
    builder.add("bank", "bridge", {"town": 1.0}, cost=5.0)
    builder.add("bank", "ford", {"town": [1.0, 0.5, 1.0], "river bed": [0.0, 0.5, 0.0]}, cost=[1.0, 2.0, 1.0])
    builder.add("river bed", "wait", {"river bed": 1.0})
    model = builder.goal("town").build()
    return rue.UMDP(model.graph, model.prob, model.cost, ("dry", "wet", "dry again"))


def doors(samples: int = 2, bell: bool = False) -> rue.UMDP:
    """Behind each door is a pit in one sample; a bell, if there is one, tells the first sample from the others."""
    builder = rue.Builder(samples)
    behind = np.eye(samples)
    if bell:
        builder.add("gate", "ring", {"silence": 1 - behind[0], "answer": behind[0]}, cost=1.0)
        builder.add("silence", "enter", {"yard": 1.0}, cost=1.0).add("answer", "enter", {"yard": 1.0}, cost=1.0)
    builder.add("yard", "left", {"home": 1 - behind[0], "pit": behind[0]}, cost=1.0)
    builder.add("yard", "right", {"home": 1 - behind[1], "pit": behind[1]}, cost=1.0)
    builder.add("pit", "stay", {"pit": 1.0}, cost=1.0)
    return builder.goal("home").build()


def waiting() -> rue.UMDP:
    """Waiting never ends in the first sample, and running may be the end in the second."""
    builder = rue.Builder(2)
    builder.add("s", "wait", {"s": [1.0, 0.5], "goal": [0.0, 0.5]}, cost=1.0)
    builder.add("s", "run", {"goal": [1.0, 0.5], "pit": [0.0, 0.5]}, cost=1.0)
    builder.add("pit", "stay", {"pit": 1.0}, cost=1.0)
    return builder.goal("goal").build()


def test_a_dead_end_is_named_with_the_way_into_it():
    model = weather()
    found = diagnose(model, rue.Policy.stationary(model, [1, 0, 2]))
    assert found.proper == "state" and found.clash is None
    assert found.lines()[0] == (
        "In sample wet the policy may enter the dead end river bed: it takes ford in state bank. Safe there: bridge."
    )
    assert found.facts()["lost"] == [
        {"samples": ["wet"], "state": "bank", "actions": ["ford"], "dead_end": "river bed", "safe": ["bridge"]}
    ]
    assert diagnose(model, rue.Policy.stationary(model, [0, 0, 2])).lines() == []


def test_going_round_for_ever_is_named():
    builder = rue.Builder(2)
    builder.add("a", "round", {"b": 1.0}, cost=1.0).add("a", "out", {"goal": 1.0}, cost=9.0)
    builder.add("b", "back", {"a": 1.0}, cost=1.0)
    model = builder.goal("goal").build()
    found = diagnose(model, rue.Policy.stationary(model, [0, 2, 0]))
    assert found.lost == (diagnosis.Lost((0, 1), 0, (0,), None, (0, 1)),)
    assert (
        found.lines()[0] == "In samples 0 and 1 the policy never reaches a goal from state a on, where it takes round."
    )


def test_samples_that_clash_are_named_with_the_state():
    found = diagnose(doors(4))
    # Samples 2 and 3 have a pit behind neither door.
    assert found.clash == diagnosis.Clash((0, 1), 0, (0, 1), ((0, (0,)), (1, (1,))), (), (0, 1))
    assert found.proper == "none" and not found.switching
    assert found.lines() == [
        "No policy of any kind reaches a goal with probability one in every sample: samples 0 and 1 clash.",
        "In state yard, where samples 0 and 1 are possible: left may lead into a dead end in sample 0; right may lead "
        "into a dead end in sample 1.",
        "What would end this clash: one of samples 0 and 1 left out, or an action in state yard that reaches a goal "
        "safely in all of them.",
    ]
    assert found.facts()["clash"]["deadly"] == {"left": ["0"], "right": ["1"]}


def test_what_a_policy_can_learn_in_time_is_no_clash():
    found = diagnose(doors(2, bell=True))
    assert found.proper == "memory" and found.clash is None
    assert found.lines()[0].startswith("A policy that remembers what it has seen reaches a goal")
    solution = rue.solve(doors(2, bell=True), rue.Adaptive())
    assert math.isfinite(solution.max_regret.upper)
    # With a third sample there is still silence in two of them, but both have the same pits.
    assert diagnose(doors(3, bell=True)).proper == "memory"


def test_a_safe_action_that_never_ends_is_part_of_the_clash():
    found = diagnose(waiting())
    assert found.clash == diagnosis.Clash((0, 1), 0, (0, 1), ((1, (1,)),), (0,), (0,))
    assert "run may lead into a dead end in sample 1; wait never reaches a goal in sample 0." in found.lines()[1]


def test_nothing_is_said_where_there_is_too_much_to_remember(monkeypatch):
    monkeypatch.setattr(diagnosis, "MOST_TRANSITIONS", 1)
    found = diagnose(doors())
    assert found.proper == "unknown" and found.clash is None
    assert (
        found.lines()[0]
        == "Whether one policy reaches a goal in every sample is not known: there is too much to remember."
    )


def test_policies_of_other_graphs_are_refused():
    model = weather()
    with pytest.raises(rue.BadInput, match="another graph"):
        diagnose(doors(), rue.Policy.stationary(model, [1, 0, 2]))


def winning(model: rue.UMDP, samples: tuple[int, ...]) -> bool:
    """Whether some policy is proper in these samples: a naive search over (state, samples that are possible)."""
    graph = model.graph

    def outcomes(state, possible):
        for choice in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
            ways = {}
            for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1]):
                left = frozenset(k for k in possible if model.prob[t, k] > 0)
                if left:
                    ways.setdefault((int(graph.successor[t]), left), None)
            yield choice, list(ways)

    start = (graph.initial, frozenset(samples))
    good, todo = {start}, [start]
    while todo:
        for _, ways in outcomes(*todo.pop()):
            todo += [pair for pair in ways if pair not in good]
            good |= set(ways)
    while True:
        usable = {pair: [ways for _, ways in outcomes(*pair) if set(ways) <= good] for pair in good}
        reach = {k: {pair for pair in good if graph.goal[pair[0]]} for k in samples}
        for k in samples:
            while True:
                more = {
                    pair for pair in good - reach[k]
                    if any(way in reach[k] and k in way[1] for ways in usable[pair] for way in ways)
                }  # fmt: skip
                if not more:
                    break
                reach[k] |= more
        kept = {pair for pair in good if all(pair in reach[k] for k in pair[1])}
        if kept == good:
            return start in good
        good = kept


def check_clash(model: rue.UMDP, clash: diagnosis.Clash) -> None:
    graph = model.graph
    alive = [proper_in(model, k)[0] for k in range(model.samples)]
    assert not winning(model, clash.samples)
    for some in itertools.combinations(clash.samples, len(clash.samples) - 1):
        assert winning(model, some)
    assert set(clash.possible) <= set(clash.samples) and set(clash.stuck) <= set(clash.possible)
    own = range(graph.choice_ptr[clash.state], graph.choice_ptr[clash.state + 1])
    deadly = {}
    for choice in own:
        transitions = range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
        deadly[int(graph.action[choice])] = tuple(
            k for k in clash.possible
            if any(model.prob[t, k] > 0 and not alive[k][graph.successor[t]] for t in transitions)
        )  # fmt: skip
    assert clash.safe == tuple(action for action, samples in deadly.items() if not samples)
    assert dict(clash.deadly) == {action: samples for action, samples in deadly.items() if samples}
    assert clash.stuck


def check_lost(model: rue.UMDP, policy: rue.Policy, found: diagnosis.Diagnosis) -> None:
    graph = model.graph
    infinite = {k for k, regret in enumerate(rue.evaluate(model, policy).regret) if math.isinf(regret)}
    assert {k for lost in found.lost for k in lost.samples} == infinite
    for lost in found.lost:
        own = {int(graph.action[c]): c for c in range(graph.choice_ptr[lost.state], graph.choice_ptr[lost.state + 1])}
        for k in lost.samples:
            alive, allowed = proper_in(model, k)
            assert alive[lost.state] and set(lost.actions) <= own.keys()
            assert all(allowed[own[action]] for action in lost.safe)
            if lost.dead_end is not None:
                (action,) = lost.actions
                assert not alive[lost.dead_end] and not allowed[own[action]]
                rows = slice(graph.trans_ptr[own[action]], graph.trans_ptr[own[action] + 1])
                assert (model.prob[rows, k] > 0)[graph.successor[rows] == lost.dead_end].any()


@settings(max_examples=200)
@given(models_with_controllers(Shape(states=4)))
def test_what_is_said_of_a_policy_is_true_and_nothing_is_left_out(model_and_policy):
    model, policy = model_and_policy
    check_lost(model, policy, diagnose(model, policy))


def risky(seed: int) -> rue.UMDP | None:
    """Three samples with supports of one or two states each, and a pit; None if a sample has no policy of its own."""
    random = np.random.default_rng(seed)
    inner, samples, actions = 4, 3, 2
    transition = np.zeros((samples, inner + 2, actions, inner + 2))
    for k, s, a in itertools.product(range(samples), range(inner), range(actions)):
        ends = random.choice(inner + 2, random.integers(1, 3), replace=False)
        transition[k, s, a, ends] = 1 / ends.size
    transition[:, inner, 0, inner] = 1.0
    try:
        return rue.UMDP.from_dense(transition, transition.any(axis=3) * 1.0, initial=0, goals=[inner + 1])
    except rue.BadInput:
        return None


def test_what_is_said_of_a_model_is_true_and_nothing_is_left_out():
    kinds = []
    for model in filter(None, map(risky, range(300))):
        found = diagnose(model)
        exists = winning(model, tuple(range(model.samples)))
        assert (found.proper in ("state", "memory")) == exists == (found.clash is None)
        if found.clash is not None:
            check_clash(model, found.clash)
        kinds.append(found.proper)
    assert {kind: kinds.count(kind) >= 5 for kind in kinds} == {"state": True, "memory": True, "none": True}
