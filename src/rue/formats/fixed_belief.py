"""A UMDP at a fixed belief, as files of partially observable MDPs have it: what is kept beside it, and the way back.

Such a file gives every action to every state and needs a discount below 1 (`pomdpx_text.py` says how it is found). The
names that rue writes say which actions were added, and whether the discount stands for a part of each row.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rue._arrays import Array, pointers
from rue.errors import BadFile
from rue.flat import Flat
from rue.formats.assemble import Part, choice_of, put_together
from rue.formats.names import goals_of, names_of
from rue.formats.pomdpx_text import discount_of
from rue.formats.prism_explicit import merged_targets
from rue.formats.rewards import model_from_rewards, units_of
from rue.model import UMDP, Graph


def at_belief(model: UMDP) -> tuple[UMDP, dict[str, Any]]:
    """Return the model with each target once in a choice, and what a file at its belief cannot hold.

    The `discount` of the names is None if the rows of the file are those of the model.
    """
    model = merged_targets(model)
    graph = model.graph
    several = int(graph.goal.sum()) > 1  # which of them a choice ends in would be lost with the discount
    discount = discount_of(model, 1.0)
    names = {
        **names_of(model), **units_of(model), "discount": None if several or discount == 1.0 else discount,
        "added": _added(graph).tolist(),
    }  # fmt: skip
    return model, names


def _added(graph: Graph) -> Array:
    """Return the pairs of a state and an action that only the file has, as numbers state · actions + action."""
    actions = int(graph.action.max(initial=0)) + 1
    lacking = np.repeat(~graph.goal, actions)
    lacking[graph.choice_state.astype(np.int64) * actions + graph.action] = False
    return np.flatnonzero(lacking)


def model_at_belief(where: str, flat: Flat, discount: float, ours: Mapping[str, Any], sign: int = -1) -> UMDP:
    """Return the model of a file with rewards (sign −1) or costs (1); if rue wrote it, the one that was written."""
    goal = goals_of(where, ours, flat.choice_ptr.size - 1)
    if ours:
        flat = _without_added(where, flat, ours)
    flat = put_together([Part(where, flat, goal)])
    if ours.get("discount") is not None:
        flat, discount = _undiscounted(flat, discount, ours["goals"][0]), 1.0
    return model_from_rewards(where, flat, None if ours else discount, sign=sign, ours=ours)


def _without_added(where: str, flat: Flat, ours: Mapping[str, Any]) -> Flat:
    """Return the flat arrays without the actions that rue added, so that each state has every one."""
    actions = np.diff(flat.choice_ptr)
    kept = np.ones(flat.action.size, bool)
    try:
        state, action = np.divmod(np.array(ours["added"], np.int64), actions.max(initial=1))
    except (KeyError, TypeError, ValueError, OverflowError):
        state = action = np.array([-1])
    if state.size == 0:
        return flat
    choice = choice_of(flat, state, action)
    if (choice < 0).any():
        raise BadFile(f"{where}: the names are damaged; expected JSON as rue writes it")
    kept[choice] = False
    length = np.diff(flat.trans_ptr)
    row = np.repeat(kept, length)
    choice_state = np.repeat(np.arange(actions.size), actions)
    return replace(
        flat, choice_ptr=pointers(np.bincount(choice_state[kept], minlength=actions.size)), action=flat.action[kept],
        trans_ptr=pointers(length[kept]), successor=flat.successor[row], prob=flat.prob[row], cost=flat.cost[kept],
    )  # fmt: skip


def _undiscounted(flat: Flat, discount: float, goal: int) -> Flat:
    """Return the shortest path that rue wrote with a discount: the rest of each row leads to its goal."""
    kept = flat.successor != goal
    choice = np.repeat(np.arange(flat.action.size), np.diff(flat.trans_ptr))
    prob = flat.prob[kept] * discount
    rest = 1 - np.stack([np.bincount(choice[kept], column, flat.action.size) for column in prob.T], axis=1)
    every = np.concatenate([choice[kept], np.arange(flat.action.size)])
    target = np.concatenate([flat.successor[kept], np.full(flat.action.size, goal)])
    order = np.lexsort((target, every))
    return replace(
        flat, trans_ptr=pointers(np.bincount(every, minlength=flat.action.size)), successor=target[order],
        prob=np.concatenate([prob, rest])[order],
    )  # fmt: skip
