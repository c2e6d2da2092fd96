"""Names, weights and goals in a file `.names.json` beside the files of a format that has no place for them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rue._arrays import Array
from rue.errors import BadFile
from rue.model import UMDP

ENDING = ".names.json"


def beside(path: Path, ending: str) -> Path:
    """Return the file of the same name with another ending."""
    return path.with_name(path.stem + ending)


def read_names(path: Path) -> Mapping[str, Any]:
    """Return what was written beside a file; nothing if there is no such file."""
    source = beside(path, ENDING)
    if not source.is_file():
        return {}
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    return parse_names(str(source), text)


def parse_names(where: str, text: str | bytes) -> Mapping[str, Any]:
    """Return names that rue wrote as JSON; refuse others."""
    try:
        names = json.loads(text)
    except (RecursionError, ValueError):
        names = None
    return check_names(where, names)


def check_names(where: str, names: object) -> Mapping[str, Any]:
    """Return names as rue writes them; refuse others."""
    lists = ("state_label", "action_label", "sample_label", "weight", "goals")
    if isinstance(names, dict) and all(isinstance(names.get(key), list | None) for key in lists):
        return names
    raise BadFile(f"{where}: the names are damaged; expected JSON as rue writes it")


def names_of(model: UMDP) -> dict[str, Any]:
    """Return all that a format without names cannot hold."""
    graph = model.graph
    return {
        "states": graph.states,
        "state_label": graph.state_label,
        "action_label": graph.action_label,
        "sample_label": model.sample_label,
        "weight": model.weight.tolist() if model.is_weighted else None,
        "goals": np.flatnonzero(graph.goal).tolist(),
    }


def label_fields(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels and weights as fields of flat arrays."""
    fields = {
        key: None if names.get(key) is None else tuple(map(str, names[key]))
        for key in ("state_label", "action_label", "sample_label")
    }
    return {**fields, "weight": names.get("weight")}


def goals_of(where: str, names: Mapping[str, Any], states: int) -> Array | None:
    """Return which states are goals, if that was written."""
    if names.get("goals") is None:
        return None
    goal = np.zeros(states, bool)
    try:
        goal[np.array(names["goals"], np.int64)] = True
    except (IndexError, TypeError, ValueError, OverflowError):
        raise BadFile(f"{where}: the goals are damaged; expected numbers of states") from None
    return goal
