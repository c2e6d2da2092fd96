"""What is asked and what is taken: seconds of the clock for `solve` and `evaluate` under a limit.

The limit holds if no more is taken than 1.1 times what was asked, and a second. A method that is done earlier takes
less. `evaluate` judges the last policy of each model.
"""

import time
from collections.abc import Iterator

import numpy as np

import rue
from benchmarks.report import Table
from rue.parsing import parse_method

METHODS = [
    "reg-d1",
    "reg-s1",
    "reg-d2",
    "reg-h2",
    "reg-d3",
    "reg-h3",
    "reg-s2",
    "cemr-d2",
    "robust",
    "milp",
    "mixture",
    "adaptive",
]
SECONDS = (1.0, 5.0, 20.0)
OVER = "OVER"


def _dense(states: int, actions: int, samples: int) -> rue.UMDP:
    """Every state may follow every other one: samples differ in all probabilities."""
    random = np.random.default_rng(0)
    common = random.dirichlet(np.ones(states), size=(states, actions))
    transition = 0.5 * common + 0.5 * random.dirichlet(np.ones(states), size=(samples, states, actions))
    transition[:, -1] = 0.0
    cost = random.random((samples, states, actions)) + 0.1
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[states - 1])


def models() -> dict[str, rue.UMDP]:
    """Four models, the last one with 10⁵ transitions."""
    return {
        "disaster 20 × 20": rue.domains.Disaster(width=20, height=20, seed=1).sample(15, seed=1),
        "glider 16 × 16": rue.domains.Glider(width=16, height=16, seed=1).sample(12, seed=1),
        "dense, 60 states": _dense(60, 5, 4),
        "dense, 142 states": _dense(142, 5, 10),
    }


def run(quick: bool) -> Iterator[Table]:
    """One table: a row for each model and method, a column for each limit."""
    asked = SECONDS[:1] if quick else SECONDS
    table = Table("Limits: seconds asked and taken", ("model, method", *(f"asked {limit:g}" for limit in asked)))
    small = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)
    for name, model in models().items():
        for method in METHODS:
            solver = parse_method(method)
            rue.solve(small, solver)  # loads its kernels
            cells = []
            for limit in asked:
                began = time.perf_counter()
                solution = rue.solve(model, solver, limits=rue.Limits(seconds=limit))
                cells.append(_cell(time.perf_counter() - began, limit, solution.status))
            table.rows.append((f"{name}, {method}", *cells))
        cells = []
        for limit in asked:
            began = time.perf_counter()
            verdict = rue.evaluate(model, solution.policy, limits=rue.Limits(seconds=limit))
            cells.append(_cell(time.perf_counter() - began, limit, "solved" if verdict.complete else "time_limit"))
        table.rows.append((f"{name}, evaluate", *cells))
    over = sum(OVER in cell for row in table.rows for cell in row)
    table.notes.append(f"{over} of {len(table.rows) * len(asked)} took more than 1.1 times the limit and a second")
    yield table


def _cell(taken: float, limit: float, status: str) -> str:
    """The seconds taken, why it stopped if it was not solved, and whether the limit was broken."""
    words = [
        f"{taken:.2f}",
        *([] if status == "solved" else [str(status)]),
        *([OVER] if taken > 1.1 * limit + 1 else []),
    ]
    return " ".join(words)
