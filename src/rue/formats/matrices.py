"""Models from matrices, as MDPtoolbox and MDPSolve have them, and from the tables of Gymnasium environments.

`P[a]` is an S × S matrix for each action a, dense or sparse; several samples are a list of such lists. A row of zeros
means that there is no such action in that state. `R` is a vector [S], a matrix [S, A], or a matrix [S, S] for each
action as `P` has it. States that only loop, at no reward, are goals. `.npz` files have arrays `P` [A, S, S] or
[K, A, S, S] and `R`; `.mat` files have them in MATLAB's order, [S, S, A] or [S, S, A, K], or cells of sparse matrices.
Both may have a `discount`, and `initial`, the number of the initial state, which counts from 1 in `.mat` files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array
from rue._check import check_memory, labels, number_array, one_index, real_number
from rue.average import is_wanted
from rue.errors import BadFile, BadInput
from rue.flat import Flat
from rue.formats.assemble import Part, choice_of, flat_from_entries, put_together
from rue.formats.mat_file import read_mat
from rue.formats.names import goals_of, label_fields, names_of, parse_names
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.writing import write_atomically
from rue.model import UMDP

ENDINGS = (".npz", ".mat")
NAMES = "rue_names"
END = "end"


def _scipy() -> Any:
    """Return scipy, which is imported when it is first needed: its parts are slow to import."""
    import scipy

    return scipy


def from_matrices(
    P: Any,
    R: Any,
    *,
    discount: float | None = None,
    average: bool | float = False,
    initial: int = 0,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    samples: Sequence[str] | None = None,
    weight: ArrayLike | None = None,
) -> UMDP:
    """Return a model from a matrix of probabilities for each action, and rewards to maximise.

    `P[a]` is S × S, dense or sparse (scipy); for several samples, `P[k][a]`. `R` is [S], [S, A], or `R[a]` S × S; for
    several samples a list of these, or one for all. A row of zeros means that there is no such action in that state.
    States that only loop at no reward are goals. Without a `discount` below 1, rewards must be 0 or less. With
    `average`, results are averages per step in the long run (see `UMDP.from_dense`), and there are no goals.
    """
    label: dict[str, Any] = {
        "state_label": labels("state", states),
        "action_label": labels("action", actions),
        "sample_label": labels("sample", samples),
        "weight": None if weight is None else np.atleast_1d(number_array("weight", weight)),
    }
    _check_discount(discount)
    flat = _flat("P", P, R)
    flat = replace(flat, initial=one_index("initial", initial, flat.choice_ptr.size - 1), **label)
    return model_from_rewards("P", put_together([Part("P", flat)]), discount, average=average)


def from_gymnasium(
    envs: Any,
    *,
    discount: float | None = None,
    average: bool | float = False,
    initial: int | None = None,
    samples: Sequence[str] | None = None,
) -> UMDP:
    """Return a model with a sample for each environment of Gymnasium that has a table `P`, such as FrozenLake.

    `P[s][a]` lists (probability, next state, reward, terminated). What terminates leads to one more state, "end", which
    is a goal, since terminal states are not absorbing in all tables. Outcomes with the same next state are merged.
    Where the initial state is random, `initial` says where to start. Rewards are maximised; with `average`, on average
    per step in the long run, which is for tables that never terminate.
    """
    found = list(envs) if isinstance(envs, list | tuple) else [envs]
    _check_discount(discount)
    if not found:
        raise BadInput("there are no environments; expected one at least")
    tables = [_table(env, k) for k, env in enumerate(found)]
    entries = [_entries(table, k) for k, table in enumerate(tables)]
    count = {len(table) for table in tables}
    if len(count) > 1:
        raise BadInput(f"the environments have {min(count)} to {max(count)} states; expected the same in all")
    states = count.pop()
    state, action, target, sample, prob, reward, ended = np.concatenate(entries).T
    if is_wanted(average) and ended.any():
        first = int(np.flatnonzero(ended)[0])
        raise BadInput(
            f"environment {sample[first]:g} terminates after action {action[first]:g} in state {state[first]:g}, and "
            "average= is given; expected tables that go on for ever"
        )
    if ((target < 0) | (target >= states)).any():
        raise BadInput(f"a next state is {target.max():g} or {target.min():g}; expected 0 to {states - 1}")
    target = np.where(ended != 0, states, target)
    index = [column.astype(np.int64) for column in (state, action, target, sample)]
    flat = flat_from_entries(index[0], index[1], index[2], index[3], prob, len(found), states + 1)
    flat = replace(flat, cost=_expected(flat, index, prob * reward))
    start = _start(found[0], states) if initial is None else one_index("initial", initial, states)
    names = (*map(str, range(states)), END)
    flat = replace(flat, initial=start, state_label=names, sample_label=labels("sample", samples))
    where = "P of the environments"
    return model_from_rewards(where, put_together([Part(where, flat)]), discount, average=average)


def _check_discount(discount: object) -> None:
    if discount is not None:
        real_number("discount", discount, "a number between 0 and 1", 0, 1)


def _table(env: object, number: int) -> Mapping[int, Any]:
    table = env if isinstance(env, Mapping) else getattr(getattr(env, "unwrapped", env), "P", None)
    if not isinstance(table, Mapping) or not table or set(table) != set(range(len(table))):
        raise BadInput(
            f"environment {number} is {type(env).__name__} without a table P; expected one for states 0, 1, …"
        )
    return table


def _entries(table: Mapping[int, Any], sample: int) -> Array:
    """Return state, action, next state, sample, probability, reward and end of each outcome."""
    try:
        rows = [
            (state, action, target, sample, prob, reward, bool(ended))
            for state, row in table.items()
            for action, outcomes in row.items()
            for prob, target, reward, ended in outcomes
        ]
        found = number_array("P", rows).reshape(-1, 7)
    except (AttributeError, TypeError, ValueError):
        raise BadInput(
            f"the table P of environment {sample} has another form; expected P[state][action] to list (probability, "
            "next state, reward, terminated)"
        ) from None
    whole = found[:, :4]
    if not np.isfinite(found).all() or (whole != np.floor(whole)).any() or (whole[:, 1] < 0).any():
        raise BadInput(f"the table P of environment {sample} has odd numbers; expected finite ones, and whole states")
    return found


def _start(env: object, states: int) -> int:
    """Return the initial state of an environment, where it is certain."""
    chance = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
    if chance is None:
        return 0
    chance = number_array("initial_state_distrib", chance)
    sure = np.flatnonzero(chance > 1 - 1e-9)
    if chance.shape != (states,) or sure.size != 1:
        raise BadInput("the initial state of the environment is random; expected initial= to say where to start")
    return int(sure[0])


def _expected(flat: Flat, index: Sequence[Array], part: Array) -> Array:  # [C, K]
    """Return what each choice gives in each sample, from the parts of its outcomes."""
    samples = flat.prob.shape[1]
    cell = choice_of(flat, index[0], index[1]) * samples + index[3]
    return np.bincount(cell, part, flat.action.size * samples).reshape(-1, samples)


def _matrix(name: str, value: Any) -> Any:
    """Return a square matrix in coordinates."""
    try:
        given: Any = value if _scipy().sparse.issparse(value) else number_array(name, value)
        matrix = _scipy().sparse.coo_array(given)
    except (TypeError, ValueError):
        raise BadInput(f"{name} is no matrix of numbers; expected one, dense or sparse") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise BadInput(f"{name} has shape {matrix.shape}; expected states × states")
    if not np.isfinite(matrix.data).all():
        raise BadInput(f"{name} has numbers that are not finite; expected finite ones")
    matrix.sum_duplicates()
    return matrix


def _depth(value: Any) -> int:
    """Return how many lists lie around the numbers; a sparse matrix counts as two."""
    if _scipy().sparse.issparse(value):
        return 2
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim
    if isinstance(value, list | tuple | np.ndarray) and len(value):
        return 1 + _depth(value[0])
    return 0


def _flat(name: str, P: Any, R: Any, per_sample: bool = False) -> Flat:
    """Return flat arrays, with rewards for costs; `per_sample` says that `R` is surely a list of samples."""
    depth = _depth(P)
    if depth not in (3, 4):
        raise BadInput(f"{name} has {depth} axes; expected {name}[action] or {name}[sample][action], each a matrix")
    table = [P] if depth == 3 else list(P)
    actions, samples = len(table[0]), len(table)
    parts, states = [], -1
    for k, own in enumerate(table):
        if len(own) != actions:
            raise BadInput(f"sample {k} of {name} has {len(own)} actions; expected {actions}, as the first one has")
        for a in range(actions):
            matrix = _matrix(f"{name}[{k}][{a}]" if depth == 4 else f"{name}[{a}]", own[a])
            states = matrix.shape[0] if states < 0 else states
            if matrix.shape[0] != states:
                raise BadInput(f"{name}[{a}] of sample {k} has {matrix.shape[0]} states; expected {states}")
            row, column = matrix.coords
            kept = matrix.data != 0
            size = int(kept.sum())
            parts.append((row[kept], np.full(size, a), column[kept], np.full(size, k), matrix.data[kept]))
    state, action, target, sample, prob = (np.concatenate(column) for column in zip(*parts, strict=True))
    flat = flat_from_entries(state, action, target, sample, prob, samples, states)
    index = [column.astype(np.int64) for column in (state, action, target, sample)]
    shape = samples, actions, states
    several = not _scipy().sparse.issparse(R) and (per_sample or (depth == 4 and _is_per_sample(R, shape)))
    return replace(flat, cost=_expected(flat, index, prob * _rewards(R, index, shape, several)))


def _rewards(R: Any, index: Sequence[Array], shape: tuple[int, int, int], per_sample: bool) -> Array:
    """Return the reward of each transition."""
    _, actions, states = shape
    state, action, target, sample = index
    tables = [_one_reward(one, actions, states) for one in (R if per_sample else [R])]
    reward = np.zeros(state.size)
    for k, table in enumerate(tables):
        own = np.flatnonzero(sample == k) if per_sample else np.arange(state.size)
        if isinstance(table, list):
            for a in range(actions):
                place = own[action[own] == a]
                reward[place] = np.asarray(table[a][state[place], target[place]]).ravel()
        else:
            reward[own] = table[state[own], action[own]]
    return reward


def _is_per_sample(R: Any, shape: tuple[int, int, int]) -> bool:
    """Return whether rewards are a list for each sample; what could also be for each action is taken for that."""
    samples, actions, states = shape
    depth = _depth(R)
    if depth == 3:
        return bool(len(R) == samples and np.shape(R[0]) == (states, actions)) and not (
            len(R) == actions and actions == states
        )
    return depth == 4 or (depth == 2 and np.shape(R) == (samples, states) != (states, actions))


def _one_reward(R: Any, actions: int, states: int) -> Any:
    """Return the rewards of one sample: a table [S, A], or a matrix for each action."""
    if _depth(R) == 3 and len(R) == actions:
        return [_scipy().sparse.csr_array(_matrix(f"R[{a}]", R[a])) for a in range(actions)]
    dense: Any = R
    table = dense.toarray() if _scipy().sparse.issparse(R) else number_array("R", R)
    if table.shape in ((states,), (1, states), (states, 1)) and table.shape != (states, actions):
        return np.repeat(table.reshape(states, 1), actions, axis=1)
    if table.shape != (states, actions) or not np.isfinite(table).all():
        raise BadInput(f"R has shape {table.shape}; expected [{states}], [{states}, {actions}] or a matrix per action")
    return table


def read_matrices(path: Path, model: object) -> UMDP:
    """Read a model from a `.npz` or `.mat` file."""
    try:
        found = _load_mat(path) if path.suffix.lower() == ".mat" else _load_npz(path)
    except Exception as error:  # the readers of numpy and scipy raise whatever comes, where a file is damaged
        reason = " ".join(str(error).split())[:80]
        raise BadFile(f"{path}: it cannot be read ({reason}); expected arrays P and R") from None
    for name in ("P", "R"):
        if name not in found:
            known = ", ".join(found) or "nothing"
            raise BadFile(f"{path}: there is no array {name}; expected P and R, found {known}")
    try:
        flat = _flat("P", found["P"], found["R"], per_sample=NAMES in found)
        states = flat.choice_ptr.size - 1
        names: Mapping[str, Any] = {}
        if NAMES in found:
            names = parse_names(str(path), str(np.asarray(found[NAMES]).ravel()[0]))
        flat = replace(flat, initial=one_index("initial", int(found.get("initial", 0)), states), **label_fields(names))
        discount = float(found["discount"]) if "discount" in found else None
        _check_discount(discount)
        flat = put_together([Part(str(path), flat, goals_of(str(path), names, states))])
        return model_from_rewards(str(path), flat, discount, ours=names)
    except BadFile:
        raise
    except (BadInput, TypeError, ValueError) as error:
        raise BadFile(f"{path}: {error}") from None


def _load_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _load_mat(path: Path) -> dict[str, Any]:
    found = {name: value for name, value in read_mat(path).items() if value is not None}
    for name in ("P", "R"):
        if name in found:
            found[name] = _from_matlab(found[name], name)
    for name in ("discount", "initial"):
        if name in found:
            found[name] = float(np.asarray(found[name]).ravel()[0]) - (name == "initial")
    return found


def _from_matlab(value: Any, name: str) -> Any:
    """Return an array with actions first, and samples before them; a cell is a list."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [_from_matlab(one, name) for one in value.ravel()]
    if _scipy().sparse.issparse(value) or value.ndim < 3:
        return value
    return np.moveaxis(value, (2, 0, 1), (0, 1, 2)) if value.ndim == 3 else np.moveaxis(value, (3, 2, 0, 1), range(4))


def write_matrices(path: Path, thing: Storable) -> None:
    """Write a model as dense arrays; a state that lacks an action has a row of zeros there."""
    assert isinstance(thing, UMDP)
    graph, samples = thing.graph, thing.samples
    actions = int(graph.action.max(initial=0)) + 1
    check_memory(
        f"{samples} dense samples of {graph.states} states and {actions} actions",
        16.0 * samples * actions * graph.states**2,
        "a sparse format such as .umb",
    )
    P, R = np.zeros((samples, actions, graph.states, graph.states)), np.zeros((samples, graph.states, actions))
    action = graph.action[graph.trans_choice]
    np.add.at(P.transpose(1, 2, 3, 0), (action, graph.trans_state, graph.successor), thing.prob)
    R[:, graph.choice_state, graph.action] = 0.0 - thing.cost.T
    goals = np.flatnonzero(graph.goal)
    P[:, :, goals, goals] = 1.0  # goals loop
    names = json.dumps({**names_of(thing), **units_of(thing)})
    found: dict[str, Any] = {
        "P": P,
        "R": R,
        "initial": np.array(graph.initial),
        "discount": np.array(1.0),
        NAMES: np.array(names),
    }
    if path.suffix.lower() == ".npz":
        write_atomically(path, lambda stream: np.savez(stream, **found))
        return
    found["P"], found["R"] = _cells(P.transpose(0, 2, 3, 1)), _cells(R)
    found["initial"] = found["initial"] + 1
    write_atomically(path, lambda stream: _scipy().io.savemat(cast(Any, stream), found))


def _cells(values: Array) -> Array:
    """Return one array for each sample, as a cell of MATLAB."""
    cell = np.empty(len(values), object)
    for k, value in enumerate(values):
        cell[k] = value
    return cell
