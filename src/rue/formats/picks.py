"""Which label of a file marks the goals, which one the states to avoid, and which reward model has the costs."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadFile

# Labels of goals in files of model checkers: the first of them that is there counts.
GOAL_LABELS = ("goal", "target", "done")
COSTS = ("cost", "costs")
# Labels that all files have, and that are never those of goals unless asked for.
OTHER_LABELS = ("init", "deadlock")


class Picks(NamedTuple):
    """What is asked for of a file with several labels and rewards."""

    goal: str | None = None
    reward: str | None = None
    avoid: str | None = None  # then the probability of goals counts, not rewards; "" if nothing is to be avoided


def pick_goal(where: str, known: Collection[str], wanted: str | None) -> str | None:
    """Return the label of goals: the one that is asked for, else a usual one; None if there is none."""
    if wanted is None:
        return next((name for name in GOAL_LABELS if name in known), None)
    if wanted not in known:
        raise no_label(where, wanted, other_labels(known))
    return wanted


def other_labels(known: Collection[str]) -> list[str]:
    """Return the labels that may be those of goals if they are asked for."""
    return [name for name in known if name not in OTHER_LABELS]


def no_goal(where: str, labels: Collection[str]) -> BadFile:
    """Return the error for a file that does not say which states are goals."""
    return BadFile(
        f"{where}: there is no goal: no state has the label {', '.join(GOAL_LABELS)}, and none only loops at no cost; "
        f"expected the name of a label (goal= or --goal), {_one_of(labels, 'labels')}"
    )


def no_label(where: str, wanted: str, labels: Collection[str]) -> BadFile:
    """Return the error for a label that no state has."""
    return BadFile(f"{where}: no state has the label {short_line(wanted)!r}; expected {_one_of(labels, 'labels')}")


def pick_reward(where: str, known: Sequence[str], picks: Picks) -> int:
    """Return the number of the reward model with the costs: the one that is asked for, the only one, or `cost`."""
    wanted = picks.reward
    if picks.avoid is not None:
        if wanted is not None:
            raise BadFile(f"{where}: avoid and the reward {short_line(wanted)!r} are given; expected one objective")
        return 0
    if wanted is not None:
        if wanted not in known:
            raise BadFile(f"{where}: there is no reward {short_line(wanted)!r}; expected {_one_of(known, 'rewards')}")
        return known.index(wanted)
    usual = [known.index(name) for name in COSTS if name in known]
    if len(known) > 1 and not usual:
        raise BadFile(
            f"{where}: there are the reward models {', '.join(known)}; expected one, one that is called cost, or the "
            "name of one (reward= or --reward)"
        )
    return usual[0] if usual else 0


def _one_of(names: Collection[str], kind: str) -> str:
    few = sorted(names)[:10]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"one of {', '.join(few)}{more}" if few else f"none, as there are no {kind}"


def label_masks(
    where: str, labels: Mapping[str, Sequence[int]], states: int, picks: Picks
) -> tuple[Array | None, Array | None]:
    """Return which states have the label of goals, or None if none has, and which are to be avoided, if that counts."""
    found = pick_goal(where, [name for name, own in labels.items() if own], picks.goal)
    masks: list[Array | None] = []
    for name in (found, picks.avoid):
        mask = None if name is None else np.zeros(states, bool)
        if mask is not None:
            mask[list(labels.get(str(name), ()))] = True
        masks.append(mask)
    return masks[0], masks[1]
