"""A matplotlib figure as a part of a page: inline, with letters that can be searched and colours that follow the
reader's light or dark, or as an image of its own that a browser draws when it comes to be seen.
"""

import re
from io import StringIO
from urllib.parse import quote

from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from rue.report import style

PIXELS = 88  # for an inch of a figure
# Colours of figures that follow the reader's light or dark.
THEME = {
    "#ffffff": "var(--paper)", style.INK.lower(): "var(--ink)", "#000000": "var(--ink)",
    "#dddddd": "var(--grid)", style.STONE.lower(): "var(--stone)", style.FAINT.lower(): "var(--soft)",
    style.BLUE.lower(): "var(--blue)",
}  # fmt: skip


def inline_svg(figure: Figure, name: str, words: str) -> Markup:
    """A figure as a part of the page: `name` keeps its identifiers apart from others', `words` are read out instead."""
    text = _svg(figure)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(?<=style=")[^"]*', lambda part: re.sub("#[0-9a-f]{6}", _themed, part[0]), text)
    width, _ = figure.get_size_inches()
    opening = Markup('<svg role="img" aria-label="{}" style="{}" ').format(words, _widths(width))
    text = re.sub(r"^<svg (?=[^>]*viewBox)", lambda _: opening, text)
    text = re.sub(r'^(<svg [^>]*?) width="[^"]*"', r"\1", text)
    return Markup(re.sub(r'^(<svg [^>]*?) height="[^"]*"', r"\1", text))


def picture(figure: Figure, words: str) -> Markup:
    """A figure as an image in the page, drawn by the browser when it comes to be seen."""
    width, height = figure.get_size_inches()
    data = quote(_svg(figure).replace("\n", " "), safe=" !$*()+,-./:;=?@[]^_{|}~")
    return Markup('<img loading="lazy" decoding="async" width="{}" height="{}" style="{}" alt="{}" src="{}">').format(
        round(width * PIXELS), round(height * PIXELS), _widths(width), words, f"data:image/svg+xml,{data}"
    )


@style.styled
def _svg(figure: Figure) -> str:
    """A figure as SVG without its head, and with coordinates no finer than can be seen."""
    _arrange(figure)
    stream = StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<style type.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(?<= d=")[^"]*', _coarse, text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return re.sub(r"\n\s*", "\n", text)


def _arrange(figure: Figure) -> None:
    """Put everything in its place for good: a figure that still has to be arranged is drawn twice when it is saved.

    Letters are measured as they will be written, so the result is the same.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasSVG(figure)
        figure.set_dpi(style.POINTS)
        engine.execute(figure)
        figure.set_layout_engine(None)


def _coarse(path: "re.Match[str]") -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])


def _themed(colour: "re.Match[str]") -> str:
    return THEME.get(colour[0], colour[0])


def _widths(inches: float) -> str:
    """How wide a figure is at most, and how narrow before it is scrolled."""
    return f"--wide:{inches * PIXELS:.0f}px;--least:{inches * PIXELS * 0.8:.0f}px;stroke-linejoin:round"
