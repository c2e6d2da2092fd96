"""Large files: seconds and peak memory to read a model of 10⁷ transitions in each format, beside its arrays.

Each file is read in a process of its own, after a small one, so that imports and kernels do not count. The peak is what
the process takes more than before, in times of the arrays of the model. What is made of objects in memory, matrices and
tables, is measured in the same way; the objects themselves do not count.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rue
from benchmarks.report import Table
from rue._arrays import pointers
from rue.flat import Flat

TRANSITIONS, QUICK = 10**7, 10**5
BRANCHES, CHOICES = 5, 2
ENDINGS = (".umb", ".rue", ".drn", ".tra", ".csv", ".pomdp", ".pomdpx")
DENSE = (".npz", ".mat")  # written with an entry for each pair of states
DENSE_SAMPLES = 5
SYMBOLIC = (".prism", ".jani")  # built by Storm

# A process that prints its figures; the objects of the first one are small.
MEASURE = "import sys\nfrom benchmarks.files import measure\nmeasure(*sys.argv[1:])"


def kilobytes(name: str) -> int:
    with Path("/proc/self/status").open(encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(name + ":"))


def measure(kind: str, small: str, large: str) -> None:
    """Print seconds, peak memory, the memory of the arrays, and their numbers of entries and transitions.

    The peak is VmHWM, which begins anew when 5 is written to `clear_refs`. `ru_maxrss` would not do: a child inherits
    that of the process that started it, which holds the model.
    """
    prepare, read = SOURCES[kind]
    read(prepare(small))
    given = prepare(large)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, start = kilobytes("VmRSS"), time.process_time()
    model = read(given)
    seconds = time.process_time() - start
    peak = 1024 * (kilobytes("VmHWM") - before)
    print(json.dumps([seconds, peak, model.nbytes, model.prob.size, model.graph.transitions]))


def load(path: str) -> rue.UMDP:
    options = {"const": f"N={Path(path).stem.partition('-')[2]}"} if path.endswith(SYMBOLIC) else {}
    model = rue.load(path, **options)
    assert isinstance(model, rue.UMDP)
    return model


def sparse_tables(transitions: str) -> tuple[list[Any], np.ndarray]:
    """A sparse matrix for each action, and rewards for each state and action."""
    from scipy import sparse

    model = large_model(int(transitions))
    graph = model.graph
    matrices, reward = [], np.zeros((graph.states, CHOICES))
    reward[graph.choice_state, graph.action] = -model.cost[:, 0]
    for action in range(CHOICES):
        kept = graph.action[graph.trans_choice] == action
        place = graph.trans_state[kept], graph.successor[kept]
        matrices.append(sparse.csr_array((model.prob[kept, 0], place), shape=(graph.states, graph.states)))
    goal = sparse.csr_array(([1.0], ([graph.states - 1], [graph.states - 1])), shape=matrices[0].shape)
    return [matrices[0] + goal, *matrices[1:]], reward


def gymnasium_table(transitions: str) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    """A table as environments of Gymnasium have it."""
    model = large_model(int(transitions))
    graph, table = model.graph, {}
    target, prob, cost = (values.tolist() for values in (graph.successor, model.prob[:, 0], model.cost[:, 0]))
    for state in range(graph.states - 1):
        table[state] = {
            a: [(prob[t], target[t], -cost[CHOICES * state + a], target[t] == graph.states - 1)
                for t in range(*graph.trans_ptr[CHOICES * state + a : CHOICES * state + a + 2].tolist())]
            for a in range(CHOICES)
        }  # fmt: skip
    table[graph.states - 1] = {0: [(1.0, graph.states - 1, 0.0, True)]}
    return table


# What is prepared before the clock starts, and how a model is made of it.
SOURCES: dict[str, tuple[Callable[[str], Any], Callable[[Any], rue.UMDP]]] = {
    "file": (str, load),
    "matrices": (sparse_tables, lambda given: rue.from_matrices(*given)),
    "gymnasium": (gymnasium_table, rue.from_gymnasium),
}


def large_model(transitions: int, seed: int = 0) -> rue.UMDP:
    """A model of one sample: each choice leads to some of the next states, and perhaps to the goal."""
    random = np.random.default_rng(seed)
    choices = transitions // BRANCHES
    states = choices // CHOICES + 1
    state = np.repeat(np.arange(states - 1), CHOICES)
    step = np.cumsum(random.integers(1, 4, (choices, BRANCHES)), axis=1)
    successor = np.minimum(state[:, None] + step, states - 1 - np.arange(BRANCHES)[::-1])
    successor = np.sort(np.where(successor < 0, np.arange(BRANCHES), successor), axis=1)
    prob = random.integers(1, 100, (choices, BRANCHES)).astype(float)
    prob /= prob.sum(axis=1, keepdims=True)
    flat = Flat(
        np.minimum(np.arange(states + 1) * CHOICES, choices), np.tile(np.arange(CHOICES), states - 1),
        pointers(np.full(choices, BRANCHES)), successor.ravel(), prob.reshape(-1, 1),
        random.integers(1, 9, (choices, 1)).astype(float), 0,
    )  # fmt: skip
    return rue.UMDP.from_flat(flat)


def dense_model(entries: int, seed: int = 0) -> rue.UMDP:
    """A model in which each of two choices leads to all states, in five samples."""
    random = np.random.default_rng(seed)
    states = int((entries / CHOICES / DENSE_SAMPLES) ** 0.5)
    choices = (states - 1) * CHOICES
    prob = random.integers(1, 100, (choices, states, DENSE_SAMPLES)).astype(float)
    prob /= prob.sum(axis=1, keepdims=True)
    flat = Flat(
        np.minimum(np.arange(states + 1) * CHOICES, choices), np.tile(np.arange(CHOICES), states - 1),
        pointers(np.full(choices, states)), np.tile(np.arange(states), choices), prob.reshape(-1, DENSE_SAMPLES),
        random.integers(1, 9, (choices, DENSE_SAMPLES)).astype(float), 0,
    )  # fmt: skip
    return rue.UMDP.from_flat(flat)


def prism_text() -> str:
    """A walk with two actions of five branches each; the last state is the goal."""
    ways = {"a": (1, 2, 3, 4, 5), "b": (1, 3, 5, 7, 9)}
    lines = [
        f"  [{name}] x<N -> " + " + ".join(f"0.2 : (x'=min(N,x+{step}))" for step in steps) + ";"
        for name, steps in ways.items()
    ]
    text = "\n".join(["mdp", "const int N;", "module walk", "  x : [0..N] init 0;", *lines, "endmodule"])
    return f'{text}\nlabel "goal" = x=N;\nrewards x<N : 1; endrewards\n'


def jani_text() -> str:
    """The same in JANI."""

    def edge(name: str, steps: tuple[int, ...]) -> dict[str, Any]:
        ends = [{"op": "min", "left": "N", "right": {"op": "+", "left": "x", "right": step}} for step in steps]
        return {
            "location": "l", "action": name, "guard": {"exp": {"op": "<", "left": "x", "right": "N"}},
            "destinations": [
                {"location": "l", "probability": {"exp": 0.2},
                 "assignments": [{"ref": "x", "value": end}, {"ref": "cost", "value": 1}]} for end in ends
            ],
        }  # fmt: skip

    whole = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": "N"}
    at_end = {"ref": "goal", "value": {"op": "=", "left": "x", "right": "N"}}
    return json.dumps({
        "jani-version": 1, "name": "walk", "type": "mdp", "features": ["derived-operators"],
        "actions": [{"name": "a"}, {"name": "b"}], "constants": [{"name": "N", "type": "int"}],
        "variables": [
            {"name": "x", "type": whole, "initial-value": 0},
            {"name": "goal", "type": "bool", "transient": True, "initial-value": False},
            {"name": "cost", "type": "real", "transient": True, "initial-value": 0},
        ],
        "automata": [{
            "name": "walk", "locations": [{"name": "l", "transient-values": [at_end]}], "initial-locations": ["l"],
            "edges": [edge("a", (1, 2, 3, 4, 5)), edge("b", (1, 3, 5, 7, 9))],
        }],
        "system": {"elements": [{"automaton": "walk"}], "syncs": [
            {"synchronise": [name], "result": name} for name in ("a", "b")]},
        "properties": [],
    })  # fmt: skip


def save_cells(path: Path, transitions: int) -> None:
    """Write a cell of sparse matrices, as MATLAB's users do."""
    from scipy import io, sparse

    matrices, reward = sparse_tables(str(transitions))
    cells = np.empty((1, len(matrices)), object)
    for number, matrix in enumerate(matrices):
        cells[0, number] = sparse.csc_matrix(matrix)
    io.savemat(path, {"P": cells, "R": reward})


def run_measure(kind: str, small: object, large: object) -> list[float]:
    given = [sys.executable, "-c", MEASURE, kind, str(small), str(large)]
    done = subprocess.run(given, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [float(number) for number in json.loads(done.stdout)]


def row_of(name: str, size: float | None, written: float | None, found: list[float]) -> tuple[str, ...]:
    seconds, peak, arrays, entries, _ = found
    gigabytes, save = "" if size is None else f"{size / 1e9:.2f}", "" if written is None else f"{written:.1f}"
    return (
        name, f"{entries:,.0f}", gigabytes, save, f"{seconds:.1f}", f"{peak / 1e9:.2f}", f"{arrays / 1e9:.2f}",
        f"{peak / arrays:.1f}", f"{peak / size:.1f}" if size else "",
    )  # fmt: skip


def write_and_measure(folder: Path, ending: str, small: rue.UMDP, large: rue.UMDP) -> tuple[str, ...]:
    """Return the row of a format that rue writes."""
    rue.save(folder / f"small{ending}", small)
    start = time.process_time()
    rue.save(folder / f"large{ending}", large)
    written = time.process_time() - start
    size = sum(path.stat().st_size for path in folder.glob("large*"))
    found = run_measure("file", folder / f"small{ending}", folder / f"large{ending}")
    assert found[-1] == large.graph.transitions
    for path in folder.glob("large*"):
        path.unlink()
    return row_of(f"{ending}, dense" if ending in DENSE else ending, size, written, found)


def run(quick: bool) -> list[Table]:
    """Return the table."""
    rows, count = [], QUICK if quick else TRANSITIONS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = large_model(count)
        for ending in ENDINGS:
            rows.append(write_and_measure(folder, ending, large_model(1000), model))
        model = dense_model(count)
        for ending in DENSE:
            rows.append(write_and_measure(folder, ending, dense_model(1000), model))
        del model
        save_cells(folder / "small.mat", 1000)
        save_cells(folder / "large.mat", count)
        found = run_measure("file", folder / "small.mat", folder / "large.mat")
        rows.append(row_of(".mat, sparse", (folder / "large.mat").stat().st_size, None, found))
        for ending in SYMBOLIC if importlib.util.find_spec("stormpy") else ():
            text = prism_text() if ending == ".prism" else jani_text()
            files = [folder / f"walk-{size}{ending}" for size in (100, count // BRANCHES // CHOICES)]
            for file in files:
                file.write_text(text, encoding="utf-8")
            rows.append(row_of(f"{ending}, with Storm", None, None, run_measure("file", *files)))
    for kind in ("matrices", "gymnasium"):
        rows.append(row_of(f"rue.from_{kind}", None, None, run_measure(kind, 1000, count)))
    head = (
        "file", "entries", "GB", "write, s", "read, s", "peak, GB", "arrays, GB", "peak / arrays",
        "peak / file",
    )  # fmt: skip
    notes = [
        "Entries are transitions times samples; seconds are those of the processor.",
        "Without stormpy, .prism and .jani are left out.",
    ]
    return [Table(f"Models of {count:,} transitions", head, rows, notes)]
