"""The model as the kernels of the search take it: renumbered, without self-loops, with gaps in place of costs.

With a potential φ_k ≤ the backup of φ_k for every choice, such as a proved lower bound on V*_k, the gap of a choice is

    g_k(c) = (C̄_k(c) + Σ T_k(c, s') φ_k(s') − φ_k(s)) / (1 − T_k(c, s))  ≥  0,

rounded down. The division takes the self-loop out.
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array, members_with_owner, pointers, read_only
from rue._rounding import UNIT_ROUNDOFF
from rue.model import UMDP
from rue.policy import complete_choices
from rue.stationary.descent_kernels import HUGE, LocalModel
from rue.structure import sweep_order, visited_states
from rue.values import OptimalValues

# Sweeps that a node gets in each sample: fewer in large models, so that limits are checked in time.
SWEEPS = (4, 60)
NODE_WORK = 8_000_000


@dataclass(frozen=True, eq=False)
class Renumbered:
    """A model by place and local choice (see `descent_kernels.py`)."""

    model: UMDP
    order: Array  # [n] the state of each place
    choice: Array  # the model's choice of each local one
    local: LocalModel

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues, kept: Array) -> "Renumbered":
        """Renumber the kept choices of a model."""
        graph = model.graph
        order = _places(model, values, kept)
        place = np.full(graph.states, order.size, np.int32)
        place[order] = np.arange(order.size, dtype=np.int32)
        choice, owner = members_with_owner(graph.choice_ptr, order)
        choice, owner = choice[kept[choice]], owner[kept[choice]]
        transition, source = members_with_owner(graph.trans_ptr, choice)
        leaves = graph.successor[transition] != graph.choice_state[choice[source]]
        out = np.flatnonzero(model.ever_live[transition] & leaves)
        potential = values.lower
        prob, gap, sound = _gaps(model, choice, transition, source, out, potential)
        if not sound.all():
            # Zero is always a potential, if a poor one.
            potential = np.where(sound, potential, np.where(values.dead, np.inf, 0.0))
            prob, gap, _ = _gaps(model, choice, transition, source, out, potential)
        outcomes = int(np.diff(graph.trans_ptr).max(initial=0))
        local = LocalModel(
            row_ptr=_pointers(owner, order.size),
            out_ptr=_pointers(source[out], choice.size),
            target=read_only(place[graph.successor[transition[out]]]),
            prob=read_only(prob),
            gap=read_only(gap),
            offset=read_only(potential[graph.initial] - values.upper[graph.initial]),
            start=int(place[graph.initial]),
            shrink=1 - (4 * outcomes + 16) * UNIT_ROUNDOFF,
            sweeps=int(np.clip(NODE_WORK // max(gap.size, 1), *SWEEPS)),
        )
        return cls(model, order, choice, local)

    def by_place(self, policy: Array) -> Array:  # [n]
        """Return the local choice at each place; where the policy's choice is not kept, the first that is."""
        local = np.full(self.model.graph.choices, -1, np.int32)
        local[self.choice] = np.arange(self.choice.size, dtype=np.int32)
        mine = local[policy[self.order]]
        return np.where(mine >= 0, mine, self.local.row_ptr[:-1])

    def by_state(self, local: Array) -> Array:  # [S]
        """Return the choice of each state; at states that no policy can visit, the first one."""
        choice = np.full(self.model.graph.states, -1)
        choice[self.order] = self.choice[local]
        return complete_choices(self.model.graph, choice)


def _gaps(
    model: UMDP, choice: Array, transition: Array, source: Array, out: Array, potential: Array
) -> tuple[Array, Array, Array]:
    """Return probabilities [K, out], gaps [K, c], and for each sample whether all gaps are 0 or more.

    `source` is the index in `choice` of each transition's choice; `out` are the indices of transitions that some sample
    can take and that leave the state. An infinite potential marks a dead end.
    """
    graph, samples = model.graph, model.samples
    chance, backup, own = model.prob[transition], model.cost[choice], potential[graph.choice_state[choice]]
    number = source[:, None] * samples + np.arange(samples)  # of the choice and the sample
    with np.errstate(invalid="ignore", divide="ignore"):
        ahead = np.where(chance > 0, chance * potential[graph.successor[transition]], 0.0)
        np.add.at(backup.reshape(-1), number.reshape(-1), ahead.reshape(-1))
        leaving = chance[out]
        leave = np.bincount(number[out].reshape(-1), leaving.reshape(-1), backup.size).reshape(backup.shape)
        error = (UNIT_ROUNDOFF * (2 * np.diff(graph.trans_ptr)[choice] + 8))[:, None] * (backup + own)
        finite = (leave > 0) & (backup < np.inf) & (own < np.inf)
        gap = np.where(finite, np.maximum(backup - own - error, 0.0) / leave, HUGE)
        leave = leave[source[out]]
        prob = np.where(leave > 0, leaving / leave, 0.0)
        sound = ~(finite & (backup - own + error < 0)).any(axis=0)
    return np.ascontiguousarray(prob.T), np.ascontiguousarray(gap.T), sound


def _pointers(owner: Array, owners: int) -> Array:
    """Return where the items of each owner begin, for items sorted by owner."""
    return read_only(pointers(np.bincount(owner, minlength=owners)).astype(np.int32))


def _places(model: UMDP, values: OptimalValues, kept: Array) -> Array:  # [n]
    """Return the states that can be visited and are no goal, nearest to a goal first, without common dead ends."""
    graph, ever = model.graph, model.ever_live
    order = sweep_order(graph, ever, kept)
    visited = np.isin(order, visited_states(graph, ever, kept))
    return np.asarray(order[visited & ~values.dead[order].all(axis=1)])
