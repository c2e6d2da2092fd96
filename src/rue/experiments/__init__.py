"""Experiments: a spec, its tasks, a store of records, and tables of them."""

from rue.experiments.provenance import code_version
from rue.experiments.published_figures import read_published
from rue.experiments.results import Results
from rue.experiments.run import Advance, Summary, run_experiment
from rue.experiments.spec import Experiment, Problem, Problems, Task, read_spec
from rue.experiments.store import Store
from rue.experiments.tables import make_tables, write_tables
from rue.workers import dask_executor

__all__ = [
    "Advance",
    "Experiment",
    "Problem",
    "Problems",
    "Results",
    "Store",
    "Summary",
    "Task",
    "code_version",
    "dask_executor",
    "make_tables",
    "read_published",
    "read_spec",
    "run_experiment",
    "write_tables",
]
