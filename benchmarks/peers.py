"""Optimal values of one sample, to 1e-6 at every state: rue, QuantEcon and Storm, all in one process.

The model is a disaster grid with one sample. Each repetition runs every contender once, in turn, and the best of
three counts; one that takes more than `LONG` seconds runs once. All use one thread, and are compared by the seconds of
the processor, which say more than those by the clock where other programs run. On the largest grid each tool shows the
method that was its fastest on the grid before, and Storm its default as well. Compiled code is warmed up on a small
grid. What is timed:

- rue: `optimal_values` with its proof, on a model from which nothing is remembered: predecessors, search for dead
  ends, order of sweeps and renumbering are in the time. The second row adds what the peers do not do or are not
  timed for, the construction of the model with all its checks.
- QuantEcon and Storm: one solve on a model that is there. `quantecon_peer.py` and `storm_peer.py` say which methods
  were chosen and why, and what was decided in their favour.

rue's tolerance is relative, and small enough for proved intervals of at most 2e-6 at every state. Storm's sound
methods prove as much, QuantEcon proves nothing. "Peers" in the verdict are QuantEcon and sound Storm. The values
of all states are compared with rue's at full precision, and may differ by 1e-6 and a little for rounding: optimistic
value iteration returns values that are off by exactly its precision.
"""

import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.absorbing import Absorbing
from benchmarks.report import Table
from rue import UMDP, Graph
from rue.domains import Disaster
from rue.values import OptimalValues, optimal_values

ACCURACY = 1e-6
ROUNDING = 1e-9
TOLERANCE = 1e-9
REPEATS = 3
LONG = 10.0
ALL_TIMES = 4.0
SIZES, QUICK_SIZES, LARGEST = (200, 400, 1000), (20, 40), 1000
DERIVED = ("goal", "choice_state", "trans_choice", "predecessors")  # what a graph remembers

Values = NDArray[np.float64]


@dataclass(eq=False)
class Contender:
    """A way to get the values of all states. `solve` takes what `prepare` returns and is timed; `read` is not."""

    name: str
    solve: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    read: Callable[[Any], Values] = lambda values: values
    is_peer: bool = True
    tool: str = "rue"
    seconds: float = np.inf  # of the processor
    clock: float = np.inf
    error: float = 0.0

    def repeat(self, truth: Values) -> None:
        ready = self.prepare()
        began, before = time.perf_counter(), time.process_time()
        result = self.solve(ready)
        self.seconds = min(self.seconds, time.process_time() - before)
        self.clock = min(self.clock, time.perf_counter() - began)
        self.error = max(self.error, float(np.abs(self.read(result) - truth).max()))


def run(quick: bool = False) -> list[Table]:
    """One table for each size."""
    tables: list[Table] = []
    before: list[Contender] = []
    for size in QUICK_SIZES if quick else SIZES:
        slow = _slow(before) if size >= LARGEST else set()
        table, before = compare(size, slow)
        tables.append(table)
    return tables


def _slow(contenders: list[Contender]) -> set[str]:
    """The names of the peers that are not the fastest of their tool."""
    peers = [one for one in contenders if one.is_peer]
    fastest = {one.tool: one for one in sorted(peers, key=lambda one: -one.seconds)}
    return {one.name for one in peers} - {one.name for one in fastest.values()}


def compare(size: int, leave_out: Set[str] = frozenset()) -> tuple[Table, list[Contender]]:
    """All contenders on one grid, but for some names."""
    model = Disaster(width=size, height=size, seed=1).sample(1, seed=1)
    truth = optimal_values(model).value[:, 0]
    table = Table(
        f"Optimal values to {ACCURACY:g}: disaster {size} × {size}, one sample",
        ("solver", "processor, s", "clock, s", "ratio to rue", "largest error"),
    )
    found = [*_rue(model), *_quantecon(model, truth, table.notes, leave_out), *_storm(model, table.notes)]
    contenders = [one for one in found if one.name not in leave_out]
    for turn in range(REPEATS):
        for contender in contenders:
            if turn == 0 or contender.seconds <= LONG:
                contender.repeat(truth)
    rue = contenders[0]
    for one in contenders:
        ratio = f"{one.seconds / rue.seconds:.2f}"
        table.rows.append((one.name, f"{one.seconds:.4f}", f"{one.clock:.4f}", ratio, f"{one.error:.1e}"))
    width = _width(model)
    verdict = "no more than" if width <= 2 * ACCURACY else "FAILED: more than"
    table.notes.append(f"rue proves intervals of width {width:.1e}, {verdict} {2 * ACCURACY:g}")
    table.notes += [_agreement(contenders), *_verdict(rue, contenders)]
    if size >= min(SIZES):
        table.notes += _against_all(rue, contenders)
    once = [one.name for one in contenders if one.seconds > LONG]
    table.notes += [f"run once, as they take more than {LONG:g} s: {', '.join(once)}"] if once else []
    table.notes += [f"left out, slower on the grid before: {', '.join(sorted(leave_out))}"] if leave_out else []
    return table, contenders


def _agreement(contenders: list[Contender]) -> str:
    off = [one for one in contenders if not one.error <= ACCURACY + ROUNDING]
    words = f"off by more than {ACCURACY:g} at some state: {', '.join(one.name for one in off)}"
    if any(one.is_peer or one.tool == "rue" for one in off):
        return f"FAILED: {words}"
    return words if off else f"all agree to {ACCURACY:g} at every state"


def _verdict(rue: Contender, contenders: list[Contender]) -> Iterator[str]:
    peers = [one for one in contenders if one.is_peer and one.error <= ACCURACY + ROUNDING]
    if peers:
        best = min(peers, key=lambda one: one.seconds)
        times = best.seconds / rue.seconds
        how = "faster than" if times > 1 else "as fast as"
        yield f"rue is {times:.1f} times {how} the better of the peers ({best.name})"


def _against_all(rue: Contender, contenders: list[Contender]) -> Iterator[str]:
    others = [one for one in contenders if one.tool != rue.tool]
    if others:
        best = min(others, key=lambda one: one.seconds)
        times = best.seconds / rue.seconds
        words = (
            f"rue is {times:.1f} times as fast as the best of all, sound or not: {best.name}; {ALL_TIMES:g} asked for"
        )
        yield words if times >= ALL_TIMES else f"FAILED: {words}"


def fresh(model: UMDP) -> UMDP:
    """The same model, made anew."""
    graph = model.graph
    return UMDP(
        Graph(graph.choice_ptr, graph.action, graph.trans_ptr, graph.successor, graph.initial), model.prob, model.cost
    )


def forgetful(model: UMDP) -> UMDP:
    """The same model, made anew, without what its construction has found out on the way."""
    new = fresh(model)
    for name in DERIVED:
        vars(new.graph).pop(name, None)
    for key in set(new._memory) - {"support"}:
        del new._memory[key]
    return new


def _width(model: UMDP) -> float:
    values = optimal_values(fresh(model), tolerance=TOLERANCE)
    return float((values.upper - values.lower).max())


def _rue(model: UMDP) -> Iterator[Contender]:
    def solve(ready: UMDP | None) -> OptimalValues:
        return optimal_values(ready or fresh(model), tolerance=TOLERANCE)

    def read(values: OptimalValues) -> Values:
        return values.value[:, 0]

    optimal_values(_small(), tolerance=TOLERANCE)
    yield Contender("rue", solve, lambda: forgetful(model), read, is_peer=False)
    yield Contender("rue, with making and checking the model", solve, read=read, is_peer=False)


def _quantecon(model: UMDP, truth: Values, notes: list[str], leave_out: Set[str]) -> Iterator[Contender]:
    try:
        from benchmarks import quantecon_peer as peer
    except ImportError:
        notes.append("quantecon cannot be imported; its rows are left out")
        return
    problem = Absorbing.of(model)
    peer.warm_up(Absorbing.of(_small()))
    by_name = {
        "QuantEcon, modified policy iteration": lambda: peer.modified_policy_iteration(problem, ACCURACY, truth),
        "QuantEcon, value iteration": lambda: peer.value_iteration(problem, ACCURACY),
    }
    for name, make in by_name.items():
        if name not in leave_out:  # to make the first one takes as long as to run it
            solve = make()
            yield Contender(name, lambda _, solve=solve: solve(), tool="QuantEcon")


def _storm(model: UMDP, notes: list[str]) -> Iterator[Contender]:
    try:
        from benchmarks import storm_peer as peer
    except ImportError:
        notes.append("stormpy cannot be imported; its rows are left out")
        return
    mdp = peer.build(Absorbing.of(model))

    def contender(name: str, method: Any, is_peer: bool) -> Contender:
        check = peer.checker(mdp, method, ACCURACY)
        return Contender(
            name, lambda _: check(), read=lambda r: peer.read(r, model.graph.states), is_peer=is_peer, tool="Storm"
        )

    for name, method in peer.SOUND.items():
        yield contender(f"Storm, {name}", method, is_peer=True)
    yield contender("Storm's default (not sound)", None, is_peer=False)


def _small() -> UMDP:
    return Disaster(width=12, height=12, seed=1).sample(1, seed=1)
