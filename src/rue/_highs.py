"""Linear and mixed-integer programs in HiGHS, kept between solves. The only module that imports highspy.

    min c·x   subject to   row_lower ≤ A x ≤ row_upper,   lower ≤ x ≤ upper,   some x whole

A `Program` is built once; its numbers may be overwritten, its shape may not. One `HighsLp` is allocated, its arrays are
overwritten and passed again, and a linear program starts from the basis of the solve before: 4 to 10 times faster than
changing coefficients one by one. Solves run on one thread with a fixed seed, so that the same program gives the same
answer; `run` releases the interpreter's lock, so threads may each have programs of their own. A program must not be
shared by threads.

highspy reports failures as return codes and goes on; here each of them is checked, and an error is `SolverFailed`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from rue._arrays import Array
from rue.errors import SolverFailed

SEED = 1
# The programs are scaled so that their numbers are about one.
TOLERANCE = 1e-9
OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "random_seed": SEED,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
    "mip_feasibility_tolerance": TOLERANCE,
    "mip_rel_gap": 0.0,
}


# The dual simplex method can cycle for ever. It gets this many iterations for each row and column, and at least the
# second number. Then the primal one is tried, with more iterations by the third number.
MOST_ITERATIONS, LEAST_ITERATIONS, PRIMAL_TIMES = 10, 1000, 100
DUAL, PRIMAL = 1, 4  # HiGHS's numbers; 1 is its default


# What HiGHS calls the numbers of a program besides those of the matrix.
NUMBERS = {
    "cost": "col_cost_", "lower": "col_lower_", "upper": "col_upper_", "row_lower": "row_lower_",
    "row_upper": "row_upper_",
}  # fmt: skip


class Ended(StrEnum):
    """Why a solve stopped."""

    OPTIMAL = "optimal"
    TIME_LIMIT = "time limit"
    NODE_LIMIT = "node limit"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, eq=False)
class Result:
    """What HiGHS found. After a limit `x` is None if nothing was found, and `bound` may be −∞."""

    status: Ended
    objective: float
    bound: float  # no feasible x has a smaller objective, to HiGHS's tolerances
    x: Array | None  # [columns]
    row_dual: Array | None  # [rows]; linear programs at their optimum only


_running: list["Program"] = []


class Program:
    """A kept program. Matrix entries are triplets (row, column, value) in any order; repeated ones add up.

    `numbers` are cost, lower, upper, value, row_lower and row_upper. `gap` is the difference between objective and
    bound at which a mixed-integer program counts as solved, `nodes` the most nodes that it may branch on.
    """

    def __init__(
        self, *, row: Array, column: Array, integral: Array | None = None, gap: float = TOLERANCE,
        nodes: int | None = None, **numbers: Array,
    ) -> None:  # fmt: skip
        import highspy

        columns, rows = numbers["cost"].size, numbers["row_lower"].size
        self._options = OPTIONS | {"mip_abs_gap": gap} | ({} if nodes is None else {"mip_max_nodes": nodes})
        self._lp = highspy.HighsLp()
        self._lp.num_col_, self._lp.num_row_ = columns, rows
        matrix = self._lp.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        key, self._place = np.unique(row * np.int64(columns) + column, return_inverse=True)
        matrix.start_ = np.searchsorted(key, np.arange(rows + 1) * np.int64(columns)).astype(np.int32)
        matrix.index_ = (key % columns).astype(np.int32)
        self._whole = integral is not None and bool(integral.any())
        if integral is not None and self._whole:
            kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
            self._lp.integrality_ = [kinds[int(i)] for i in integral]
        if not self._whole:
            self._options["simplex_iteration_limit"] = max(MOST_ITERATIONS * (columns + rows), LEAST_ITERATIONS)
        self._highs: Any = None
        self._cancelled = False
        self._basis: Any = None
        self.change(**numbers)

    def change(self, **numbers: Array) -> None:
        """Overwrite some of the numbers; `value` in the order of the triplets the program was built from."""
        for name, array in numbers.items():
            if name == "value":
                self._lp.a_matrix_.value_ = np.bincount(self._place, weights=array).astype(float)
            else:
                setattr(self._lp, NUMBERS[name], array)

    def solve(self, seconds: float = math.inf, start: tuple[Array, Array] | None = None) -> Result:
        """Solve the program as it is now. `start` gives (columns, values) of a solution to begin from, in part."""
        import highspy

        highs = self._ready(seconds)
        _check("passModel", highs.passModel(self._lp))
        if self._whole and start is not None:
            _check("setSolution", highs.setSolution(start[0].size, start[0].astype(np.int32), start[1]))
        if self._basis is not None:
            _check("setBasis", highs.setBasis(self._basis))
        self._cancelled = False
        _running.append(self)
        try:
            outcome = highs.run()
            if highs.getModelStatus() == highspy.HighsModelStatus.kIterationLimit and not self._whole:
                outcome = self._run_primal(highs)
        finally:
            _running.remove(self)
        status = highs.getModelStatus()
        _check("run", outcome, status)
        known = {
            highspy.HighsModelStatus.kOptimal: Ended.OPTIMAL,
            highspy.HighsModelStatus.kTimeLimit: Ended.TIME_LIMIT,
            highspy.HighsModelStatus.kInterrupt: Ended.TIME_LIMIT,
            highspy.HighsModelStatus.kSolutionLimit: Ended.NODE_LIMIT,
            highspy.HighsModelStatus.kInfeasible: Ended.INFEASIBLE,
        }
        if status not in known:
            raise SolverFailed(f"HiGHS stopped with {status}")
        return self._result(highs, known[status])

    def _run_primal(self, highs: Any) -> Any:
        """Solve by the primal simplex method, from nothing; the next solve is by the dual one again."""
        highs.clearSolver()
        most = self._options["simplex_iteration_limit"]
        for strategy, iterations in ((PRIMAL, PRIMAL_TIMES * most), (DUAL, most)):
            _check("option simplex_strategy", highs.setOptionValue("simplex_strategy", strategy))
            _check("option simplex_iteration_limit", highs.setOptionValue("simplex_iteration_limit", iterations))
            if strategy == PRIMAL:
                outcome = highs.run()
        return outcome

    def _ready(self, seconds: float) -> Any:
        """Return a solver with its options set.

        HiGHS's clock runs on from solve to solve, and linear programs measure the limit against it while mixed-integer
        ones do not; so the former get their limit on top of the time used so far, and the latter a fresh solver.
        """
        import highspy

        if self._highs is None or self._whole:
            create: Any = highspy.Highs
            self._highs = create()
            for name, value in self._options.items():
                _check(f"option {name}", self._highs.setOptionValue(name, value))
            if self._whole:  # linear programs are short; a call of Python in each of their iterations is not
                self._highs.cbMipInterrupt += self._stop_if_cancelled
        limit = max(seconds, 0.0) + (0.0 if self._whole else self._highs.getRunTime())
        _check("option time_limit", self._highs.setOptionValue("time_limit", float(limit)))
        return self._highs

    def _stop_if_cancelled(self, event: Any) -> None:
        """Called by HiGHS from time to time; meanwhile Python also notices Ctrl-C."""
        if self._cancelled:
            event.interrupt()

    def _result(self, highs: Any, status: Ended) -> Result:
        info, solution = highs.getInfo(), highs.getSolution()
        if status is Ended.INFEASIBLE:
            return Result(status, math.inf, math.inf, None, None)
        objective = float(info.objective_function_value)
        if self._whole:
            found = np.array(solution.col_value) if solution.value_valid and math.isfinite(objective) else None
            return Result(status, objective if found is not None else math.inf, float(info.mip_dual_bound), found, None)
        if status is Ended.TIME_LIMIT:
            return Result(status, math.inf, -math.inf, None, None)
        self._basis = highs.getBasis()
        return Result(status, objective, objective, np.array(solution.col_value), np.array(solution.row_dual))


def cancel_running() -> None:
    """End all mixed-integer programs that are being solved, as a time limit would."""
    for program in _running:
        program._cancelled = True


def _check(what: str, outcome: Any, status: Any = None) -> None:
    """Raise `SolverFailed` for errors; warnings (a limit, a coefficient too small to count) are harmless."""
    import highspy

    if outcome == highspy.HighsStatus.kError:
        raise SolverFailed(f"HiGHS: {what} returned {outcome}" + (f", model status {status}" if status else ""))
