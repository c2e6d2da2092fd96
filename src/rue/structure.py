"""Questions about probability one, answered on the graph: exactly, never by waiting for a number to grow.

A transition may have probability zero in some samples, so each sample has a graph of its own. A state is a
*dead end* of a sample if no policy reaches a goal from it with probability one there; its cost is infinite in
that sample.

Where each state can reach a goal by transitions that are positive in all samples, which is one linear search,
there are no dead ends and every other question is answered at once. Otherwise:

- `surely_reaching(graph, live)` (in `model.py`) for one sample;
- `jointly_proper`: states and choices among which a policy that tries every choice is proper in each sample;
- `robustly_proper`: the same against an adversary who may change the sample at every step, which is what the
  recursions of `reg`, `cemr` and `robust` assume.

`jointly_proper` is exact where all samples have the same support, and sound always: what it returns is proper.
In general, whether a policy with memory exists that is proper in several MDPs at once is PSPACE-complete: where it
finds none and each sample has one, `diagnosis` looks further.
"""

import numpy as np

from rue import structure_kernels as reach
from rue._arrays import Array
from rue.model import UMDP, Graph, all_states_reach_goal, outward_order, surely_reaching


def sweep_order(model: UMDP, live: Array, alive: Array, allowed: Array) -> Array:
    """Alive non-goal states that can reach a goal, nearest first: the order in which values flow."""
    graph = model.graph
    _, order = reach.backward(
        *graph.predecessors, graph.trans_choice, graph.choice_state, graph.goal, alive, allowed, live
    )
    return np.asarray(order[~graph.goal[order]])


def reaching(model: UMDP, sample: int) -> Array:  # [S]
    """States from which a goal can be reached at all in a sample."""
    graph = model.graph
    seen, _ = reach.backward(
        *graph.predecessors, graph.trans_choice, graph.choice_state, graph.goal,
        np.ones(graph.states, bool), np.ones(graph.choices, bool), model.prob[:, sample] > 0,
    )  # fmt: skip
    return np.asarray(seen)


def proper_in(model: UMDP, sample: int, within: Array | None = None) -> tuple[Array, Array]:  # [S], [C]
    """States without a dead end in a sample, and the choices that never lead into one.

    `within[C]` restricts the choices.
    """
    if within is None and all_states_reach_goal(model):
        return _everything(model)
    return surely_reaching(model.graph, model.prob[:, sample] > 0, within)


def jointly_proper(model: UMDP) -> tuple[Array, Array]:  # [S], [C]
    """States and choices such that trying all of these choices is proper in every sample."""
    if all_states_reach_goal(model):
        return _everything(model)
    return model.remember("jointly_proper", lambda: _jointly_proper(model))


def robustly_proper(model: UMDP, *, randomised: bool, within: Array | None = None) -> tuple[Array, Array]:  # [n], [C]
    """States from which a policy reaches a goal whatever samples an adversary picks, and its safe choices.

    `within[C]` restricts the choices, as pruning does. The states come without goals and in an order in which each
    makes progress, whatever the sample, towards those before it: by one choice, or by some choice for each sample
    if the policy may be randomised.
    """
    graph = model.graph
    alive, allowed = _everything(model)
    outward = outward_order(model) if within is None else None
    if outward is not None:
        return outward.copy(), allowed
    if within is not None:
        allowed &= within
    ever = model.ever_live
    while True:
        seen, order = reach.attract(
            *graph.predecessors, graph.trans_choice, graph.choice_state, graph.goal,
            alive, allowed, model.always_live, model.prob, randomised,
        )  # fmt: skip
        if not (alive & ~seen).any():
            return np.asarray(order[~graph.goal[order]]), allowed
        reach.retreat(
            graph.choice_ptr, *graph.predecessors, graph.trans_choice, graph.choice_state,
            graph.goal, alive, allowed, ever, seen,
        )  # fmt: skip


def _everything(model: UMDP) -> tuple[Array, Array]:
    return np.ones(model.graph.states, bool), np.ones(model.graph.choices, bool)


def _jointly_proper(model: UMDP) -> tuple[Array, Array]:
    """Give up, sample by sample, what cannot reach a goal there, until nothing changes.

    A state counts for a sample only if it can be reached in it.
    """
    graph = model.graph
    alive, allowed = _everything(model)
    lives = [model.prob[:, k] > 0 for k in range(model.samples)]
    visited = [
        reach.forward(graph.choice_ptr, graph.trans_ptr, graph.successor, graph.initial, allowed, live)[0]
        for live in lives
    ]
    owner = graph.choice_state[graph.trans_choice]
    relevant = np.zeros(graph.transitions, bool)
    for live, seen in zip(lives, visited, strict=True):
        relevant |= live & seen[owner]
    while True:
        keep = alive.copy()
        for live, seen in zip(lives, visited, strict=True):
            reached, _ = reach.backward(
                *graph.predecessors, graph.trans_choice, graph.choice_state, graph.goal, alive, allowed, live
            )
            keep &= reached | ~seen
        if not (alive & ~keep).any():
            return alive, allowed
        reach.retreat(
            graph.choice_ptr, *graph.predecessors, graph.trans_choice, graph.choice_state,
            graph.goal, alive, allowed, relevant, keep,
        )  # fmt: skip


def inner_choices(graph: Graph, free: Array, live: Array) -> tuple[Array, Array]:  # [S], [C]
    """The largest sets of states that some choices connect without leaving them, and those of the choices that do not.

    `free[C]` says which choices, `live[T]` which of their transitions can happen. States in none are alone.
    """
    from scipy.sparse import coo_array  # seldom needed, and slow to import
    from scipy.sparse.csgraph import connected_components

    inner = free.copy()
    state = graph.choice_state[graph.trans_choice]
    while True:
        used = np.flatnonzero(inner[graph.trans_choice] & live)
        ends = (state[used], graph.successor[used])
        edges = coo_array((np.ones(used.size, np.int8), ends), shape=(graph.states, graph.states))
        _, component = connected_components(edges.tocsr(), directed=True, connection="strong")
        leaving = used[component[state[used]] != component[graph.successor[used]]]
        if leaving.size == 0:
            return component, inner
        inner[graph.trans_choice[leaving]] = False
