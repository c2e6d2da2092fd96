"""Published figures, to be shown beside ours.

Those of the paper are from Rigter, Lacerda and Hawes, "Minimax Regret Optimisation for Robust Planning in Uncertain
Markov Decision Processes" (AAAI 2021): means and standard deviations of the normalised max regret from the tables of
its appendix, and the mean seconds of the medical domain (for the other domains it only has figures).
The paper gives the number of problems for the medical domain only; its p-values fit 175 problems in disaster rescue
and 150 in the glider domain, that is 7 and 6 sizes of 25.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rue._check import real_number, whole_number
from rue.errors import BadInput, unknown_name
from rue.experiments.toml import read_toml

# In the order of the paper's tables.
ELEVEN = (
    "reg-d1", "reg-d2", "reg-d3", "cemr-d1", "cemr-d2", "cemr-d3", "best", "average", "robust", "reg-s1", "cemr-s1",
)  # fmt: skip
# What may be given of a group, by method.
SETS = ("problems", "train", "train deviation", "test", "test deviation", "seconds")

Published = Mapping[str, Mapping[str, Mapping[str, float]]]  # by group, set and method


def _row(*figures: float) -> dict[str, float]:
    return dict(zip(ELEVEN, figures, strict=True))


PAPER: Published = {
    "medical": {
        "problems": _row(*[250] * len(ELEVEN)),
        "train": _row(0.596, 0.538, 0.497, 0.906, 0.885, 0.880, 0.557, 0.596, 0.641, 0.529, 0.846),
        "train deviation": _row(0.22, 0.18, 0.16, 0.11, 0.13, 0.12, 0.20, 0.22, 0.23, 0.15, 0.12),
        "test": _row(0.674, 0.636, 0.625, 0.870, 0.855, 0.852, 0.706, 0.677, 0.715, 0.574, 0.814),
        "test deviation": _row(0.19, 0.18, 0.18, 0.13, 0.14, 0.13, 0.20, 0.20, 0.19, 0.12, 0.13),
        "seconds": _row(5.03, 21.1, 77.6, 4.24, 20.0, 66.9, 103, 3.75, 0.391, 4.64, 3.96),
    },
    "disaster": {
        "problems": _row(*[175] * len(ELEVEN)),
        "train": _row(0.576, 0.340, 0.297, 0.840, 0.633, 0.521, 0.647, 0.661, 0.578, 0.353, 0.695),
        "train deviation": _row(0.25, 0.19, 0.17, 0.25, 0.25, 0.24, 0.25, 0.28, 0.27, 0.18, 0.23),
        "test": _row(0.601, 0.410, 0.348, 0.826, 0.636, 0.528, 0.680, 0.643, 0.626, 0.389, 0.669),
        "test deviation": _row(0.28, 0.22, 0.20, 0.25, 0.26, 0.24, 0.28, 0.28, 0.31, 0.21, 0.26),
    },
    "glider": {
        "problems": _row(*[150] * len(ELEVEN)),
        "train": _row(0.590, 0.537, 0.504, 0.813, 0.767, 0.696, 0.566, 0.652, 0.681, 0.557, 0.802),
        "train deviation": _row(0.25, 0.22, 0.21, 0.21, 0.20, 0.19, 0.23, 0.25, 0.27, 0.21, 0.20),
        "test": _row(0.715, 0.679, 0.652, 0.849, 0.812, 0.757, 0.688, 0.718, 0.758, 0.680, 0.827),
        "test deviation": _row(0.24, 0.23, 0.23, 0.21, 0.20, 0.19, 0.24, 0.23, 0.24, 0.21, 0.19),
    },
}  # fmt: skip


def read_published(path: str | Path) -> Published:
    """Read figures from a TOML file: a table for each group and set, `[disaster.train]`, with `reg-d1 = 0.576`."""
    return read_toml(path, lambda table, _: {group: _checked(group, sets) for group, sets in table.items()})


def _checked(group: str, sets: Any) -> dict[str, dict[str, float]]:
    if not isinstance(sets, dict):
        raise BadInput(f"{group} is {sets!r}; expected a table such as [{group}.train]")
    for name, figures in sets.items():
        if name not in SETS:
            raise unknown_name(f"set of {group}", name, SETS)
        if not isinstance(figures, dict):
            raise BadInput(f"{group}.{name} is {figures!r}; expected a table of methods with their numbers")
    return {
        name: {method: _figure(f"{group}.{name}.{method}", name, figure) for method, figure in figures.items()}
        for name, figures in sets.items()
    }


def _figure(where: str, name: str, figure: object) -> float:
    if name == "problems":
        return whole_number(where, figure, 2)  # a deviation needs two
    return real_number(where, figure, "a number, 0 or more", 0)
