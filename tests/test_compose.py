"""Controllers made smaller: against a naive twin, by the judge, and where nodes differ only far away."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers, umdps
from naive import Naive, controller_value
from numba.types import unliteral

import rue
from rue import controller_kernels as controller
from rue.controllers import handed_over, merged, mix_policies, trimmed
from rue.fallbacks import wandering
from rue.judge import ends_from, node_values

FIELDS = [
    "node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight",
]  # fmt: skip


def entries_of(policy: rue.Policy, node: int) -> list[tuple[int, float, list[int]]]:
    """Choice, weight and next nodes of each entry of a node, in order."""
    return [
        (
            int(policy.choice[e]),
            float(policy.weight[e]),
            policy.next_node[policy.next_ptr[e] : policy.next_ptr[e + 1]].tolist(),
        )
        for e in range(policy.entry_ptr[node], policy.entry_ptr[node + 1])
    ]


def build(graph: rue.Graph, nodes: list, starts: dict[int, float]) -> rue.Policy:
    """A controller from the state and the entries of each node, and the weight of each start node."""
    entries = [entry for _, own in nodes for entry in own]
    return rue.Policy(
        graph=graph,
        node_state=np.array([state for state, _ in nodes]),
        entry_ptr=np.cumsum([0] + [len(own) for _, own in nodes]),
        choice=np.array([choice for choice, _, _ in entries], int),
        weight=np.array([weight for _, weight, _ in entries]),
        next_ptr=np.cumsum([0] + [len(after) for _, _, after in entries]),
        next_node=np.array([node for _, _, after in entries for node in after], int),
        start_node=np.array(list(starts)),
        start_weight=np.array(list(starts.values())),
    )


def naive_trimmed(policy: rue.Policy) -> list[int]:
    """The nodes that can be come to."""
    seen, waiting = set(), [int(node) for node in policy.start_node]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [after for _, _, nexts in entries_of(policy, node) for after in nexts]
    return sorted(seen)


def naive_joined(policy: rue.Policy) -> rue.Policy:
    """One entry for those of a node that do the same."""
    nodes = []
    for node in range(policy.nodes):
        weight: dict[tuple, float] = {}
        for choice, own, after in entries_of(policy, node):
            weight[choice, *after] = weight.get((choice, *after), 0.0) + own
        state = int(policy.node_state[node])
        nodes.append((state, [(choice, own, after) for (choice, *after), own in weight.items()]))
    return build(policy.graph, nodes, dict(zip(policy.start_node.tolist(), policy.start_weight.tolist(), strict=True)))


def naive_merged(policy: rue.Policy) -> rue.Policy:
    """Split the nodes by what they do and by the blocks of their next nodes, until nothing changes."""
    policy = naive_joined(policy)
    nodes = naive_trimmed(policy)
    sorted_entries = {n: sorted(entries_of(policy, n), key=lambda entry: entry[:2]) for n in nodes}
    block = dict.fromkeys(nodes, 0)
    while True:
        key = {
            n: (
                int(policy.node_state[n]),
                block[n],
                tuple((c, w, tuple(block[m] for m in after)) for c, w, after in sorted_entries[n]),
            )
            for n in nodes
        }
        number = {k: i for i, k in enumerate(dict.fromkeys(key[n] for n in nodes))}
        if len(number) == len(set(block.values())):
            break
        block = {n: number[key[n]] for n in nodes}
    block = {n: number[key[n]] for n in nodes}
    first = {block[n]: n for n in reversed(nodes)}
    kept = []
    for i in range(len(first)):
        own = [(c, w, [block[m] for m in after]) for c, w, after in entries_of(policy, first[i])]
        kept.append((int(policy.node_state[first[i]]), own))
    starts: dict[int, float] = {}
    for node, weight in zip(policy.start_node, policy.start_weight, strict=True):
        starts[block[int(node)]] = starts.get(block[int(node)], 0.0) + float(weight)
    small = build(policy.graph, kept, starts)
    return small if naive_joined(small).choice.size == small.choice.size else naive_merged(small)


def same(one: rue.Policy, other: rue.Policy) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


@st.composite
def awkward_controllers(draw: st.DrawFn) -> tuple[rue.UMDP, rue.Policy]:
    """Up to three nodes for each state, in any order, entries in any order and some twice, up to three starts."""
    model = draw(umdps())
    graph = model.graph
    copies = draw(st.integers(1, 3))
    states = draw(st.permutations(list(range(graph.states)) * copies))
    home = {s: [n for n, other in enumerate(states) if other == s] for s in range(graph.states)}
    spread = draw(st.integers(1, copies))  # few next nodes to choose from: many nodes that are alike
    nodes = []
    for state in states:
        own = list(range(graph.choice_ptr[state], graph.choice_ptr[state + 1]))
        weights = draw(st.sampled_from([[1.0], [1.0], [0.5, 0.5], [0.25, 0.75], [0.25, 0.25, 0.5]])) if own else []
        entries = []
        for weight in weights:
            choice = draw(st.sampled_from(own))
            targets = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
            entries.append((choice, weight, [draw(st.sampled_from(home[int(s)][:spread])) for s in targets]))
        nodes.append((state, entries))
    start_weight = {1: [1.0], 2: [0.5, 0.5], 3: [0.25, 0.25, 0.5]}[copies]
    return model, build(graph, nodes, dict(zip(home[graph.initial], start_weight, strict=True)))


def check_merged(model: rue.UMDP, policy: rue.Policy) -> None:
    small = merged(policy)
    assert same(small, naive_merged(policy))
    assert same(merged(small), small)
    naive = Naive(model)
    for k in range(model.samples):
        assert controller_value(naive, small, k) == controller_value(naive, policy, k)
    before, after = rue.evaluate(model, policy), rue.evaluate(model, small)
    np.testing.assert_allclose(after.value, before.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.regret, before.regret, rtol=1e-12, atol=1e-12)


@settings(max_examples=200)
@given(awkward_controllers())
def test_merged_equals_the_naive_twin_and_keeps_all_values(pair):
    check_merged(*pair)


@settings(max_examples=60)
@given(models_with_controllers(Shape(states=4)))
def test_merged_equals_the_naive_twin_where_nodes_lie_in_layers(pair):
    check_merged(*pair)


@settings(max_examples=60)
@given(awkward_controllers())
def test_trimmed_keeps_what_can_be_come_to_and_no_more(pair):
    _, policy = pair
    small = trimmed(policy)
    kept = naive_trimmed(policy)
    assert small.node_state.tolist() == policy.node_state[kept].tolist()
    place = {node: i for i, node in enumerate(kept)}
    for i, node in enumerate(kept):
        wanted = [(c, w, [place[m] for m in after]) for c, w, after in entries_of(policy, node)]
        assert entries_of(small, i) == wanted
    assert small.start_node.tolist() == [place[int(node)] for node in policy.start_node]
    assert (small.start_weight == policy.start_weight).all()
    assert trimmed(small) is small


@settings(max_examples=60)
@given(umdps(), st.integers(1, 4), st.data())
def test_unrolled_copies_of_a_stationary_policy_become_it_again(model, copies, data):
    graph = model.graph
    eighths = data.draw(st.lists(st.integers(1, 8), min_size=graph.choices, max_size=graph.choices))
    total = np.bincount(graph.choice_state, weights=eighths, minlength=graph.states)
    policy = rue.Policy.from_weights(graph, np.array(eighths) / total[graph.choice_state])
    unrolled = []
    for copy, state in itertools.product(range(copies), range(graph.states)):
        ahead = graph.states * ((copy + 1) % copies)
        unrolled.append((state, [(c, w, [m + ahead for m in after]) for c, w, after in entries_of(policy, state)]))
    small = merged(build(graph, unrolled, {graph.initial: 1.0}))
    wanted = trimmed(policy)
    assert small.is_stationary

    def by_state(one: rue.Policy) -> dict:
        return {int(s): [entry[:2] for entry in entries_of(one, n)] for n, s in enumerate(one.node_state)}

    assert by_state(small) == by_state(wanted)
    assert small.start_node.size == 1 and small.start_weight[0] == 1.0


def coin_model() -> rue.UMDP:
    """At 0 two actions go on at 0 or end at the goal 1; the second one costs more."""
    transition = np.zeros((1, 2, 2, 2))
    transition[0, 0] = [[0.5, 0.5], [0.25, 0.75]]
    return rue.UMDP.from_dense(transition, np.array([[[1.0, 2.0], [0, 0]]]), goals=[1])


def ring(choices: list[int], start: dict[int, float] | None = None) -> rue.Policy:
    """Nodes of state 0 one after the other, the last before the first, with these choices; then a node of the goal."""
    graph, count = coin_model().graph, len(choices)
    nodes = [(0, [(choice, 1.0, [(n + 1) % count, count])]) for n, choice in enumerate(choices)]
    return build(graph, [*nodes, (1, [])], start or {0: 1.0})


@pytest.mark.parametrize("length", [1, 2, 7, 64, 1000])
def test_rings(length):
    assert same(merged(ring([0] * length)), ring([0]))
    assert merged(ring([0] * length + [1])).nodes == length + 2  # each is another distance from the odd one
    assert same(merged(ring(([0] * length + [1]) * 5)), ring([0] * length + [1]))


def test_two_ways_that_differ_only_far_away():
    # Two rings apart, with a start in each: they differ in the last node alone, or in nothing.
    length = 300
    for odd, wanted in ((0, 2), (1, length + 2)):
        one, other = ring([0] * length), ring([0] * (length - 1) + [odd])
        both = mix_policies([one, other], np.array([0.25, 0.75]))
        assert both.nodes == wanted
        assert both.start_node.size == 1 + odd
        assert both.start_weight.sum() == 1.0


def test_weights_that_differ_in_the_last_digit_are_different():
    graph = coin_model().graph
    nodes = [
        (0, [(0, weight, [n, 4]), (1, 1 - weight, [n, 4])])
        for n, weight in enumerate([0.25, np.nextafter(0.25, 1), 0.25, 0.75])
    ]
    nodes.append((1, []))
    nodes.append((0, [(1, 0.25, [5, 4]), (0, 0.75, [3, 4])]))  # as node 3, with its entries the other way round
    small = merged(build(graph, nodes, {0: 0.5, 1: 0.125, 2: 0.125, 3: 0.125, 5: 0.125}))
    assert small.node_state.tolist() == [0, 0, 0, 1]
    assert small.start_node.tolist() == [0, 1, 2]
    assert small.start_weight.tolist() == [0.625, 0.125, 0.25]


def test_entries_that_do_the_same_are_one():
    """Once the two nodes of state 0 are merged, so are the draws of the start between them, and it is as the others."""
    graph = rue.Builder().add("s", "go", {"a": 1.0}).add("a", "go", {"g": 1.0}).goal("g").build().graph
    nodes = [(0, [(0, 0.25, [1]), (0, 0.75, [2])]), (1, [(1, 1.0, [3])]), (1, [(1, 0.5, [3]), (1, 0.5, [3])]), (2, [])]
    small = merged(build(graph, [*nodes, (0, [(0, 1.0, [1])])], {0: 0.5, 4: 0.5}))
    assert small.node_state.tolist() == [0, 1, 2]
    assert small.choice.tolist() == [0, 1] and small.weight.tolist() == [1.0, 1.0]
    assert small.start_weight.tolist() == [1.0]


def test_starts_add_up_and_the_order_of_nodes_stays():
    policy = ring([0, 1, 0, 1], {2: 0.25, 1: 0.125, 0: 0.5, 3: 0.125})
    small = merged(policy)
    assert small.start_node.tolist() == [0, 1] and small.start_weight.tolist() == [0.75, 0.25]
    assert small.choice.tolist() == [0, 1]


def test_a_policy_that_is_as_small_as_can_be_is_returned():
    policy = ring([0, 0, 1])
    assert merged(policy) is policy


def test_a_goal_at_once():
    model = rue.UMDP.from_dense(np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1)), goals=[0])
    graph = model.graph
    both = build(graph, [(0, []), (0, [])], {1: 0.5, 0: 0.5})
    assert merged(both).nodes == 1 and merged(both).start_weight.tolist() == [1.0]


def test_long_controllers_do_not_take_long():
    # What tells these nodes apart is up to 100,000 steps away: sweeps over all nodes would take hours.
    odd = ring([0] * 100_000 + [1])
    assert merged(odd) is odd
    assert merged(ring([0] * 100_000)).nodes == 2


def test_mixtures_of_equal_policies_are_one():
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(4, seed=1)
    policy = rue.solve(model, rue.Regret(3, "history")).policy
    other = rue.solve(model, rue.Average()).policy
    mixed = mix_policies([policy, other, policy], np.array([0.25, 0.5, 0.25]))
    assert mixed.nodes <= merged(policy).nodes + merged(other).nodes
    assert mixed.start_node.size == 2
    parts = np.column_stack([rue.evaluate(model, p).regret for p in (policy, other)])
    np.testing.assert_allclose(rue.evaluate(model, mixed).regret, parts.mean(axis=1), atol=1e-9)


def test_kernels_are_compiled_once():
    merged(ring([0, 1]))
    for kernel in vars(controller).values():
        if hasattr(kernel, "signatures"):
            assert len({tuple(map(unliteral, signature)) for signature in kernel.signatures}) <= 1, kernel.__name__


@settings(max_examples=80, deadline=None)
@given(models_with_controllers(Shape(states=4, samples=3)))
def test_a_controller_that_hands_over_ends_wherever_the_other_one_does(pair):
    model, policy = pair
    ends = ends_from(model, policy)
    assert (ends == np.isfinite(node_values(model, policy)[0])).all()
    lost, other = ~ends.all(axis=1), wandering(model)
    safer = handed_over(policy, lost, other)
    if ends_from(model, other).all():
        assert ends_from(model, safer).all()
    # Where it comes to no lost node, nothing has changed.
    before, after = rue.evaluate(model, policy), rue.evaluate(model, safer)
    met = np.array([any(lost[node] for node in possible_nodes(model, policy, k)) for k in range(model.samples)])
    np.testing.assert_allclose(after.value[~met], before.value[~met], rtol=1e-9, atol=1e-9)


def possible_nodes(model: rue.UMDP, policy: rue.Policy, sample: int) -> set[int]:
    """The nodes that a policy may come to in a sample."""
    trans_ptr = model.graph.trans_ptr
    seen, waiting = set(), [int(n) for n, w in zip(policy.start_node, policy.start_weight, strict=True) if w > 0]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            for choice, _, nexts in entries_of(policy, node):
                live = model.prob[trans_ptr[choice] : trans_ptr[choice + 1], sample] > 0
                waiting += [after for after, can in zip(nexts, live, strict=True) if can]
    return seen
