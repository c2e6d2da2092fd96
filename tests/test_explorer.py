"""The page in which a policy is played: its sums against the library, mouse and keyboard, and its looks."""

import itertools
import re

import numpy as np
import pytest
from browsing import CONTRAST, UNREADABLE, WIDTHS
from test_cli import weather

import rue
from rue.explorer import explorer_page


def grid() -> rue.UMDP:
    return rue.domains.Disaster(width=4, height=4, seed=1).sample(4, seed=1)


def ward() -> rue.UMDP:
    """No grid, names, a random start, an outcome that rules a sample out."""
    builder = rue.Builder(["mild", "severe"])
    builder.add("ill", "drug", {"well": [0.7, 0.2], "ill": [0.3, 0.6], "worse": [0.0, 0.2]}, cost=1.0)
    builder.add("ill", "surgery", {"well": 0.9, "worse": 0.1}, cost=4.0)
    builder.add("worse", "surgery", {"well": 0.8, "worse": 0.2}, cost=[6.0, 4.0])
    return builder.goal("well").build()


def counting(model: rue.UMDP, times: int) -> rue.Policy:
    """Take a choice that depends on the number of steps, up to a last one: as many nodes as states × times."""
    graph, states = model.graph, model.graph.states
    random = np.random.default_rng(0)
    entry_ptr, choice, next_ptr, next_node = [0], [], [0], []
    for time in range(times):
        later = min(time + 1, times - 1) * states
        for state in range(states):
            if not graph.goal[state]:
                one = int(random.integers(graph.choice_ptr[state], graph.choice_ptr[state + 1]))
                choice.append(one)
                next_node += (graph.successor[graph.trans_ptr[one] : graph.trans_ptr[one + 1]] + later).tolist()
                next_ptr.append(len(next_node))
            entry_ptr.append(len(choice))
    node_state = np.tile(np.arange(states), times)
    return rue.Policy(
        graph, node_state, entry_ptr, choice, np.ones(len(choice)), next_ptr, next_node, [graph.initial], [1.0]
    )


CASES = {
    "grid": lambda: (grid(), rue.solve(grid(), rue.Adaptive())),
    "no grid": lambda: (ward(), rue.solve(ward(), rue.Adaptive())),
    "small": lambda: (ward(), rue.Policy.stationary(ward(), [[0.5, 0.5], [0, 0], [0, 1]])),
    "infinite": lambda: (weather(), rue.Policy.stationary(weather(), [1, 0, 2])),
}
# All places of an episode that is played to its end.
PLAYED = """
const one = new Episode(arguments[0], facts.priors[0].values, arguments[1]);
while (!one.ended && one.places.length < 1000) one.step();
return one.places.map((p) => [p.node, p.entry ?? -1, p.transition ?? -1, p.belief, p.cost, [...p.paid]]);
"""


@pytest.mark.parametrize("name", CASES)
def test_it_loads_without_errors_and_asks_for_nothing(view, name):
    address = view.show(explorer_page(*CASES[name]()))
    assert view.browser.get_log("browser") == []
    assert set(view.asked(address)) <= {address, "data:,"}


@pytest.mark.parametrize("name", ["grid", "no grid", "small"])
def test_episodes_follow_the_policy_and_sum_as_the_model_says(view, name):
    model, found = CASES[name]()
    policy = found.policy if isinstance(found, rue.Solution) else found
    why = rue.explain(model, found)
    view.show(explorer_page(model, found))
    state, choice, entry_ptr, out, out_ptr, next_ptr, next_node = (
        np.array(view.run(f"return [...arrays.{one}]"))
        for one in ("node_state", "choice", "entry_ptr", "successor", "trans_ptr", "next_ptr", "next_node")
    )
    actions = np.array(view.run("return [...arrays.action]"))
    graph = model.graph
    for sample in range(model.samples):
        places = view.run(PLAYED, sample, 7)
        belief, cost, paid = model.weight.copy(), 0.0, np.zeros(model.samples)
        for (node, *_), (after, entry, outcome, seen, sum_cost, sum_paid) in itertools.pairwise(places):
            assert entry_ptr[node] <= entry < entry_ptr[node + 1]
            own = range(graph.choice_ptr[state[node]], graph.choice_ptr[state[node] + 1])
            c = next(one for one in own if graph.action[one] == actions[choice[entry]])
            place = outcome - out_ptr[choice[entry]]
            t = graph.trans_ptr[c] + place
            assert state[after] == out[outcome] == graph.successor[t]
            assert next_node[next_ptr[entry] + place] == after
            belief = belief * model.prob[t] / (belief @ model.prob[t])
            cost, paid = cost + model.cost[c, sample], paid + why.gap[c]
            assert seen == pytest.approx(belief, abs=1e-6)
            assert sum_cost == pytest.approx(cost, rel=1e-6)
            assert sum_paid == pytest.approx(paid, rel=1e-6, abs=1e-6)
        assert graph.goal[state[places[-1][0]]]
    assert state.size <= policy.nodes


@pytest.mark.parametrize("name", ["grid", "no grid", "small"])
def test_mean_costs_and_regrets_are_the_judges(view, name):
    model, found = CASES[name]()
    verdict = rue.evaluate(model, found.policy if isinstance(found, rue.Solution) else found)
    view.show(explorer_page(model, found))
    many = """
    const ends = [];
    for (let seed = 0; seed < 2000; seed++) {
      const one = new Episode(arguments[0], facts.priors[0].values, seed);
      while (!one.ended) one.step();
      ends.push([one.now.cost, one.now.paid[arguments[0]]]);
    }
    return ends;
    """
    for sample in range(model.samples):
        cost, paid = np.array(view.run(many, sample)).T
        for values, mean in ((cost, verdict.value[sample]), (paid, verdict.regret[sample])):
            assert abs(values.mean() - mean) <= 4 * values.std() / np.sqrt(values.size) + 1e-6


def test_an_outcome_is_chosen_by_mouse_and_by_keyboard(view):
    view.show(explorer_page(*CASES["small"]()))
    buttons = view.browser.find_elements("css selector", "#actions .outcome")
    assert len(buttons) == 5  # drug: ill, well, worse; surgery: well, worse
    worse = next(button for button in buttons if button.text.startswith("worse"))
    assert "never here, 0.10 expected" in worse.text  # the true sample is the mild one, where regret is largest
    worse.click()
    assert view.run("return [time.textContent, state.textContent]") == ["1", "worse"]
    assert "Step 1: drug to worse. Most likely: sample severe (1)." in view.find("#news").text
    focused = "return document.activeElement.textContent"
    assert view.run(focused).startswith("well")  # the first outcome of the next node
    view.browser.switch_to.active_element.send_keys("\n")
    assert "Goal after 2 steps" in view.find("#news").text
    assert view.run(focused) == "Restart"
    assert view.run("return document.getElementById('step').disabled")
    view.browser.switch_to.active_element.send_keys(" ")
    assert view.run("return time.textContent") == "0"


def test_keys_step_go_back_and_restart(view):
    from selenium.webdriver.common.keys import Keys

    view.show(explorer_page(*CASES["grid"]()))
    body = view.find("body")
    for key, expected in ((Keys.ARROW_RIGHT, "1"), (Keys.ARROW_RIGHT, "2"), (Keys.ARROW_LEFT, "1"), (Keys.HOME, "0")):
        body.send_keys(key)
        assert view.run("return time.textContent") == expected
    view.find("#sample").send_keys(Keys.ARROW_RIGHT)  # a control keeps its own keys
    assert view.run("return time.textContent") == "0"


def test_an_episode_plays_to_its_end_and_says_so(view):
    from selenium.webdriver.support.ui import WebDriverWait

    view.show(explorer_page(*CASES["grid"]()))
    view.run("document.getElementById('speed').value = '120'")
    view.find("#play").click()
    assert view.find("#play").get_attribute("aria-pressed") == "true"
    WebDriverWait(view.browser, 60, 0.05).until(lambda _: "Goal after" in view.find("#news").text)
    assert view.find("#play").get_attribute("aria-pressed") == "false"
    assert view.find("#news").get_attribute("aria-live") == "polite"
    before = view.run("return episode.places.map((place) => place.node)")
    view.find("#again").click()
    for _ in before[1:]:
        view.find("#step").click()
    assert view.run("return episode.places.map((place) => place.node)") == before  # the same episode again
    view.find("#fresh").click()
    assert view.run("return [time.textContent, seed]") == ["0", 2]


def test_the_map_is_drawn_and_clicks_on_it_choose_an_outcome(view):
    from selenium.webdriver.common.action_chains import ActionChains

    view.show(explorer_page(*CASES["grid"]()))
    painted = "const c = document.getElementById('map'); return [c.width, c.height, c.toDataURL().length]"
    width, height, size = view.run(painted)
    assert width == height > 100 and size > 1000
    ahead = "nextOutcomes(episode.now.node).map((one) => arrays.cell[one.outcome.state])"
    cell = view.run(f"return {ahead}.find((cell) => cell !== arrays.cell[stateOf(episode.now.node)])")
    row, column = divmod(cell, 4)
    canvas, side = view.find("#map"), width / 4
    across, down = (column + 0.5) * side - width / 2, (row + 0.5) * side - height / 2
    ActionChains(view.browser).move_to_element_with_offset(canvas, int(across), int(down)).click().perform()
    assert view.run("return [time.textContent, arrays.cell[stateOf(episode.now.node)]]") == ["1", cell]
    assert view.find("#map").get_attribute("aria-label").startswith("Map. Step 1:")


def test_another_sample_or_prior_starts_anew(view):
    from selenium.webdriver.support.select import Select

    model, solution = CASES["no grid"]()
    view.show(explorer_page(model, solution))
    priors = Select(view.find("#prior"))
    assert [one.text for one in priors.options] == ["equal weights", "worst-case belief of the proof"]
    view.find("#step").click()
    priors.select_by_index(1)
    assert view.run("return time.textContent") == "0"
    assert view.run("return episode.now.belief") == pytest.approx(solution.certificate.belief, abs=1e-6)
    Select(view.find("#sample")).select_by_index(0)
    assert view.run("return episode.sample") == 0
    assert view.run("return document.querySelector('#rows .true th').textContent") == "mild (true)"


def test_small_policies_are_drawn_as_a_graph_with_names(view):
    view.show(explorer_page(*CASES["small"]()))
    names = [one.text for one in view.browser.find_elements("css selector", "#graph .node text:first-of-type")]
    assert sorted(names) == ["ill", "well", "worse"]
    view.find("#graph .node.next").click()
    assert view.run("return time.textContent") == "1"


def test_an_action_is_named_once_and_equal_beliefs_have_no_first(view):
    """Two entries may have one action and go on at different nodes."""
    graph = rue.Builder(2).add("s", "go", {"t": 1.0}).add("t", "go", {"end": [0.5, 0.25], "t": [0.5, 0.75]}).goal("end")
    model = graph.build()
    state, choice, after = [0, 1, 1, 2], [0, 0, 1, 1], [1, 2, 3, 1, 3, 2]
    policy = rue.Policy(
        model.graph, state, [0, 2, 3, 4, 4], choice, [0.5, 0.5, 1, 1], [0, 1, 2, 4, 6], after, [0], [1.0]
    )
    view.show(explorer_page(model, policy))
    assert view.run("return deed(0)") == "go"
    assert view.find("#news").text == "Start in s. No sample is the most likely one."
    view.find("#step").click()
    view.find("#step").click()
    assert "Most likely: sample " in view.find("#news").text


def test_twenty_thousand_nodes(view):
    model = rue.domains.Disaster(width=8, height=8, seed=1).sample(15, seed=1)
    policy = counting(model, 320)
    assert policy.nodes > 20_000
    page = explorer_page(model, policy)
    assert len(page) < 5_000_000
    view.show(page)
    for _ in range(5):
        view.find("#step").click()
    assert view.run("return time.textContent") == "5"
    assert view.run("return nodes") > 15_000
    assert view.browser.get_log("browser") == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["grid", "no grid", "small"])
def test_no_text_overflows(view, name, width):
    view.show(explorer_page(*CASES[name]()), width)
    for _ in range(3):
        assert view.run("return document.documentElement.scrollWidth") <= view.run("return innerWidth") == width
        assert view.run(UNREADABLE.replace('".box, ', '".scroll, .box, ')) == []
        view.run("document.getElementById('step').click()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_can_be_read_in_light_and_dark(view, scheme):
    view.show(explorer_page(*CASES["grid"]()), scheme=scheme)
    # The main button has its own ground, with the same two colours the other way round.
    view.run("for (const b of document.querySelectorAll('.main')) b.classList.remove('main')")
    contrast, ground = view.run(CONTRAST)
    assert contrast >= 4.5
    assert ground < 0.05 if scheme == "dark" else ground > 0.9


def test_all_controls_have_names_and_can_be_reached_by_keyboard(view):
    view.show(explorer_page(*CASES["grid"]()))
    nameless = """return [...document.querySelectorAll("button, select, canvas, [role=region]")]
      .filter((e) => !e.disabled)
      .filter((e) => e.tabIndex !== 0 || !(e.tagName === "BUTTON" && e.textContent || e.labels?.length || e.ariaLabel))
      .map((e) => e.id)"""
    assert view.run(nameless) == []
    ids = view.run("return [...document.querySelectorAll('section')].map((e) => e.id)")
    assert ids == ["top", "where", "node", "history", "all"]  # the order of focus is that of the page
    assert view.find("#news").get_attribute("role") == "status"


def test_rewards_are_shown_as_rewards(view):
    transition = np.zeros((1, 2, 1, 2))
    transition[0, :, 0, 1] = 1.0
    model = rue.UMDP.from_dense(transition, reward=np.array([[[2.0], [5.0]]]), initial=0, horizon=2)
    view.show(explorer_page(model, rue.solve(model, rue.Average())))
    view.find("#step").click()
    view.find("#step").click()
    assert "reward so far" in view.find(".figures").text
    assert view.run("return cost.textContent") == "7"
    assert "Goal after 2 steps: reward 7, regret 0." in view.find("#news").text


def test_names_are_text_and_infinities_are_shown(view):
    builder = rue.Builder(["<b>one</b>", "two & two"])
    builder.add("</script><i>", "go", {"end": 1.0}, cost=1.0)
    model = builder.goal("end").build()
    text = explorer_page(model, rue.Policy.stationary(model, [0, 0]), title="<u>")
    assert text.count("</script>") == 2 and "<u>" not in text and "<i>" not in text
    view.show(text)
    assert view.run("return state.textContent") == "</script><i>"
    view.show(explorer_page(*CASES["infinite"]()))
    assert "∞" in view.find("#expected").text
    assert re.search(r"max regret ∞", view.find(".byline").text)
