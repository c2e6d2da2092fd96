"""The probability of a goal before bad states, as a cost.

Each state gets one more action, "give up", which costs 1 and ends the episode; it is the only one of states to avoid.
All else is free. So a policy pays 1 less the probability with which it reaches a goal before a state to avoid. One that
might go round for ever does as well if it gives up instead. With a horizon, an episode that has not arrived by then
pays 1, too.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import members, pointers, ranges
from rue._check import index_array
from rue.errors import BadInput
from rue.flat import Flat, new_name
from rue.units import Units

GIVE_UP = "give up"
# The reward of an episode that ends at a horizon before a goal: no probability.
NEVER_ARRIVED = -1.0


def reach_avoid(flat: Flat, avoid: ArrayLike) -> Flat:
    """Return the problem of reaching a goal with the largest probability, without coming to the states `avoid`."""
    states, samples = flat.choice_ptr.size - 1, flat.prob.shape[1]
    bad = np.isin(np.arange(states), index_array("avoid", avoid, states))
    is_goal = np.diff(flat.choice_ptr) == 0
    goals = np.flatnonzero(is_goal & ~bad)
    if goals.size == 0:
        raise BadInput("there is no goal that is not to be avoided; expected one or more in goals")
    state = np.repeat(np.arange(states), np.diff(flat.choice_ptr))
    kept = np.flatnonzero(~bad[state])
    quits = np.flatnonzero(~is_goal | bad)
    length = np.diff(flat.trans_ptr)
    transition = members(flat.trans_ptr, kept)
    # The new choice of a state comes after its others.
    order = np.argsort(np.concatenate([state[kept], quits]), kind="stable")
    size = np.concatenate([length[kept], np.ones(quits.size, int)])
    start = np.concatenate([pointers(length[kept])[:-1], transition.size + np.arange(quits.size)])
    place = ranges(start[order], size[order])
    number = int(flat.action.max(initial=-1)) + 1
    successor = np.concatenate([flat.successor[transition], np.full(quits.size, goals[0])])
    prob = np.vstack([flat.prob[transition], np.ones((quits.size, samples))])
    cost = np.vstack([np.zeros((kept.size, samples)), np.ones((quits.size, samples))])
    names = flat.action_label
    return replace(
        flat,
        choice_ptr=pointers(np.bincount(np.concatenate([state[kept], quits]), minlength=states)),
        action=np.concatenate([flat.action[kept], np.full(quits.size, number)])[order],
        trans_ptr=pointers(size[order]),
        successor=successor[place],
        prob=prob[place],
        cost=cost[order],
        action_label=None if names is None else (*names, new_name(GIVE_UP, names)),
        units=Units(reward=True, constant=1.0),
    )
