"""Figures of a file, rewards or costs, become the costs of a model here, and nowhere else.

rue minimises costs, 0 or more. A file with rewards to maximise has costs −r. With a discount γ < 1 the problem becomes
a shortest path (`rue.flat.discounted`), and costs may be shifted. The model remembers what was done (`UMDP.units`), so
that values are reported in the figures of the file. What rue wrote brings the units of the model that was written.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import read_only
from rue.average import is_wanted
from rue.errors import BadFile, BadInput
from rue.flat import Flat, let_goals_wait
from rue.model import UMDP
from rue.units import PLAIN, Units


def model_from_rewards(
    where: str,
    flat: Flat,
    discount: float | None,
    *,
    sign: int = -1,
    ours: Mapping[str, Any] | None = None,
    average: bool | float = False,
    horizon: int | None = None,
    terminal: ArrayLike | None = None,
) -> UMDP:
    """Return the model of a problem whose `cost` holds rewards (sign −1) or costs (1); its `units` say what was done.

    A discount of 1 is none. With `average` it is one of averages per step, with `horizon` one of a number of steps and
    `terminal` figures; in both, goals have an action that stays. `where` names the file in messages. `ours` is what rue
    wrote about the model, if it did.
    """
    cost = flat.cost if sign == 1 else 0.0 - flat.cost  # no negative zeros
    factor = None if discount is None or discount == 1 else discount
    lowest = float(cost.min(initial=0.0))
    stays = horizon is not None or is_wanted(average)
    other = factor is not None or stays or terminal is not None  # arrays are made of these
    if lowest < 0 and not other:
        choice, sample = (int(i) for i in np.argwhere(cost == lowest)[0])
        state = int(np.searchsorted(flat.choice_ptr, choice, side="right")) - 1
        name = str(state) if flat.state_label is None else flat.state_label[state]
        kind = "reward" if sign == -1 else "cost"
        way = "a discount or a horizon" if ours is None and sign == -1 else "a discount"  # most files have no horizon
        raise BadFile(
            f"{where}: the {kind} in state {name} is {flat.cost[choice, sample]:g} in sample {sample}, and there is no "
            f"discount below 1; expected {kind}s that are {'0 or less' if sign == -1 else '0 or more'}, or {way}"
        )
    try:
        units = Units(**ours.get("units") or {}) if ours else Units(reward=sign == -1)
        units = units if flat.units == PLAIN else flat.units  # those of a probability
        if not other:
            flat = replace(flat, successor=read_only(flat.successor.astype(np.int32, copy=False)))
            flat = replace(flat, prob=read_only(np.ascontiguousarray(flat.prob)))  # the model shares them
        flat = replace(flat, cost=cost, units=units)
        flat = let_goals_wait(flat, 0.0) if stays else flat
        return UMDP.from_flat(flat, factor, horizon, terminal, average=average)
    except TypeError:
        raise BadFile(f"{where}: the units are damaged; expected those that rue writes") from None
    except BadInput as error:
        raise BadFile(f"{where}: {error}") from None


def units_of(model: UMDP) -> dict[str, Any]:
    """Return the units of a model as files have them; nothing if they are costs as they are."""
    return {} if model.units == PLAIN else {"units": asdict(model.units)}
