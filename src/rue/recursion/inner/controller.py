"""Put options together: one controller that follows an option to its end and begins the next one there."""

import numpy as np

from rue._arrays import Array, members, places, pointers
from rue.controllers import Part, put_together
from rue.model import UMDP
from rue.policy import Policy
from rue.recursion.inner.option_set import OptionSet
from rue.solution import Run

# Seconds that each next node of a controller takes until it is judged, and each sample of it besides.
SECONDS, SAMPLE_SECONDS = 1e-6, 6e-7


def assemble(model: UMDP, options: OptionSet, elsewhere: Array, run: Run) -> Policy | None:
    """Return the options as one controller, as far as it can be reached; None if it takes more time than is left."""
    pace, after = SECONDS + SAMPLE_SECONDS * model.samples, run.afterwards()
    graph, roots = model.graph, options.tree.layers.root
    view = options.tree.graph_view(graph)
    place = places(roots, graph.states)
    first = np.full(graph.states, -1)
    queue = [graph.initial]
    first[graph.initial] = 0
    parts = []
    nodes = size = 0
    for state in queue:
        first[state] = nodes
        i = int(place[state])
        part = options.part(i, view) if i >= 0 else _single(model, state, int(elsewhere[state]))
        parts.append(part)
        nodes += part[0].size
        size += part[4].size
        if pace * size > after.seconds_left:
            return None
        ends = np.unique(-1 - part[4][part[4] < 0])
        fresh = ends[first[ends] < 0]
        first[fresh] = 0
        queue.extend(fresh.tolist())
    offset = pointers([part[0].size for part in parts])
    numbered = [
        (*part[:4], np.where(part[4] < 0, first[np.maximum(-1 - part[4], 0)], part[4] + base))
        for part, base in zip(parts, offset, strict=False)
    ]
    return put_together(graph, numbered, np.zeros(1, np.int64), np.ones(1))


def _single(model: UMDP, state: int, choice: int) -> Part:
    """Return a node that takes one choice, or none at a goal."""
    graph = model.graph
    taken = np.array([choice] if not graph.goal[state] else [], np.int64)
    following = graph.successor[members(graph.trans_ptr, taken)]
    return (
        np.array([state]), np.array([taken.size]), taken, np.ones(taken.size), -1 - following.astype(np.int64)
    )  # fmt: skip
