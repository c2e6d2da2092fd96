"""What rue is measured against: the paper's Algorithm 1 with the programs of its Table 1, as printed, in HiGHS.

*As printed.* Values start at zero; every sweep goes through all states in order, with one mixed-integer program for
each; sweeps end when none changes a value by ε. Each program has both families of variables, c_q and V^n_q, for every
sample q, on the states S^q(s̄,t) that can be reached from s̄ in exactly t steps in that sample:

    min reg(s̄)
    reg(s̄)      ≥ V_q(s̄,0) − V*_q(s̄) + c_q(s̄,0) + κ
    c_q(s,a,t)  = Σ T_q(s,a,s') [reg(s') + V*_q(s')]           at t = n−1,    Σ T_q(s,a,s') c_q(s',t+1)    before
    V_q(s,a,t)  = C̄_q(s,a)                                     at t = n−1,    C̄_q(s,a) + Σ T_q V_q(s',t+1) before
    c_q(s,t)    = Σ_a c'_q(s,a,t),      V_q(s,t) = Σ_a V'_q(s,a,t)

and c' = π·c, V' = π·V by the appendix's block, where one M bounds all of c and V:

    c' ≤ c(s,a,t),     c' ≤ M π(s,a,t),     c' ≥ c(s,a,t) − M (1 − π(s,a,t))

*What the errata add.* c' ≥ 0 and V' ≥ 0, without which the optimum is too low; and π depends on t as well.

*In its favour.* M is the least such number that is sure to hold with the current values. Goals have no variables.
Each program is laid out once, untimed, and later only its right-hand sides and the M in it are overwritten. HiGHS
gets the arrays as they are. V*_q and the pruning are rue's, and untimed.
"""

import time
from dataclasses import dataclass, field

import highspy
import numpy as np
from numpy.typing import NDArray

import rue
from rue.values import optimal_somewhere, regret_gap

INF = highspy.kHighsInf
KAPPA = 1e-6
EPSILON = 1e-4

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Yardstick:
    """The paper's method, with deterministic options of `steps` steps, on a model without dead ends."""

    def __init__(self, model: rue.UMDP, steps: int, *, prune: bool = True, kappa: float = KAPPA) -> None:
        graph = model.graph
        best = rue.optimal_values(model)
        if best.dead.any():
            raise ValueError("a state is a dead end in some sample; expected a model without dead ends")
        self.model, self.steps, self.kappa, self.optimal = model, steps, kappa, best.value
        self.kept = np.ones(graph.choices, bool)
        if prune:
            self.kept = optimal_somewhere(model, best, regret_gap(model, best))
        self.value: Floats = np.zeros(graph.states)
        self.option_cost = steps * float(model.cost[self.kept].max())
        self.transition = [
            [self._row(choice, sample) for sample in range(model.samples)] for choice in range(graph.choices)
        ]
        self.later = self._expected(best.value)
        self.programs: dict[int, _Program] = {}
        self.engine = _engine()

    def choices(self, state: int) -> list[int]:
        """The kept choices of a state."""
        first, last = self.model.graph.choice_ptr[state : state + 2]
        return [choice for choice in range(first, last) if self.kept[choice]]

    def reachable(self) -> list[int]:
        """The states, without goals, to which kept choices can lead from the initial state, in order."""
        graph = self.model.graph
        seen, queue = {graph.initial}, [graph.initial]
        while queue:
            for choice in self.choices(queue.pop()):
                new = {s for row in self.transition[choice] for s in row} - seen
                seen |= new
                queue += new
        return sorted(seen)

    def layers(self, start: int, sample: int) -> list[list[int]]:
        """S^q(s̄,t) for t < n, without goals."""
        layers = [[start]]
        for _ in range(1, self.steps):
            reached = {s for state in layers[-1] for c in self.choices(state) for s in self.transition[c][sample]}
            layers.append(sorted(reached))
        return layers

    def sweep(self, states: list[int] | None = None) -> tuple[float, float]:
        """Update these states, all by default, in order. Returns the seconds and the largest change."""
        if states is None:
            states = np.flatnonzero(~self.model.graph.goal).tolist()
        for state in states:
            if state not in self.programs:
                self.programs[state] = _Program.build(self, state)
        began, largest = time.perf_counter(), 0.0
        for state in states:
            new = self._solve(state)
            largest = max(largest, abs(new - self.value[state]))
            self.value[state] = new
        return time.perf_counter() - began, largest

    def solve(self, epsilon: float = EPSILON, limit_seconds: float = np.inf) -> tuple[Floats, int, float]:
        """Sweep until nothing changes by epsilon. Returns the values, how many sweeps and the seconds."""
        sweeps, seconds, largest = 0, 0.0, np.inf
        while largest >= epsilon:
            if seconds > limit_seconds:
                raise TimeoutError(f"not done after {sweeps} sweeps and {seconds:.0f} s")
            more, largest = self.sweep()
            sweeps, seconds = sweeps + 1, seconds + more
        return self.value, sweeps, seconds

    def _solve(self, state: int) -> float:
        program = self.programs[state]
        program.load(
            self.later + self._expected(self.value[:, None]),
            big=max(self.option_cost, float(self.optimal.max() + self.value.max())),
        )
        return program.solve(self.engine)

    def _row(self, choice: int, sample: int) -> dict[int, float]:
        """Where a choice leads in a sample, without goals."""
        graph, row = self.model.graph, {}
        for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1]):
            target, chance = int(graph.successor[t]), float(self.model.prob[t, sample])
            if chance > 0 and not graph.goal[target]:
                row[target] = row.get(target, 0.0) + chance
        return row

    def _expected(self, value: Floats) -> Floats:  # [C, K]
        """Σ T_q(s,a,s') value(s') of every choice and sample."""
        graph = self.model.graph
        return np.add.reduceat(self.model.prob * value[graph.successor], graph.trans_ptr[:-1], axis=0)


@dataclass
class _Program:
    """Table 1 for one state. The rows of c_q at t = n−1 and all that holds M change from sweep to sweep."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    entry: list[float] = field(default_factory=list)
    last: list[tuple[int, int, int]] = field(default_factory=list)  # row, choice, sample of c_q at t = n−1
    minus_m: list[int] = field(default_factory=list)  # entries that are −M
    from_minus_m: list[int] = field(default_factory=list)  # rows from −M

    @classmethod
    def build(cls, problem: Yardstick, state: int) -> "_Program":
        program = cls()
        regret = program.column(cost=1.0)
        layers = [problem.layers(state, sample) for sample in range(problem.model.samples)]
        pick: dict[tuple[int, int], int] = {}  # (choice, t) to the column of π
        for t in range(problem.steps):
            for s in sorted({s for own in layers for s in own[t]}):
                for choice in problem.choices(s):
                    pick[choice, t] = program.column(upper=1.0, integer=True)
                program.row({pick[choice, t]: 1.0 for choice in problem.choices(s)}, 1.0, 1.0)
        for sample, own in enumerate(layers):
            total_c, total_v = program.sample(problem, sample, own, pick)
            bound = problem.kappa - problem.optimal[state, sample]
            program.row({regret: 1.0, total_c: -1.0, total_v: -1.0}, bound, INF)
        program.freeze()
        return program

    def sample(
        self, problem: Yardstick, sample: int, layers: list[list[int]], pick: dict[tuple[int, int], int]
    ) -> tuple[int, int]:
        """The variables of one sample, backward in time. Returns c_q(s̄,0) and V_q(s̄,0)."""
        after: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for t in reversed(range(problem.steps)):
            now: tuple[dict[int, int], dict[int, int]] = ({}, {})
            for s in layers[t]:
                parts: tuple[list[int], list[int]] = ([], [])
                for choice in problem.choices(s):
                    c, v = self.column(), self.column()
                    paid = float(problem.model.cost[choice, sample])
                    row = problem.transition[choice][sample] if t < problem.steps - 1 else {}
                    if t == problem.steps - 1:
                        self.last.append((len(self.row_lower), choice, sample))
                    self.row({c: 1.0, **{after[0][to]: -p for to, p in row.items()}}, 0.0, 0.0)
                    self.row({v: 1.0, **{after[1][to]: -p for to, p in row.items()}}, paid, paid)
                    parts[0].append(self.product(pick[choice, t], c))
                    parts[1].append(self.product(pick[choice, t], v))
                for family in (0, 1):
                    now[family][s] = self.column()
                    self.row({now[family][s]: 1.0, **dict.fromkeys(parts[family], -1.0)}, 0.0, 0.0)
            after = now
        (c,), (v,) = (family.values() for family in after)
        return c, v

    def product(self, pick: int, factor: int) -> int:
        """A new column c' = π·c by the block with M, which is filled in later."""
        new = self.column()
        self.row({new: 1.0, factor: -1.0}, -INF, 0.0)
        self.minus_m.append(len(self.entry) + 1)
        self.row({new: 1.0, pick: -1.0}, -INF, 0.0)
        self.minus_m.append(len(self.entry) + 2)
        self.from_minus_m.append(len(self.row_lower))
        self.row({new: 1.0, factor: -1.0, pick: -1.0}, -1.0, INF)
        return new

    def column(self, cost: float = 0.0, upper: float = INF, integer: bool = False) -> int:
        """A new variable ≥ 0."""
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(int(integer))
        return len(self.cost) - 1

    def row(self, entries: dict[int, float], lower: float, upper: float) -> None:
        """A new constraint."""
        self.start.append(len(self.index))
        self.index += entries
        self.entry += entries.values()
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def freeze(self) -> None:
        """Lists to arrays."""
        self.columns, self.rows, self.entries = len(self.cost), len(self.start), len(self.index)
        self.fixed = (np.array(self.cost), np.zeros(self.columns), np.array(self.upper))
        self.low, self.high = np.array(self.row_lower), np.array(self.row_upper)
        self.shape = (np.array([*self.start, self.entries], np.int32), np.array(self.index, np.int32))
        self.values, self.kind = np.array(self.entry), np.array(self.integer, np.int32)
        self.last_row, self.last_choice, self.last_sample = np.array(self.last, np.int64).reshape(-1, 3).T

    def load(self, later: Floats, big: float) -> None:
        """Fill in Σ T_q [reg + V*_q] of every choice and sample, and M."""
        self.low[self.last_row] = self.high[self.last_row] = later[self.last_choice, self.last_sample]
        self.values[self.minus_m] = -big
        self.low[self.from_minus_m] = -big

    def solve(self, engine: highspy.Highs) -> float:
        """The optimum."""
        _check(engine.passModel(
            self.columns, self.rows, self.entries, int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize), 0.0, *self.fixed, self.low, self.high, *self.shape, self.values, self.kind,
        ))  # fmt: skip
        _check(engine.run())
        if engine.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS says {engine.modelStatusToString(engine.getModelStatus())}; expected an optimum")
        return float(engine.getInfo().objective_function_value)


def _engine() -> highspy.Highs:
    """HiGHS on one thread, with gaps that leave the last digits we compare alone."""
    engine = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-6), ("mip_abs_gap", 1e-6)):
        _check(engine.setOptionValue(option, value))
    return engine


def _check(status: highspy.HighsStatus) -> None:
    if status == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS returned an error")
