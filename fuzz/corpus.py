"""Files of cases that failed once: `fuzz/corpus/*.json`.

    {
      "kind": "model" or a kind of script (see scripts.py),
      "check": the check that failed,
      "detail": what it said,
      "seed": of the case,
      "expect": "fails until finding N", where nobody has dealt with it yet,
      "model": {"states": 3, "initial": 0, "choices": [{"state": 0, "cost": [1.0, 2.0], "to": [[2, [1.0, 1.0]]]}]},
      "jobs": [{"method": "adaptive", "parameters": {...}, "seconds": 2, "iterations": null, "bound": false}],
      "files": {"x.rue": {"text": ...} or {"zlib+base64": ...}}, "commands": [["info", "x.rue"]]
    }

The lists of a choice have a number for each sample. A model has `jobs`, or the solvers of its seed; a script has
`files` and `commands`. A case that killed its process has neither, only a seed.
"""

import json
import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rue
from fuzz import checks, models, scripts

FOLDER = Path(__file__).parent / "corpus"


def describe_job(job: checks.Job) -> dict[str, Any]:
    """A solver and its limits in plain values."""
    limits = {name: None if math.isinf(value) else value for name, value in asdict(job.limits).items()}
    return {"method": job.solver.name, "parameters": asdict(job.solver), **limits, "bound": job.bound}


def read_job(data: dict[str, Any]) -> checks.Job:
    """A solver and its limits from plain values."""
    limits = {name: data[name] for name in ("seconds", "iterations") if data.get(name) is not None}
    solver = rue.Solver.known[data["method"]](**data.get("parameters", {}))
    return checks.Job(solver, rue.Limits(**limits), data.get("bound", False))


def write(entry: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Put an entry into a folder, under a name that says what it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry['kind']}-{entry['check'].replace(' ', '-')}-{entry['seed']}.json"
    path.write_text(json.dumps(entry, indent=1) + "\n")
    return path


def replay(entry: dict[str, Any]) -> tuple[list[checks.Failure], Counter[str]]:
    """What is wrong with a case now."""
    seed = int(entry.get("seed", 0))
    if entry["kind"] == "model":
        spec = models.Spec.from_json(entry["model"]) if "model" in entry else models.draw(seed)
        jobs = [read_job(job) for job in entry["jobs"]] if "jobs" in entry else None
        return checks.examine(spec, seed, jobs)
    script = scripts.Script.from_json(entry["kind"], entry) if "commands" in entry else scripts.draw(seed)
    return scripts.examine(script)
