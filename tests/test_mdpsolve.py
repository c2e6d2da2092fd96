"""Arrays of MDPSolve, as its examples have them: probabilities in columns, several models in a cell, a structure."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import rue
from tests.foreign import refusal

# A pest: three levels, nothing or spraying. The next level is in rows.
NOTHING = np.array([[0.65, 0.15, 0.05], [0.25, 0.40, 0.20], [0.10, 0.45, 0.75]])
SPRAY = np.array([[0.85, 0.45, 0.35], [0.15, 0.50, 0.50], [0, 0.05, 0.15]])
SLOW = np.array([[0.9, 0.6, 0.0], [0.1, 0.3, 0.5], [0.0, 0.1, 0.5]])
REWARD = -np.array([[0.0, 10], [5, 15], [20, 30]])
PEST = {"P": np.hstack([NOTHING, SPRAY]), "R": REWARD, "discount": 0.95}


def best(nothing, discount=0.95, steps=2000, last=(0.0, 0, 0), first=0):
    value = np.array(last, float)
    for _ in range(steps):
        ahead = np.stack([nothing.T @ value, SPRAY.T @ value], axis=1)
        value = (REWARD + discount * ahead).max(axis=1)
    return value[first]


def cell(*matrices):
    found = np.empty(len(matrices), object)
    found[:] = matrices
    return found


def loaded(folder, found):
    scipy.io.savemat(folder / "m.mat", found)
    return rue.load(folder / "m.mat")


def values(model):
    return rue.evaluate(model, rue.solve(model, rue.Average(), bound=False).policy).optimal


WAYS = {
    "columns": PEST,
    "rows": {**PEST, "P": PEST["P"].T},
    "sparse": {**PEST, "P": scipy.sparse.csc_matrix(PEST["P"])},
    "a structure": {"other": 3.0, "model": {"name": "pest", **PEST}},
    "what is left after no end": {"model": {**PEST, "T": np.inf, "vterm": np.array([9.0, 9, 9])}},
    "a vector of rewards": {"transprob": PEST["P"], "reward": REWARD.ravel(order="F"), "d": 0.95, "colstoch": 1},
    "pairs in another order": {
        "P": PEST["P"][:, [4, 0, 5, 1, 3, 2]], "R": REWARD.ravel(order="F")[[4, 0, 5, 1, 3, 2]], "d": 0.95,
        "Ix": np.array([2, 1, 3, 2, 1, 3]), "T": np.inf,
    },
}  # fmt: skip


@pytest.mark.parametrize("found", WAYS.values(), ids=WAYS)
def test_one_matrix_of_all_pairs(found, tmp_path):
    model = loaded(tmp_path, found)
    assert model.graph.states == 4 and model.samples == 1  # one of them is the end
    assert values(model) == pytest.approx([best(NOTHING)], abs=1e-6)


def test_a_state_that_lacks_an_action(tmp_path):
    """Nobody sprays where there is no pest."""
    found = {"P": PEST["P"][:, [0, 1, 2, 4, 5]], "R": REWARD.ravel(order="F")[[0, 1, 2, 4, 5]], "Ix": [1, 2, 3, 2, 3]}
    model = loaded(tmp_path, {**found, "d": 0.95})
    assert np.diff(model.graph.choice_ptr).tolist() == [1, 2, 2, 0]
    assert values(model) == pytest.approx([best(NOTHING)], abs=1e-6)


def test_models_in_a_cell_are_samples(tmp_path):
    both = cell(PEST["P"], np.hstack([SLOW, SPRAY]))
    model = loaded(tmp_path, {"P": both, "R": REWARD.ravel(order="F"), "discount": 0.95, "initial": 3})
    assert values(model) == pytest.approx([best(NOTHING, first=2), best(SLOW, first=2)], abs=1e-6)
    model = loaded(tmp_path, {"P": both, "R": cell(REWARD, 2 * REWARD), "discount": 0.95})
    assert values(model) == pytest.approx([best(NOTHING), 2 * best(SLOW)], abs=1e-6)


def test_a_number_of_steps_and_what_states_are_worth_after_it(tmp_path):
    model = loaded(tmp_path, {"model": {**PEST, "T": 20, "vterm": np.array([[30.0], [20], [0]])}})
    assert values(model) == pytest.approx([best(NOTHING, steps=20, last=(30, 20, 0))], abs=1e-9)


def test_a_structure_with_a_field_that_nobody_can_read(tmp_path):
    """MATLAB writes a field that was never set as an array of no bytes."""
    scipy.io.savemat(tmp_path / "m.mat", {"model": {**PEST, "note": np.empty((0, 0))}})
    data = (tmp_path / "m.mat").read_bytes()
    empty = data.rfind(np.array([14, 48], "<u4").tobytes())  # the last array: flags, sizes, no name, no data
    assert empty > 0 and empty + 56 == len(data)
    data = data[:empty] + np.array([14, 0], "<u4").tobytes()
    whole = np.array([14, len(data) - 136], "<u4").tobytes()  # the variable is as much shorter
    (tmp_path / "m.mat").write_bytes(data[:128] + whole + data[136:])
    assert values(rue.load(tmp_path / "m.mat")) == pytest.approx([best(NOTHING)], abs=1e-6)


WRONG = {
    "pairs of no state": (
        {**PEST, "P": PEST["P"][:, :5]},
        "P has shape (3, 5); expected the same actions in each of 3",
    ),
    "too few states": ({**PEST, "Ix": [1, 2, 3]}, "Ix has 3 numbers; expected 6, from 1 to 3"),
    "a state of none": ({**PEST, "Ix": [0, 1, 2, 0, 1, 2]}, "Ix has 6 numbers; expected 6, from 1 to 3"),
    "too few rewards": ({**PEST, "R": [1.0, 2]}, "R has 2 numbers; expected 6, one for each column of P"),
    "no rewards": ({"P": PEST["P"]}, "there is no array R"),
    "an expansion": ({**PEST, "Iexpand": [1, 2, 3, 4, 5, 6]}, "Iexpand is there; expected a model of one stage"),
    "columns that are rows": ({**PEST, "colstoch": 0}, "P has shape (3, 6), and colstoch says otherwise"),
    "another shape": ({**PEST, "P": cell(PEST["P"], np.eye(3))}, "P has shape (3, 3); expected (3, 6)"),
    "columns that do not sum to one": ({**PEST, "P": 0.9 * PEST["P"]}, "sum to 0.9; expected 1"),
    "half a step": ({**PEST, "T": 2.5}, "horizon is 2.5; expected a whole number"),
}


@pytest.mark.parametrize(("found", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(found, told, tmp_path):
    scipy.io.savemat(tmp_path / "m.mat", found)
    message = refusal(tmp_path / "m.mat")
    assert message.startswith(f"{tmp_path / 'm.mat'}: ") and told in message
