"""Perform one task: solve a problem with a method, evaluate the policy, and return a record.

A record has the task, why the solver stopped, what it found and proved, the regrets on the training samples and on the
test samples, with their mean, tail and quantiles (by weights), the times, and the machine. `seconds` is the time of the
solver alone, on a model without cached results; compilation, sampling and evaluation are not part of it.
"""

import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from rue import parsing
from rue.compilation import compile_ahead
from rue.errors import BadInput
from rue.evaluation import evaluate
from rue.experiments.provenance import code_version, machine, versions
from rue.experiments.spec import Problem, Task
from rue.experiments.store import FAILED, Record
from rue.model import UMDP
from rue.risk import spread
from rue.solution import Cache, Limits, Solution, Solver
from rue.solving import solve

# Problems that a process caches: its next task is mostly of one of them.
CACHED_PROBLEMS = 4
# Optimal values of the test samples, which all methods share; they are gone with their model.
TESTED = Cache()


def perform(task: Task) -> tuple[Record, Solution | None]:
    """Return the record of a task, and its solution if that is to be kept. Errors become part of the record."""
    began = time.perf_counter()
    record = new_record(task)
    solution = None
    try:
        record |= {"versions": versions(), "machine": machine()}
        if task.code != code_version():
            raise BadInput(f"the worker has rue {code_version()}; expected {task.code}, with which the run was started")
        record["compile_seconds"] = _compile(task.solver)
        train, test = _samples(task.problem)
        solution = solve(replace(train), task.solver, limits=Limits(task.seconds), bound=False)
        record |= _findings(train, solution)
        if test is not None:
            evaluation = evaluate(test, solution.policy, cache=TESTED)
            record["test"] = {
                "max_regret": evaluation.max_regret,
                "spread": spread(evaluation.regret, evaluation.weight),
                "regret": evaluation.regret.tolist(),
            }
    except Exception as error:
        record |= {"status": FAILED, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        solution = None
    record |= {
        "wall_seconds": time.perf_counter() - began,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return record, solution if task.keep else None


def new_record(task: Task, error: str | None = None) -> Record:
    """Return the record of a task that has failed, or has not ended yet."""
    problem = task.problem
    return {
        "key": task.key, "task": task.describe(), "group": problem.group, "size": problem.size,
        "problem": problem.model, "method": task.method, "status": FAILED, "error": error,
    }  # fmt: skip


def _compile(solver: Solver) -> float:
    """Compile or load the kernels of a solver, and return the seconds that took: almost none the second time."""
    began = time.perf_counter()
    compile_ahead([solver])
    return time.perf_counter() - began


@lru_cache(maxsize=CACHED_PROBLEMS)
def _samples(problem: Problem) -> tuple[UMDP, UMDP | None]:
    """Return the training samples and the test samples, if there are any."""
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
        "spread": spread(np.array(solution.regret), model.weight),
        "regret": list(solution.regret),
        "nodes": solution.policy.nodes,
        "seconds": solution.seconds,
        "counters": dict(solution.counters),
    }
