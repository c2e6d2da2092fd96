"""What figures and pages share: colours, font sizes, ticks and legends, and how they become files.

People with any kind of colour vision can tell the colours apart (Okabe and Ito); colour scales also work in grey.
Figures are made without pyplot, and equal figures give equal files. `rue.mplstyle` has the settings of matplotlib.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar
from urllib.parse import quote
from xml.dom.minidom import parseString

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath

from rue._text import bound_text, counted, listed, number_text
from rue.errors import BadInput
from rue.experiments.provenance import versions
from rue.formats.writing import write_bytes

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
# The style sheet of the page replaces some of these in dark mode.
INK, FAINT, LAND, STONE, DEPTH = "#1A1A1A", "#8A8A8A", "#C9C9C9", "#3A3A3A", "#8E3B76"
COSTS = LinearSegmentedColormap.from_list("costs", ["#FFFFFF", "#FFEBCB", "#FDD49A", "#FABB6A", "#F09B45"])
REGRETS = LinearSegmentedColormap.from_list("regrets", ["#F3F6F8", "#B9D3E4", "#6FA6C9", "#2A6F9E", "#0B3C5D"])
HALO = [withStroke(linewidth=2.5, foreground="white")]  # a rim around letters, so that they can be read anywhere

SMALL, NORMAL, LARGE = 8.0, 9.5, 11.0  # font sizes in points
POINTS = 72.0  # in an inch
PIXELS = 88  # of a page, for an inch of a figure
NARROW = 4.6  # inches of a legend that a narrow screen shows without scrolling
LEGEND_HANDLE = 0.8  # inches of a legend entry besides its text
LEGEND_ROW = 0.25  # inches from row to row
SURE = 1e-12  # rounding of probabilities
# No date and no version, so that equal figures are equal bytes.
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    ".pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
}
SETTINGS = mpl.rc_params_from_file(Path(__file__).with_name("rue.mplstyle"), use_default_template=True)

Panels = tuple[Figure, list[Axes]]
Place = Literal["outside upper left", "outside lower left"]
P = ParamSpec("P")
T = TypeVar("T")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Return the function with our matplotlib settings during its call; those of the caller are left as they were."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(), warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box, which the reader sees.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            mpl.rcParams.update(SETTINGS)
            return draw(*args, **kwargs)

    return wrapped


@styled
def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, according to the ending of the path. The file is complete or unchanged."""
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in METADATA:
        raise BadInput(f"{target}: the picture ends in {ending or 'nothing'!r}; expected .png, .svg or .pdf")
    stream = BytesIO()
    figure.savefig(stream, format=ending[1:], dpi=160, metadata=METADATA[ending])
    write_bytes(target, stream.getvalue())


@styled
def svg_element(figure: Figure, name: str, words: str) -> Markup:
    """Return a figure as an `<svg>` element whose text can be searched. `words` are its text alternative.

    `name` is different for each figure of a page: identifiers within the figure depend on it, so that all are unique.
    """
    mpl.rcParams["svg.hashsalt"] = name
    root: Any = parseString(_svg(figure)).documentElement
    for attribute, value in {"role": "img", "aria-label": words, "style": _widths(figure)}.items():
        root.setAttribute(attribute, value)
    for group in root.getElementsByTagName("g"):
        if group.hasAttribute("id"):  # a number for each kind of artist, the same in all figures
            group.removeAttribute("id")
    return Markup(root.toxml())


@styled
def svg_image(figure: Figure, words: str) -> Markup:
    """Return a figure as an `<img>` element that a browser draws when it becomes visible. `words` are its alternative.

    Letters are drawn as paths, as a page cannot choose the fonts of an image.
    """
    mpl.rcParams["svg.fonttype"] = "path"
    width, height = figure.get_size_inches() * PIXELS
    data = quote(_svg(figure).replace("\n", " "), safe=" !$*()+,-./:;=?@[]^_{|}~")
    return Markup('<img loading="lazy" decoding="async" width="{}" height="{}" style="{}" alt="{}" src="{}">').format(
        round(width), round(height), _widths(figure), words, f"data:image/svg+xml,{data}"
    )


def render(template: str, *folders: Path, **values: Any) -> str:
    """Return a page made of a template of this folder, or of others. All that is not `Markup` is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader([*folders, Path(__file__).parent])
    where = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, extensions=["jinja2.ext.do"], trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    where.globals.update(count=counted, listed=listed)
    where.filters.update(number=number_text, bound=bound_text)
    return where.get_template(template).render(version=versions().get("rue", "unknown"), **values)


def _svg(figure: Figure) -> str:
    """Return the SVG text of a figure, from its first tag on."""
    engine = figure.get_layout_engine()
    if engine is not None:  # savefig would compute the layout twice
        FigureCanvasSVG(figure)
        figure.set_dpi(POINTS)
        engine.execute(figure)
        figure.set_layout_engine("none")
    stream = BytesIO()
    figure.savefig(stream, format="svg", metadata=METADATA[".svg"])
    text = stream.getvalue().decode()
    return text[text.index("<svg") :]


def _widths(figure: Figure) -> str:
    """Return the largest and the smallest width of a figure on the page, as CSS variables; below that it scrolls."""
    pixels = figure.get_figwidth() * PIXELS
    return f"--wide:{pixels:.0f}px;--least:{pixels * 0.8:.0f}px"


@lru_cache(maxsize=256)
def text_width(text: str, size: float) -> float:
    """Return the width of a text, in inches."""
    return float(TextPath((0, 0), text, size=size).vertices[:, 0].max()) / POINTS if text.strip() else 0.0


def legend_columns(labels: Sequence[str], inches: float) -> int:
    """Return the largest number of legend columns that is not wider than that; matplotlib does not wrap legends."""
    widths = [text_width(label, NORMAL) + LEGEND_HANDLE for label in labels]
    for columns in range(len(labels), 1, -1):
        if sum(max(column) for column in np.array_split(widths, columns)) <= inches:
            return columns
    return 1


def legend_height(labels: Sequence[str], wide: float) -> float:
    """Return the height of the legend of a figure of that width, in inches."""
    return LEGEND_ROW * math.ceil(len(labels) / legend_columns(labels, min(wide, NARROW)))


def add_legend(figure: Figure, panels: Sequence[Axes], place: Place, inches: float = NARROW) -> None:
    """Add one legend of all that the panels show, outside of them and at most that wide."""
    entries = {label: sign for axes in panels for sign, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = legend_columns(list(entries), min(figure.get_figwidth(), inches))
    figure.legend(entries.values(), entries.keys(), loc=place, ncols=columns)


def add_bound(line: Callable[..., object], bound: float | None) -> None:
    """Draw a proved lower bound on the max regret of every policy, if there is one, by `axhline` or `axvline`."""
    if bound is not None:
        look = {"color": INK, "linestyle": (0, (5, 2)), "linewidth": 1.2, "zorder": 2.5}
        line(bound, label=bound_label(bound), **look)


def bound_label(bound: float) -> str:
    """Return what a legend says about a proved lower bound."""
    return f"every policy's max regret is at least {bound_text(bound)}"


def panels(number: int, across: int, size: tuple[float, float], layout: Any = "constrained", **more: Any) -> Panels:
    """Return a figure of that size, and its panels row by row."""
    figure = Figure(figsize=size, layout=layout)
    axes: list[Axes] = figure.subplots(-(-number // across), across, squeeze=False, **more).ravel().tolist()
    for unused in axes[number:]:
        unused.remove()
    return figure, axes[:number]


def plain_axes(axes: Axes) -> None:
    """Remove the upper and the right frame line, and draw faint horizontal lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def log_ticks(axis: Axis) -> None:
    """Write plain numbers on a log scale: powers of ten, and others where fewer than two powers are in the range.

    By hand, since matplotlib's formatter for plain numbers writes 0.1 as 1e-01.
    """

    def between(value: float, _: object) -> str:
        low, high = sorted(axis.get_view_interval())
        if math.floor(math.log10(high)) > math.ceil(math.log10(low)):
            return ""
        text = f"{value:g}"
        return text if high < 10 * low or text.strip("0.")[0] in "25" else ""

    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(between)


def share_text(share: float) -> str:
    """Return a share in whole percent; 0 % and 100 % only if it is that, up to rounding."""
    if SURE < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 - SURE else f"{share:.0%}"
