"""Questions about probability one, answered on the graph: exactly, not by waiting for a number to grow.

A transition may have probability zero in some samples, so each sample has a graph of its own. A state is a *dead end*
of a sample if no policy reaches a goal from it with probability one there; its cost is infinite in that sample.

If each state can reach a goal by transitions that are positive in all samples, there are no dead ends, and every other
question is answered at once. Otherwise:

- `surely_reaching(graph, live)` answers for one sample;
- `jointly_proper`: states and choices among which a policy that tries every choice is proper in each sample;
- `robustly_proper`: the same against an adversary who may change the sample at every step, which is what the
  recursions of `reg`, `cemr` and `robust` assume.

`jointly_proper` is exact where all samples have the same support, and sound always: what it returns is proper. In
general, whether a policy with memory exists that is proper in several MDPs at once is PSPACE-complete: where
`jointly_proper` finds none and each sample has one, `diagnosis` searches further.

The model uses this module to check itself, so nothing here imports the model.
"""

from typing import TYPE_CHECKING

import numpy as np

from rue import structure_kernels as reach
from rue._arrays import Array, read_only

if TYPE_CHECKING:
    from rue.model import UMDP, Graph

# From this many samples on, a better order of the states is worth the time to find it.
MANY_SAMPLES = 4


def visited_states(graph: "Graph", live: Array, allowed: Array | None = None) -> Array:
    """Return the states that can be visited from the initial one, in breadth-first order."""
    ptr = read_only(graph.trans_ptr[graph.choice_ptr])
    edges = reach.Edges(ptr, read_only(np.arange(graph.transitions, dtype=np.int32)), graph.successor)
    start = read_only(np.array([graph.initial], np.int32))
    return np.asarray(reach.breadth_first(edges, _usable(graph, live, allowed), start))


def reaching_goal(graph: "Graph", live: Array, allowed: Array | None = None) -> Array:
    """Return the states from which a goal can be reached at all, in breadth-first order, goals first."""
    edges = reach.Edges(*graph.predecessors, graph.trans_state)
    goals = read_only(np.flatnonzero(graph.goal).astype(np.int32))
    return np.asarray(reach.breadth_first(edges, _usable(graph, live, allowed), goals))


def sweep_order(graph: "Graph", live: Array, allowed: Array | None = None) -> Array:
    """Return the states that can reach a goal, nearest first and goals left out: the order of Gauss–Seidel sweeps."""
    order = reaching_goal(graph, live, allowed)
    return np.asarray(order[~graph.goal[order]])


def surely_reaching(graph: "Graph", live: Array, within: Array | None = None) -> tuple[Array, Array]:  # [S], [C]
    """Return the states from which some policy reaches a goal with probability one, and the choices it may use.

    `live[T]` are the transitions that are possible, `within[C]` the choices to pick from. The states are the largest
    set that can stay within itself and from all of which a goal can be reached.
    """
    alive, allowed = _everything(graph, within)
    while True:
        seen = _mask(graph.states, reaching_goal(graph, live, allowed))
        if not (alive & ~seen).any():
            return alive, allowed
        reach.retreat(_links(graph), alive, allowed, live, seen)


def all_states_reach_goal(model: "UMDP") -> bool:
    """Return whether each state can reach a goal by transitions that are positive in every sample: no dead ends."""
    return _outward(model) is not None


def outward_order(model: "UMDP") -> Array | None:
    """Return all states but the goals, nearest to a goal first, by transitions that are positive in every sample.

    None if some state has no such way. If there are several samples to sweep, near means a small cost in the averaged
    model, else few steps.
    """

    def compute() -> Array | None:
        graph, order = model.graph, _outward(model)
        if order is not None and model.samples >= MANY_SAMPLES and graph.choices:
            order = reach.nearest(_links(graph), model.always_live, model.prob, model.cost)
        return None if order is None else read_only(order[~graph.goal[order]])

    return model.remember("outward_order", compute)


def _outward(model: "UMDP") -> Array | None:
    """Return all states, breadth first from the goals, by transitions that are always positive; None if some miss."""

    def compute() -> Array | None:
        order = reaching_goal(model.graph, model.always_live)
        return order if order.size == model.graph.states else None

    return model.remember("breadth_first", compute)


def proper_in(model: "UMDP", sample: int, within: Array | None = None) -> tuple[Array, Array]:  # [S], [C]
    """Return the states that are no dead ends of a sample, and the choices, of those `within`, that avoid dead ends."""
    if within is None and all_states_reach_goal(model):
        return _everything(model.graph)
    return surely_reaching(model.graph, model.prob[:, sample] > 0, within)


def jointly_proper(model: "UMDP", *, everywhere: bool = False) -> tuple[Array, Array]:  # [S], [C]
    """Return states and choices such that trying all of these choices is proper in every sample.

    That is from the initial state on. With `everywhere`, it is from each of these states, in whichever sample: no
    choice leads out of them in any sample, even where another sample could be ruled out by then.
    """
    if all_states_reach_goal(model):
        return _everything(model.graph)
    if everywhere:
        return _jointly_proper(model, [np.ones(model.graph.states, bool)] * model.samples)
    return model.remember("jointly_proper", lambda: _jointly_proper(model, _visited(model)))


def robustly_proper(model: "UMDP", *, randomised: bool, within: Array | None = None) -> tuple[Array, Array]:  # [n], [C]
    """Return the states from which a policy reaches a goal against every adversary, and its safe choices.

    `within[C]` restricts the choices, as pruning does. The states come without goals and in an order in which each
    makes progress, whatever the sample, towards those before it: by one choice, or by some choice for each sample if
    the policy may be randomised.
    """
    graph = model.graph
    alive, allowed = _everything(graph, within)
    outward = outward_order(model) if within is None else None
    if outward is not None:
        return outward.copy(), allowed
    ever = model.ever_live
    while True:
        order = reach.attract(_links(graph), allowed, model.always_live, model.prob, randomised)
        seen = _mask(graph.states, order)
        if not (alive & ~seen).any():
            return np.asarray(order[~graph.goal[order]]), allowed
        reach.retreat(_links(graph), alive, allowed, ever, seen)


def _visited(model: "UMDP") -> list[Array]:  # [S] each
    return [_mask(model.graph.states, visited_states(model.graph, model.prob[:, k] > 0)) for k in range(model.samples)]


def _jointly_proper(model: "UMDP", visited: list[Array]) -> tuple[Array, Array]:
    """Remove, sample by sample, what cannot reach a goal there, until nothing changes.

    A state counts for a sample only if it is among those `visited` in it.
    """
    graph = model.graph
    alive, allowed = _everything(graph)
    lives = [model.prob[:, k] > 0 for k in range(model.samples)]
    relevant = np.zeros(graph.transitions, bool)
    for live, seen in zip(lives, visited, strict=True):
        relevant |= live & seen[graph.trans_state]
    while True:
        keep = alive.copy()
        for live, seen in zip(lives, visited, strict=True):
            keep &= _mask(graph.states, reaching_goal(graph, live, allowed)) | ~seen
        if not (alive & ~keep).any():
            return alive, allowed
        reach.retreat(_links(graph), alive, allowed, relevant, keep)


def inner_choices(graph: "Graph", free: Array, live: Array) -> tuple[Array, Array]:  # [S], [C]
    """Return the largest sets of states that some choices connect without leaving them, and those of the choices.

    `free[C]` says which choices, `live[T]` which of their transitions can happen. The first array has the number of the
    set of each state; a state in none has a number of its own.
    """
    from scipy.sparse import coo_array  # seldom needed, and slow to import
    from scipy.sparse.csgraph import connected_components

    inner = free.copy()
    state = graph.trans_state
    while True:
        used = np.flatnonzero(inner[graph.trans_choice] & live)
        ends = (state[used], graph.successor[used])
        edges = coo_array((np.ones(used.size, np.int8), ends), shape=(graph.states, graph.states))
        _, component = connected_components(edges.tocsr(), directed=True, connection="strong")
        leaving = used[component[state[used]] != component[graph.successor[used]]]
        if leaving.size == 0:
            return component, inner
        inner[graph.trans_choice[leaving]] = False


def _everything(graph: "Graph", within: Array | None = None) -> tuple[Array, Array]:  # [S], [C]
    """Return masks of all states and of all choices, or of those in `within`, to be narrowed down."""
    return np.ones(graph.states, bool), np.ones(graph.choices, bool) if within is None else within.copy()


def _usable(graph: "Graph", live: Array, allowed: Array | None) -> Array:  # [T]
    """Return the live transitions of allowed choices."""
    return np.ascontiguousarray(live) if allowed is None else live & allowed[graph.trans_choice]


def _mask(size: int, index: Array) -> Array:
    mask = np.zeros(size, bool)
    mask[index] = True
    return mask


def _links(graph: "Graph") -> reach.Links:
    return reach.Links(graph.choice_ptr, graph.choice_state, graph.trans_choice, *graph.predecessors)
