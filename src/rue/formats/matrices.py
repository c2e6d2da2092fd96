"""Models from matrices, as MDPtoolbox has them (MDPSolve: `mdpsolve.py`), and from tables of Gymnasium environments.

`P[a]` is an S × S matrix for each action a, dense or sparse; several samples are a list of such lists. A row of zeros
means that there is no such action in that state. `R` is a vector [S], a matrix [S, A], or a matrix [S, S] for each
action as `P` has it. States that only loop, at no reward, are goals. `.npz` files have arrays `P` [A, S, S] or
[K, A, S, S] and `R`; `.mat` files have them in MATLAB's order, [S, S, A] or [S, S, A, K], or cells of sparse matrices.
Both may have a `discount`, a `horizon` with `terminal` rewards, names of `states`, `actions` and `samples`, the
`weight` of each sample, and `initial`, the number of the initial state, which counts from 1 in `.mat` files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
from rue.formats.assemble import Part, put_together
from rue.formats.entry_blocks import BLOCK, Entries, flat_of_blocks
from rue.formats.mat_file import read_mat
from rue.formats.mdpsolve import PER_SAMPLE, from_mdpsolve, is_mdpsolve
from rue.formats.names import goals_of, label_fields, names_of, parse_names
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.writing import write_atomically
from rue.model import UMDP

ENDINGS = (".npz", ".mat")
NAMES = "rue_names"
END = "end"
MOST = 2**31  # actions


def _scipy() -> Any:
    """Return scipy, which is imported when it is first needed: its parts are slow to import."""
    import scipy

    return scipy


def from_matrices(
    P: Any,
    R: Any,
    *,
    discount: float | None = None,
    horizon: int | None = None,
    terminal: ArrayLike | None = None,
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
    States that only loop at no reward are goals. Rewards must be 0 or less without a `discount` below 1 or a `horizon`,
    a number of steps. `terminal[S]`, or `[K,S]`, is the reward of the state where the horizon ends. With `average`,
    results are averages per step in the long run (see `UMDP.from_dense`). With these two there are no goals.
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
    flat = put_together([Part("P", flat)])
    return model_from_rewards("P", flat, discount, average=average, horizon=horizon, terminal=terminal)


def from_gymnasium(
    envs: Any,
    *,
    discount: float | None = None,
    horizon: int | None = None,
    average: bool | float = False,
    initial: int | None = None,
    samples: Sequence[str] | None = None,
) -> UMDP:
    """Return a model with a sample for each environment of Gymnasium that has a table `P`, such as FrozenLake.

    `P[s][a]` lists (probability, next state, reward, terminated). What terminates leads to one more state, "end", which
    is a goal, since terminal states are not absorbing in all tables. Outcomes with the same next state are merged.
    Where the initial state is random, `initial` says where to start. Rewards are maximised; with a `horizon`, those of
    this number of steps; with `average`, on average per step in the long run, which is for tables that never terminate.
    """
    found = list(envs) if isinstance(envs, list | tuple) else [envs]
    _check_discount(discount)
    if not found:
        raise BadInput("there are no environments; expected one at least")
    tables = [_table(env, k) for k, env in enumerate(found)]
    count = {len(table) for table in tables}
    if len(count) > 1:
        raise BadInput(f"the environments have {min(count)} to {max(count)} states; expected the same in all")
    states = count.pop()
    flat = flat_of_blocks(_blocks_of_tables(tables, states, is_wanted(average)), states + 1, len(found))
    start = _start(found[0], states) if initial is None else one_index("initial", initial, states)
    names = (*map(str, range(states)), END)
    flat = replace(flat, initial=start, state_label=names, sample_label=labels("sample", samples))
    where = "P of the environments"
    return model_from_rewards(where, put_together([Part(where, flat)]), discount, average=average, horizon=horizon)


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


def _blocks_of_tables(tables: Sequence[Mapping[int, Any]], states: int, endless: bool) -> Iterator[Entries]:
    """Yield the outcomes of some states at a time; what ends leads to one more state."""
    rows: list[tuple[float, ...]] = []
    first = 0
    for state in range(states):
        for k, table in enumerate(tables):
            rows += _outcomes(table[state], state - first, k)
        if len(rows) >= BLOCK or state == states - 1:
            yield _entries(rows, first, state + 1 - first, states, endless)
            rows, first = [], state + 1


def _outcomes(row: Any, state: int, sample: int) -> list[tuple[float, ...]]:
    """Return state, action, next state, sample, probability, reward and end of each outcome of a state."""
    try:
        return [
            (state, action, target, sample, prob, reward, bool(ended))
            for action, outcomes in row.items()
            for prob, target, reward, ended in outcomes
        ]
    except (AttributeError, TypeError, ValueError):
        raise BadInput(
            f"the table P of environment {sample} has another form; expected P[state][action] to list (probability, "
            "next state, reward, terminated)"
        ) from None


def _entries(rows: list[tuple[float, ...]], first: int, here: int, states: int, endless: bool) -> Entries:
    """Return the outcomes of some states as arrays, once they are checked."""
    found = number_array("P", rows).reshape(-1, 7)
    state, action, target, sample, prob, reward, ended = found.T
    whole = found[:, 1:3]
    odd = ~np.isfinite(found).all(axis=1) | (whole != np.floor(whole)).any(axis=1) | (action < 0) | (action > MOST)
    if odd.any():
        raise BadInput(
            f"the table P of environment {sample[np.argmax(odd)]:g} has odd numbers; expected finite ones, and whole "
            "states"
        )
    outside = (target < 0) | (target >= states)
    if outside.any():
        place = int(np.argmax(outside))
        raise BadInput(
            f"a next state of environment {sample[place]:g} is {target[place]:g}; expected 0 to {states - 1}"
        )
    if endless and ended.any():
        place = int(np.argmax(ended))
        raise BadInput(
            f"environment {sample[place]:g} terminates after action {action[place]:g} in state "
            f"{first + state[place]:g}, and average= is given; expected tables that go on for ever"
        )
    target = np.where(ended != 0, states, target)
    index = [column.astype(np.int64) for column in (state, action, target, sample)]
    return Entries(here, index[0], index[1], index[2], index[3], prob, reward)


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


def _matrix(name: str, value: Any) -> Any:
    """Return a square matrix, dense as it is, or sparse in rows, where each entry is there once."""
    sparse = _scipy().sparse
    try:
        if sparse.issparse(value):
            matrix: Any = sparse.csr_array(value)
            if not matrix.has_canonical_format:
                matrix = matrix.copy()  # the arrays may be those of the user
                matrix.sum_duplicates()
        else:
            plain = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
            matrix = value if plain else number_array(name, value)
    except (TypeError, ValueError):
        matrix = None
    if matrix is None or matrix.dtype.kind not in "biuf":
        raise BadInput(f"{name} is no matrix of numbers; expected one, dense or sparse")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise BadInput(f"{name} has shape {matrix.shape}; expected states × states")
    if not np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all():
        raise BadInput(f"{name} has numbers that are not finite; expected finite ones")
    return matrix


def _rows_of(matrix: Any, first: int, last: int) -> tuple[Array, Array, Array]:
    """Return row, column and value of what is not zero in some rows, which are counted from the first."""
    if isinstance(matrix, np.ndarray):
        part = matrix[first:last]
        row, column = np.nonzero(part)
        return row, column, part[row, column].astype(float)
    begin, end = matrix.indptr[[first, last]]
    row = np.repeat(np.arange(last - first), np.diff(matrix.indptr[first : last + 1]))
    column, value = matrix.indices[begin:end], matrix.data[begin:end].astype(float)
    kept = value != 0
    return (row, column, value) if kept.all() else (row[kept], column[kept], value[kept])


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
    shape = np.shape(P) if isinstance(P, np.ndarray) else ()
    if len(shape) == depth in (3, 4) and shape[0] == shape[1] and shape[-2] != shape[-1]:
        raise BadInput(
            f"{name}{'[0]' * (depth - 2)} has shape {shape[-2:]}; expected states × states as the last axes; the "
            f"shape of {name} is {shape}, with states first, as in R and MATLAB"
        )
    if depth not in (3, 4):
        raise BadInput(f"{name} has {depth} axes; expected {name}[action] or {name}[sample][action], each a matrix")
    table = [list(own) for own in ([P] if depth == 3 else P)]
    del P  # what is not needed any more is let go, one matrix after the other
    actions, samples, states = len(table[0]), len(table), -1
    for k, own in enumerate(table):
        if len(own) != actions:
            raise BadInput(f"sample {k} of {name} has {len(own)} actions; expected {actions}, as the first one has")
        for a in range(actions):
            own[a] = _matrix(f"{name}[{k}][{a}]" if depth == 4 else f"{name}[{a}]", own[a])
            states = own[a].shape[0] if states < 0 else states
            if own[a].shape[0] != states:
                raise BadInput(f"{name}[{a}] of sample {k} has {own[a].shape[0]} states; expected {states}")
    shape = samples, actions, states
    several = not _scipy().sparse.issparse(R) and (per_sample or (depth == 4 and _is_per_sample(R, shape)))
    rewards = [_one_reward(one, actions, states) for one in (R if several else [R])]
    if len(rewards) not in (1, samples):
        raise BadInput(f"R has {len(rewards)} samples; expected {samples}, as {name} has")
    return flat_of_blocks(_blocks_of_matrices(table, rewards, states), states, samples)


def _blocks_of_matrices(table: list[list[Any]], rewards: list[Any], states: int) -> Iterator[Entries]:
    """Yield the transitions of some states at a time."""
    size = sum(one.nnz if _scipy().sparse.issparse(one) else one.size for own in table for one in own)
    step = max(1, BLOCK * states // max(size, 1))
    for first in range(0, states, step):
        last = min(first + step, states)
        parts = []
        for k, own in enumerate(table):
            paid = rewards[k % len(rewards)]
            for a, matrix in enumerate(own):
                row, column, prob = _rows_of(matrix, first, last)
                if isinstance(paid, list):
                    reward = np.asarray(paid[a][first + row, column], float).ravel()
                else:
                    reward = paid[first + row, a]
                parts.append((row, np.full(row.size, a), column, np.full(row.size, k), prob, reward))
        yield Entries(last - first, *(np.concatenate(column) for column in zip(*parts, strict=True)))


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
        return [_matrix(f"R[{a}]", R[a]) for a in range(actions)]
    dense: Any = R
    table = dense.toarray() if _scipy().sparse.issparse(R) else number_array("R", R)
    if table.shape in ((states,), (1, states), (states, 1)) and table.shape != (states, actions):
        return np.repeat(table.reshape(states, 1), actions, axis=1)
    if table.shape != (states, actions) or not np.isfinite(table).all():
        raise BadInput(f"R has shape {table.shape}; expected [{states}], [{states}, {actions}] or a matrix per action")
    return table


def read_matrices(path: Path, model: object) -> UMDP:
    """Read a model from a `.npz` or `.mat` file."""
    is_matlab = path.suffix.lower() == ".mat"
    try:
        found = read_mat(path) if is_matlab else _load_npz(path)
    except Exception as error:  # the readers of numpy and scipy raise whatever comes, where a file is damaged
        reason = " ".join(str(error).split())[:80]
        raise BadFile(f"{path}: it cannot be read ({reason}); expected arrays P and R") from None
    try:
        found = _from_matlab(found) if is_matlab else found
        for name in ("P", "R"):
            if name not in found:
                raise BadInput(f"there is no array {name}; expected P and R, found {', '.join(found) or 'nothing'}")
        flat = _flat("P", found.pop("P"), found.pop("R"), per_sample=NAMES in found or PER_SAMPLE in found)
        states = flat.choice_ptr.size - 1
        names: Mapping[str, Any] = {}
        if NAMES in found:
            names = parse_names(str(path), str(np.asarray(found[NAMES]).ravel()[0]))
        start = one_index("initial", _whole(_one_number(found, "initial", 0.0)), states)
        flat = replace(flat, initial=start, **label_fields({**_names_in(found), **names}))
        discount = _one_number(found, "discount", 1.0)
        _check_discount(discount)
        horizon = _whole(_one_number(found, "horizon", 0.0)) if "horizon" in found else None
        terminal = number_array("terminal", found["terminal"]) if "terminal" in found else None
        flat = put_together([Part(str(path), flat, goals_of(str(path), names, states))])
        return model_from_rewards(str(path), flat, discount, ours=names, horizon=horizon, terminal=terminal)
    except BadFile:
        raise
    except (BadInput, TypeError, ValueError) as error:
        raise BadFile(f"{path}: {error}") from None


def _one_number(found: Mapping[str, Any], name: str, default: float) -> float:
    """Return a number of the file, which may be an array of one."""
    values = number_array(name, found.get(name, default))
    if values.size != 1:
        raise BadInput(f"{name} has {values.size} numbers; expected one")
    return float(values.ravel()[0])


def _names_in(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return names and weights that somebody else gave: arrays or cells of text, and an array of numbers."""
    names: dict[str, Any] = {}
    for kind in ("state", "action", "sample"):
        given = np.asarray(found.get(f"{kind}s"))
        if given.dtype.kind == "U" or (given.dtype == object and given.ndim):
            names[f"{kind}_label"] = given.ravel().tolist()
    if "weight" in found:
        names["weight"] = number_array("weight", found["weight"]).ravel()
    return names


def _whole(value: float) -> int:
    """Return a number of a file as a whole one, if it is; others are refused where they are used."""
    return int(value) if value.is_integer() else cast(int, value)


def _load_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _from_matlab(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a file, or the fields of a structure, with the axes and numbers of Python."""
    found = {name: value for name, value in variables.items() if value is not None}
    structs = (value for value in found.values() if isinstance(value, dict))
    found = next((one for one in structs if is_mdpsolve(one)), found)
    if is_mdpsolve(found):
        found = from_mdpsolve(found)
    found |= {name: _with_actions_first(found[name]) for name in ("P", "R") if name in found}
    if "initial" in found:
        found["initial"] = found["initial"] - 1
    if "terminal" in found:
        found["terminal"] = np.asarray(found["terminal"]).squeeze().T
    return found


def _with_actions_first(value: Any) -> Any:
    """Return an array with actions first, and samples before them; a cell is a list."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [_with_actions_first(one) for one in value.ravel()]
    axes = value.ndim if isinstance(value, np.ndarray) else 0
    return np.moveaxis(value, {3: (2, 0, 1), 4: (3, 2, 0, 1)}[axes], range(axes)) if axes in (3, 4) else value


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
