"""Optimal values of one sample, to 1e-6 at every state: rue, QuantEcon and Storm, all in one process.

The model is a disaster grid with one sample. Each repetition runs every contender once, in turn, and the best of
three counts. Compiled code is warmed up on a small grid. What is timed:

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
from collections.abc import Callable, Iterator
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
TOLERANCE = 4e-9
REPEATS = 3
SIZES, QUICK_SIZES = (200, 400), (20, 40)
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
    seconds: float = np.inf
    error: float = 0.0

    def repeat(self, truth: Values) -> None:
        ready = self.prepare()
        began = time.perf_counter()
        result = self.solve(ready)
        self.seconds = min(self.seconds, time.perf_counter() - began)
        self.error = max(self.error, float(np.abs(self.read(result) - truth).max()))


def run(quick: bool = False) -> list[Table]:
    """One table for each size."""
    return [compare(size) for size in (QUICK_SIZES if quick else SIZES)]


def compare(size: int) -> Table:
    """All contenders on one grid."""
    model = Disaster(width=size, height=size, seed=1).sample(1, seed=1)
    truth = optimal_values(model).value[:, 0]
    table = Table(
        f"Optimal values to {ACCURACY:g}: disaster {size} × {size}, one sample",
        ("solver", "seconds", "ratio to rue", "largest error"),
    )
    contenders = [*_rue(model), *_quantecon(model, truth, table.notes), *_storm(model, table.notes)]
    for _ in range(REPEATS):
        for contender in contenders:
            contender.repeat(truth)
    rue = contenders[0]
    for one in contenders:
        table.rows.append((one.name, f"{one.seconds:.4f}", f"{one.seconds / rue.seconds:.2f}", f"{one.error:.1e}"))
    width = _width(model)
    verdict = "no more than" if width <= 2 * ACCURACY else "FAILED: more than"
    table.notes.append(f"rue proves intervals of width {width:.1e}, {verdict} {2 * ACCURACY:g}")
    table.notes += [_agreement(contenders), *_verdict(rue, contenders)]
    return table


def _agreement(contenders: list[Contender]) -> str:
    off = [one.name for one in contenders if not one.error <= ACCURACY + ROUNDING]
    if off:
        return f"FAILED: off by more than {ACCURACY:g} at some state: {', '.join(off)}"
    return f"all agree to {ACCURACY:g} at every state"


def _verdict(rue: Contender, contenders: list[Contender]) -> Iterator[str]:
    peers = [one for one in contenders if one.is_peer and one.error <= ACCURACY + ROUNDING]
    if peers:
        best = min(peers, key=lambda one: one.seconds)
        times = best.seconds / rue.seconds
        how = "faster than" if times > 1 else "as fast as"
        yield f"rue is {times:.1f} times {how} the better of the peers ({best.name})"


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


def _quantecon(model: UMDP, truth: Values, notes: list[str]) -> Iterator[Contender]:
    try:
        from benchmarks import quantecon_peer as peer
    except ImportError:
        notes.append("quantecon cannot be imported; its rows are left out")
        return
    problem = Absorbing.of(model)
    peer.warm_up(Absorbing.of(_small()))
    modified = peer.modified_policy_iteration(problem, ACCURACY, truth)
    by_value = peer.value_iteration(problem, ACCURACY)
    yield Contender("QuantEcon, modified policy iteration", lambda _: modified())
    yield Contender("QuantEcon, value iteration", lambda _: by_value())


def _storm(model: UMDP, notes: list[str]) -> Iterator[Contender]:
    try:
        from benchmarks import storm_peer as peer
    except ImportError:
        notes.append("stormpy cannot be imported; its rows are left out")
        return
    mdp = peer.build(Absorbing.of(model))

    def contender(name: str, method: Any, is_peer: bool) -> Contender:
        check = peer.checker(mdp, method, ACCURACY)
        return Contender(name, lambda _: check(), read=lambda r: peer.read(r, model.graph.states), is_peer=is_peer)

    for name, method in peer.SOUND.items():
        yield contender(f"Storm, {name}", method, is_peer=True)
    yield contender("Storm's default (not sound; for information)", None, is_peer=False)


def _small() -> UMDP:
    return Disaster(width=12, height=12, seed=1).sample(1, seed=1)
