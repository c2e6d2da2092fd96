"""POMDPX: what rue writes comes back, what others write is read, what is wrong is told in one line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rue
from rue import _check
from tests.foreign import assert_same, named_models, refusal, written
from tests.test_sarsop import read as read_apart

# A door that one of two keys opens; which one is hidden. Two observed variables.
DOOR = """<?xml version="1.0" encoding="ISO-8859-1"?>
<pomdpx version="0.1" id="door" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<Description>keys and a door</Description>
<Discount>0.9</Discount>
<Variable>
<StateVar vnamePrev="place_0" vnameCurr="place_1" fullyObs="true"><ValueEnum>out in</ValueEnum></StateVar>
<StateVar vnamePrev="tried_0" vnameCurr="tried_1" fullyObs="true"><NumValues>2</NumValues></StateVar>
<StateVar vnamePrev="key_0" vnameCurr="key_1" fullyObs="false"><ValueEnum>red blue</ValueEnum></StateVar>
<ActionVar vname="act"><ValueEnum>red blue</ValueEnum></ActionVar>
<RewardVar vname="win"/>
</Variable>
<InitialStateBelief>
<CondProb><Var>place_0</Var><Parent>null</Parent><Parameter type="TBL">
<Entry><Instance>-</Instance><ProbTable>1 0</ProbTable></Entry></Parameter></CondProb>
<CondProb><Var>tried_0</Var><Parent>null</Parent><Parameter type="TBL">
<Entry><Instance>s0</Instance><ProbTable>1</ProbTable></Entry></Parameter></CondProb>
<CondProb><Var>key_0</Var><Parent>null</Parent><Parameter type="TBL">
<Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
</InitialStateBelief>
<StateTransitionFunction>
<CondProb><Var>place_1</Var><Parent>act place_0 key_0</Parent><Parameter type="TBL">
<Entry><Instance>* * * -</Instance><ProbTable>0 1</ProbTable></Entry>
<Entry><Instance>* out - -</Instance><ProbTable>1 0 1 0</ProbTable></Entry>
<Entry><Instance>red out red -</Instance><ProbTable>0.2 0.8</ProbTable></Entry>
<Entry><Instance>blue out blue -</Instance><ProbTable>0.2 0.8</ProbTable></Entry>
</Parameter></CondProb>
<CondProb><Var>tried_1</Var><Parent>tried_0</Parent><Parameter type="TBL">
<Entry><Instance>* s1</Instance><ProbTable>1.0</ProbTable></Entry></Parameter></CondProb>
<CondProb><Var>key_1</Var><Parent>key_0</Parent><Parameter type="TBL">
<Entry><Instance>- -</Instance><ProbTable>identity</ProbTable></Entry></Parameter></CondProb>
</StateTransitionFunction>
<RewardFunction>
<Func><Var>win</Var><Parent>place_0 place_1</Parent><Parameter type="TBL">
<Entry><Instance>out in</Instance><ValueTable>10</ValueTable></Entry></Parameter></Func>
<Func><Var>win</Var><Parent>act place_0</Parent><Parameter type="TBL">
<Entry><Instance>* out</Instance><ValueTable>-1</ValueTable></Entry></Parameter></Func>
</RewardFunction>
</pomdpx>
"""
# The best value where the key is known: -1 + 0.8 · 10 + 0.2 · 0.9 · value.
KNOWN = 7 / (1 - 0.18)


def reward_values(model: rue.UMDP) -> list[float]:
    return model.units.figure(rue.optimal_values(model).value[model.graph.initial]).tolist()


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("pomdpx") / "m.pomdpx"
    rue.save(path, model)
    assert_same(model, rue.load(path))


def test_a_discounted_model_keeps_its_discount(tmp_path):
    builder = rue.Builder(2, discount=0.75)
    builder.add("a", "go", {"a": [0.5, 0.25], "b": [0.5, 0.75]}, cost=-1.0)
    builder.add("b", "go", {"a": 1.0}, cost=[2.0, 3.0])
    model = builder.build()
    rue.save(tmp_path / "m.pomdpx", model)
    assert "<Discount>0.75</Discount>" in (tmp_path / "m.pomdpx").read_text()
    assert_same(model, rue.load(tmp_path / "m.pomdpx"))


def test_factored_states_wildcards_identity_uniform_and_rewards_without_the_hidden_variable(tmp_path):
    model = rue.load(written(tmp_path, {"m.pomdpx": DOOR}) / "m.pomdpx")
    assert model.sample_label == ("red", "blue")
    assert model.graph.state_label[:4] == ("out, s0", "out, s1", "in, s0", "in, s1")
    assert model.graph.action_label == ("red", "blue")
    assert model.weight.tolist() == [0.5, 0.5]
    assert reward_values(model) == pytest.approx([KNOWN, KNOWN], abs=1e-6)


def test_comments_another_encoding_stray_bytes_and_an_unknown_ending(tmp_path):
    text = (
        DOOR.replace("<Discount>", "<!-- how patient -->\n<Discount> ").replace("keys", "Schlüssel").encode("latin-1")
    )
    model = rue.load(written(tmp_path, {"m.xml": text.replace(b"\n", b"\r\n") + b"\x00\x1a"}) / "m.xml")
    assert reward_values(model) == pytest.approx([KNOWN, KNOWN], abs=1e-6)


def test_rows_of_seven_digits_and_tables_of_all_values(tmp_path):
    text = DOOR.replace("0.2 0.8", "0.2000001 0.8").replace("identity", "1 0 0 1").replace("uniform", "0.25 0.75")
    model = rue.load(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
    assert model.weight.tolist() == [0.25, 0.75]
    assert reward_values(model) == pytest.approx([KNOWN, KNOWN], abs=1e-5)


def test_without_a_hidden_variable_there_is_one_sample(tmp_path):
    text = DOOR.replace('key_1" fullyObs="false"', 'key_1" fullyObs="true"').replace(">uniform<", ">0 1<")
    model = rue.load(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
    assert model.samples == 1
    assert reward_values(model) == pytest.approx([KNOWN], abs=1e-6)


def test_a_mark_a_value_that_is_never_reached_and_a_state_that_loops(tmp_path):
    text = DOOR.replace("ISO-8859-1", "UTF-8").replace("Enum>out in<", "Enum>out in far<").replace(">1 0<", ">1 0 0<")
    text = text.replace("0 1</ProbTable>", "0 1 0</ProbTable>").replace("1 0 1 0", "1 0 0 1 0 0")
    text = text.replace("0.2 0.8", "0.2 0.8 0")
    model = rue.load(written(tmp_path, {"m.pomdpx": "\ufeff" + text}) / "m.pomdpx")
    assert model.graph.states == 3 * 2 + 1  # with the end of the discount
    assert reward_values(model) == pytest.approx([KNOWN, KNOWN], abs=1e-6)


SEEN = """<ObsFunction><CondProb><Var>o</Var><Parent>{}</Parent><Parameter type="TBL">
<Entry><Instance>{}</Instance><ProbTable>{}</ProbTable></Entry></Parameter></CondProb></ObsFunction>
<RewardFunction>"""


def with_observation(parents: str, instance: str, table: str, values: str = "dark light") -> str:
    variable = f'<ObsVar vname="o"><ValueEnum>{values}</ValueEnum></ObsVar>\n<RewardVar'
    text = DOOR.replace("<RewardVar", variable)
    return text.replace("<RewardFunction>", SEEN.format(parents, instance, table))


@pytest.mark.parametrize(
    "given",
    [
        ("key_1", "- o", "1 1", "o"),  # the only value, as writers of hidden models have it
        ("place_1", "- -", "identity"),
        ("act key_1", "* * -", "0.25 0.75"),
        ("null", "-", "uniform"),
    ],
)
def test_observations_that_tell_no_more_than_the_state(given, tmp_path):
    model = rue.load(written(tmp_path, {"m.pomdpx": with_observation(*given)}) / "m.pomdpx")
    assert reward_values(model) == pytest.approx([KNOWN] * 2, abs=1e-6)


def test_a_variable_may_depend_on_the_next_value_of_another(tmp_path):
    text = DOOR.replace("<Parent>tried_0</Parent>", "<Parent>place_1</Parent>")
    text = text.replace("<Instance>* s1</Instance><ProbTable>1.0", "<Instance>- -</Instance><ProbTable>identity")
    model = rue.load(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
    assert reward_values(model) == pytest.approx([KNOWN, KNOWN], abs=1e-6)


def best(file, state: int, belief: np.ndarray, steps: int) -> float:
    """The largest discounted reward from a state at a belief, by going through all histories."""
    if steps == 0 or not belief.any():
        return 0.0
    found = []
    for action in range(file.prob.shape[0]):
        value = float(belief @ file.reward[action, state])
        joint = belief[:, None] * file.prob[action, state]  # [K, S]
        for target in np.flatnonzero(joint.any(axis=0)):
            value += file.discount * best(file, int(target), joint[:, target], steps - 1)
        found.append(value)
    return max(found)


def least(model: rue.UMDP, state: int, belief: np.ndarray) -> float:
    """The least cost from a state at a belief in a model without circles, by going through all histories."""
    graph, found = model.graph, []
    for choice in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
        value = float(belief @ model.cost[choice])
        for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1]):
            value += least(model, int(graph.successor[t]), belief * model.prob[t])
        found.append(value)
    return min(found, default=0.0)


def layered(seed: int) -> rue.UMDP:
    """Three layers of states and a goal; every choice may end, so that its file has a discount and is exact."""
    random = np.random.default_rng(seed)
    samples, states = int(random.integers(1, 4)), 6
    transition, cost = np.zeros((samples, states, 2, states)), random.integers(0, 9, (samples, states, 2)) / 4
    for k, s, a in np.ndindex(samples, states - 1, 2):
        later = np.arange((s // 2 + 1) * 2 - (s % 2 == 0 and s == 4), states)
        later = later[later > s]
        transition[k, s, a, later] = random.dirichlet(np.ones(later.size)) * 0.75
        transition[k, s, a, -1] += 0.25
    weight = random.dirichlet(np.ones(samples))
    return rue.UMDP.from_dense(transition, cost, goals=[states - 1], weight=weight)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_value_at_the_belief_is_that_of_backward_induction(seed, tmp_path_factory):
    model = layered(seed)
    path = tmp_path_factory.mktemp("pomdpx") / "m.pomdpx"
    rue.save(path, model)
    file = read_apart(path.read_text())
    assert file.discount < 1
    assert -best(file, 0, file.belief, 4) == pytest.approx(least(model, 0, model.weight), abs=1e-9)
    assert least(rue.load(path), 0, model.weight) == pytest.approx(least(model, 0, model.weight), abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ending", [".pomdpx", ".pomdp"])
def test_the_search_finds_the_value_at_the_belief_of_a_file(ending, seed, tmp_path):
    """The least mean cost of all policies, with memory, against backward induction through all histories."""
    model = layered(seed)
    rue.save(tmp_path / f"m{ending}", model)
    back = rue.load(tmp_path / f"m{ending}")
    found = rue.solve(back, rue.Adaptive(0.0, tail=1, objective="cost"))
    assert found.status is rue.Status.SOLVED
    value = least(model, 0, model.weight)
    assert found.objective.lower == pytest.approx(value, abs=1e-7)
    assert rue.evaluate(back, found.policy).value @ model.weight == pytest.approx(value, abs=1e-7)


SWITCH = DOOR.replace("<ProbTable>identity", "<ProbTable>0.9 0.1 0.1 0.9")
MANY = '<StateVar vnamePrev="x{0}" vnameCurr="y{0}" fullyObs="true"><NumValues>99999999</NumValues></StateVar>'

WRONG = {
    "a hidden mode that switches": (SWITCH, "line 8: the hidden variable key_0 changes; expected one that never does"),
    "no XML": ("hello", "line 1: no XML"),
    "cut off": (DOOR[:900], "no XML"),
    "another root": ("<pomdp/>", "line 1: the root is <pomdp>"),
    "no discount": (DOOR.replace("<Discount>0.9</Discount>", ""), "line 2: <pomdpx> has 0 times <Discount>"),
    "a word for a discount": (DOOR.replace(">0.9<", ">high<"), "line 4: the discount is 'high'"),
    "an observation of what is hidden": (
        with_observation("place_1 key_1", "* - -", "0.5 0.5 0.6 0.4"),
        "line 10: the observation o depends on the hidden variable key_0; expected one that tells no more",
    ),
    "an observation without a table": (
        DOOR.replace("<RewardVar", '<ObsVar vname="smell"><NumValues>2</NumValues></ObsVar>\n<RewardVar'),
        "line 2: <pomdpx> has 0 times <ObsFunction>",
    ),
    "a reward by an observation": (
        with_observation("null", "-", "uniform").replace(">place_0 place_1<", ">place_0 o<"),
        "there is no variable 'o'; expected one of place_0",
    ),
    "a state by the next hidden value": (
        DOOR.replace("<Parent>tried_0", "<Parent>key_1"), "line 7: tried_1 depends on itself, or on the next hidden",
    ),
    "two hidden variables": (
        DOOR.replace('tried_1" fullyObs="true"', 'tried_1" fullyObs="false"'),
        "line 8: tried_0 and key_0 are hidden; expected one",
    ),
    "an unknown value": (DOOR.replace("* out - -", "* up - -"), "line 23: 'up' is no value of place_0"),
    "an unknown parent": (DOOR.replace("<Parent>tried_0", "<Parent>time_0"), "line 27: there is no variable 'time_0'"),
    "too few values": (DOOR.replace("* out - -", "* out -"), "line 23: the instance has 3 values; expected 4"),
    "too few numbers": (DOOR.replace("1 0 1 0", "1 0 1"), "line 23: the table has 3 numbers; expected 4"),
    "a word in a table": (DOOR.replace("1 0 1 0", "1 0 1 x"), "line 23: '1 0 1 x' is no table"),
    "an infinite number": (DOOR.replace(">10<", ">inf<"), "line 34: a number is not finite"),
    "a diagram": (DOOR.replace('type="TBL"', 'type="DD"', 1), "line 13: a table of type 'DD'"),
    "a row that does not sum to one": (
        DOOR.replace("0.2 0.8", "0.2 0.7", 1),
        "line 24: place_1 has probabilities that sum to 0.9 for red out red; expected numbers, 0 or more, that sum",
    ),
    "a negative probability": (
        DOOR.replace("0.2 0.8", "-0.2 1.2", 1), "line 24: place_1 has a probability of -0.2 for red out red",
    ),
    "an uncertain start": (DOOR.replace(">1 0<", ">0.5 0.5<"), "line 6: the initial value of place_0 is not certain"),
    "an odd belief": (DOOR.replace(">uniform<", ">0.5 0.4<"), "line 8: the initial belief of key_0 sums to 0.9"),
    "no table": (DOOR.replace("<Var>tried_1", "<Var>tried_9"), "has 0 tables for tried_1"),
    "no number of values": (DOOR.replace(">2</NumValues>", ">x</NumValues>"), "line 7: the number of values is 'x'"),
    "a number of thousands of digits": (
        DOOR.replace(">2</NumValues>", ">" + "9" * 5000 + "</NumValues>"), "line 7: the number of values is '999",
    ),
    "a discount that is too large": (
        DOOR.replace(">0.9<", ">1" + "0" * 400 + "/7<"), "line 4: the discount is '1000"
    ),
    "a fraction that is too large": (
        DOOR.replace("1 0 1 0", "1 0 1 1" + "0" * 400 + "/7"), "line 23: '1 0 1 1000",
    ),
    "names that are too deep": (
        DOOR.replace("keys and a door", "rue: " + "[" * 100_000), "line 3: the names are damaged"
    ),
    "too many states": (
        DOOR.replace("</StateVar>\n", "</StateVar>\n" + "".join(map(MANY.format, range(3))), 1),
        "2 actions and 2 samples would take",
    ),
    "no next state": (DOOR.replace("<Entry><Instance>* s1", "<Entry><Instance>s0 s1"), "leads nowhere"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(text, told, tmp_path):
    message = refusal(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
    assert message.startswith(str(tmp_path / "m.pomdpx"))
    assert told in message


def test_an_entry_for_too_many_places_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_check, "machine_memory", lambda: 1e6)
    text = DOOR.replace("<NumValues>2<", "<NumValues>1000<").replace("<Instance>* s1<", "<Instance>- -<")
    text = text.replace("<ProbTable>1.0<", "<ProbTable>uniform<")
    assert "an entry for 1000000 places would take 24 MB" in refusal(written(tmp_path, {"m.pomdpx": text}) / "m.pomdpx")
