"""A lower bound on the max regret of every policy, of any class: the best tree of some depth, with no regret after it.

    min over options o of  max over k of  E_k[ Σ_{t<d} g_k(s_t, a_t) ]        from the initial state, over all actions

What any policy does in its first d steps is an option of d steps that depends on the history, and regret gaps are never
negative. The bound grows with the depth.
"""

import numpy as np

from rue._check import whole_number
from rue.model import UMDP
from rue.recursion import option_kernels as kernel
from rue.recursion.inner.field import Found, Layout, Round
from rue.recursion.inner.trees import Trees
from rue.recursion.options import ROUNDING, improve_in_parallel
from rue.solution import Run
from rue.values import optimal_values, regret_gap


def tree_bound(model: UMDP, depth: int, *, run: Run | None = None) -> float:
    """A proved lower bound on the max regret of any policy, from all that can be done in the first `depth` steps."""
    graph = model.graph
    depth, run = whole_number("depth", depth, 1), run or Run()
    if graph.goal[graph.initial]:
        return 0.0
    values = optimal_values(model, run=run)
    only_initial = np.zeros(graph.states, bool)
    only_initial[graph.initial] = True
    gap = regret_gap(model, values)
    layout = Layout.build(model, gap, np.ones(graph.choices, bool), depth, None, only_initial)
    trees, found, zero = Trees(layout), Found(1), np.zeros(graph.states)
    ahead = np.empty_like(layout.field.gap)
    kernel.look_ahead(layout.field, zero, ahead)
    given = Round(
        zero, zero, zero, np.full(1, np.inf), 1e-12 * float(gap[np.isfinite(gap)].max(initial=0.0)), True, ahead
    )
    improve_in_parallel(trees, np.zeros(1, np.int64), given, found, run)
    error = 4 * ROUNDING * layout.operations
    return max(float(found.floor[0]) * (1 - error) - 2 * depth * values.error, 0.0)
