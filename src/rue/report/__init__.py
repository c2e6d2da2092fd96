"""Pictures of models, policies and solutions. Nothing here solves anything: regrets are the judge's."""

from rue.report.bounds import draw_bounds
from rue.report.figures import draw_experiment
from rue.report.maps import draw_map
from rue.report.regrets import draw_regrets
from rue.report.style import save_figure

__all__ = ["draw_bounds", "draw_experiment", "draw_map", "draw_regrets", "save_figure"]
