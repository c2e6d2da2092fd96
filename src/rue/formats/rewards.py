"""Rewards become costs here, and nowhere else.

rue minimises costs, 0 or more. A file with rewards to maximise has costs −r. Where there is a discount γ < 1, the
problem becomes a shortest path (`rue.flat.discounted`): if some cost is negative, all are shifted up by the same amount
per step. The value in the file's own units is then

    reward value = −(cost value − shift / (1 − γ))

and `Conversion.undo` computes it. Regrets are the same in both.
"""

from dataclasses import dataclass, replace

import numpy as np

from rue._arrays import Array
from rue.errors import BadFile, BadInput
from rue.flat import Flat
from rue.model import UMDP


@dataclass(frozen=True)
class Conversion:
    """What was done to the numbers of a file: cost = sign · number + shift, with a discount or without."""

    sign: int = 1  # -1 for rewards
    shift: float = 0.0  # per step
    discount: float | None = None

    def undo(self, value: Array) -> Array:
        """Return values of the model in the units of the file."""
        steps = 0.0 if self.discount is None else 1 / (1 - self.discount)
        return np.asarray(self.sign * (value - self.shift * steps))


def model_from_rewards(where: str, flat: Flat, discount: float | None, sign: int = -1) -> tuple[UMDP, Conversion]:
    """Return the model of a problem whose `cost` holds rewards (sign −1) or costs (1), and what was done to them.

    A discount of 1 is none. `where` names the file in messages.
    """
    cost = flat.cost if sign == 1 else 0.0 - flat.cost  # no negative zeros
    factor = None if discount is None or discount == 1 else discount
    lowest = float(cost.min(initial=0.0))
    if factor is None and lowest < 0:
        choice, sample = (int(i) for i in np.argwhere(cost == lowest)[0])
        state = int(np.searchsorted(flat.choice_ptr, choice, side="right")) - 1
        name = str(state) if flat.state_label is None else flat.state_label[state]
        kind = "reward" if sign == -1 else "cost"
        raise BadFile(
            f"{where}: the {kind} in state {name} is {flat.cost[choice, sample]:g} in sample {sample}, and there is no "
            f"discount below 1; expected {kind}s that are {'0 or less' if sign == -1 else '0 or more'}, or a discount"
        )
    try:
        model = UMDP.from_flat(replace(flat, cost=cost), factor)
    except BadInput as error:
        raise BadFile(f"{where}: {error}") from None
    return model, Conversion(sign, 0.0 if factor is None else max(0.0, -lowest), factor)
