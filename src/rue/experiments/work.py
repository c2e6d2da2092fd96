"""One task done: a method on a problem, judged, as a record.

A record has what was asked (`task`), why it stopped, what was found and proved, the judge's regrets on the samples that
were planned with and on those that were not, the times, and where it was done. `seconds` is of the solver alone, from a
model of which nothing is remembered; compilation, sampling and judging have times of their own.
"""

import os
import platform
import sys
import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rue import parsing
from rue.compilation import compile_ahead
from rue.errors import BadInput
from rue.experiments.code import code_version
from rue.experiments.spec import Problem, Task
from rue.experiments.store import FAILED, Record
from rue.judge import evaluate
from rue.model import UMDP
from rue.solution import Limits, Solution, Solver
from rue.solving import solve

PACKAGES = ("rue", "numpy", "scipy", "numba", "highspy")
# Problems that a process remembers: its next task is mostly of one of them.
REMEMBERED = 4


def perform(task: Task) -> tuple[Record, Solution | None]:
    """Do a task. Whatever goes wrong is told in the record, so that others can go on."""
    began = time.perf_counter()
    record = new_record(task)
    solution = None
    try:
        record |= {"versions": versions(), "machine": machine()}
        if task.code != code_version():
            raise BadInput(f"the worker has rue {code_version()}; expected {task.code}, with which the run was started")
        record["compile_seconds"] = _make_ready(task.solver)
        train, test = _samples(task.problem)
        solution = solve(replace(train), task.solver, limits=Limits(task.seconds), bound=False)
        record |= _findings(train, solution)
        if test is not None:
            verdict = evaluate(test, solution.policy)
            record["test"] = {"max_regret": verdict.max_regret, "regret": verdict.regret.tolist()}
    except Exception as error:
        record |= {"status": FAILED, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        solution = None
    record |= {
        "wall_seconds": time.perf_counter() - began,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return record, solution if task.keep else None


def new_record(task: Task, error: str | None = None) -> Record:
    """A record of which nothing is known but the task, and what went wrong."""
    problem = task.problem
    return {
        "key": task.key, "task": task.describe(), "group": problem.group, "size": problem.size,
        "problem": problem.model, "method": task.method, "status": FAILED, "error": error,
    }  # fmt: skip


def _make_ready(solver: Solver) -> float:
    """Compile or load what a solver may call; how long that took, which is next to nothing the second time."""
    began = time.perf_counter()
    compile_ahead([solver])
    return time.perf_counter() - began


@lru_cache(maxsize=REMEMBERED)
def _samples(problem: Problem) -> tuple[UMDP, UMDP | None]:
    """The samples to plan with and those to test on."""
    problem.check_files()
    train = parsing.read_model(problem.model)
    if not problem.test:
        return train, None
    drawn = problem.test.isdecimal()
    return train, parsing.draw_unseen(train, int(problem.test)) if drawn else parsing.read_model(problem.test)


def _findings(model: UMDP, solution: Solution) -> Record:
    return {
        "status": solution.status.value,
        "states": model.graph.states,
        "choices": model.graph.choices,
        "samples": [model.sample_name(k) for k in range(model.samples)],
        "objective": [solution.objective.lower, solution.objective.upper],
        "max_regret": [solution.max_regret.lower, solution.max_regret.upper],
        "regret": list(solution.regret),
        "nodes": solution.policy.nodes,
        "seconds": solution.seconds,
        "counters": dict(solution.counters),
    }


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def machine() -> dict[str, str | int]:
    """The system, the processor and its cores: what times depend on."""
    return {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count() or 1}


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
