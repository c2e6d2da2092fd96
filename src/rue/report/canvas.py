"""Panels of one size on a sheet whose measures are known in inches, with a colour bar, a key below, and a credit line.

All of a map's panels show the same cells, so that what is long in one is as long in another and in the key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from rue.report.style import FAINT, INK, NORMAL, SMALL, text_width

# Inches.
LEFT, RIGHT = 0.62, 0.2
GAP, BELOW, ABOVE = 0.3, 0.52, 0.58
DEGREES = 0.3  # more above and beside panels whose other two axes show degrees
BAR, BAR_ROOM = 0.16, 0.85
KEY_LINE, KEY_GAP, CREDIT = 0.3, 0.34, 0.28


@dataclass(frozen=True)
class KeyItem:
    """A sign of the key: it is drawn around a point, in inches, and takes so much room; then comes its text."""

    draw: Callable[[Axes, float, float], None]
    width: float
    text: str

    @property
    def room(self) -> float:
        """Inches, with the space behind it."""
        return self.width + 0.08 + text_width(self.text, NORMAL) + KEY_GAP


@dataclass(frozen=True)
class Sheet:
    """How many panels there are, how large, and what is around them."""

    panels: int
    across: int
    width: float  # of a panel
    height: float
    title: float  # inches of the widest title
    key: tuple[KeyItem, ...]
    credit: str
    bar: bool
    degrees: bool

    @property
    def pitch(self) -> float:
        """Inches from one panel to the next: no title reaches into the next one's."""
        return max(self.width, self.title) + GAP

    @property
    def figure_width(self) -> float:
        """Inches; wide enough for the longest line of the key."""
        right = RIGHT + (BAR_ROOM if self.bar else 0.0) + (DEGREES + 0.3 if self.degrees else 0.0)
        panels = LEFT + (self.across - 1) * self.pitch + self.width + right
        titles = LEFT + (self.across - 1) * self.pitch + self.title + RIGHT
        panels = max(panels, titles)
        return max([panels, *(LEFT + item.room for item in self.key)])

    @property
    def lines(self) -> list[list[KeyItem]]:
        """The key, as many signs to a line as there is room for."""
        lines: list[list[KeyItem]] = [[]]
        for item in self.key:
            if lines[-1] and LEFT + sum(other.room for other in lines[-1]) + item.room > self.figure_width + KEY_GAP:
                lines.append([])
            lines[-1].append(item)
        return [line for line in lines if line]

    def build(self) -> tuple[Figure, list[Axes]]:
        """The figure with its panels, row by row, the key and the credit."""
        down = -(-self.panels // self.across)
        above = ABOVE + (DEGREES if self.degrees else 0.0)
        lines = self.lines
        foot = len(lines) * KEY_LINE + (CREDIT if self.credit else 0.0) + 0.08
        width, height = self.figure_width, foot + down * (self.height + above + BELOW)
        figure = Figure(figsize=(width, height))
        axes = []
        for number in range(self.panels):
            row, column = divmod(number, self.across)
            left = LEFT + column * self.pitch
            bottom = height - (row + 1) * (above + self.height) - row * BELOW
            axes.append(figure.add_axes((left / width, bottom / height, self.width / width, self.height / height)))
        self._draw_key(figure, lines, foot)
        if self.credit:
            figure.text(LEFT / width, 0.1 / height, self.credit, fontsize=SMALL, color=FAINT, va="bottom")
        return figure, axes

    def add_bar(self, figure: Figure, mappable: ScalarMappable, label: str) -> None:
        """The colour bar, at the right of all panels, about as high as one of them, four inches at most."""
        width, height = figure.get_size_inches()
        left = LEFT + (self.across - 1) * self.pitch + self.width + (DEGREES + 0.4 if self.degrees else 0.2)
        top = height - ABOVE - (DEGREES if self.degrees else 0.0)
        size = min(max(self.height, 1.8), 4.0, top - 0.1)
        place = figure.add_axes((left / width, (top - size) / height, BAR / width, size / height), label="bar")
        figure.colorbar(mappable, cax=place).set_label(label)

    def _draw_key(self, figure: Figure, lines: list[list[KeyItem]], foot: float) -> None:
        width, height = figure.get_size_inches()
        axes = figure.add_axes((0, 0, 1, foot / height), label="key")
        axes.set(xlim=(0, width), ylim=(0, foot))
        axes.set_axis_off()
        for number, line in enumerate(lines):
            x, y = LEFT, foot - (number + 0.5) * KEY_LINE
            for item in line:
                item.draw(axes, x + item.width / 2, y)
                axes.add_artist(Text(x + item.width + 0.08, y, item.text, va="center", fontsize=NORMAL, color=INK))
                x += item.room


def mark(marker: str, face: str, text: str) -> KeyItem:
    """A marker."""

    def draw(axes: Axes, x: float, y: float) -> None:
        size = 13 if marker == "*" else 8
        axes.plot(x, y, marker=marker, markersize=size, markerfacecolor=face, markeredgecolor=INK)

    return KeyItem(draw, 0.16, text)


def arrow(length: float, width: float, colour: str, head: dict[str, Any], text: str) -> KeyItem:
    """An arrow of so many inches."""

    def draw(axes: Axes, x: float, y: float) -> None:
        axes.quiver(
            [x], [y], [length], [0], pivot="middle", angles="xy", scale_units="xy", scale=1, units="xy",
            width=width, minlength=0, color=colour, **head,
        )  # fmt: skip

    return KeyItem(draw, length, text)


def box(side: float, text: str, **look: Any) -> KeyItem:
    """A square of so many inches."""

    def draw(axes: Axes, x: float, y: float) -> None:
        axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, **{"linewidth": 0, **look}))

    return KeyItem(draw, side, text)


def stroke(colour: str, text: str) -> KeyItem:
    """A short line."""

    def draw(axes: Axes, x: float, y: float) -> None:
        axes.plot([x - 0.15, x + 0.15], [y, y], color=colour, linewidth=1.6)

    return KeyItem(draw, 0.3, text)
