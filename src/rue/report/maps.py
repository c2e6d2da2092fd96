"""A grid model as a map, and what a policy does on it: one panel for each sample, or for each of some time steps.

In sample k the policy visits node i of its controller n(i) times (`rue.visits`). With s(i) the node's state and w(i, c)
the probability of choice c there, a map shows, for each state,

    n(s) = Σ n(i) over the nodes of s                          as the area of a square,
    π(c | s) = Σ n(i) w(i, c) / n(s)                           as the length of an arrow in the direction of c;

after t steps it is the same with the probability to be at node i then. Without directions (`heading` in the layout) a
cell has the colour and the letter of its likeliest action instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor, log10
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rue._check import index_array, whole_number
from rue._flat import Array
from rue.errors import BadInput
from rue.evaluate import Evaluation, evaluate
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy
from rue.report import style
from rue.report.canvas import KeyItem, Sheet
from rue.report.grid import Grid
from rue.visits import distribution_after, expected_visits

LEAST_VISITS = 1e-3
LEAST_CHANCE = 0.05
MOST_PANELS = 4  # without being asked for
MOST_CURRENTS = 25  # arrows on a side
ARROW = 0.8  # the length of a certain arrow, in cells
WRITTEN = 0.34  # cells of this many inches have room for text
MOST_FULL = 2.0  # visits of a full square: where a policy waits for long, others should still be seen
# The mark of each end: its form, colour, size, and how far to the front it is.
END_LOOK = {"start": ("o", "#FFFFFF", 1.0, 2.8), "goal": ("*", style.GREEN, 1.6, 3.4)}
CURRENT_WIDTH = 0.04  # of arrows, in cells
POLICY_HEAD: dict[str, Any] = {"headwidth": 3.8, "headlength": 3.8, "headaxislength": 3.3}  # in widths
CURRENT_HEAD: dict[str, Any] = {"headwidth": 4.0, "headlength": 4.5, "headaxislength": 3.5}


@dataclass(frozen=True, eq=False)
class _Panel:
    """What one panel shows: a sample, or all of them, and what the policy does there."""

    title: str
    sample: int | None
    visits: Array | None = None  # [S], or the probability to be there at a time
    chance: Array | None = None  # [C], of each choice where its state is visited


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
    verdict = None if policy is None else evaluate(model, policy)
    if policy is not None:
        check_same_graph(model, check_policy(policy).graph)
    shown = _shown(model, verdict, samples, steps)
    if steps is not None:
        if policy is None or verdict is None:
            raise BadInput("steps are given without a policy; expected a policy to follow")
        panels = _step_panels(model, policy, verdict, int(shown[0]), steps)
    else:
        panels = [_sample_panel(model, policy, verdict, int(k), shown.size) for k in shown]
    if overview:
        panels.insert(0, _Panel(f"all {model.samples} samples\nmean cost, frequency of obstacles", None))
    return _Map(
        model, grid, tuple(panels), "probability to be there:" if steps is not None else "expected visits:"
    ).draw()


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
    name = model.sample_name(sample)
    return f"sample {name}" if model.sample_label is None else name


def _sample_panel(model: UMDP, policy: Policy | None, verdict: Evaluation | None, sample: int, count: int) -> _Panel:
    name = _name(model, sample)
    if policy is None or verdict is None:
        return _Panel(name, sample)
    title = f"{name}\n{_regret_text(verdict, sample, count)}"
    return _Panel(title, sample, *_behaviour(model, policy, expected_visits(model, policy, sample)))


def _step_panels(model: UMDP, policy: Policy, verdict: Evaluation, sample: int, steps: Sequence[int]) -> list[_Panel]:
    wanted = [whole_number("step", step, 0) for step in steps]
    if not wanted:
        raise BadInput("there are no steps to draw; expected at least one")
    goal = model.graph.goal[policy.node_state]
    panels = []
    for step, mass in zip(wanted, distribution_after(model, policy, sample, wanted), strict=True):
        title = (
            f"{_name(model, sample)}, after {step} step{'' if step == 1 else 's'}\n"
            f"regret {style.number_text(verdict.regret[sample])}; {mass[goal].sum():.0%} at the goal"
        )
        panels.append(_Panel(title, sample, *_behaviour(model, policy, mass)))
    return panels


def _regret_text(verdict: Evaluation, sample: int, count: int) -> str:
    """The judge's regret in a sample, and which it is among all."""
    regret, samples = verdict.regret, verdict.regret.size
    text = f"regret {style.number_text(regret[sample])}"
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


@dataclass(frozen=True, eq=False)
class _Map:
    """All panels, and the scales that they share."""

    model: UMDP
    grid: Grid
    panels: tuple[_Panel, ...]
    what: str  # what the squares show

    def draw(self) -> Figure:
        """The whole figure."""
        grid, wide = self.grid, self.grid.columns > 1.8 * self.grid.rows
        across = 1 if wide else {1: 1, 2: 2, 4: 2}.get(len(self.panels), 3)
        width = min(max(0.46 * grid.columns, 5.0), 11.0) if wide else 4.1 if len(self.panels) > 1 else 5.4
        width = min(width, 9.0 * grid.columns / grid.rows)
        sheet = Sheet(
            panels=len(self.panels),
            across=across,
            width=width,
            height=width * grid.rows / grid.columns,
            key=tuple(self._key(width / grid.columns)),
            credit=grid.credit,
            bar=self._has_bar,
            degrees=self._has_degrees,
        )
        figure, axes = sheet.build()
        for number, (axis, panel) in enumerate(zip(axes, self.panels, strict=True)):
            first, last = number % across == 0, number % across == across - 1 or number == len(self.panels) - 1
            self._draw_axes(axis, panel.title, first, last)
            self._draw_ground(axis, panel)
            if panel.visits is not None and panel.chance is not None:
                if grid.heading is None:
                    self._draw_actions(axis, panel.visits, panel.chance, width / grid.columns)
                else:
                    self._draw_visits(axis, panel.visits)
                    self._draw_currents(axis, panel)
                    self._draw_arrows(axis, panel.visits, panel.chance, width / grid.columns)
            else:
                self._draw_currents(axis, panel)
            self._draw_depth(axis)
            self._draw_ends(axis, width / grid.columns)
        if self._has_bar:
            sheet.add_bar(figure, ScalarMappable(self._cost_scale, style.COSTS), "cost of entering a cell")
        return figure

    # The scales.

    def _scenery(self, name: str, panel: _Panel) -> Array | None:  # [S]
        """A part of the scenery in a panel's sample, or its mean over all."""
        values = self.model.scenery.get(name)
        if values is None:
            return None
        if panel.sample is None:
            return np.asarray(values.mean(axis=1, dtype=float))
        return np.asarray(values[:, panel.sample], float)

    @property
    def _cost_scale(self) -> Normalize:
        """From the least to the largest entry cost of all samples, not only of those that are shown."""
        cost = self.model.scenery["entry_cost"]
        on = self.grid.cell >= 0
        return Normalize(float(cost[on].min()), float(cost[on].max()))

    @property
    def _has_bar(self) -> bool:
        if "entry_cost" not in self.model.scenery:
            return False
        scale = self._cost_scale
        return bool(scale.vmin != scale.vmax)

    @property
    def _has_degrees(self) -> bool:
        grid = self.grid
        return grid.metric and all(place is not None and place.size > 1 for place in (grid.latitude, grid.longitude))

    @cached_property
    def _full(self) -> float:
        """The visits of a full square: the most of any state that is no goal, up to a limit."""
        off_goal = ~self.model.graph.goal & (self.grid.cell >= 0)
        most = [panel.visits[off_goal] for panel in self.panels if panel.visits is not None]
        finite = np.concatenate([np.empty(0), *most])
        finite = finite[np.isfinite(finite)]
        return float(np.clip(finite.max(initial=0.0), LEAST_VISITS, MOST_FULL))

    @property
    def _stride(self) -> int:
        """Every how many cells a current is drawn."""
        return ceil(max(self.grid.rows, self.grid.columns) / MOST_CURRENTS)

    @cached_property
    def _speed(self) -> float:
        """A current that is as long as the way to the next arrow: nine in ten of the panels' are slower. In m/s."""
        parts = [np.hypot(*current) for panel in self.panels if (current := self._current(panel)) is not None]
        speed = np.concatenate([np.empty(0), *parts])
        return float(np.quantile(speed, 0.9)) or float(speed.max()) if speed.size else 0.0

    def _current(self, panel: _Panel) -> tuple[Array, Array] | None:
        east, north = self._scenery("east", panel), self._scenery("north", panel)
        return None if east is None or north is None else (east, north)

    # One panel.

    def _draw_axes(self, axes: Axes, title: str, first: bool, last: bool) -> None:
        grid = self.grid
        across, up = grid.limits
        axes.set(xlim=across, ylim=up, xlabel=grid.axis[0])
        axes.set_title(title, loc="left", pad=8, linespacing=1.3)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(
                MaxNLocator(
                    8 if axis is axes.yaxis or grid.metric else 10,
                    integer=not grid.metric,
                    min_n_ticks=1,
                    steps=[1, 2, 5, 10],
                )
            )
        if first:
            axes.set_ylabel(grid.axis[1])
        else:
            axes.tick_params(labelleft=False)
        axes.tick_params(length=3)
        if self._has_degrees:
            self._draw_degrees(axes, last)
        if max(grid.rows, grid.columns) <= 40:
            edges = np.arange(max(grid.rows, grid.columns) + 1) - 0.5
            for lines, far in (
                (grid.x(edges[: grid.columns + 1]), axes.vlines),
                (grid.y(edges[: grid.rows + 1]), axes.hlines),
            ):
                far(
                    lines,
                    *(up if far == axes.vlines else across),
                    color="#000000",
                    alpha=0.1,
                    linewidth=0.4,
                    zorder=1.5,
                )

    def _draw_degrees(self, axes: Axes, last: bool) -> None:
        """Longitude above, latitude at the right of the last panel of a row."""
        grid = self.grid
        assert grid.latitude is not None and grid.longitude is not None
        above = axes.secondary_xaxis("top", functions=_degrees(grid.longitude, grid.x(np.arange(grid.columns))))
        sides: list[tuple[Any, Any, str]] = [(above, above.xaxis, "EW")]
        if last:
            right = axes.secondary_yaxis("right", functions=_degrees(grid.latitude, grid.y(np.arange(grid.rows))))
            sides.append((right, right.yaxis, "NS"))
        for side, axis, letters in sides:
            axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(FuncFormatter(partial(_degree_text, letters)))
            side.tick_params(length=3, colors=style.FAINT, labelsize=style.SMALL - 0.5)

    def _squares(self, axes: Axes, cell: Array, side: Array | float, **look: object) -> PatchCollection:
        """Squares in the middles of cells; `side` in cells."""
        row, column = np.divmod(cell, self.grid.columns)
        half = np.broadcast_to(np.asarray(side) * self.grid.unit / 2, cell.shape)
        x, y = self.grid.x(column), self.grid.y(row)
        patches = [Rectangle((a - h, b - h), 2 * h, 2 * h) for a, b, h in zip(x, y, half, strict=True)]
        collection = PatchCollection(patches, **look)  # type: ignore[arg-type]
        axes.add_collection(collection, autolim=False)
        return collection

    def _draw_ground(self, axes: Axes, panel: _Panel) -> None:
        """Entry costs, land and obstacles."""
        grid = self.grid
        cost = self._scenery("entry_cost", panel)
        if cost is not None and self._has_bar:
            edges = np.arange(max(grid.rows, grid.columns) + 1) - 0.5
            axes.pcolormesh(
                grid.x(edges[: grid.columns + 1]), grid.y(edges[: grid.rows + 1]), grid.field(cost),
                cmap=style.COSTS, norm=self._cost_scale, zorder=1, rasterized=grid.rows * grid.columns > 4000,
            )  # fmt: skip
        empty = np.flatnonzero(grid.empty)
        if empty.size:
            look = {"facecolor": style.LAND, "edgecolor": "#9A9A9A", "hatch": "////", "linewidth": 0}
            self._squares(axes, empty, 1.0, zorder=1.2, label="land", **look)
        obstacle = self._scenery("obstacle", panel)
        if obstacle is not None and (obstacle > 0).any():
            on = np.flatnonzero((obstacle > 0) & (grid.cell >= 0))
            look = {"facecolor": [(*to_rgb(style.STONE), a) for a in obstacle[on]], "linewidth": 0}
            self._squares(axes, grid.cell[on], 0.86, zorder=1.8, label="obstacle", **look)

    def _draw_depth(self, axes: Axes) -> None:
        """The line where it is as deep as `shallow`, and thin ones every hundred metres or so."""
        grid = self.grid
        if grid.depth is None or grid.shallow is None or min(grid.rows, grid.columns) < 2:
            return
        least, most = float(np.nanmin(grid.depth)), float(np.nanmax(grid.depth))
        levels = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(least, most)
        others = [level for level in levels if abs(level - grid.shallow) > 0.1 * (most - least)]
        for level in [*others, grid.shallow]:
            if not least < level < most:
                continue
            width = 1.7 if level == grid.shallow else 0.7
            lines = axes.contour(
                grid.x(np.arange(grid.columns)), grid.y(np.arange(grid.rows)), np.ma.masked_invalid(grid.depth),
                levels=[level], colors=[style.DEPTH], linewidths=width, zorder=2.6,
            )  # fmt: skip
            x, y = self._quiet_point(np.concatenate([part for part in lines.allsegs[0] if len(part)]))
            axes.text(
                x, y, f"{level:g} m", fontsize=style.SMALL - (0 if level == grid.shallow else 1), color=style.DEPTH,
                ha="center", va="center", path_effects=[style.halo()], zorder=3.2,
            )  # fmt: skip

    def _quiet_point(self, points: Array) -> tuple[float, float]:
        """That of these points which is farthest from where the policy goes, and not at the border."""
        grid = self.grid
        (left, right), (bottom, top) = grid.limits
        x, y = points.T
        margin = np.minimum(np.minimum(x - left, right - x), np.minimum(abs(y - bottom), abs(top - y)))
        inner = points[margin >= min(1.2 * grid.unit, float(margin.max()))]
        busy = np.stack(grid.places(np.flatnonzero((self._everywhere >= 0.01) & (grid.cell >= 0))), axis=1)
        away = np.abs(inner[:, None] - busy[None]).max(axis=2).min(axis=1, initial=np.inf)
        # Among points that are far enough away, the middle of the line.
        far = np.flatnonzero(away >= min(3 * grid.unit, float(away.max())))
        x_at, y_at = inner[far[far.size // 2]]
        return float(x_at), float(y_at)

    @cached_property
    def _everywhere(self) -> Array:  # [S]
        """The most visits in any panel."""
        none = np.zeros(self.model.graph.states)
        return np.asarray(np.max([none, *(panel.visits for panel in self.panels if panel.visits is not None)], axis=0))

    def _draw_currents(self, axes: Axes, panel: _Panel) -> None:
        current, speed = self._current(panel), self._speed
        if current is None or speed == 0:
            return
        grid, stride = self.grid, self._stride
        row, column = np.divmod(grid.cell, grid.columns)  # −1 is in row −1
        drawn = (grid.cell >= 0) & (row % stride == stride // 2) & (column % stride == stride // 2)
        state = np.flatnonzero(drawn)
        x, y = grid.places(state)
        length = stride * grid.unit / speed
        arrows = axes.quiver(
            x, y, current[0][state] * length, current[1][state] * length * grid.up, pivot="middle", angles="xy",
            scale_units="xy", scale=1, units="xy", width=CURRENT_WIDTH * stride * grid.unit, minlength=0.5,
            color=style.BLUE, zorder=2.4, **CURRENT_HEAD,
        )  # fmt: skip
        arrows.set_label("current")

    def _draw_visits(self, axes: Axes, visits: Array) -> None:
        """A square in each state, with an area that is the share of a full one."""
        on = np.flatnonzero((visits >= LEAST_VISITS) & (self.grid.cell >= 0) & ~self.model.graph.goal)
        side = np.sqrt(np.minimum(visits[on] / self._full, 1.0))
        look = {"facecolor": style.SKY, "linewidth": 0, "alpha": 0.8}
        self._squares(axes, self.grid.cell[on], side, zorder=2, label="visits", **look)

    def _draw_arrows(self, axes: Axes, visits: Array, chance: Array, inches: float) -> None:
        """One arrow for each action, as long as it is likely."""
        grid, graph = self.grid, self.model.graph
        assert grid.heading is not None
        seen = (visits >= LEAST_VISITS) & (grid.cell >= 0)
        choice = np.flatnonzero(seen[graph.choice_state] & (chance >= LEAST_CHANCE))
        state = graph.choice_state[choice]
        x, y = grid.places(state)
        angle = np.deg2rad(grid.heading[graph.action[choice]])
        length = ARROW * grid.unit * chance[choice]
        arrows = axes.quiver(
            x, y, length * np.sin(angle), length * np.cos(angle) * grid.up, pivot="tail", angles="xy",
            scale_units="xy", scale=1, units="xy", width=_arrow_width(inches) * grid.unit, minlength=0, zorder=3,
            edgecolor="white", linewidth=0.3, **POLICY_HEAD,
            facecolor=[(*to_rgb(style.INK), a) for a in _fading(visits[state], self._full)],
        )  # fmt: skip
        arrows.set_label("policy")

    def _draw_actions(self, axes: Axes, visits: Array, chance: Array, inches: float) -> None:
        """The likeliest action of each state: its colour, fainter where it is seldom, its letter and probability."""
        grid, graph = self.grid, self.model.graph
        seen = np.flatnonzero((visits >= LEAST_VISITS) & (grid.cell >= 0) & ~graph.goal)
        best = np.array(
            [graph.choice_ptr[s] + chance[graph.choice_ptr[s] : graph.choice_ptr[s + 1]].argmax() for s in seen], int
        )
        action = graph.action[best]
        face = [
            (*to_rgb(style.colour(a)), f)
            for a, f in zip(action, _fading(visits[seen], self._full, 0.15, 0.8), strict=True)
        ]
        self._squares(axes, grid.cell[seen], 1.0, zorder=2, facecolor=face, linewidth=0, label="policy")
        if inches < WRITTEN:
            return
        for x, y, a, c in zip(*grid.places(seen), action, best, strict=True):
            axes.text(
                x,
                y,
                _letter(int(a)) + ("" if chance[c] > 0.995 else f"\n{chance[c]:.0%}"),
                ha="center",
                va="center",
                fontsize=7.5,
                zorder=3,
                linespacing=1.0,
            )

    def _draw_ends(self, axes: Axes, inches: float) -> None:
        """The start and the goals: with a mark, or with a frame where cells hold text."""
        grid = self.grid
        framed = grid.heading is None and inches >= WRITTEN
        size = float(np.clip(inches * style.POINTS * 0.6, 6.0, 13.0))
        for name, state in self._ends.items():
            x, y = grid.places(state)
            if framed:
                look = {"facecolor": "none", "edgecolor": style.INK, "linewidth": 2.4}
                self._squares(axes, grid.cell[state], 0.94, zorder=3.4, label=name, **look)
            else:
                marker, face, grown, above = END_LOOK[name]
                axes.plot(
                    x, y, linestyle="none", marker=marker, markersize=size * grown, markerfacecolor=face,
                    markeredgecolor=style.INK, markeredgewidth=1.1, zorder=above, label=name,
                )  # fmt: skip
            column, row = self._label_place(int(state[0]), name, inches)
            axes.text(
                float(grid.x(column)), float(grid.y(row)), name, ha="center", va="center", fontsize=style.NORMAL,
                fontweight="bold", color=style.INK, path_effects=[style.halo()], zorder=3.6,
            )  # fmt: skip

    @property
    def _ends(self) -> dict[str, Array]:
        """The states on the map where episodes begin and end."""
        graph, on = self.model.graph, self.grid.cell >= 0
        ends = {"start": np.arange(graph.states) == graph.initial, "goal": graph.goal}
        return {name: np.flatnonzero(which & on) for name, which in ends.items() if (which & on).any()}

    def _label_place(self, state: int, text: str, inches: float) -> tuple[float, float]:
        """Column and row for a label beside a state: on the map, where the policy goes least."""
        grid = self.grid
        row, column = divmod(int(grid.cell[state]), grid.columns)
        width = style.text_width(text, style.NORMAL) * 1.15 / inches + 0.2
        height = style.NORMAL / style.POINTS * 1.2 / inches
        aside, over = 0.48 + width / 2, 0.45 + height / 2
        busy = grid.field(np.minimum(self._everywhere, 1.0) + 1e-3)
        best, least = (float(column), row - over), np.inf
        sides = [(0, -over), (0, over), (aside, 0), (-aside, 0)]
        corners = [(right, down) for right in (aside, -aside) for down in (-over, over)]
        for right, down in [*sides, *corners]:
            c, r = column + right, row + down
            c0, c1, r0, r1 = c - width / 2, c + width / 2, r - height / 2, r + height / 2
            if c0 < -0.5 or c1 > grid.columns - 0.5 or r0 < -0.5 or r1 > grid.rows - 0.5:
                continue
            cells = busy[round(r0) : round(r1) + 1, round(c0) : round(c1) + 1]
            score = float(np.nan_to_num(cells).sum()) + 1e-3 * (abs(right) > 0 and abs(down) > 0)
            if score < least:
                best, least = (c, r), score
        return best

    # The key.

    def _key(self, inches: float) -> list[KeyItem]:
        """All signs that some panel shows; `inches` is the side of a cell."""
        grid, policy = self.grid, any(panel.visits is not None for panel in self.panels)
        framed = grid.heading is None and inches >= WRITTEN
        items = [] if framed else [_mark(*END_LOOK[name][:2], name) for name in self._ends]
        if policy and grid.heading is not None:
            text = "action of the policy, probability 1 (fainter: fewer visits)"
            items.append(_arrow(ARROW * inches, _arrow_width(inches) * inches, style.INK, POLICY_HEAD, text))
            shown = _round(self._full)
            look = {"facecolor": style.SKY, "alpha": 0.8}
            items.append(_box(inches * (shown / self._full) ** 0.5, f"{self.what} {shown:g}", **look))
        elif policy:
            used = sorted({int(a) for panel in self.panels for a in self._used(panel)})
            graph = self.model.graph
            items += [
                _box(0.2, f"{_letter(a)}  {graph.action_name(a)}", facecolor=style.colour(a), alpha=0.8) for a in used
            ]
            items.append(_box(0.0, "the likeliest action and its probability if below 1 (fainter: fewer visits)"))
        if self._speed > 0:
            shown, pitch = _round(self._speed), self._stride * inches
            text = f"current, {shown:g} m/s"
            items.append(_arrow(pitch * shown / self._speed, CURRENT_WIDTH * pitch, style.BLUE, CURRENT_HEAD, text))
        if "obstacle" in self.model.scenery:
            items.append(_box(0.17, "obstacle", facecolor=style.STONE))
        if grid.empty.any():
            items.append(
                _box(
                    0.2,
                    "land" if grid.depth is not None else "no state",
                    facecolor=style.LAND,
                    edgecolor="#9A9A9A",
                    hatch="////",
                )
            )
        if grid.depth is not None and grid.shallow is not None:
            items.append(_stroke(style.DEPTH, f"depth {grid.shallow:g} m"))
        return items

    def _used(self, panel: _Panel) -> Array:
        """The actions that a panel shows."""
        if panel.visits is None or panel.chance is None:
            return np.empty(0, int)
        graph = self.model.graph
        seen = (panel.visits >= LEAST_VISITS) & (self.grid.cell >= 0)
        return np.asarray(graph.action[seen[graph.choice_state] & (panel.chance > 0)])


def _degrees(values: Array, place: Array) -> Any:
    """From places on an axis to degrees and back: both are evenly spaced."""
    slope = (values[-1] - values[0]) / (place[-1] - place[0])
    begin = values[0] - slope * place[0]
    return (lambda at: begin + slope * np.asarray(at)), (lambda degree: (np.asarray(degree) - begin) / slope)


def _degree_text(letters: str, value: float, _: object) -> str:
    return f"{abs(value):.2f}°{letters[0] if value >= 0 else letters[1]}"


def _fading(visits: Array, full: float, least: float = 0.3, most: float = 1.0) -> Array:
    """How opaque: fully from a tenth of the most visits on, and less where it is seldom."""
    return np.asarray(least + (most - least) * np.sqrt(np.minimum(10 * visits / full, 1.0)))


def _arrow_width(inches: float) -> float:
    """Of the policy's arrows, in cells of so many inches: about a point and a half."""
    return float(np.clip(1.5 / style.POINTS / inches, 0.05, 0.1))


def _letter(action: int) -> str:
    return chr(ord("a") + action) if action < 26 else str(action)


def _round(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above."""
    power = 10.0 ** floor(log10(value))
    return float(f"{max(step * power for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)):.12g}")


def _mark(marker: str, face: str, text: str) -> KeyItem:
    def draw(axes: Axes, x: float, y: float) -> None:
        size = 13 if marker == "*" else 8
        axes.plot(x, y, marker=marker, markersize=size, markerfacecolor=face, markeredgecolor=style.INK)

    return KeyItem(draw, 0.16, text)


def _arrow(length: float, width: float, colour: str, head: dict[str, Any], text: str) -> KeyItem:
    def draw(axes: Axes, x: float, y: float) -> None:
        axes.quiver(
            [x], [y], [length], [0], pivot="middle", angles="xy", scale_units="xy", scale=1, units="xy",
            width=width, minlength=0, color=colour, **head,
        )  # fmt: skip

    return KeyItem(draw, length, text)


def _box(side: float, text: str, **look: object) -> KeyItem:
    def draw(axes: Axes, x: float, y: float) -> None:
        axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, **{"linewidth": 0, **look}))  # type: ignore[arg-type]

    return KeyItem(draw, side, text)


def _stroke(colour: str, text: str) -> KeyItem:
    def draw(axes: Axes, x: float, y: float) -> None:
        axes.plot([x - 0.15, x + 0.15], [y, y], color=colour, linewidth=1.6)

    return KeyItem(draw, 0.3, text)
