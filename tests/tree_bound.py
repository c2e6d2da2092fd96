"""A lower bound on the max regret of every policy, of any class: the best tree of a depth, and no regret after it.

    min over options o of  max over k of  E_k[ Σ_{t<d} g_k(s_t, a_t) ]        from the initial state, over all actions

What any policy does in its first d steps is an option of d steps that depends on the history, and regret gaps are never
negative. The bound grows with the depth. Its value is known for the models in `data/cases`.
"""

import numpy as np

from rue._check import whole_number
from rue._rounding import UNIT_ROUNDOFF
from rue.model import UMDP
from rue.recursion.inner.histories import TreeMixtures
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, add_end_values
from rue.recursion.option_game import improve_in_parallel
from rue.solution import Run
from rue.values import optimal_values, regret_gap


def tree_bound(model: UMDP, depth: int, *, run: Run | None = None) -> float:
    """Return a proved lower bound on the max regret of any policy, from all options of the first `depth` steps."""
    graph = model.graph
    depth, run = whole_number("depth", depth, 1), run or Run()
    if graph.goal[graph.initial]:
        return 0.0
    values = optimal_values(model, run=run)
    gap = regret_gap(model, values)
    tree = OptionTree.at(model, gap, None, depth, graph.initial)
    mixtures, zero = TreeMixtures(tree), np.zeros(graph.states)
    last_cost = np.empty_like(tree.model.gap)
    add_end_values(tree.model, zero, last_cost)
    tolerance = 1e-12 * float(gap[np.isfinite(gap)].max(initial=0.0))
    level, stop = np.full(1, np.inf), np.zeros(1, bool)
    given = Round(last_cost, zero, zero, zero, level, tolerance, True, np.inf, stop)
    improve_in_parallel(mixtures, np.zeros(1, np.int64), given, run)
    error = 4 * UNIT_ROUNDOFF * tree.operations
    return max(float(mixtures.found.floor[0]) * (1 - error) - 2 * depth * values.error, 0.0)
