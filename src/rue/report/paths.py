"""Figures of episodes and of small policies: beliefs over time, trajectories, and a policy as a graph.

A belief is that of an agent with the weights of the samples to begin with. Of several episodes it is the mean; an
episode that has ended keeps its last belief. Trajectories are lines on the map if the model is a grid, else over time.
In a graph the nodes are in columns, by the least number of steps that it takes to reach them; goals come last.
"""

from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from rue._arrays import Array
from rue._text import counted, number_text, short_line
from rue.errors import BadInput
from rue.grid_layout import read_grid
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy
from rue.report import style
from rue.report.maps import draw_map, sample_title
from rue.simulation import Paths

COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.VERMILION, "#F0E442")
MOST_STATES, MOST_NODES = 30, 40
LONGEST_NAME = 24  # letters
SPREAD = 0.3  # of a cell, by which the lines of episodes are apart
# Inches: of a line of text, between columns, between boxes of a column, and the margin inside of a box.
LINE, BETWEEN, APART, MARGIN = 0.16, 0.8, 0.35, 0.08


@style.styled
def draw_belief(paths: Paths) -> Figure:
    """Draw the belief in each sample over the steps of an episode, or its mean over several episodes.

    The true sample is at the bottom, under a line. Beyond seven samples those with the least belief share one colour.
    """
    _check(paths)
    mean = _mean_belief(paths)
    others = [k for k in np.argsort(-mean.max(axis=0), kind="stable").tolist() if k != paths.sample]
    shown, rest = others[: len(COLOURS) - 1], others[len(COLOURS) - 1 :]
    bands = [mean[:, k] for k in (paths.sample, *shown)] + ([mean[:, rest].sum(axis=1)] if rest else [])
    names = [f"{sample_title(paths.model, paths.sample)} (true)", *(sample_title(paths.model, k) for k in shown)]
    names += [f"{len(rest)} others"] if rest else []
    figure, (axes,) = style.panels(1, 1, (7.5, 3.6 + 0.25 * ceil(len(names) / 3)))
    steps = np.arange(mean.shape[0])
    axes.stackplot(steps, bands, labels=names, colors=[*COLOURS[: len(names) - bool(rest)], style.LAND], linewidth=0)
    axes.plot(steps, bands[0], color=style.INK, linewidth=1.6)
    count = paths.episode_ptr.size - 1
    axes.set_title("one episode" if count == 1 else f"mean of {count} episodes", loc="left", fontsize=style.NORMAL)
    axes.set(xlim=(0, max(steps[-1], 1)), ylim=(0, 1), xlabel="step", ylabel="belief")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    style.add_legend(figure, [axes], "outside lower left", figure.get_figwidth())
    return figure


@style.styled
def draw_trajectory(paths: Paths) -> Figure:
    """Draw where the policy went, a line for each episode: on the map of a grid, else the state at each step."""
    _check(paths)
    count = paths.episode_ptr.size - 1
    cost = np.add.reduceat(paths.cost, paths.episode_ptr[:-1])
    title = f"{sample_title(paths.model, paths.sample)}: {counted(count, 'episode')}\n"
    title += f"{paths.model.units.name} {number_text(float(cost.mean()))}" + (" on average" if count > 1 else "")
    look: dict[str, Any] = {"linewidth": 1.4, "alpha": min(1.0, 0.25 + 2 / count), "solid_joinstyle": "round"}
    offset = np.zeros(1) if count == 1 else np.linspace(-SPREAD / 2, SPREAD / 2, count)
    if "grid" in paths.model.graph.layout:
        return _on_the_map(paths, title, offset, look)
    return _over_time(paths, title, offset, look)


def _on_the_map(paths: Paths, title: str, offset: Array, look: dict[str, Any]) -> Figure:
    grid = read_grid(paths.model.graph)
    figure = draw_map(paths.model, samples=[paths.sample])
    axes = figure.axes[0]
    cell = grid.cell[paths.state]
    for number, (first, end) in enumerate(pairwise(paths.episode_ptr.tolist())):
        own = cell[first:end][cell[first:end] >= 0]
        x, y = grid.places(own)
        away = offset[number] * grid.unit
        axes.plot(x + away, y + away, color=COLOURS[number % len(COLOURS)], zorder=3, **look)
    axes.set_title(title, loc="left", pad=22.0 if grid.degrees else 8.0, linespacing=1.3)
    return figure


def _over_time(paths: Paths, title: str, offset: Array, look: dict[str, Any]) -> Figure:
    _, first_row, place = np.unique(paths.state, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first_row))  # states in the order in which they were first seen
    height = rank[place]
    states = int(height.max()) + 1
    is_named = states <= MOST_STATES
    figure, (axes,) = style.panels(1, 1, (7.5, 1.6 + (0.24 * states if is_named else 5.0)))
    style.plain_axes(axes)
    for number, (begin, end) in enumerate(pairwise(paths.episode_ptr.tolist())):
        at = height[begin:end] + offset[number]
        axes.plot(np.arange(end - begin), at, color=COLOURS[number % len(COLOURS)], **look)
        axes.plot(end - begin - 1, at[-1], marker="o", color=COLOURS[number % len(COLOURS)], markersize=4)
    if is_named:
        seen = paths.state[np.sort(first_row)].tolist()
        names = [short_line(paths.model.graph.state_name(s), LONGEST_NAME) for s in seen]
        axes.set_yticks(range(states), names)
    axes.set(xlabel="step", ylabel="state" if is_named else "state, in the order of first visits")
    axes.set_ylim(states - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(title, loc="left", fontsize=style.NORMAL)
    return figure


def _mean_belief(paths: Paths) -> Array:  # [steps, K]
    ptr = paths.episode_ptr
    length = int(np.diff(ptr).max())
    row = np.minimum(ptr[:-1, None] + np.arange(length), ptr[1:, None] - 1)  # [episodes, steps]
    return np.asarray(paths.belief[row].mean(axis=0))


def _check(paths: object) -> None:
    if not isinstance(paths, Paths):
        raise BadInput(
            f"the paths are a {type(paths).__name__}; expected those of rue.simulate(..., paths=True), its .paths"
        )


@style.styled
def draw_graph(model: UMDP, policy: Policy) -> Figure:
    """Draw a small policy as a graph: a box for each node with its state and what it does, an arrow for each outcome.

    Outcomes that no sample allows are left out, and so are nodes that only those reach.
    """
    check_same_graph(model, check_policy(policy).graph)
    columns, arrows = _unfold(model, policy)
    text = {node: _words(policy, node) for column in columns for node in column}
    wide = [max(style.text_width(line, style.SMALL) for n in c for line in text[n].split("\n")) for c in columns]
    high = LINE * max(words.count("\n") + 1 for words in text.values()) + 2 * MARGIN
    height = max(len(column) for column in columns) * (high + APART) + 0.3
    left = np.cumsum([0.3, *(width + 2 * MARGIN + BETWEEN for width in wide)])
    figure = Figure(figsize=(float(left[-1]) - BETWEEN + 0.4, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, figure.get_figwidth()), ylim=(0, height))  # in inches
    axes.axis("off")
    starts = set(policy.start_node[policy.start_weight > 0].tolist())
    box: dict[int, FancyBboxPatch] = {}
    for column, first, width in zip(columns, left, wide, strict=False):
        for number, node in enumerate(column):
            y = height / 2 + (high + APART) * ((len(column) - 1) / 2 - number)
            at_goal = bool(policy.graph.goal[policy.node_state[node]])
            side = LINE * (text[node].count("\n") + 1) + 2 * MARGIN
            corner = (float(first), y - side / 2)
            edge, line = style.GREEN if at_goal else style.INK, 2.0 if node in starts or at_goal else 0.9
            look: dict[str, Any] = {"facecolor": "white", "edgecolor": edge, "linewidth": line, "zorder": 3}
            box[node] = FancyBboxPatch(corner, width + 2 * MARGIN, side, f"round,pad=0,rounding_size={MARGIN}", **look)
            axes.add_patch(box[node])
            words: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL, "linespacing": 1.25}
            axes.text(float(first) + width / 2 + MARGIN, y, text[node], zorder=4, **words)
    column_of = {node: number for number, column in enumerate(columns) for node in column}
    for one, other in arrows:
        axes.add_patch(_arrow(box[one], box[other], bent=column_of[other] != column_of[one] + 1))
    return figure


def _arrow(one: FancyBboxPatch, other: FancyBboxPatch, *, bent: bool) -> FancyArrowPatch:
    """Return an arrow from a box to another one, bent if boxes may lie between them; a loop if it is the same box."""
    look: dict[str, Any] = {
        "arrowstyle": "-|>",
        "color": style.FAINT,
        "linewidth": 0.9,
        "mutation_scale": 9,
        "zorder": 2,
    }
    begin, end = ((box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) for box in (one, other))
    if one is other:
        top = one.get_y() + one.get_height()
        ends = (begin[0] - 0.1, top), (begin[0] + 0.1, top)
        return FancyArrowPatch(*ends, connectionstyle="arc3,rad=-1.6", shrinkA=0, shrinkB=0, **look)
    goes_down = end[0] > begin[0] and begin[1] > end[1] + MARGIN
    bend = (-0.25 if goes_down else 0.25) if bent else 0.0
    return FancyArrowPatch(
        begin, end, patchA=one, patchB=other, connectionstyle=f"arc3,rad={bend}", shrinkA=0, shrinkB=1, **look
    )


def _words(policy: Policy, node: int) -> str:
    """Return the state of a node and what is done there, with probabilities unless it is certain."""
    graph = policy.graph
    lines = [short_line(graph.state_name(int(policy.node_state[node])), LONGEST_NAME)]
    chances: dict[int, float] = {}  # two entries of one action may go on at different nodes
    for entry in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
        action = int(graph.action[policy.choice[entry]])
        chances[action] = chances.get(action, 0.0) + float(policy.weight[entry])
    for action, chance in chances.items():
        name = short_line(graph.action_name(action), LONGEST_NAME)
        lines.append(name if chance > 1 - style.SURE else f"{name} {style.share_text(chance)}")
    return "\n".join(lines)


def _unfold(model: UMDP, policy: Policy) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Return the nodes that some sample reaches, by the least number of steps, and the arrows between them."""
    live, columns, seen = model.ever_live, [], set()
    arrows: dict[tuple[int, int], None] = {}
    column = list(dict.fromkeys(policy.start_node[policy.start_weight > 0].tolist()))
    while column:
        columns.append(column)
        seen |= set(column)
        if len(seen) > MOST_NODES:
            raise BadInput(
                f"the policy has {policy.nodes} nodes, and more than {MOST_NODES} are reached; expected at most "
                f"{MOST_NODES} for a graph; rue.simplify makes policies smaller"
            )
        following: dict[int, None] = {}
        for node in column:
            for after in _next_of(policy, node, live):
                arrows[node, after] = None
                if after not in seen:
                    following[after] = None
        column = list(following)
    at_goal = [node for node in seen if policy.graph.goal[policy.node_state[node]]]
    inner = [[node for node in column if node not in at_goal] for column in columns]
    return [column for column in (*inner, sorted(at_goal)) if column], list(arrows)


def _next_of(policy: Policy, node: int, live: Array) -> list[int]:
    """Return the nodes that follow a node by live transitions."""
    found: dict[int, None] = {}
    for entry in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
        choice = policy.choice[entry]
        first, end = policy.graph.trans_ptr[choice : choice + 2].tolist()
        own = policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]]
        found |= dict.fromkeys(own[live[first:end]].tolist())
    return list(found)
