"""Stochastic (s,t)-options by separable programming, as in the paper's appendix. A heuristic.

The products π(s,a,t) q_k(s,a,t) of Table 1 are bilinear when π may be any distribution. With

    x = (u + π) / 2,   y = (u − π) / 2,   u π = x² − y²

each square is replaced by a piecewise linear function on a few breakpoints b_i (the paper: 3): x = Σ λ_i b_i,
x² ≈ Σ λ_i b_i², Σ λ_i = 1, where only two adjacent λ_i may be positive. In HiGHS, which has no such sets, binaries say
in which segment y lies; in SCIP they are SOS2 constraints. The rest is as in `table1`: one family c_k, counted from its
lower bound, no product at the last step, where q_k is a constant.

*Why u is scaled.* The error of a square is a quarter of a segment squared, and x and y range over the sum of the two
ranges: added to a π in [0,1], a q_k of 50 would hide π between two breakpoints, and one of 0.01 would itself be hidden.
So u = (q_k − min q_k) / (max q_k − min q_k), with bounds by backward induction, lies in [0,1] like π; what was taken
off is linear in π. Then x ∈ [0,1], y ∈ [−½,½]. With an odd number of breakpoints both have the same segments, and the
errors cancel wherever π is 0 or 1: deterministic options are represented exactly, so there is always a solution.

*x needs no adjacency.* The costs are minimised and x² is convex: two adjacent λ_i are the cheapest for any x. Only −y²
pulls the other way.

*A tighter relaxation.* The approximation takes the exact product at its breakpoints, and its cells cut the edges
π = 0, 1 and u = 0, 1 nowhere else; so like the product it is at least 0 and u + π − 1, and these cuts remove no option.

*The result* is the best option of an approximation. Its weights are made into distributions and evaluated exactly;
that value is returned, and may be worse than that of a deterministic option. `bound` is the "wait and see" bound, the
only one that holds here. An infinite gap or value shuts an entry for all samples if any sample can lead there: fewer
options than there are. Where that leaves none ("infeasible"), or time runs out, the answer is the option that is best
if the adversary could change the sample at each step, which may still be finite.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from rue._arrays import Array
from rue._check import one_of, whole_number
from rue._highs import Ended, Result
from rue.errors import BadInput, SolverFailed
from rue.recursion.inner.layers import Bounds, Layers, OptionProgram, ProgramAnswer, blocked
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.table1 import put_ahead, put_choices, put_costs, put_products
from rue.recursion.inner.template import Template

# The tolerance of an approximation, as a fraction of the largest difference between two options.
GAP = 1e-3


def check_breakpoints(number: object) -> None:
    """Refuse what is no odd number of breakpoints."""
    if whole_number("breakpoints", number, 3) % 2 == 0:
        raise BadInput(f"breakpoints is {number}; expected an odd number, 3 or more")


class Separable(OptionProgram):
    """A good stochastic (s,t)-option, its true value, and its value in the approximation.

    The program is kept in HiGHS; SCIP gets a new one for each solve.
    """

    def __init__(
        self,
        tree: OptionTree,
        place: int = 0,
        breakpoints: int = 3,
        backend: Literal["highs", "scip"] = "highs",
        nodes: int | None = None,
    ) -> None:
        one_of("backend", backend, ("highs", "scip"))
        check_breakpoints(breakpoints)
        if backend == "scip":
            _scip()
        super().__init__(tree, place, histories=False)
        self.breakpoints, self.backend, self.nodes = breakpoints, backend, nodes
        self._shut: Array | None = None
        self._program, self._pi, self._sets = Template(), np.empty(0, np.int64), np.empty((0, 0), np.int64)

    def solve_within(self, bounds: Bounds, value: Array, seconds: float) -> ProgramAnswer:
        """Solve the approximation, and evaluate its answer."""
        layers = self.layers
        shut = blocked(layers, bounds.dead)
        if shut[: layers.entry_ptr[1]].all():
            return self._answer(value, bounds, Result(Ended.INFEASIBLE, math.inf, math.inf, None, None))
        if self._shut is None or not np.array_equal(shut, self._shut):
            self._shut = shut
            self._program, self._pi, self._sets = self._write(shut)
        if self.backend == "scip":
            result = _solve_in_scip(self._program, bounds, self._sets, seconds, self.nodes)
        else:
            result = self._program.solve(bounds, seconds)
        return self._answer(value, bounds, result)

    def _answer(self, value: Array, bounds: Bounds, result: Result) -> ProgramAnswer:
        layers = self.layers
        weight = careful = layers.careful(value)
        approximate = None
        if result.x is not None:
            weight = layers.normalised(_clean(result.x[self._pi]), careful)
            approximate = bounds.wait_and_see + bounds.scale * result.objective
        cost = layers.evaluate(value, weight)
        return ProgramAnswer(
            result.status, float(cost.max()), bounds.wait_and_see, cost, weight, approximate=approximate
        )  # fmt: skip

    def _write(self, shut: Array) -> tuple[Template, Array, Array]:
        """Return the program, the columns of π, and the sets of λ of which two adjacent ones may be positive."""
        layers, parts = self.layers, self.breakpoints
        lost = _lost(layers, shut)
        program = Template(GAP, self.nodes)
        z = program.columns(1, cost=1.0)
        pi = program.columns(layers.entries, upper=np.where(shut & ~lost, 0.0, 1.0))
        put_choices(program, layers, pi)
        dead = np.broadcast_to(shut[:, None], layers.gap.shape)
        d = put_costs(program, layers, dead, z, pi)
        product = put_products(program, layers, dead, d, pi)
        count = product.column.size
        spread = program.rows(count, lower=0.0, upper=0.0)  # Σ T d = (x + y) max e
        put_ahead(program, layers, d, (product.entry, product.sample), spread, 1.0)
        chance = program.rows(count, lower=0.0, upper=0.0)  # π = x − y
        program.put(chance, pi[product.entry], 1.0)
        square = program.rows(count, lower=0.0)  # w ≥ (x² − y²) max e
        program.put(square, product.column, 1.0)

        def times(factor: float) -> Callable[[Bounds], Array]:
            return lambda bounds: factor * product.most(bounds)

        sets = []
        for sign, first in ((1.0, 0.0), (-1.0, -0.5)):  # x, then y
            one = program.rows(count, lower=1.0, upper=1.0)
            member = [program.columns(count, upper=1.0) for _ in range(parts)]
            for i, share in enumerate(member):
                point = first + i / (parts - 1)
                program.put(one, share, 1.0)
                program.put(spread, share, times(-point))
                program.put(chance, share, -sign * point)
                program.put(square, share, times(-sign * point**2))
            sets.append(np.array(member).T)
        if self.backend == "highs":
            _put_segments(program, sets[1])
        return program, pi, sets[1]


def _lost(layers: Layers, shut: Array) -> Array:  # [E]
    """Return the entries of nodes that have no open entry; no option goes there, so any choice will do."""
    all_shut = np.ones(layers.nodes, bool)
    all_shut[layers.entry_node[~shut]] = False
    return np.asarray(all_shut[layers.entry_node])


def _put_segments(program: Template, sets: Array) -> None:
    """Put Σ δ = 1 for binaries δ, one for each segment, and λ_i ≤ δ of the segments on its two sides."""
    count, parts = sets.shape
    one = program.rows(count, lower=1.0, upper=1.0)
    beside = [program.rows(count, upper=0.0) for _ in range(parts)]
    for i in range(parts):
        program.put(beside[i], sets[:, i], 1.0)
    for i in range(parts - 1):
        segment = program.columns(count, upper=1.0, integral=True)
        program.put(one, segment, 1.0)
        program.put(beside[i], segment, -1.0)
        program.put(beside[i + 1], segment, -1.0)


def _clean(weight: Array) -> Array:
    """Return weights without the tiny ones that tolerances leave; they would count where a gap is infinite."""
    return np.where(weight > 1e-9, weight, 0.0)


def _scip() -> Any:
    try:
        return importlib.import_module("pyscipopt")
    except ImportError:
        raise BadInput('backend is "scip", but pyscipopt is not installed; install rue[scip]') from None


def _solve_in_scip(program: Template, bounds: Bounds, sets: Array, seconds: float, nodes: int | None) -> Result:
    """Solve the same program with SOS2 constraints."""
    scip = _scip()
    shape, number = program.shape(), program.fill(bounds)
    model = scip.Model()
    model.hideOutput()
    model.setParam("limits/absgap", GAP)
    model.setParam("limits/time", min(max(seconds, 0.0), 1e20))
    model.setParam("limits/nodes", -1 if nodes is None else nodes)
    model.setParam("parallel/maxnthreads", 1)
    column = [
        model.addVar(lb=low, ub=None if math.isinf(high) else high, obj=cost)
        for low, high, cost in zip(number["lower"], number["upper"], shape["cost"], strict=True)
    ]
    terms: list[list[Any]] = [[] for _ in number["row_lower"]]
    for i, j, value in zip(shape["row"], shape["column"], number["value"], strict=True):
        terms[i].append(value * column[j])
    for row, low, high in zip(terms, number["row_lower"], number["row_upper"], strict=True):
        if row:
            whole = scip.quicksum(row)
            if math.isfinite(low):
                model.addCons(whole == low if low == high else whole >= low)
            if math.isfinite(high) and low != high:
                model.addCons(whole <= high)
    for members in sets:
        model.addConsSOS2([column[j] for j in members])
    model.optimize()
    known = {
        "optimal": Ended.OPTIMAL,
        "timelimit": Ended.TIME_LIMIT,
        "nodelimit": Ended.NODE_LIMIT,
        "gaplimit": Ended.OPTIMAL,
        "infeasible": Ended.INFEASIBLE,
    }
    status = model.getStatus()
    if status not in known:
        raise SolverFailed(f"SCIP stopped with status {status}")
    if not model.getNSols():
        return Result(known[status], math.inf, float(model.getDualbound()), None, None)
    best = model.getBestSol()
    x = np.array([model.getSolVal(best, variable) for variable in column])
    return Result(known[status], float(model.getObjVal()), float(model.getDualbound()), x, None)
