"""One page of HTML in which a policy is played step by step. It needs no network and no other file.

The page has the part of the controller that can be visited, and the numbers of the choices that it takes there:
outcomes, probabilities, costs and gaps in each sample, in arrays as base64. `player.js` plays and `explorer.js` draws.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.colors import to_hex

from rue._arrays import Array, members, places, pointers
from rue._check import check_memory
from rue._text import bound_text, counted, number_text, one_line
from rue.evaluation import evaluate
from rue.explanation import choice_gaps, proved_belief
from rue.grid_layout import read_grid
from rue.judge import Evaluation, visited_nodes
from rue.model import UMDP
from rue.policy import Policy
from rue.report import style
from rue.solution import Cache, Solution, policy_of
from rue.values import optimal_values

SCENERY = {"entry_cost": "entryCost", "obstacle": "obstacle", "east": "east", "north": "north"}
HERE = Path(__file__).parent
CODE = (HERE.with_name("player.js"), HERE / "explorer.js")
COLOURS = 9  # of the scale of costs
BYTES_AS_TEXT = 4 / 3  # base64
ROUNDING = 1e-9  # of the largest gap: smaller ones are shown as none
TINY = float(np.finfo(np.float32).tiny)


def explorer_page(model: UMDP, solution: Solution | Policy, title: str = "") -> str:
    """Return a page in which a policy is played in any sample, with its belief, cost and regret."""
    policy = policy_of(solution)
    cache = Cache()
    verdict = evaluate(model, policy, cache=cache)
    proof = proved_belief(model, solution)
    visited = _visited(model, policy)
    gap = choice_gaps(model, optimal_values(model, cache=cache).value, np.arange(model.samples))
    gap[gap <= ROUNDING * np.where(np.isfinite(gap), gap, 0.0).max(initial=0.0)] = 0.0
    arrays, map_facts = _arrays(model, policy, visited, gap)
    priors = [
        {"name": "weights of the samples" if model.is_weighted else "equal weights", "values": _list(model.weight)}
    ]
    if proof is not None:
        priors.append({"name": "worst-case belief of the proof", "values": _list(proof[0])})
    facts = {
        "arrays": {name: _encoded(name, array) for name, array in arrays.items()},
        "states": [one_line(model.graph.state_name(s)) for s in range(model.graph.states)],
        "actions": [one_line(model.graph.action_name(a)) for a in range(int(model.graph.action.max(initial=-1)) + 1)],
        "samples": [one_line(model.sample_name(k)) for k in range(model.samples)],
        "initial": model.graph.initial, "goals": np.flatnonzero(model.graph.goal).tolist(),
        "regret": _list(np.where(verdict.regret <= verdict.error, 0.0, verdict.regret)), "worst": verdict.worst_sample,
        "unit": model.units.name, "priors": priors, "map": map_facts,
    }  # fmt: skip
    return style.render(
        "explorer.html.j2",
        HERE,
        title=title or "A policy, step by step",
        size=_size(model, policy, visited.size),
        regret=_regret(model, verdict, None if proof is None else proof[1]),
        is_map=map_facts is not None,
        credit="" if map_facts is None else map_facts["credit"],
        unit=model.units.name,
        facts=facts,
        code=Markup("\n".join(path.read_text(encoding="utf-8") for path in CODE)),
    )


def _visited(model: UMDP, policy: Policy) -> Array:
    """Return the nodes that can be visited in some sample, goals included, in the order of their numbers."""
    acting = visited_nodes(model, policy)
    entry = members(policy.entry_ptr, acting)
    ahead = policy.next_node[members(policy.next_ptr, entry)]
    live = model.ever_live[members(model.graph.trans_ptr, policy.choice[entry])]
    return np.unique(np.concatenate([policy.start_node, acting, ahead[live]]))


def _arrays(model: UMDP, policy: Policy, visited: Array, gap: Array) -> tuple[dict[str, Array], dict[str, Any] | None]:
    """Return the controller on the visited nodes, the graph of its choices, their numbers, and the map, if any.

    Outcomes that are impossible in every sample are left out.
    """
    graph = model.graph
    number = places(visited, policy.nodes)
    entry = members(policy.entry_ptr, visited)
    used, choice = np.unique(policy.choice[entry], return_inverse=True)
    live = model.ever_live
    outcome = members(graph.trans_ptr, used)
    outcome = outcome[live[outcome]]
    grid = read_grid(graph) if "grid" in graph.layout else None
    size = 4.0 * model.samples * (outcome.size + 2 * used.size + (0 if grid is None else graph.states * len(SCENERY)))
    check_memory("the page", 3 * BYTES_AS_TEXT * size)
    possible = np.bincount(graph.trans_choice, live, graph.choices).astype(int)  # outcomes of each choice
    taken = policy.choice[entry]
    next_node = policy.next_node[members(policy.next_ptr, entry)]
    prob = model.prob[outcome]
    arrays: dict[str, Array] = {
        "choice_ptr": pointers(np.bincount(graph.choice_state[used], minlength=graph.states)),
        "action": graph.action[used], "trans_ptr": pointers(possible[used]), "successor": graph.successor[outcome],
        "node_state": policy.node_state[visited], "choice": choice,
        "entry_ptr": pointers(np.diff(policy.entry_ptr)[visited]),
        "weight": policy.weight[entry], "next_ptr": pointers(possible[taken]),
        "next_node": number[next_node[live[members(graph.trans_ptr, taken)]]],
        "start_node": number[policy.start_node], "start_weight": policy.start_weight,
        "prob": np.where(prob > 0, np.maximum(prob, TINY), 0.0), "cost": model.units.step(model.cost[used]),
        "gap": gap[used],
    }  # fmt: skip
    if grid is None:
        return arrays, None
    arrays["cell"] = grid.cell
    arrays |= {short: model.scenery[name] for name, short in SCENERY.items() if name in model.scenery}
    scale = [to_hex(style.COSTS(x)) for x in np.linspace(0, 1, COLOURS)]
    return arrays, {
        "rows": grid.rows, "columns": grid.columns, "scale": scale, "credit": grid.credit, "axis": grid.axis,
        "heading": None if grid.heading is None else grid.heading.tolist(),
    }  # fmt: skip


def _encoded(name: str, array: Array) -> Mapping[str, str]:
    """Return an array in base64: whole numbers and those of all samples in 32 bits, weights of the policy in 64."""
    kind = np.int32 if array.dtype.kind in "iu" else np.float64 if name.endswith("weight") else np.float32
    data = np.ascontiguousarray(array, np.dtype(kind).newbyteorder("<"))
    return {"kind": kind.__name__.capitalize(), "data": base64.b64encode(data.tobytes()).decode()}


def _list(values: Array) -> list[float | None]:
    """Return numbers; none for infinity, which JSON does not have."""
    return [float(x) if np.isfinite(x) else None for x in values]


def _size(model: UMDP, policy: Policy, visited: int) -> str:
    text = (
        f"{counted(model.graph.states, 'state')}, {counted(model.samples, 'sample')}, {counted(policy.nodes, 'node')}"
    )
    return text if visited == policy.nodes else f"{text} ({counted(visited, 'node')} can be visited)"


def _regret(model: UMDP, verdict: Evaluation, bound: float | None) -> str:
    text = f"max regret {number_text(verdict.max_regret)} in sample {model.sample_name(verdict.worst_sample)}"
    return text if bound is None else f"{text}; no policy has less than {bound_text(bound)}"
