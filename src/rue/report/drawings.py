"""The figures of the page with their captions, and with the words that are read out to those who cannot see them."""

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import ParamSpec, TypeVar

from rue.experiments.results import Results
from rue.judge import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.report.bounds import draw_bounds
from rue.report.figures import draw_experiment
from rue.report.maps import draw_map
from rue.report.regrets import draw_regrets
from rue.report.style import number_text
from rue.report.svg import inline_svg, picture
from rue.report.views import Drawing
from rue.report.words import count, listed
from rue.solution import Solution

P = ParamSpec("P")
T = TypeVar("T")
# Methods in one figure.
MOST_PANELS = 24


def tidy(draw: Callable[P, T]) -> Callable[P, T]:
    """A function that leaves nothing behind of the figures that it draws.

    A figure is a web of twenty thousand objects that hold each other, which only the garbage collector takes apart.
    While they are young that is quick; once they are old, each collection goes through everything that is loaded.
    """

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return draw(*args, **kwargs)
        finally:
            gc.collect(0)
            if was_enabled:
                gc.enable()

    return wrapped


def _not_shown(methods: int) -> str:
    return f" The first {MOST_PANELS} of {methods} methods." if methods > MOST_PANELS else ""


@tidy
def experiment_drawings(results: Results) -> list[Drawing]:
    """All figures of an experiment."""
    return [
        Drawing(one.title, one.caption, inline_svg(one.figure, one.name, f"{one.title}. {one.caption}"))
        for one in draw_experiment(results)
    ]


@tidy
def regret_drawing(
    model: UMDP, regrets: Mapping[str, Sequence[float]], bound: float, name: str, *, unseen: bool = False
) -> Drawing:
    """The regret of each method in each sample; of many methods, the first ones."""
    more = _not_shown(len(regrets))
    regrets = dict(islice(regrets.items(), MOST_PANELS))
    figure = draw_regrets(model, regrets, bound=bound if bound > 0 and not unseen else None)
    largest = ", ".join(f"{method} {number_text(max(map(float, regret)))}" for method, regret in regrets.items())
    what = "test sample" if unseen else "sample"
    words = f"Regret of {count(len(regrets), 'method')} in {count(model.samples, what)}. Largest: {largest}."
    title = "Regret in test samples" if unseen else "Regret in each sample"
    caption = f"The cost above the least that is possible there.{more}"
    return Drawing(title, caption, inline_svg(figure, name, words))


def unseen_drawing(model: UMDP, verdicts: Mapping[str, Evaluation]) -> Drawing:
    """The regret of each method in samples that were not planned with."""
    regrets = {name: verdict.regret.tolist() for name, verdict in verdicts.items()}
    return regret_drawing(model, regrets, 0.0, "test", unseen=True)


@tidy
def bounds_drawing(solutions: Mapping[str, Solution]) -> Drawing:
    """What each method knew after so many seconds."""
    more = _not_shown(len(solutions))
    solutions = dict(islice(solutions.items(), MOST_PANELS))
    words = f"Bounds of {listed([f'{name} {one.objective}' for name, one in solutions.items()])} over time."
    caption = (
        "What each method knew of its own objective after so many seconds. Different methods have different ones."
        f"{more}"
    )
    return Drawing("Bounds over time", caption, inline_svg(draw_bounds(solutions), "bounds", words))


@tidy
def map_drawing(model: UMDP, name: str, policy: Policy) -> Drawing | None:
    """What a policy does, if the model is a grid."""
    layout = model.graph.layout
    if "grid" not in layout:
        return None
    words = f"Map of what the policy of {name} does: how often it visits each place and what it chooses there."
    caption = "Expected visits, and what is chosen." if "heading" in layout else "The likeliest action of each state."
    return Drawing(f"Policy of {name} on the map", caption, picture(draw_map(model, policy), words), picture=True)
