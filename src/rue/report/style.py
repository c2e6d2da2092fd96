"""One place for what all pictures share: colours, sizes of letters, and how a figure becomes a file.

Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; scales of numbers go
from light to dark, so that they also work in grey. Figures are made without pyplot and without global state, and equal
figures are equal files.
"""

import math
import warnings
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context
from functools import lru_cache, wraps
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter

from rue.errors import BadInput
from rue.formats.writing import write_bytes

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
SERIES = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, BLACK)
LINES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
INK, FAINT, LAND, STONE = "#1A1A1A", "#8A8A8A", "#C9C9C9", "#3A3A3A"
DEPTH = "#8E3B76"
COSTS = LinearSegmentedColormap.from_list("costs", ["#FFFFFF", "#FFEBCB", "#FDD49A", "#FABB6A", "#F09B45"])

SMALL, NORMAL, LARGE = 8.0, 9.5, 11.0  # points
POINTS = 72.0  # in an inch
RESOLUTION = 160  # dots per inch of a PNG
ROUNDING = 1e-12  # of probabilities

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": NORMAL,
    "text.parse_math": False,  # names may hold a dollar sign
    "axes.titlesize": LARGE,
    "axes.titley": 1.0,  # where we say: to look for a free place takes a tenth of the time of a figure
    "axes.labelsize": NORMAL,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": NORMAL,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and edited
    "svg.hashsalt": "rue",
    "pdf.fonttype": 42,
}
# No date and no version in a file, so that equal figures are equal bytes.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

P = ParamSpec("P")
T = TypeVar("T")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """A function that draws with our settings, whatever those of its caller are, and leaves these as they were."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(), warnings.catch_warnings():
            # A letter that the font lacks is a box in the picture, which is seen there.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            mpl.rcdefaults()
            mpl.rcParams.update(_SETTINGS)
            return draw(*args, **kwargs)

    return wrapped


@styled
def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, as its name ends, whole or not at all."""
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _METADATA:
        raise BadInput(f"{target}: the picture ends in {ending or 'nothing'!r}; expected .png, .svg or .pdf")
    stream = BytesIO()
    figure.savefig(stream, format=ending[1:], dpi=RESOLUTION, metadata=_METADATA[ending])
    write_bytes(target, stream.getvalue())


def colour(number: int) -> str:
    """The colour of a series; they come again after seven, with another kind of line."""
    return SERIES[number % len(SERIES)]


def line(number: int) -> Literal["-", "--", ":", "-."]:
    """The kind of line of a series."""
    return LINES[number // len(SERIES) % len(LINES)]


@lru_cache(maxsize=256)
def text_width(text: str, size: float) -> float:
    """How wide a text is, in inches."""
    return float(TextPath((0, 0), text, size=size).vertices[:, 0].max()) / POINTS if text.strip() else 0.0


def plain_axes(axes: Axes) -> None:
    """No lines where nothing is read off."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def plain_ticks(axis: Axis) -> None:
    """Each number whole, without a power of ten for all of them at the end of the axis, where the title is."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def plain_numbers(axis: Axis) -> None:
    """Numbers on a log scale as plain ones: powers of ten, and others where there are not two of these."""

    def between(value: float, _: object) -> str:
        low, high = sorted(axis.get_view_interval())
        if math.floor(math.log10(high)) > math.ceil(math.log10(low)):
            return ""
        text = f"{value:g}"
        return text if high < 10 * low or text.strip("0.")[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(FuncFormatter(between))


def legend_line(number: int) -> Line2D:
    """The line of a series, for a legend."""
    return Line2D([], [], color=colour(number), linestyle=line(number))


def halo() -> withStroke:
    """A light rim around letters, so that they can be read on anything."""
    return withStroke(linewidth=2.5, foreground="white")


def number_text(value: float) -> str:
    """A number for people: three digits, and ∞."""
    return "∞" if value == float("inf") else f"{value:.3g}"


def share_text(share: float) -> str:
    """A share in whole percent; 0 % and 100 % only where it is that, up to rounding."""
    if ROUNDING < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1 - ROUNDING:
        return ">99%"
    return f"{share:.0%}"


def bound_text(value: float) -> str:
    """Three digits of what is proved to be a lower bound: rounded down, so that what is shown is proved too."""
    return number_text(rounded(value, 3, ROUND_FLOOR))


def rounded(value: float, digits: int, rounding: str) -> float:
    """A number with so many digits, rounded as `decimal` names it."""
    if not math.isfinite(value):
        return value
    return float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value))))
