"""Flat arrays from lists of transitions, some states at a time, so that few lists are in memory together.

A block has the transitions of some consecutive states in any order, for all actions and samples; those named twice are
added up. A choice that one sample does not have has a row of zeros in it. Its cost, or reward, is the mean of what its
transitions pay.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rue._arrays import Array, pointers
from rue._check import check_memory
from rue.flat import Flat
from rue.formats.text_table import Growing

BLOCK = 1 << 16  # transitions that are looked at together


@dataclass(frozen=True, eq=False)
class Entries:
    """The transitions of some states, which are counted from the first of them."""

    states: int
    state: Array
    action: Array
    target: Array
    sample: Array
    prob: Array
    paid: Array  # cost or reward


def flat_of_blocks(blocks: Iterable[Entries], states: int, samples: int) -> Flat:
    """Return flat arrays of the blocks of all states in order; `states` counts also those that have no transitions."""
    choices, action, length, target = (Growing(np.int64), Growing(np.int64), Growing(np.int64), Growing(np.int32))
    prob, cost, checked = Growing(np.float64), Growing(np.float64), 0
    for block in blocks:
        actions = int(block.action.max(initial=0)) + 1
        key = (block.state.astype(np.int64) * actions + block.action) * states + block.target
        union, place = (key, np.arange(key.size)) if _is_rising(key) else np.unique(key, return_inverse=True)
        table = np.bincount(place * samples + block.sample, block.prob, union.size * samples)
        own = union // states
        begins = np.flatnonzero(np.diff(own, prepend=-1))
        choice = own[begins]
        cell = np.searchsorted(choice, key // states) * samples + block.sample
        total, paid = (
            np.bincount(cell, values, choice.size * samples) for values in (block.prob, block.prob * block.paid)
        )
        choices.append(np.bincount(choice // actions, minlength=block.states))
        action.append(choice % actions)
        length.append(np.diff(begins, append=union.size))
        target.append(union % states)
        prob.append(table)
        cost.append(np.divide(paid, total, out=paid, where=total > 0))
        if prob.size > 2 * checked:
            checked = prob.size
            check_memory(f"a model of {target.size} transitions and {samples} samples, and more", 12.0 * checked)
    choices.append(np.zeros(states - choices.size, np.int64))
    return Flat(
        pointers(choices.take()), action.take(), pointers(length.take()), target.take(),
        prob.take().reshape(-1, samples), cost.take().reshape(-1, samples), 0,
    )  # fmt: skip


def _is_rising(key: Array) -> bool:
    return bool((key[1:] > key[:-1]).all())
