"""Experiments: a spec, its tasks, a store of records, and tables of them."""

from rue.experiments.run import Progress, Summary, dask_executor, run_experiment
from rue.experiments.spec import Experiment, Problem, Problems, Task, read_spec
from rue.experiments.store import Store

__all__ = [
    "Experiment",
    "Problem",
    "Problems",
    "Progress",
    "Store",
    "Summary",
    "Task",
    "dask_executor",
    "read_spec",
    "run_experiment",
]
