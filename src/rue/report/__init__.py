"""Figures and pages of models, policies and solutions. Nothing here solves anything: regrets are those of the judge."""

from rue.report.experiments import draw_experiment
from rue.report.maps import draw_map
from rue.report.paths import draw_belief, draw_graph, draw_trajectory
from rue.report.solutions import draw_bounds, draw_frontier, draw_regrets
from rue.report.style import save_figure

__all__ = [
    "draw_belief",
    "draw_bounds",
    "draw_experiment",
    "draw_frontier",
    "draw_graph",
    "draw_map",
    "draw_regrets",
    "draw_trajectory",
    "save_figure",
]
