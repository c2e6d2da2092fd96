"""Policies as text, read back: the arrays of a controller from JSON, and from CSV with the help of its graph.

`Policy.to_json` and `Policy.to_csv` write what is read here. What the arrays mean, and whether they make a controller,
is decided in `policy.py` alone.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple

import numpy as np

from rue._arrays import pointers
from rue._check import in_all, whole_number
from rue.errors import BadFile, BadInput, unknown_name
from rue.model import Graph

FORMAT, VERSION = "rue policy", 1
COLUMNS = ("node", "state", "action", "probability", "next", "start")
# How far the probabilities of a node may be from one in sum.
TOLERANCE = 1e-8

Arrays = dict[str, Any]


def actions_in_words(graph: Graph, state: int) -> str:
    """Return the names of the actions of a state, for messages."""
    has = graph.action[graph.choice_ptr[state] : graph.choice_ptr[state + 1]]
    return ", ".join(graph.action_name(int(action)) for action in has)


def arrays_from_json(text: object) -> tuple[Graph, Arrays]:
    """Return the graph and the arrays of a controller, from its JSON."""
    try:
        whole = json.loads(text) if isinstance(text, str | bytes) else None
    except (RecursionError, ValueError) as error:
        raise BadFile(f"it is no JSON ({error}); expected a policy as rue.save writes it") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise BadFile("it is JSON of something else; expected a policy as rue.save writes it")
    if whole.get("version") != VERSION:
        raise BadFile(f"it has version {whole.get('version')} of the format; expected version {VERSION}")
    try:
        return _read_json(whole)
    except BadInput as error:
        raise BadFile(str(error)) from None
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise BadFile(f"the policy is damaged ({problem}); expected one as rue.save writes it") from None


def _read_json(whole: Mapping[str, Any]) -> tuple[Graph, Arrays]:
    about = dict(whole["graph"])
    fingerprint = about.pop("fingerprint")
    graph = Graph(**about)
    if graph.fingerprint != fingerprint:
        raise BadFile(f"the graph has fingerprint {graph.fingerprint}; expected {fingerprint}, as the file says")
    rows = []
    for place, node in enumerate(whole["nodes"]):
        if node["node"] != place:
            raise BadFile(f"node {node['node']} is in place {place}; expected nodes in order, 0, 1, 2, ...")
        state = _number("state", graph.state_number, node["state"])
        for action in node["actions"]:
            following = [outcome["node"] for outcome in action["next"]]
            rows.append(_Row(place, _choice(graph, state, action["action"]), action["probability"], following))
    states = [graph.state_number[node["state"]] for node in whole["nodes"]]
    start_node, start_weight = ([begin[key] for begin in whole["start"]] for key in ("node", "probability"))
    return graph, {**_arrays(states, rows), "start_node": start_node, "start_weight": start_weight}


class _Row(NamedTuple):
    """What a node does with some probability."""

    node: int
    choice: int
    probability: float
    next: Sequence[int]


def _arrays(state: Sequence[int], rows: Sequence[_Row]) -> Arrays:
    """Return the arrays of a controller from the state of each node and from rows in the order of the nodes."""
    entries = np.bincount(np.array([row.node for row in rows], np.int64), minlength=len(state))
    return {
        "node_state": state,
        "entry_ptr": pointers(entries),
        "choice": [row.choice for row in rows],
        "weight": [row.probability for row in rows],
        "next_ptr": pointers([len(row.next) for row in rows]),
        "next_node": [node for row in rows for node in row.next],
    }


def arrays_from_csv(text: object, graph: Graph) -> Arrays:
    """Return the arrays of a controller on a graph, from a table."""
    if not isinstance(text, str):
        raise BadInput(f"the table is a {type(text).__name__}; expected text")
    usual = csv.field_size_limit(max(len(text), csv.field_size_limit()))  # next nodes may be many
    try:
        lines = csv.reader(StringIO(text, newline=""))
        columns = [name.strip() for name in next(lines, [])]
        for name in ("state", "action"):
            if columns.count(name) != 1:
                raise BadFile(f"{unknown_name('column', name, columns)}; expected a policy with a state and an action")
        return _read_csv(graph, columns, lines)
    except csv.Error as error:
        raise BadFile(f"no table of text ({error}); expected a policy in CSV") from None
    finally:
        csv.field_size_limit(usual)


def _read_csv(graph: Graph, columns: Sequence[str], lines: Any) -> Arrays:
    alone = "next" not in columns  # then the state alone decides, and is the node
    if alone == ("start" in columns):
        given, absent = ("start", "next") if alone else ("next", "start")
        raise BadFile(
            f"there is no column {absent!r} beside {given!r}; expected both, or neither for a stationary policy"
        )
    state: dict[int, int] = {}  # of each node
    begin: dict[int, float] = {}  # the probability to start there
    rows: list[_Row] = []
    for cells in _filled(columns, lines):
        try:
            here = _number("state", graph.state_number, cells["state"])
            node = here if alone else whole_number("node", _whole(cells.get("node", "")), 0)
            if state.setdefault(node, here) != here:
                raise BadInput(f"node {node} is in another state than before; expected one state for each node")
            begin[node] = 0.0 if alone else _chance("start", cells["start"], 0.0)
            if graph.goal[here]:
                continue
            choice = _choice(graph, here, cells["action"])
            following = (
                graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]].tolist()
                if alone
                else [whole_number("next", _whole(number), 0) for number in cells["next"].split()]
            )
            rows.append(_Row(node, choice, _chance("probability", cells.get("probability", ""), 1.0), following))
        except BadInput as error:
            raise BadFile(f"line {lines.line_num}: {error}") from None
    if alone:
        state, begin = {node: node for node in range(graph.states)}, {graph.initial: 1.0}
        rows += _rows_without_choice(graph, rows)
    elif sorted(state) != list(range(len(state))):
        missing = next(node for node in range(len(state)) if node not in state)
        raise BadFile(f"node {missing} has no row; expected one for each node up to {max(state)}")
    rows.sort(key=lambda row: row.node)
    _check_sums(graph, state, rows)
    start = [node for node in sorted(begin) if begin[node] > 0]
    return {
        **_arrays([state[node] for node in sorted(state)], rows),
        "start_node": start, "start_weight": [begin[node] for node in start],
    }  # fmt: skip


def _rows_without_choice(graph: Graph, rows: Sequence[_Row]) -> list[_Row]:
    """Return a row for each state that has no row and one action only."""
    there = np.zeros(graph.states, bool)
    there[[row.node for row in rows]] = True
    only = np.flatnonzero(~there & (np.diff(graph.choice_ptr) == 1))
    choices = graph.choice_ptr[only].tolist()
    return [
        _Row(state, choice, 1.0, graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]].tolist())
        for state, choice in zip(only.tolist(), choices, strict=True)
    ]


def _filled(columns: Sequence[str], lines: Any) -> Iterator[dict[str, str]]:
    for cells in lines:
        if len(cells) > len(columns):
            raise BadFile(f"line {lines.line_num}: there are {len(cells)} cells; expected {len(columns)}")
        if any(cells):
            yield dict(zip(columns, cells + [""] * (len(columns) - len(cells)), strict=True))


def _check_sums(graph: Graph, state: Mapping[int, int], rows: Sequence[_Row]) -> None:
    total = np.zeros(len(state))
    for row in rows:
        total[row.node] += row.probability
    acting = np.array([not graph.goal[state[node]] for node in range(len(state))], bool)
    bad = np.flatnonzero(acting & ~(np.abs(total - 1) <= TOLERANCE))
    if bad.size:
        name = graph.state_name(state[int(bad[0])])
        raise BadFile(
            f"the probabilities of node {bad[0]} (state {name}) sum to {total[bad[0]]:.10g}; expected 1; "
            f"{in_all(bad.size, 'node')}"
        )


def _number(kind: str, numbers: Mapping[str, int], name: str) -> int:
    """Return the state or action of a name; spaces around it do not matter where no name has them."""
    known = name if name in numbers else name.strip()
    if known not in numbers:
        raise unknown_name(kind, name, numbers)
    return numbers[known]


def _choice(graph: Graph, state: int, name: str) -> int:
    """Return the choice of a state that has an action of this name."""
    action = _number("action", graph.action_number, name)
    first, end = graph.choice_ptr[state : state + 2]
    place = int(first + np.searchsorted(graph.action[first:end], action))
    if place == end or graph.action[place] != action:
        has = actions_in_words(graph, state)
        raise BadInput(f"state {graph.state_name(state)} has no action {name!r}; expected one of {has or 'none'}")
    return place


def _whole(text: str) -> object:
    return int(text) if text.strip().isdecimal() and len(text) < 20 else text


def _chance(name: str, text: str, missing: float) -> float:
    try:
        value = float(text) if text.strip() else missing
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1 + TOLERANCE:
        raise BadInput(f"{name} is {text!r}; expected a number from 0 to 1")
    return value
