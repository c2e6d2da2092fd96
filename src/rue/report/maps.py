"""A grid model as a map, and what a policy does on it: one panel for each sample, or for each of some time steps.

In sample k the policy visits node i of its controller n(i) times (`rue.visits`). With s(i) the node's state and w(i, c)
the probability of choice c there, a map shows, for each state,

    n(s) = Σ n(i) over the nodes of s                          as the area of a square,
    π(c | s) = Σ n(i) w(i, c) / n(s)                           as the length of an arrow in the direction of c;

after t steps it is the same with the probability to be at node i then. Without directions (`heading` in the layout) a
cell has the colour and the letter of its likeliest action instead.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from rue._arrays import Array
from rue._check import index_array, whole_number
from rue._text import short_line
from rue.errors import BadInput
from rue.judge import Evaluation, evaluate
from rue.model import UMDP
from rue.policy import Policy
from rue.report import style
from rue.report.grid import Grid
from rue.report.painter import Map, Panel
from rue.visits import distribution_after, expected_visits

MOST_PANELS = 4  # without being asked for
MOST_ASKED = 60


@style.styled
def draw_map(
    model: UMDP,
    policy: Policy | None = None,
    *,
    samples: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    overview: bool = False,
) -> Figure:
    """A grid model as a map, with the policy's arrows if there is one.

    One panel for each of the `samples`; unless they are given, all of them, or those with the largest, the middle and
    the smallest regret if there are more than four. With `steps`, one panel for each of these time steps, in one
    sample: the one given or that with the largest regret. `overview` adds a first panel with the mean of all samples.
    """
    grid = Grid.of(model.graph)
    asked = max(0 if part is None else np.size(part) for part in (samples, steps)) + overview
    if asked > MOST_ASKED:
        raise BadInput(f"there are {asked} panels to draw; expected at most {MOST_ASKED}")
    verdict = None if policy is None else evaluate(model, policy)
    shown = _shown(model, verdict, samples, steps)
    if steps is not None:
        if policy is None or verdict is None:
            raise BadInput("steps are given without a policy; expected a policy to follow")
        panels = _step_panels(model, policy, verdict, int(shown[0]), steps)
    else:
        panels = [_sample_panel(model, policy, verdict, int(k), shown.size) for k in shown]
    if overview:
        panels.insert(0, Panel(f"all {model.samples} samples\nmean cost, frequency of obstacles", None))
    return Map(model, grid, tuple(panels), at_a_time=steps is not None).draw()


def _shown(
    model: UMDP, verdict: Evaluation | None, samples: Sequence[int] | None, steps: Sequence[int] | None
) -> Array:
    """The samples of the panels, in the order of the panels."""
    if samples is not None:
        shown = index_array("sample", samples, model.samples)
        if shown.size == 0:
            raise BadInput("there are no samples to draw; expected at least one")
        if steps is not None and shown.size != 1:
            raise BadInput(f"there are {shown.size} samples and several steps; expected one sample")
        return shown
    if steps is not None:
        return np.array([0 if verdict is None else verdict.worst_sample])
    if model.samples <= MOST_PANELS:
        return np.arange(model.samples)
    order = np.arange(model.samples) if verdict is None else np.argsort(-verdict.regret, kind="stable")
    return np.asarray(order[[0, model.samples // 2, -1]])


def _name(model: UMDP, sample: int) -> str:
    name = short_line(model.sample_name(sample))
    return f"sample {name}" if model.sample_label is None else name


def _sample_panel(model: UMDP, policy: Policy | None, verdict: Evaluation | None, sample: int, count: int) -> Panel:
    name = _name(model, sample)
    if policy is None or verdict is None:
        return Panel(name, sample)
    title = f"{name}\n{_regret_text(verdict, sample, count)}"
    return Panel(title, sample, *_behaviour(model, policy, expected_visits(model, policy, sample)))


def _step_panels(model: UMDP, policy: Policy, verdict: Evaluation, sample: int, steps: Sequence[int]) -> list[Panel]:
    wanted = [whole_number("step", step, 0) for step in steps]
    if not wanted:
        raise BadInput("there are no steps to draw; expected at least one")
    goal = model.graph.goal[policy.node_state]
    panels = []
    for step, mass in zip(wanted, distribution_after(model, policy, sample, wanted), strict=True):
        title = (
            f"{_name(model, sample)}, after {step} step{'' if step == 1 else 's'}\n"
            f"regret {_regret(verdict, sample)}; {style.share_text(_ended(mass, goal))} at the goal"
        )
        panels.append(Panel(title, sample, *_behaviour(model, policy, mass)))
    return panels


def _ended(mass: Array, goal: Array) -> float:
    """How much is at the goal: from what is not, where that is the smaller part, so that nothing is lost."""
    rest = float(mass[~goal].sum())
    return 1.0 - rest if rest < 0.5 else float(mass[goal].sum())


def _regret(verdict: Evaluation, sample: int) -> str:
    """The judge's regret in a sample; 0 if it cannot be told from that."""
    regret = float(verdict.regret[sample])
    return "0" if regret <= verdict.error < np.inf else style.number_text(regret)


def _regret_text(verdict: Evaluation, sample: int, count: int) -> str:
    """The regret in a sample, and which it is among all."""
    regret, samples = verdict.regret, verdict.regret.size
    text = f"regret {_regret(verdict, sample)}"
    if np.isinf(regret[sample]):
        return f"{text}: it may miss the goal"
    if samples <= count:
        return text
    rank = int((regret > regret[sample]).sum())
    which = {0: "largest", samples // 2: "middle", samples - 1: "smallest"}.get(rank)
    return f"{text} ({which} of {samples})" if which else text


def _behaviour(model: UMDP, policy: Policy, mass: Array) -> tuple[Array, Array]:  # [S], [C]
    """Visits of each state and the probability of each choice there, from those of the nodes.

    Where a state is visited for ever, it is by the nodes that are; each of them counts as much as another.
    """
    graph = model.graph
    visits = np.bincount(policy.node_state, mass, graph.states)
    endless = np.isinf(visits)[policy.node_state]
    weight = np.where(endless, np.isinf(mass), np.where(np.isinf(mass), 0.0, mass))
    node = np.repeat(np.arange(policy.nodes), np.diff(policy.entry_ptr))
    flow = np.bincount(policy.choice, policy.weight * weight[node], graph.choices)
    total = np.bincount(policy.node_state, weight, graph.states)[graph.choice_state]
    return visits, np.divide(flow, total, out=np.zeros(graph.choices), where=total > 0)
