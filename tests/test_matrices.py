"""Matrices of MDPtoolbox and tables of Gymnasium: what is written comes back, what others have is read."""

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given

import rue
from tests.foreign import assert_same, named_models, refusal, values

# Two actions, three states; the last one is a goal.
P = np.array([[[0, 0.5, 0.5], [1, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 0], [0, 0, 1]]])
R = np.array([[-1, -3], [-1, 0], [0, 0]])
OTHER = P.copy()
OTHER[0, 0] = 0, 0.25, 0.75


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_what_is_written_comes_back(ending, tmp_path_factory):
    @given(model=named_models())
    def round_trip(model):
        path = tmp_path_factory.mktemp("arrays") / f"m{ending}"
        rue.save(path, model)
        assert_same(model, rue.load(path))

    round_trip()


def test_arrays_as_pymdptoolbox_has_them(tmp_path):
    np.savez(tmp_path / "m.npz", P=P, R=R)
    model = rue.load(tmp_path / "m.npz")
    assert values(model) == [3]
    assert model.graph.choices == 3  # a row of zeros is no action
    assert model.units.reward
    np.savez(tmp_path / "k.npz", P=np.stack([P, OTHER]), R=R)
    assert values(rue.load(tmp_path / "k.npz")) == [3, pytest.approx(5 / 3)]


def test_arrays_as_matlab_has_them(tmp_path):
    per_state = np.array([[-1.0], [-1.0], [0.0]])
    scipy.io.savemat(tmp_path / "a.mat", {"P": np.moveaxis(P, 0, 2), "R": R, "discount": 0.9, "initial": 2})
    model = rue.load(tmp_path / "a.mat")
    assert model.graph.initial == 1
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = scipy.sparse.csc_matrix(P[0]), scipy.sparse.csc_matrix(P[1])
    scipy.io.savemat(tmp_path / "b.mat", {"P": cells, "R": per_state})
    assert values(rue.load(tmp_path / "b.mat")) == [1]


def test_lists_of_sparse_matrices_names_weights_and_rewards_of_transitions():
    sparse = [[scipy.sparse.csr_matrix(matrix) for matrix in own] for own in (P, OTHER)]
    paid = [
        scipy.sparse.coo_matrix(matrix)
        for matrix in (np.array([[0, -2.0, 0], [-1, 0, 0], [0, 0, 0]]), np.zeros((3, 3)))
    ]
    model = rue.from_matrices(
        sparse, paid, states=list("abc"), actions=["x", "y"], samples=["dry", "wet"], weight=[1, 3]
    )
    assert model.sample_label == ("dry", "wet")
    assert model.weight.tolist() == [0.25, 0.75]
    assert model.cost.tolist() == [[1, 0.5], [0, 0], [1, 1]]


def test_repeated_entries_are_added_and_rows_of_seven_digits_are_divided():
    double = scipy.sparse.coo_matrix(([0.3333333, 0.3333333, 0.3333333, 1], ([0, 0, 0, 1], [1, 1, 1, 1])), shape=(2, 2))
    model = rue.from_matrices([double], [-2.0, 0.0])
    assert values(model) == [pytest.approx(2, abs=1e-6)]


def test_with_a_discount_the_value_is_that_of_plain_dynamic_programming():
    paid = np.array([[5.0, -3], [2, 0], [0, 0]])
    model = rue.from_matrices(P, paid, discount=0.95)
    value = np.zeros(3)
    for _ in range(2000):
        best = paid.T + 0.95 * P @ value
        best[1, 1] = -np.inf
        value = best.max(axis=0)
    found = model.units.figure(rue.optimal_values(model).value[0, 0])
    assert found == pytest.approx(value[0], abs=1e-6)


def test_tables_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    lakes = [gymnasium.make("FrozenLake-v1", is_slippery=slippery) for slippery in (False, True)]
    model = rue.from_gymnasium(lakes, discount=0.95, samples=["dry", "icy"])
    assert model.sample_label == ("dry", "icy")
    found = model.units.figure(rue.optimal_values(model).value[model.graph.initial])
    for lake, value in zip(lakes, found, strict=True):
        table, best = lake.unwrapped.P, np.zeros(16)
        for _ in range(3000):
            best = np.array(
                [
                    max(sum(p * (r + 0.95 * best[t] * (not end)) for p, t, r, end in row) for row in table[s].values())
                    for s in range(16)
                ]
            )
        assert value == pytest.approx(best[0], abs=1e-6)


def test_terminal_states_that_go_on_in_the_table_end_the_episode():
    """As in CliffWalking: the table of the terminal state 1 goes back to 0."""
    table = {0: {0: [(0.5, 1, -1.0, True), (0.5, 1, -3.0, True)]}, 1: {0: [(1.0, 0, -1.0, False)]}}
    model = rue.from_gymnasium(table)
    assert values(model) == [2]
    cliff = pytest.importorskip("gymnasium").make("CliffWalking-v1")
    assert values(rue.from_gymnasium([cliff])) == [13]


WRONG = {
    "no file of arrays": (b"hello", "it cannot be read"),
    "no P": ({"R": R}, "there is no array P; expected P and R, found R"),
    "no R": ({"P": P}, "there is no array R"),
    "one matrix": ({"P": P[0], "R": R}, "P has 2 axes; expected P[action] or P[sample][action]"),
    "no square": ({"P": P[:, :2], "R": R}, "P[0] has shape (2, 3); expected states × states"),
    "words": ({"P": np.array([[["a"]]]), "R": R}, "P[0] is no matrix of numbers"),
    "not finite": ({"P": np.where(P == 0.5, np.nan, P), "R": R}, "P[0] has numbers that are not finite"),
    "a row that does not sum to one": ({"P": P * 0.9, "R": R}, "sum to 0.9; expected 1"),
    "a negative probability": ({"P": P * -1, "R": R}, "expected 0 to 1"),
    "rewards of another shape": ({"P": P, "R": np.zeros((4, 4))}, "R has shape (4, 4); expected [3], [3, 2] or"),
    "rewards without a discount": ({"P": P, "R": -R}, "the reward in state 0 is 3"),
    "a wrong discount": ({"P": P, "R": R, "discount": 2.0}, "discount is 2.0; expected"),
    "a wrong initial state": ({"P": P, "R": R, "initial": 7}, "initial 7 is out of range"),
    "objects": ({"P": np.array([None, 1]), "R": R}, "it cannot be read"),
}


@pytest.mark.parametrize(("arrays", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(arrays, told, tmp_path):
    path = tmp_path / "m.npz"
    path.write_bytes(arrays) if isinstance(arrays, bytes) else np.savez(path, **arrays)
    message = refusal(path)
    assert message.startswith(str(path))
    assert told in message


def matlab(arrays: dict[str, object], **more: object) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, **more)
    return stream.getvalue()


FIRST = np.moveaxis(P, 0, 2)  # as MATLAB has it: [S, S, A]


def test_a_compressed_file_whole_numbers_and_words_of_others(tmp_path):
    """MATLAB stores whole numbers in few bytes, and other variables may lie in the same file."""
    other = {"note": "made by hand", "s": {"a": 1.0}, "none": np.empty((0, 0))}
    deterministic = np.moveaxis(np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 1]]], np.uint8), 0, 2)
    data = matlab({"P": deterministic, "R": np.array([[-1], [-2], [0]], np.int8), **other}, do_compression=True)
    (tmp_path / "m.mat").write_bytes(data)
    assert values(rue.load(tmp_path / "m.mat")) == [3]
    (tmp_path / "n.mat").write_bytes(matlab({"P": FIRST, "R": R, "discount": 0.9}, do_compression=True))
    assert rue.load(tmp_path / "n.mat").units.reward


def sparse_with(place: int, number: int) -> bytes:
    """A file with a sparse matrix, of which one index is another one: 4, 8, … bytes after the rows begin."""
    data = bytearray(matlab({"P": np.array([scipy.sparse.csc_matrix(P[0]), None], object)[:1], "R": R[:, :1]}))
    found = data.find(scipy.sparse.csc_matrix(P[0]).indices.astype("<i4").tobytes())
    assert found > 0
    data[found + place : found + place + 4] = np.array([number], "<i4").tobytes()
    return bytes(data)


WRONG_MAT = {
    "no file of arrays": (b"hello", "it is no MATLAB file of version 5"),
    "empty": (b"", "it is no MATLAB file of version 5"),
    "version 7.3": (b"MATLAB 7.3 MAT-file, Platform: PCWIN64".ljust(512), "version 7.3; save it with -v7"),
    "cut off": (matlab({"P": FIRST, "R": R})[:300], "it ends within an array"),
    "cut off, compressed": (matlab({"P": FIRST, "R": R}, do_compression=True)[:180], "it ends within an array"),
    "damaged, compressed": (
        matlab({"P": FIRST, "R": R}, do_compression=True)[:140] + bytes(200),
        "it cannot be read (",
    ),
    "no P": (matlab({"R": R}), "there is no array P; expected P and R, found R"),
    "complex": (matlab({"P": FIRST * 1j, "R": R}), "an array is complex"),
    "words": (matlab({"P": "hello", "R": R}), "P has 0 axes"),
    "one matrix": (matlab({"P": P[0], "R": R}), "P has 2 axes; expected P[action] or P[sample][action]"),
    "a row that does not sum to one": (matlab({"P": FIRST * 0.9, "R": R}), "sum to 0.9; expected 1"),
    "a row out of range": (sparse_with(0, 70), "the rows of a sparse matrix are damaged"),
    "a negative row": (sparse_with(4, -1), "the rows of a sparse matrix are damaged"),
    "rewards of another shape": (matlab({"P": FIRST, "R": np.zeros((4, 4))}), "R has shape (4, 4)"),
    "a state that is counted from 0": (matlab({"P": FIRST, "R": R, "initial": 0}), "initial -1 is out of range"),
}


@pytest.mark.parametrize(("data", "told"), WRONG_MAT.values(), ids=WRONG_MAT)
def test_what_is_wrong_in_a_file_of_matlab_is_told_in_one_line(data, told, tmp_path):
    path = tmp_path / "m.mat"
    path.write_bytes(data)
    message = refusal(path)
    assert message.startswith(str(path))
    assert told in message
