"""Agents: what they do with each draw, what they believe, and what they do after unknown outcomes."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers

import rue
from rue.agent import usual_fallback
from rue.judge import ends_from, node_values
from rue.structure import jointly_proper


class Script(np.random.Generator):
    """A generator whose numbers are fixed."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def branches(chances):
    """Return for each chance its number, and a draw within its part of [0, 1): beginning, middle, or near the end."""
    found, total = [], 0.0
    for place, chance in enumerate(chances):
        if chance > 0:
            found += [(place, chance / 3, total + part * chance) for part in (0.0, 0.5, 0.9999)]
        total += chance
    return found


def paths_of(model, policy, sample, depth):
    """Return all paths up to a depth, by plain recursion: (probability, nodes, choices, transitions, draws)."""
    graph, finished = model.graph, []

    def go(chance, nodes, choices, transitions, draws):
        node = nodes[-1]
        if graph.goal[policy.node_state[node]] or len(choices) == depth:
            finished.append((chance, nodes, choices, transitions, draws))
            return
        entries = range(policy.entry_ptr[node], policy.entry_ptr[node + 1])
        for e, p, draw in branches([policy.weight[e] for e in entries])[1::3]:
            entry = entries[e]
            choice = int(policy.choice[entry])
            first, end = graph.trans_ptr[choice : choice + 2].tolist()
            for j, q, other in branches(model.prob[first:end, sample])[1::3]:
                after = int(policy.next_node[policy.next_ptr[entry] + j])
                go(
                    chance * Fraction(3 * p) * Fraction(3 * q), [*nodes, after], [*choices, choice],
                    [*transitions, first + j], [*draws, draw, other],
                )  # fmt: skip

    for place, p, draw in branches(policy.start_weight)[1::3]:
        go(Fraction(3 * p), [int(policy.start_node[place])], [], [], [draw])
    return finished


@given(models_with_controllers(), st.data())
@settings(max_examples=60)
def test_every_draw_gives_the_path_that_enumeration_gives(pair, data):
    """The agent follows each path of the enumeration for the draws that lead to it; the paths are all there are, and
    with the judge's values at their ends they cost what the judge says."""
    model, policy = pair
    sample = data.draw(st.integers(0, model.samples - 1))
    paths = paths_of(model, policy, sample, depth=3)
    assert sum(chance for chance, *_ in paths) == pytest.approx(1, abs=1e-12)
    value = node_values(model, policy)[0][:, sample]
    expected = 0.0
    for chance, nodes, choices, transitions, draws in paths:
        agent = policy.agent(model, seed=Script([draws[0], *draws[1::2]]))
        for i, (choice, transition) in enumerate(zip(choices, transitions, strict=True)):
            assert (agent.node, agent.done) == (nodes[i], False)
            assert agent.act() == agent.act() == model.graph.action[choice]
            agent.observe(int(model.graph.successor[transition]))
        assert (agent.node, agent.steps, agent.unknown_outcomes) == (nodes[-1], len(choices), 0)
        likelihood = model.weight * model.prob[transitions].prod(axis=0)
        assert agent.belief == pytest.approx(likelihood / likelihood.sum())
        expected += float(chance) * (sum(model.cost[choices, sample]) + value[nodes[-1]])
    cost = rue.evaluate(model, policy).value[sample]
    assert cost == pytest.approx(expected, rel=1e-9) or cost == expected == np.inf


@given(models_with_controllers(Shape(dead_ends=False)), st.integers(0, 99))
@settings(max_examples=40)
def test_an_agent_and_simulate_agree_draw_by_draw(pair, seed):
    model, policy = pair
    runs = rue.simulate(model, policy, sample=0, episodes=20, seed=seed, max_steps=50)
    random = np.random.default_rng(seed)
    agent = policy.agent(model, seed=random)
    for cost, steps, reached in zip(runs.cost, runs.steps, runs.reached, strict=True):
        agent.reset()
        paid = 0.0
        while not agent.done and agent.steps < 50:
            paid += take_a_step(model, agent, random)
        assert (paid, agent.steps, agent.done) == (cost, steps, reached)


def take_a_step(model, agent, random, sample=0):
    """Let the agent act in a sample; return the cost."""
    graph, action, here = model.graph, agent.act(), agent.state_number
    choice = graph.choice_ptr[here] + list(graph.action[graph.choice_ptr[here] : graph.choice_ptr[here + 1]]).index(
        action
    )
    row = slice(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
    prob, draw = model.prob[row, sample], random.random()
    taken = -1
    for place, chance in enumerate(prob):
        if chance > 0:
            taken, draw = place, draw - chance
            if draw < 0:
                break
    agent.observe(int(graph.successor[row][taken]))
    return model.cost[choice, sample]


def hall():
    """Two samples; only in the second a door can be locked. Nothing leads from the hall to the attic."""
    builder = rue.Builder(["open", "locked"])
    builder.add("hall", "walk", {"door": [1.0, 0.5], "hall": [0.0, 0.5]}, cost=1.0)
    builder.add("hall", "call", {"out": 1.0}, cost=3.0)
    builder.add("door", "push", {"out": [1.0, 0.5], "hall": [0.0, 0.5]}, cost=0.5)
    builder.add("attic", "climb", {"hall": 1.0}, cost=9.0)
    builder.add("attic", "jump", {"out": 1.0}, cost=2.0)
    return builder.goal("out").build()


HALL = hall()
WALK = rue.Policy.stationary(HALL, ["walk", "push", "call", "climb"])


def test_names_numbers_and_the_goal():
    agent = WALK.agent(HALL, seed=1)
    assert (agent.state, agent.state_number, agent.node, agent.done) == ("hall", 0, 0, False)
    assert (agent.act(), agent.act(), agent.action_number) == ("walk", "walk", 0)
    agent.observe("door")
    assert (agent.state, agent.act()) == ("door", "push")
    agent.observe(HALL.graph.state_number["out"])
    assert agent.done and agent.steps == 2 and repr(agent) == "Agent(state out, node 2, 2 steps, done)"
    with pytest.raises(rue.BadInput, match=r"the agent is at the goal out; expected reset\(\) before it acts again"):
        agent.act()
    with pytest.raises(rue.BadInput, match=r"the agent in state out has not acted; expected act\(\)"):
        agent.observe("out")
    agent.reset()
    assert (agent.state, agent.steps, agent.belief.tolist()) == ("hall", 0, [0.5, 0.5])


def test_without_a_model_there_is_no_belief():
    agent = WALK.agent(seed=1)
    assert (agent.belief, agent.act()) == (None, "walk")
    agent.observe("door")
    assert agent.act() == "push"


def test_models_without_names_have_numbers():
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)
    graph = rue.Graph(*(getattr(model.graph, name) for name in ("choice_ptr", "action", "trans_ptr", "successor")), 0)
    agent = rue.Policy.from_choices(graph, graph.choice_ptr[:-1]).agent(seed=1)
    assert (agent.state, agent.act()) == (0, 0)
    with pytest.raises(rue.BadInput, match=r"the state 9999 is out of range; expected 0 to"):
        agent.observe(9999)


@pytest.mark.parametrize(
    ("state", "line"),
    [("dor", "unknown state 'dor'; did you mean 'door'?"), (4, "the state 4 is out of range; expected 0 to 3"),
     (-1, "the state -1 is out of range"), (True, "the state is True; expected a whole number"),
     (None, "the state is None"), (0.0, "the state is 0.0")],
)  # fmt: skip
def test_states_that_do_not_exist(state, line):
    agent = WALK.agent(HALL, seed=1)
    agent.act()
    with pytest.raises(rue.BadInput, match=line.replace("?", r"\?")) as told:
        agent.observe(state)
    assert len(str(told.value).splitlines()) == 1 and agent.state == "hall"
    agent.observe("door")
    assert agent.state == "door"


def after_an_impossible_outcome(agent):
    """Be told that the door could not be opened and then that it is the sample where it always can."""
    agent.act()
    agent.observe("hall")
    agent.act()
    agent.observe("attic")


def test_an_unknown_outcome_is_refused():
    agent = WALK.agent(HALL, seed=1)
    line = (
        r"action \"walk\" of state hall cannot lead to state attic; expected another state, or an agent with unknown="
    )
    with pytest.raises(rue.BadInput, match=line):
        after_an_impossible_outcome(agent)
    assert (agent.state, agent.steps, agent.unknown_outcomes, agent.belief.tolist()) == ("hall", 1, 0, [0, 1])
    agent.observe("door")
    assert agent.state == "door"


def test_an_unknown_outcome_and_a_fallback():
    jump = rue.Policy.stationary(HALL, ["call", "push", "call", "jump"])
    for spare, does in ((jump, "jump"), (None, "jump"), (WALK, "climb")):
        agent = WALK.agent(HALL, seed=1, unknown="fallback", fallback=spare)
        after_an_impossible_outcome(agent)
        assert (agent.state, agent.node, agent.act(), agent.unknown_outcomes) == ("attic", None, does, 1)
        assert agent.belief.tolist() == [0, 1]
    agent.observe("hall")  # the fallback goes on, now WALK itself
    assert (agent.node, agent.act()) == (None, "walk") and "the fallback acts" in repr(agent)
    agent.observe("out")  # which walking cannot do either
    assert agent.done and agent.unknown_outcomes == 2
    agent.reset()
    assert (agent.node, agent.unknown_outcomes) == (0, 0)


def two_attics():
    """A policy with two nodes in the attic, of which one climbs down and calls, the other jumps."""
    names = HALL.graph.state_number
    node_state = [names[s] for s in ("hall", "door", "out", "attic", "attic")]
    words = [HALL.graph.describe_choice(c).partition(" (")[2] for c in range(HALL.graph.choices)]
    wanted = (("hall", "walk"), ("door", "push"), ("attic", "climb"), ("attic", "jump"))
    choice = [words.index(f'state {state}, action "{action}")') for state, action in wanted]
    node_of = {names["hall"]: 0, names["door"]: 1, names["out"]: 2}
    following = [
        [node_of[int(s)] for s in HALL.graph.successor[HALL.graph.trans_ptr[c] : HALL.graph.trans_ptr[c + 1]]]
        for c in choice
    ]
    lengths = np.cumsum([0, *map(len, following)])
    return rue.Policy(
        HALL.graph, node_state, [0, 1, 2, 2, 3, 4], choice, np.ones(4), lengths, np.concatenate(following), [0], [1.0]
    )


def test_an_unknown_outcome_and_the_nearest_node():
    policy = two_attics()
    agent = policy.agent(HALL, seed=1, unknown="nearest")
    after_an_impossible_outcome(agent)
    value = node_values(HALL, policy)[0]
    assert (value[3] > value[4]).all() and agent.node == 4 and agent.act() == "jump"
    agent.observe("out")
    assert agent.done and agent.unknown_outcomes == 1


def test_the_nearest_node_depends_on_the_belief():
    """With memory: one node walks, the other calls. Who believes in the open door walks."""
    walk = rue.Policy.stationary(HALL, ["walk", "push", "call", "jump"])
    call = rue.Policy.stationary(HALL, ["call", "push", "call", "jump"])
    both = mixed(walk, call)
    for weight, does in (([1.0, 0.0], "walk"), ([0.0, 1.0], "call")):
        agent = both.agent(HALL.with_weight(weight), seed=1, unknown="nearest")
        agent.act()
        agent.observe("attic")
        agent.act()
        agent.observe("hall")  # jumping out of the window cannot lead there
        assert (agent.act(), agent.unknown_outcomes) == (does, 2)


def mixed(first, second):
    from rue.controllers import part_of, put_together

    parts = [part_of(first), part_of(second, first.nodes)]
    return put_together(first.graph, parts, np.array([0, first.nodes]), np.array([0.5, 0.5]))


def test_where_the_policy_has_no_node_for_the_state():
    from rue.controllers import trimmed

    small = trimmed(WALK)  # the attic cannot be reached
    with pytest.raises(rue.BadInput, match=r"cannot lead to state attic; expected a policy with a node for this state"):
        after_an_impossible_outcome(small.agent(HALL, seed=1, unknown="nearest"))
    agent = small.agent(HALL, seed=1, unknown="nearest", fallback=WALK)
    after_an_impossible_outcome(agent)
    assert (agent.node, agent.act()) == (None, "climb")
    with pytest.raises(rue.BadInput, match="expected a fallback with a node for this state"):
        after_an_impossible_outcome(WALK.agent(HALL, seed=1, unknown="fallback", fallback=small))


def test_when_every_sample_is_ruled_out_it_is_told():
    builder = rue.Builder(2)
    builder.add("a", "go", {"b": [1.0, 0.0], "c": [0.0, 1.0]}, cost=1.0)
    for state in ("b", "c"):
        builder.add(state, "go", {"a": [0.5, 0.5], "end": [0.5, 0.5]}, cost=1.0)
    model = builder.goal("end").build()
    policy = rue.Policy.stationary(model, ["go", "go", "go", "go"])
    agent = policy.agent(model, seed=1)
    agent.act()
    agent.observe("b")
    agent.act()
    agent.observe("a")
    agent.act()
    line = r"leads to state c in none of the samples that are still possible \(1 of 2\); expected another state"
    with pytest.raises(rue.BadInput, match=line):
        agent.observe("c")
    assert agent.belief.tolist() == [1, 0]
    for rule in ("fallback", "nearest"):
        other = policy.agent(model, seed=1, unknown=rule)
        for state in ("b", "a", "c"):
            other.act()
            other.observe(state)
        assert (other.state, other.unknown_outcomes, other.belief.tolist()) == ("c", 1, [1, 0])


def test_beliefs_do_not_underflow():
    """After two thousand outcomes that are a million times as likely in one sample, as many turn it round."""
    builder = rue.Builder(2)
    rare = 1e-6
    builder.add("a", "go", {"b": [rare, 0.5], "c": [0.5, rare], "end": [0.5 - rare, 0.5 - rare]}, cost=1.0)
    for state in ("b", "c"):
        builder.add(state, "back", {"a": 1.0}, cost=0.0)
    model = builder.goal("end").build()
    agent = rue.Policy.stationary(model, ["go", "back", "back", "go"]).agent(model, seed=1)

    def see(state, times):
        for _ in range(times):
            for reached in (state, "a"):
                agent.act()
                agent.observe(reached)

    see("b", 2000)
    assert agent.belief.tolist() == [0, 1]
    see("c", 1999)
    assert agent.belief == pytest.approx([rare / (0.5 + rare), 0.5 / (0.5 + rare)])
    see("c", 2)
    assert agent.belief == pytest.approx([0.5 / (0.5 + rare), rare / (0.5 + rare)])


def test_a_sample_of_weight_zero_may_be_the_truth():
    agent = WALK.agent(HALL.with_weight([1.0, 0.0]), seed=1)
    assert agent.belief.tolist() == [1, 0]
    agent.act()
    agent.observe("hall")
    assert agent.belief.tolist() == [0, 1]


def twins():
    """One action with two outcomes in the same state, of which a policy remembers which it was."""
    graph = rue.Graph([0, 1, 2, 2], [0, 0], [0, 2, 3], [1, 1, 2], 0)
    model = rue.UMDP(graph, [[0.25, 0.5], [0.75, 0.5], [1.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]])
    same = rue.Policy.from_choices(graph, [0, 1, -1])
    tells = rue.Policy(graph, [0, 1, 1, 2], [0, 1, 2, 3, 3], [0, 1, 1], [1, 1, 1], [0, 2, 3, 4], [1, 2, 3, 3], [0], [1])
    return model, same, tells


def test_two_outcomes_in_one_state():
    model, same, tells = twins()
    agent = same.agent(model, seed=1)
    agent.act()
    agent.observe(1)
    assert agent.belief.tolist() == [0.5, 0.5]
    agent = tells.agent(model, seed=1)
    agent.act()
    line = r'action "0" of state 0 leads to state 1 by 2 outcomes that the policy tells apart; expected outcome=0 or 1'
    with pytest.raises(rue.BadInput, match=line):
        agent.observe(1)
    for wrong in (2, "0", True, [0]):
        with pytest.raises(rue.BadInput, match=r"the outcome of action .* expected outcome=0 or 1"):
            agent.observe(1, outcome=wrong)
    agent.observe(1, outcome=1)
    assert agent.node == 2 and agent.belief == pytest.approx([0.6, 0.4])


@given(models_with_controllers())
@settings(max_examples=60)
def test_the_usual_fallback_ends_where_it_should(pair):
    model, _ = pair
    fallback = usual_fallback(model)
    assert fallback.is_stationary
    alive = jointly_proper(model, everywhere=True)[0]
    assert ends_from(model, fallback)[alive].all()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"unknown": "nearst"}, "unknown rule for unknown outcomes 'nearst'; did you mean 'nearest'?"),
        ({"unknown": "nearest"}, "unknown is 'nearest' without a model"),
        ({"unknown": "fallback"}, "unknown is 'fallback' without a model"),
        ({"fallback": WALK}, "a fallback is given, and unknown is 'refuse'"),
        ({"model": twins()[0]}, "the policy is for another graph"),
        ({"unknown": "fallback", "fallback": twins()[1]}, "the fallback is for another graph"),
        ({"unknown": "fallback", "fallback": two_attics()}, "the fallback has 5 nodes; expected a stationary policy"),
        ({"seed": -1}, "the seed is -1; expected a whole number, 0 or more"),
    ],
)
def test_agents_that_cannot_be_made(arguments, line):
    with pytest.raises(rue.BadInput) as told:
        WALK.agent(**{"seed": 1, **arguments})
    assert line in str(told.value) and len(str(told.value).splitlines()) == 1
