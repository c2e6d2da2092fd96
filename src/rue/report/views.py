"""What the template shows: tables, drawings, problems and sections as plain values, without a word on how they look.

A text is escaped when it is shown, unless it is `Markup`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from rue._text import short_line

# In a cell of a table.
MOST_LETTERS = 300


@dataclass(frozen=True)
class Cell:
    """What stands in a table. A number also has its full value, by which it is sorted; a missing one is NaN."""

    text: str
    number: float | None = None
    strong: bool = False
    bar: float | None = None  # percent of the widest
    mark: float | None = None  # the proved bound on the same scale
    link: str = ""

    def __post_init__(self) -> None:
        if len(self.text) > MOST_LETTERS:
            object.__setattr__(self, "text", short_line(self.text, MOST_LETTERS))

    @property
    def sort(self) -> str:
        """The value for the script of the page."""
        if self.number is None or math.isnan(self.number):
            return ""
        return repr(self.number) if math.isfinite(self.number) else "inf"


@dataclass(frozen=True)
class Column:
    """A heading, and whether numbers are below it."""

    name: str
    number: bool = True


@dataclass(frozen=True)
class Sheet:
    """A table of the page."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    notes: Sequence[str] = ()
    pinned: Sequence[Cell] = ()  # a row that stays below the headings
    folded: bool = False
    wraps: bool = False  # for words rather than numbers


@dataclass(frozen=True)
class Drawing:
    """A figure of the page: inline, or a picture on white."""

    title: str
    caption: str
    body: Markup
    picture: bool = False


@dataclass(frozen=True)
class PolicyView:
    """What a policy does: its map, if there is one, and its first rows."""

    name: str
    table: Sheet
    map: Drawing | None = None


@dataclass
class ProblemView:
    """One problem, to be opened."""

    id: str = ""
    title: str = ""
    words: str = ""  # beside the title
    facts: str = ""
    table: Sheet | None = None
    figures: list[Drawing] = field(default_factory=list)
    policies: list[PolicyView] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SizeView:
    """The problems of one size."""

    title: str
    words: str
    problems: Sequence[ProblemView]
    open: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a section; without a title it is the section's own."""

    title: str = ""
    id: str = ""
    words: Sequence[str] = ()
    items: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Sheet] = ()
    figures: Sequence[Drawing] = ()
    sizes: Sequence[SizeView] = ()
    after: Sequence[str] = ()  # words below the items
    problem: ProblemView | None = None
    code: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    id: str
    title: str
    parts: Sequence[Part]
    words: Sequence[str] = ()
