"""Compiled kernels and the same code as Python runs it come to the same results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import all_solvers
import numba

ROOT = Path(__file__).parent.parent
# Fast-math adds up in another order. What that changes is a fraction of the largest number in sight.
CLOSE = 1e-9


def interpreted(script: str) -> str:
    """What a script prints when nothing is compiled."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(ROOT / "tests" / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def differs(one: list[float], other: list[float], largest: float) -> bool:
    return any(
        a != b and not abs(a - b) <= CLOSE * max(abs(a), abs(b), largest) for a, b in zip(one, other, strict=True)
    )


def test_compiled_and_interpreted_results_agree():
    assert not numba.config.DISABLE_JIT
    compiled = json.loads(json.dumps(all_solvers.results()))
    by_hand = json.loads(interpreted("all_solvers.py"))
    largest = [max(max(choice.cost) for choice in spec.choices) for spec in all_solvers.small_models()]
    wrong = []
    for one, other in zip(compiled, by_hand, strict=True):
        figures = [
            differs(one[name], other[name], largest[one["model"]]) for name in ("objective", "max_regret", "regret")
        ]
        if one["status"] != other["status"] or any(figures):
            wrong.append(f"{one}\n{other}")
    assert len(compiled) == all_solvers.MODELS * len(all_solvers.SOLVERS)
    assert not wrong, "\n\n".join(wrong)


def test_where_turns_run_out_no_memory_is_read_that_was_never_written():
    off, finite = interpreted("few_turns.py").split()
    assert float(off) < 1e-9 and finite == "True"


def test_a_search_over_tables_that_is_told_to_stop_reads_no_tree_that_was_not_found():
    assert interpreted("stopped_tables.py").split()[1] == "True"
