"""The players in one file each, Python and JavaScript: for the same draws they play the episodes of `rue.simulate`."""

import ast
import base64
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers
from test_agent import HALL, WALK, paths_of, twins

import rue
from rue import player as module
from rue.player import Player, PlayerError

SCRIPT = Path(rue.__file__).parent / "player.js"
ENDINGS = (".json", ".rue", ".csv")
# What both kinds of JavaScript machine do: play episodes of a policy with given draws, in a sample with given chances.
PLAY = """
function play(given) {
  let source = given.text;
  if (given.file) source = Uint8Array.from(typeof atob === "function"
    ? Array.from(atob(given.file), (c) => c.charCodeAt(0)) : Buffer.from(given.file, "base64"));
  let at = 0;
  const player = new RuePlayer(source, () => given.draws[at++]), episodes = [];
  for (let i = 0; i < given.episodes; i++) {
    player.reset();
    const nodes = [player.node], actions = [], transitions = [];
    while (!player.done && player.steps < given.steps) {
      actions.push(player.act());
      if (player.act() !== actions[actions.length - 1]) throw new Error("drawn twice");
      transitions.push(player.draw(player.outcomes().map((out) => given.chances[out.transition])).transition);
      nodes.push(player.node);
    }
    episodes.push([nodes, actions, transitions]);
  }
  return [episodes, at];
}
"""


@pytest.fixture(scope="module")
def node():
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node; the JavaScript player is not tested outside of a browser")

    def run(code, given=None):
        """Return what a function of JavaScript returns, or the message of the error that it throws."""
        whole = (
            f"const RuePlayer = require({json.dumps(str(SCRIPT))}); {PLAY}\n"
            f"const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
            f"let found; try {{ found = (() => {{ {code} }})(); }}\n"
            "catch (error) { found = {error: error.message}; }\n"
            "console.log(JSON.stringify(found === undefined ? null : found));"
        )
        done = subprocess.run(
            [program, "-e", whole], input=json.dumps(given), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def written(policy, folder, ending):
    path = folder / f"policy{ending}"
    rue.save(path, policy)
    return path


def play(player, model, sample, episodes, steps):
    """Play episodes; return the nodes, actions and transitions of each, as the JavaScript does."""
    found = []
    for _ in range(episodes):
        player.reset()
        nodes, actions, transitions = [player.node], [], []
        while not player.done and player.steps < steps:
            actions.append(player.act())
            outcomes = player.outcomes()
            first = outcomes[0].transition
            if first is None:  # a table has no graph: the action and the state tell
                first = first_transition(model, player.state, actions[-1])
            chances = model.prob[first : first + len(outcomes), sample].tolist()
            transitions.append(first + outcomes.index(player.draw(chances)))
            nodes.append(player.node)
        found.append([nodes, actions, transitions])
    return found


def first_transition(model, state, action):
    graph = model.graph
    number = graph.state_number[str(state)]
    own = range(graph.choice_ptr[number], graph.choice_ptr[number + 1])
    choice = next(c for c in own if graph.action_name(int(graph.action[c])) == str(action))
    return int(graph.trans_ptr[choice])


def case_for_javascript(policy, model, sample, numbers, folder=None):
    given = {"draws": list(numbers), "chances": model.prob[:, sample].tolist(), "episodes": 10, "steps": 30}
    if folder is None:
        return {"text": policy.to_json(), **given}
    return {"file": base64.b64encode(written(policy, folder, ".rue").read_bytes()).decode(), **given}


def check_against_simulate(model, policy, sample, seed, episodes):
    """Compare what a player did with the costs and steps of `rue.simulate`."""
    runs = rue.simulate(model, policy, sample=sample, episodes=len(episodes), seed=seed, max_steps=30)
    for i, (nodes, actions, transitions) in enumerate(episodes):
        choices = model.graph.trans_choice[transitions]
        paid = 0.0
        for choice in choices:
            paid += model.cost[choice, sample]
        assert (paid, len(actions)) == (runs.cost[i], runs.steps[i])
        assert bool(model.graph.goal[policy.node_state[nodes[-1]]]) == runs.reached[i]
        labels = model.graph.action_label
        does = [int(a) if labels is None else labels[a] for a in model.graph.action[choices]]
        assert actions == does


@given(models_with_controllers(Shape(dead_ends=False)), st.integers(0, 99))
@settings(max_examples=40)
def test_the_python_player_plays_what_simulate_does(tmp_path_factory, pair, seed):
    model, policy = pair
    sample, folder = seed % model.samples, tmp_path_factory.mktemp("policies")
    played = []
    for ending in ENDINGS:
        player = Player.load(written(policy, folder, ending), np.random.default_rng(seed).random)
        played.append(play(player, model, sample, episodes=10, steps=30))
    assert played[0] == played[1] == played[2]
    check_against_simulate(model, policy, sample, seed, played[0])


@given(models_with_controllers(Shape(dead_ends=False)), st.integers(0, 99))
@settings(max_examples=15)
def test_the_javascript_player_plays_what_simulate_does(node, tmp_path_factory, pair, seed):
    model, policy = pair
    sample, numbers = seed % model.samples, np.random.default_rng(seed).random(700)
    for folder in (None, tmp_path_factory.mktemp("policies")):
        episodes, used = node("return play(given)", case_for_javascript(policy, model, sample, numbers, folder))
        check_against_simulate(model, policy, sample, seed, episodes)
        assert used == sum(1 + 2 * len(actions) for _, actions, _ in episodes)


@given(models_with_controllers())
@settings(max_examples=15)
def test_players_follow_every_path_of_the_enumeration(node, pair):
    """For the draws that lead to a path, of all paths of three steps, both players follow it."""
    model, policy = pair
    paths = paths_of(model, policy, 0, depth=3)
    draws = [number for *_, numbers in paths for number in numbers]
    expected = [[nodes, model.graph.action[choices].tolist(), trans] for _, nodes, choices, trans, _ in paths]
    player = Player(module.from_json(policy.to_json()), iter(draws).__next__)
    assert play(player, model, 0, episodes=len(paths), steps=3) == expected
    given = {"text": policy.to_json(), "draws": draws, "chances": model.prob[:, 0].tolist(), "steps": 3}
    assert node("return play(given)", {**given, "episodes": len(paths)}) == [expected, len(draws)]


def test_the_javascript_player_in_a_browser(browser, tmp_path):
    """A large controller with names, as JSON and as a file, in a page."""
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    policy = rue.solve(model, rue.Adaptive()).policy
    (tmp_path / "page.html").write_text(f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>", encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())
    numbers = np.random.default_rng(7).random(3000)
    for folder in (None, tmp_path):
        given = case_for_javascript(policy, model, 2, numbers, folder)
        episodes, _ = browser.execute_script(f"{PLAY} return play(arguments[0])", given)
        check_against_simulate(model, policy, 2, 7, episodes)
    assert browser.get_log("browser") == []


def test_beliefs_in_javascript(node):
    model = rue.domains.Medical(seed=1).sample(5, seed=1).with_weight([1, 2, 3, 4, 0])
    policy, random = rue.solve(model, rue.Adaptive()).policy, np.random.default_rng(3)
    agent = policy.agent(model, seed=random)
    seen = [agent.belief.tolist()]
    player = Player(module.from_json(policy.to_json()), np.random.default_rng(3).random)
    states = []
    while not player.done:
        player.act()
        first = player.outcomes()[0].transition
        out = player.draw(model.prob[first : first + len(player.outcomes()), 1])
        agent.act(), random.random()
        agent.observe(out.state)
        states.append(out.state)
        seen.append(agent.belief.tolist())
    code = """
    const belief = new RuePlayer.Belief((t) => given.prob[t], given.weight), found = [belief.value];
    let at = 0;
    const player = new RuePlayer(given.text, () => { const u = given.draws[at]; at += at ? 2 : 1; return u; });
    for (const state of given.states) {
      player.act();
      if (!belief.update(player.observe(state))) throw new Error("impossible");
      found.push(belief.value);
    }
    return found;
    """
    given = {"text": policy.to_json(), "prob": model.prob.tolist(), "weight": model.weight.tolist(), "states": states}
    found = node(code, {**given, "draws": np.random.default_rng(3).random(2000).tolist()})
    assert np.array(found) == pytest.approx(np.array(seen), abs=1e-12)
    assert found[-1][0] < 0.01 < found[0][0]


def test_a_player_is_one_file_of_the_standard_library(tmp_path):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    names = {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
    text = SCRIPT.read_text(encoding="utf-8")
    assert "</" not in text and "import " not in text and len(re.findall(r"\brequire\(", text)) == 1  # in the comment
    copy = shutil.copy(module.__file__, tmp_path / "player.py")
    policy = written(WALK, tmp_path, ".json")
    told = subprocess.run(
        [sys.executable, "-I", copy, policy, "--seed", "1"], input="door\nattic\nout\n", capture_output=True, text=True,
        cwd=tmp_path, check=True,
    )  # fmt: skip
    assert told.stdout == "hall: walk\ndoor: push\ndoor: push\nout: done after 2 steps\n"
    assert told.stderr == 'action "push" of state door cannot lead to state attic; expected another\n'
    none = subprocess.run(
        [sys.executable, copy, "none.json"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr == "none.json: cannot be read (No such file or directory)\n"


def test_the_script_asks_until_nobody_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("door\n"))
    assert module.main([str(written(WALK, tmp_path, ".csv"))]) == 0
    assert capsys.readouterr().out == "hall: walk\ndoor: push\n"


def line_of(call, *arguments):
    with pytest.raises(PlayerError) as told:
        call(*arguments)
    assert len(str(told.value).splitlines()) == 1
    return str(told.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_steps_that_cannot_be_made(tmp_path, ending):
    player = Player.load(written(WALK, tmp_path, ending))
    assert (player.state, player.node, player.done, player.options()) == ("hall", 0, False, [("walk", 1.0)])
    assert line_of(player.observe, "door") == "the player in state hall has not acted; expected act() first"
    player.act()
    assert line_of(player.observe, "out") == 'action "walk" of state hall cannot lead to state out; expected another'
    assert line_of(player.observe, "cellar").startswith("unknown state 'cellar'; expected the name of a state")
    assert line_of(player.observe, 17) == "the state 17 is out of range; expected 0 to 3"
    assert line_of(player.observe, None).startswith("unknown state None")
    assert line_of(player.draw, [1.0]) == "there are 1 chances; expected one for each of 2 outcomes"
    assert line_of(player.draw, [0.0, 0.0]) == "no chance is above 0; expected those of the outcomes"
    player.observe("door")
    player.act()
    player.observe("out")
    assert (player.done, player.steps, player.options()) == (True, 2, [])
    assert line_of(player.act) == "the player is at the goal out; expected reset() before it acts again"
    player.reset()
    assert (player.state, player.steps) == ("hall", 0)


def test_the_same_steps_in_javascript(node):
    tries = {
        "player.observe('door')": "the player in state hall has not acted; expected act() first",
        "player.act(); player.observe('out')": 'action "walk" of state hall cannot lead to state out; expected another',
        "player.act(); player.observe('cellar')": 'unknown state "cellar"; expected the name of a state of the policy',
        "player.act(); player.observe(17)": "the state 17 is out of range; expected 0 to 3",
        "player.act(); player.draw([1])": "there are 1 chances; expected one for each of 2 outcomes",
        "player.act(); player.draw([0, 0])": "no chance is above 0; expected those of the outcomes",
        "for (const s of ['door', 'out']) { player.act(); player.observe(s); } player.act()":
            "the player is at the goal out; expected reset() before it acts again",
    }  # fmt: skip
    for code, line in tries.items():
        found = node(f"const player = new RuePlayer(given); {code}", json.loads(WALK.to_json()))
        assert found == {"error": line}
    code = (
        "const p = new RuePlayer(given); p.act(); return [p.observe(1), p.state, p.stateNumber, p.steps, p.options()]"
    )
    transition = HALL.graph.successor.tolist().index(1)
    expected = [[transition], "door", 1, 1, [{"action": "push", "probability": 1}]]
    assert node(code, WALK.to_json()) == expected


def test_two_outcomes_in_one_state(node):
    _, same, tells = twins()
    player = Player(module.from_json(same.to_json()))
    player.act()
    player.observe(1)
    player = Player(module.from_json(tells.to_json()))
    player.act()
    assert line_of(player.observe, 1).endswith("that the policy tells apart; expected outcome=0 or outcome=1")
    player.observe("1", outcome=1)
    assert (player.node, player.state) == (2, 1)
    code = "const p = new RuePlayer(given); p.act(); p.observe(1, 1); return [p.node, p.state]"
    assert node(code, tells.to_json()) == [2, 1]
    assert "tells apart" in node("const p = new RuePlayer(given); p.act(); p.observe(1)", tells.to_json())["error"]


def damaged(change):
    whole = json.loads(WALK.to_json())
    change(whole)
    return json.dumps(whole)


BAD_TEXT = {
    "it is no JSON": "{",
    "it is JSON of something else; expected a policy": "[1]",
    "it has version 2 of the format; expected version 1": damaged(lambda w: w.update(version=2)),
    "damaged|does not fit|graph": damaged(lambda w: w.pop("graph")),
    "place 0": damaged(lambda w: w["nodes"].reverse()),
    "weight|probabilities": damaged(lambda w: w["nodes"][0]["actions"][0].update(probability=0.5)),
    "next_node|leads to node 99": damaged(lambda w: w["nodes"][0]["actions"][0]["next"][0].update(node=99)),
    "next_node|leads to node 3": damaged(lambda w: w["nodes"][0]["actions"][0]["next"][0].update(node=3)),
    "no action|damaged": damaged(lambda w: w["nodes"][0]["actions"][0].update(action="fly")),
    "start": damaged(lambda w: w["start"][0].update(node=99)),
    "to start|start_weight": damaged(lambda w: w["start"][0].update(probability=0.5)),
}


@pytest.mark.parametrize("line", BAD_TEXT)
def test_bad_json(line, node, tmp_path):
    (tmp_path / "p.json").write_text(BAD_TEXT[line])
    told = line_of(Player.load, tmp_path / "p.json")
    assert told.startswith(f"{tmp_path / 'p.json'}: ") and re.search(line, told)
    found = node("new RuePlayer(given)", BAD_TEXT[line])
    assert re.search(line, found["error"]) and len(found["error"].splitlines()) == 1


def test_bad_files(node, tmp_path):
    whole = written(WALK, tmp_path, ".rue").read_bytes()
    bad = tmp_path / "bad.rue"
    rue.save(bad, HALL)
    files = {
        "it is no rue file": b"nothing",
        "CRC-32|checksum": flipped(whole),
        "it holds a model; expected a policy or a solution": bad.read_bytes(),
        "no rue file|damaged|cut off|checksum": whole[: len(whole) // 2],
    }
    for line, data in files.items():
        bad.write_bytes(data)
        assert re.search(line, line_of(Player.load, bad))
        code = "new RuePlayer(Uint8Array.from(Buffer.from(given, 'base64')))"
        assert re.search(line, node(code, base64.b64encode(data).decode())["error"])


def flipped(whole):
    """Change a number in the array of weights."""
    at = whole.rindex(np.float64(1.0).tobytes())
    return whole[:at] + np.float64(0.5).tobytes() + whole[at + 8 :]


def test_bad_tables(tmp_path):
    path = tmp_path / "p.csv"
    for text, line in {
        "": "there is no column 'node'",
        "state,action\nhall,walk\n": "there is no column 'node'; expected a table with node, state, action",
        WALK.to_csv().replace("0,hall", "x,hall"): "the policy is damaged",
    }.items():
        path.write_text(text)
        assert line in line_of(Player.load, path)
