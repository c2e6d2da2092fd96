"""Cassandra's .pomdp files: what rue writes comes back, what others write is read, the rest is refused in one line."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rue
from tests.foreign import assert_same, named_models, refusal, values, written
from tests.test_pomdpx import KNOWN, least, reward_values

# A door that one of two keys opens; which one is hidden. Inside, it does not matter any more.
DOOR = """# keys and a door
discount: 0.9
values: reward
states: out-red out-blue in
actions: red blue
observations: out in
start: 0.5 0.5 0.0

T: *
identity
T: red : out-red
0.2 0.0 0.8
T: blue : out-blue : out-blue 0.2
T: blue : out-blue : in 0.8

O: *
1.0 0.0
1.0 0.0
0.0 1.0

R: * : * : * : * -1.0
R: * : * : in : * 9.0
R: * : in : * : * 0.0
"""
# The same, with numbers for names, and each table written in another way.
NUMBERS = """discount:0.9
values:cost
states:3
actions:2
observations:2
start include: 0 1
T:0 : 0
0.2 0 0.8
T:1:0 0.99999990 0 0.0000001
T:* : 1 uniform
T: * : 1 : 0 0
T: 0 : 1 : 1 1  T: 0 : 1 : 2 0
T: 1 : 1 : 1 +2.0e-1
T: 1 : 1 : 2 8e-1 # a comment
T: 1 : 0 : 2 0.0
T: 1 : 0 : 0 1
T: * : 2
0
0
1
O:*:0
1 0
O:*:1
1 0
O:*:2:0 0
O:*:2:1 1
R: * : 0
1 1
1 1
1 -9
R: * : 1 : 2 1 -9
R: * : 1 : 1
1 1
"""


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("pomdp") / "m.pomdp"
    rue.save(path, model)
    assert_same(model, rue.load(path))


def test_a_discounted_model_keeps_its_discount(tmp_path):
    builder = rue.Builder(2, discount=0.75).add("a", "go", {"a": [0.5, 0.25], "b": [0.5, 0.75]}, cost=-1.0)
    model = builder.add("b", "go", {"a": 1.0}, cost=[2.0, 3.0]).build()
    rue.save(tmp_path / "m.pomdp", model)
    assert "discount: 0.75\n" in (tmp_path / "m.pomdp").read_text()
    assert_same(model, rue.load(tmp_path / "m.pomdp"))


@pytest.mark.parametrize("text", [DOOR, NUMBERS], ids=["names", "numbers"])
def test_wildcards_identity_matrices_and_a_shared_state(text, tmp_path):
    model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert model.samples == 2
    assert model.weight.tolist() == [0.5, 0.5]
    assert model.units.reward == (text is DOOR)
    sign = 1 if text is DOOR else -1
    assert [sign * value for value in reward_values(model)] == pytest.approx([KNOWN, KNOWN], abs=1e-6)


def test_names_come_from_observations_and_first_states(tmp_path):
    model = rue.load(written(tmp_path, {"m.pomdp": DOOR}) / "m.pomdp")
    assert model.graph.state_label[:2] == ("out", "in")
    assert model.graph.action_label == ("red", "blue")
    assert model.sample_label == ("out-red", "out-blue")


def test_a_mark_windows_lines_stray_bytes_and_an_unknown_ending(tmp_path):
    text = "\ufeff" + DOOR.replace("\n", "\r\n").replace("identity", "identity # stay") + "\x00\x1a"
    assert reward_values(rue.load(written(tmp_path, {"m.txt": text}) / "m.txt")) == pytest.approx([KNOWN] * 2, abs=1e-6)


def test_rows_of_seven_digits_are_divided_by_their_sums(tmp_path):
    """Also probabilities of the start and of an observation."""
    text = DOOR.replace("0.2 0.0 0.8", "0.2000001 0.0 0.8").replace("in 0.8\n", "in 0.7999999\n")
    text = text.replace("0.5 0.5 0.0", "0.4999999 0.5 0.0").replace("0.0 1.0\n\nR", "0.0 0.9999999\n\nR")
    model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert np.add.reduceat(model.prob, model.graph.trans_ptr[:-1], axis=0) == pytest.approx(1, abs=1e-12)
    assert model.weight.sum() == pytest.approx(1, abs=1e-12)
    assert reward_values(model) == pytest.approx([KNOWN] * 2, abs=1e-5)


def test_states_that_are_never_reached_are_left_out_and_told(tmp_path, caplog):
    text = DOOR.replace("blue in\n", "blue in lost\n").replace("0.0 1.0\n\nR", "0.0 1.0\n1.0 0.0\n\nR")
    text = text.replace("start: 0.5 0.5 0.0", "start exclude: in lost").replace("0.2 0.0 0.8", "0.2 0.0 0.8 0.0")
    with caplog.at_level(logging.WARNING, "rue"):
        model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert reward_values(model) == pytest.approx([KNOWN] * 2, abs=1e-6)
    assert "1 of 4 states are never reached" in caplog.text


def test_a_state_that_one_sample_never_reaches_gets_the_rows_of_another(tmp_path, caplog):
    """In one sample the door leads into a hall, in the other into a cellar."""
    text = """discount: 0.5
values: cost
states: a-door b-door a-hall b-cellar end
actions: go
observations: door hall cellar end
start: 0.25 0.75 0 0 0
T: go : a-door : a-hall 1
T: go : b-door : b-cellar 1
T: go : a-hall : end 1
T: go : b-cellar : end 1
T: go : end : end 1
O: * : a-door : door 1
O: * : b-door : door 1
O: * : a-hall : hall 1
O: * : b-cellar : cellar 1
O: * : end : end 1
R: go : a-hall : * : * 4
R: go : b-cellar : * : * 8
"""
    with caplog.at_level(logging.WARNING, "rue"):
        model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert reward_values(model) == pytest.approx([2, 4])
    assert model.weight.tolist() == [0.25, 0.75]
    assert "2 states are not reached in every sample" in caplog.text


def test_a_file_without_observations_is_an_mdp(tmp_path):
    text = "discount: 1.0\nvalues: cost\nstates: a b c\nactions: go wait\nT: *\nidentity\n"
    text += "T: go : a\n0 0.5 0.5\nT: * : b : b 0\nT: * : b : a 1\nT: wait : a : c 1\nT: wait : a : a 0\n"
    text += "R: go : a : * 1\nR: wait : a : c 3\nR: * : b\n1 1 1\n"
    model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert model.graph.state_label == ("a", "b", "c")
    assert values(model) == [3]
    same = text.replace("T: *\nid", "start: a\nT: *\nid")
    assert values(rue.load(written(tmp_path, {"n.pomdp": same}) / "n.pomdp")) == [3]


def test_rewards_of_next_states_where_there_are_as_many_transitions_as_choices(tmp_path):
    """State 2 is never reached and leads nowhere; state 0 leads to two, and one of them pays."""
    text = """discount: 0.9
values: reward
states: 3
actions: 1
start: 0
T: 0 : 0
0.5 0.5 0
T: 0 : 1 : 1 1.0
R: 0 : 0 : 1 8
"""
    model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert reward_values(model) == pytest.approx([4 / (1 - 0.45)], abs=1e-9)


def test_a_reset_goes_back_to_the_start(tmp_path):
    text = DOOR.replace("start: 0.5 0.5 0.0", "start: out-red") + "T: blue : out-red reset\n"
    model = rue.load(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert model.samples == 1
    assert reward_values(model) == pytest.approx([KNOWN], abs=1e-6)


def plain(path) -> tuple:
    """The lines that rue writes, as dense arrays, read without any of its code."""
    head, rest = {}, []
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("discount", "states", "actions", "observations"):
            head[key] = float(value)
        elif key in ("T", "O", "R"):
            rest.append(line.replace(":", " ").split())
    text = path.read_text()
    start = np.array(text[text.index("start:") + 6 : text.index("O:")].split(), float)
    states, actions = int(head["states"]), int(head["actions"])
    prob, reward, seen = np.zeros((actions, states, states)), np.zeros((actions, states)), np.zeros(states, int)
    for key, *words in rest:
        action = slice(None) if words[0] == "*" else int(words[0])
        if key == "T":
            prob[action, int(words[1]), int(words[2])] = float(words[3])
        elif key == "R":
            reward[action, int(words[1])] = float(words[4])
        else:
            seen[int(words[1])] = int(words[2])
    return head["discount"], start, prob, reward, seen


def best(file, belief: np.ndarray, steps: int) -> float:
    """The largest discounted reward at a belief over the states of the file, by going through all histories."""
    discount, _, prob, reward, seen = file
    if steps == 0 or not belief.any():
        return 0.0
    found = []
    for action in range(len(prob)):
        value, after = float(belief @ reward[action]), belief @ prob[action]
        for observation in np.unique(seen[after > 0]):
            value += discount * best(file, np.where(seen == observation, after, 0.0), steps - 1)
        found.append(value)
    return max(found)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_value_at_the_belief_is_that_of_backward_induction(seed, tmp_path_factory):
    random = np.random.default_rng(seed)
    samples, states = int(random.integers(1, 4)), 5
    transition, cost = np.zeros((samples, states, 2, states)), random.integers(0, 9, (samples, states, 2)) / 4
    for k, s, a in np.ndindex(samples, states - 1, 2):
        transition[k, s, a, s + 1 :] = random.dirichlet(np.ones(states - 1 - s)) * 0.75
        transition[k, s, a, -1] += 0.25
    weight = random.dirichlet(np.ones(samples))
    model = rue.UMDP.from_dense(transition, cost, goals=[states - 1], weight=weight)
    path = tmp_path_factory.mktemp("pomdp") / "m.pomdp"
    rue.save(path, model)
    file = plain(path)
    assert file[0] < 1
    assert np.allclose(file[2].sum(axis=2), 1)
    assert -best(file, file[1], 5) == pytest.approx(least(model, 0, model.weight), abs=1e-9)


WRONG = {
    "a noisy observation": (
        DOOR.replace("O: *\n1.0 0.0\n", "O: *\n0.9 0.1\n"),
        "line 16: the observation in state out-red after action red is uncertain; expected one that tells the state",
    ),
    "an observation of the action": (
        DOOR.replace("R: * : * : * : *", "O: blue : in : out 1.0\nO: blue : in : in 0.0\nR: * : * : * : *"),
        "the observation in state in after action blue depends on the action",
    ),
    "a hidden part that switches": (
        DOOR.replace("0.2 0.0 0.8", "0.1 0.1 0.8"),
        "m.pomdp: from out-red, both out-red and out-blue may follow, and both give the observation out; expected an "
        "observation that tells the state, and a hidden part that never changes",
    ),
    "no start": (DOOR.replace("start: 0.5 0.5 0.0\n", ""), "m.pomdp: there is no start:"),
    "different first states": (
        DOOR.replace("start: 0.5 0.5 0.0", "start: uniform"),
        "m.pomdp: the first state may be out-red or in, which look different",
    ),
    "no discount": (DOOR.replace("discount: 0.9\n", ""), "line 6: there is no discount: before it"),
    "no states": (DOOR.replace("states: out-red out-blue in\n", ""), "line 6: there is no states: before it"),
    "empty": ("# nothing\n", "m.pomdp: there is no states: before it"),
    "no format": ("hello: world\n", "line 1: 'hello : world'; expected discount: or states:"),
    "a word for a discount": (DOOR.replace("0.9", "high"), "line 2: the discount is 'high'"),
    "odd values": (DOOR.replace("values: reward", "values: money"), "line 3: values is 'money'; expected reward or"),
    "a name twice": (DOOR.replace("out-red out-blue in", "in out-red in"), "line 4: states has 'in' twice"),
    "no number of states": (DOOR.replace("states: out-red out-blue in", "states: 0"), "line 4: states is '0'"),
    "states twice": (DOOR.replace("values: reward", "states: 3"), "line 4: states is there twice"),
    "an unknown state": (DOOR.replace("out-blue : in 0.8", "out-blue : up 0.8"), "line 14: there is no state 'up'"),
    "an unknown action": (DOOR.replace("T: red", "T: green"), "line 11: there is no action 'green'; expected one of"),
    "a number out of range": (NUMBERS.replace("T:1:0", "T:7:0"), "line 9: there is no action '7'; expected 0 to 1"),
    "too few numbers": (DOOR.replace("0.2 0.0 0.8", "0.2 0.8"), "line 12: T has 2 numbers; expected 3"),
    "a word in a row": (DOOR.replace("0.2 0.0 0.8", "0.2 x 0.8"), "line 12: the probability is 'x'"),
    "an infinite reward": (DOOR.replace("9.0", "inf"), "line 22: the reward is 'inf'; expected a finite number"),
    "too many colons": (DOOR.replace("* : in : * 9.0", "* : in : * : * 9.0"), "line 22: R: names 4 values and more"),
    "rewards of an action": (DOOR.replace("R: * : * : in : * 9.0", "R: * 9.0"), "line 22: R: names the action only"),
    "a row that does not sum to one": (
        DOOR.replace("0.2 0.0 0.8", "0.2 0.0 0.7"),
        "line 11: probabilities of state out-red, action red sum to 0.9; expected 1; 1 choice is off in all",
    ),
    "a negative probability": (DOOR.replace("0.2 0.0 0.8", "1.2 0.0 -0.2"), "line 11: the probability is 1.2"),
    "no transition": (DOOR.replace("T: *\nidentity\n", ""), "action red sum to 0; expected 1; 4 choices are off"),
    "an odd start": (DOOR.replace("0.5 0.5 0.0", "0.5 0.4 0.0"), "line 7: the start has probabilities that sum to 0.9"),
    "nowhere to start": (DOOR.replace(": 0.5 0.5 0.0", " exclude: *"), "line 7: no state is left to start in"),
    "a star to start with": (DOOR.replace("0.5 0.5 0.0", "*"), "line 7: start has 1 numbers; expected 3"),
    "observations of an MDP": (DOOR.replace("observations: out in\n", ""), "there is no observations: before it"),
    "a reward without a discount": (DOOR.replace("0.9", "1.0"), "and there is no discount below 1"),
    "UTF-16": (DOOR.encode("utf-16"), "line 1: text in UTF-16; expected UTF-8"),
    "damaged names": ("# rue: []\n" + DOOR, "line 1: the names are damaged"),
    "names that are too deep": ("# rue: " + "[" * 100_000 + "\n" + DOOR, "line 1: the names are damaged"),
    "names of no number of states": ('# rue: {"states": true}\n' + DOOR, "line 1: the names are damaged"),
    "too many states": (
        "discount: 0.9\nvalues: reward\nstates: 99999999\nactions: 99999999\nT: 0 : 0 : 0 1.0\n",
        "99999999 states and 99999999 actions would take",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(text, told, tmp_path):
    message = refusal(written(tmp_path, {"m.pomdp": text}) / "m.pomdp")
    assert message.startswith(str(tmp_path / "m.pomdp"))
    assert told in message
