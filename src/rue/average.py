"""Averages per step in the long run, by a discount near 1.

In the long run a policy costs g = lim 1/n E[c_1 + … + c_n] per step. Let V be the discounted cost with γ < 1. Then
(1−γ) V is a mean of the costs of single steps, the near ones with more weight, and tends to g as γ tends to 1. The
model that is made here has costs c·(1−γ), so that its values are (1−γ) V, and its regrets differences of these. How far
they are from g is computed for each policy and sample (`long_run.py`).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rue._check import real_number
from rue.errors import BadInput
from rue.flat import Flat, discounted

USUAL_DISCOUNT = 0.9999


def is_wanted(average: object) -> bool:
    """Return whether `average=` asks for averages: True, or a discount; what is no discount is refused later."""
    return average is not None and not (isinstance(average, bool | np.bool_) and not average)


def averaged(flat: Flat, average: bool | float) -> Flat:
    """Return the problem of the average cost per step: `average` is the discount that stands for it, or True."""
    gamma = USUAL_DISCOUNT if isinstance(average, bool | np.bool_) else _check_discount(average)
    goals = np.flatnonzero(np.diff(flat.choice_ptr) == 0)
    if goals.size:
        name = str(goals[0]) if flat.state_label is None else flat.state_label[goals[0]]
        raise BadInput(
            f"state {name} is a goal, and average= is given; expected none, since in the long run only what goes on "
            "counts: give it an action that stays there at cost 0, or one that leads back"
        )
    flat = discounted(flat, gamma)
    steps = 1 / (1 - gamma)
    return replace(flat, cost=flat.cost / steps, units=replace(flat.units, steps=steps, average=True))


def check_alone(others: Mapping[str, object]) -> None:
    """Refuse an average together with other arguments that define the problem."""
    given = [f"{name}=" for name, value in others.items() if value is not None]
    if given:
        way = ", as average=0.999" if given[0] == "discount=" else ""
        raise BadInput(f"average= is given with {' and '.join(given)}; expected average= alone{way}")


def _check_discount(average: object) -> float:
    wanted = "True, or a discount between 0 and 1, both excluded"
    gamma = real_number("average", average, wanted, 0, 1)
    if gamma in (0, 1):
        raise BadInput(f"average is {average}; expected {wanted}")
    return gamma
