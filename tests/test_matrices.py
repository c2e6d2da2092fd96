"""Matrices of MDPtoolbox and tables of Gymnasium: what is written comes back, what others have is read."""

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given

import rue
from rue.formats import matrices
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


def figures(model):
    return model.units.figure(rue.optimal_values(model).value[model.graph.initial]).tolist()


@pytest.mark.parametrize("discount", [None, 0.9])
def test_a_number_of_steps_and_what_states_are_worth_after_it(discount, tmp_path):
    """Also the state that only loops at no reward, which would end the episode before."""
    reward, last = np.array([[1.0, 4], [2, -1], [0, 0]]), np.array([3.0, -5, 7])
    expected = []
    for table in (P, OTHER):
        value = last
        for _ in range(5):
            ahead = np.einsum("ast,t->sa", table, value)
            possible = table.sum(axis=2).T > 0
            value = np.where(possible, reward + (discount or 1) * ahead, -np.inf).max(axis=1)
        expected.append(value[0])
    model = rue.from_matrices(np.stack([P, OTHER]), reward, discount=discount, horizon=5, terminal=last)
    assert figures(model) == pytest.approx(expected)
    given = {"discount": discount or 1, "horizon": 5, "terminal": last}
    np.savez(tmp_path / "m.npz", P=np.stack([P, OTHER]), R=reward, **given)
    assert figures(rue.load(tmp_path / "m.npz")) == pytest.approx(expected)


def test_steps_in_tables_of_gymnasium():
    """With two steps there is one more try; the end collects nothing."""
    table = {0: {0: [(0.5, 1, 3.0, True), (0.5, 0, 1.0, False)]}, 1: {0: [(1.0, 1, 9.0, True)]}}
    assert figures(rue.from_gymnasium(table, horizon=2)) == pytest.approx([2 + 0.5 * 2])
    assert figures(rue.from_gymnasium(table, horizon=2, discount=0.5)) == pytest.approx([2 + 0.25 * 2])


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_names_and_weights_of_others(ending, tmp_path):
    path = tmp_path / f"m{ending}"
    names = {"states": ["bush", "rare", "gone"], "actions": ["burn", "rest"], "samples": ["Ana", "Ben"]}
    both = np.stack([P, OTHER])
    if ending == ".npz":
        np.savez(path, P=both, R=R, weight=[1, 3], **names)
    else:
        cells = {name: np.array(values, object) for name, values in names.items()}
        scipy.io.savemat(path, {"P": np.moveaxis(both, (0, 1), (3, 2)), "R": R, "weight": [1, 3], **cells})
    assert_same(rue.load(path), rue.from_matrices(both, R, weight=[1, 3], **names))
    np.savez(tmp_path / "n.npz", P=P, R=R, states=3, actions=[1.0, 2.0])  # numbers are no names
    assert rue.load(tmp_path / "n.npz").graph.state_label is None


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_a_horizon_with_terminal_rewards_is_plain_backward_induction(ending, tmp_path):
    """Also in a state that only loops, which is a goal elsewhere; of names, shapes and axes as each format has them."""
    paid, end = np.array([[5.0, -3], [2, 0], [0, 0]]), np.array([[1.0, 2, 40], [0, 0, 7]])
    both = np.stack([P, OTHER])
    value = end.copy()
    for _ in range(4):
        best = paid.T + 0.9 * np.einsum("kast,kt->kas", both, value)
        best[:, 1, 1] = -np.inf
        value = best.max(axis=1)
    model = rue.from_matrices(both, paid, horizon=4, terminal=end, discount=0.9, states=["a", "b", "end"])
    optimal = rue.evaluate(model, rue.solve(model, rue.Average()).policy).optimal
    assert optimal == pytest.approx(value[:, 0])
    assert model.graph.state_name(0) == "a at 0"
    path = tmp_path / f"m{ending}"
    arrays = {"P": both, "R": paid, "horizon": 4, "terminal": end, "discount": 0.9}
    if ending == ".npz":
        np.savez(path, **arrays)
    else:
        scipy.io.savemat(path, arrays | {"P": np.moveaxis(both, (0, 1), (3, 2)), "terminal": end.T})
    assert np.array_equal(rue.load(path).cost, model.cost)
    alone = rue.from_matrices(P, -paid, horizon=1, terminal=end[0])
    assert rue.evaluate(alone, rue.solve(alone, rue.Average()).policy).optimal == pytest.approx([max(-5 + 21, 3 + 40)])


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


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_states_may_be_read_in_any_number_of_blocks(block, monkeypatch):
    """Dense and sparse matrices, with the rewards of transitions, against a plain sum."""
    monkeypatch.setattr(matrices, "BLOCK", block)
    random = np.random.default_rng(3)
    prob = random.random((3, 2, 9, 9)) * (random.random((2, 9, 9)) < 0.4)
    prob[..., 0, 1] += 0.5
    prob[:, 1, 4] = 0  # an action that is not there
    prob[:, 0, :, 2] += 0.1
    prob /= np.maximum(prob.sum(axis=-1, keepdims=True), 1e-300)
    paid = -random.integers(0, 9, (3, 2, 9, 9)) / 4
    kinds = [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array]
    sparse = [[kind(matrix) for matrix in own] for kind, own in zip(kinds, prob, strict=True)]
    expected = np.einsum("kast,kast->ksa", prob, paid)
    for matrices_given, rewards in ((prob, paid), (sparse, paid), (prob.tolist(), [list(own) for own in paid])):
        model = rue.from_matrices(matrices_given, rewards, discount=0.5)
        graph = model.graph
        assert graph.choices == 17 and graph.state_name(9) == "9"
        for k in range(3):
            found = np.zeros((2, 9, 10))
            np.add.at(found[..., :], (graph.action[graph.trans_choice], graph.trans_state, graph.successor),
                      model.prob[:, k])  # fmt: skip
            assert found[:, :, :9] == pytest.approx(prob[k] / 2, abs=1e-15)
        cost = model.cost - model.units.shift
        assert -cost == pytest.approx(expected[:, graph.choice_state, graph.action].T, abs=1e-12)


def test_matrices_of_the_user_are_left_as_they_are():
    twice = scipy.sparse.csr_array(([0.5, 0.5, 1.0], [1, 1, 1], [0, 2, 3]), shape=(2, 2))
    rue.from_matrices([twice], [-1.0, 0.0])
    assert twice.nnz == 3 and not twice.has_canonical_format


def test_a_compressed_file_of_whole_numbers_with_other_arrays_and_stray_bytes(tmp_path):
    """Big-endian, in Fortran's order, with what others keep beside it, and bytes behind its end."""
    deterministic = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 1]]], ">i2")
    np.savez_compressed(tmp_path / "m.npz", P=np.asfortranarray(deterministic), R=np.array([-1, -2, 0], ">i4"),
                        note="made by hand", gamma=np.array([[0.5]]))  # fmt: skip
    with (tmp_path / "m.npz").open("ab") as stream:
        stream.write(b"\x00\x1a\r\n")
    assert values(rue.load(tmp_path / "m.npz")) == [3]


def test_rows_of_seven_digits_a_state_that_is_never_reached_and_rewards_of_transitions(tmp_path):
    """The last state loops, without a reward: it is the goal. Rewards where nothing leads do not count."""
    probs = np.zeros((1, 4, 4))
    probs[0, 0, 1:] = 0.3333333, 0.3333333, 0.3333333
    probs[0, 1, 3] = probs[0, 3, 3] = 1.0000001
    probs[0, 2, 3] = 1.0
    paid = np.full((1, 4, 4), -7.0)
    paid[0, 0], paid[0, 1, 3], paid[0, 2, 3], paid[0, 3, 3] = (-7, -1, -2, -3), -1, -2, 0
    np.savez(tmp_path / "m.npz", P=probs, R=paid, initial=0, discount=1.0)
    model = rue.load(tmp_path / "m.npz")
    assert np.flatnonzero(model.graph.goal).tolist() == [3]
    assert values(model) == [3]
    probs[0, 0] = 0, 1, 0, 0  # now state 2 is never reached
    np.savez(tmp_path / "n.npz", P=probs, R=paid)
    assert values(rue.load(tmp_path / "n.npz")) == [2]


def test_samples_with_rewards_of_their_own_and_a_discount(tmp_path):
    np.savez(tmp_path / "m.npz", P=np.stack([P, OTHER]), R=np.stack([R, 2 * R]), discount=np.array([[0.5]]))
    model = rue.load(tmp_path / "m.npz")
    found = model.units.figure(rue.optimal_values(model).value[0])
    first, second = -1 / (1 - 0.5 * 0.25), -2 / (1 - 0.25 * 0.25)
    assert found == pytest.approx([first - 0.25 / 0.875, second - 0.25 / 0.9375], abs=1e-9)


def test_a_table_with_repeated_targets_rows_of_seven_digits_and_a_terminal_state_that_loops():
    """As in FrozenLake: each of three ways has a third, also where two of them lead to the same state."""
    third = 0.3333333
    table = {
        0: {0: [(third, 0, -1.0, False), (third, 0, -1.0, False), (third, 1, -1.0, False)],
            1: [(1.0, 2, -5.0, True)]},
        1: {0: [(third, 2, -2.0, True), (third, 2, -2.0, True), (0.3333334, 2, -5.0, True)], 1: [(1.0, 1, 0.0, False)]},
        2: {0: [(1.0, 2, 0, True)], 1: [(1.0, 2, 0, True)]},
    }  # fmt: skip
    model = rue.from_gymnasium(table, samples=["dry"])
    assert model.graph.state_label == ("0", "1", "2", "end") and model.sample_label == ("dry",)
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)
    assert values(model) == [5]
    model = rue.from_gymnasium(table, initial=1)
    assert values(model) == [pytest.approx(3, abs=1e-6)]


def test_a_table_with_different_actions_numbers_of_numpy_and_a_state_that_is_never_reached():
    """Action 2 is in one state only; state 2 leads to the goal, and nothing leads there."""
    whole, real = np.int64, np.float32
    table = {
        whole(0): {whole(0): [(real(1), whole(1), real(-1), np.bool_(False))], whole(2): [(real(1), 1, -4, 0)]},
        whole(1): {0: ((real(0.5), whole(0), -1, False), (real(0.5), 1, -1, 1), (0.0, 2, -9, False))},
        whole(2): {0: [[1, 1, -1, True]]},
    }
    model = rue.from_gymnasium(table)
    assert model.graph.choices == 4 and model.graph.action.tolist() == [0, 2, 0, 0]
    assert values(model) == [4]  # in state 1: 1 + 0.5 · (1 + value)


class Env:
    """An environment in a wrapper, with the probabilities of its first states."""

    def __init__(self, table, start):
        self.unwrapped, self.P, self.initial_state_distrib = self, table, start


def test_environments_that_differ_in_what_is_possible_and_say_where_they_start():
    def table(chance):
        return {
            0: {0: [(1.0, 0, 0.0, True)]},
            1: {0: [(chance, 0, -1.0, True), (1 - chance, 1, -1.0, False)], 1: [(1.0, 0, -3.0, True)]},
        }

    start = np.array([0.0, 1.0])
    model = rue.from_gymnasium([Env(table(0.25), start), Env(table(1.0), start), Env(table(0.5), start)])
    assert model.graph.initial == 1
    assert values(model) == [3, 1, 2]
    with pytest.raises(rue.BadInput, match="is random; expected initial= to say where to start"):
        rue.from_gymnasium([Env(table(0.5), np.array([0.5, 0.5]))])


ENDS = {0: {0: [(1.0, 0, -1.0, True)]}}
WRONG_TABLES = {
    "no environments": ([], "there are no environments; expected one at least"),
    "no table": ([object()], "environment 0 is object without a table P; expected one for states 0, 1, …"),
    "an empty table": ([ENDS, {}], "environment 1 is dict without a table P"),
    "a state is left out": ([{0: ENDS[0], 2: ENDS[0]}], "without a table P; expected one for states 0, 1, …"),
    "different numbers of states": ([ENDS, {0: ENDS[0], 1: ENDS[0]}], "have 1 to 2 states; expected the same in all"),
    "three values": (
        [ENDS, {0: {0: [(1.0, 0, -1.0)]}}],
        "the table P of environment 1 has another form; expected P[st",
    ),
    "no actions": ([{0: [(1.0, 0, -1.0, True)]}], "the table P of environment 0 has another form"),
    "a word": ([{0: {0: [(1.0, "left", -1.0, True)]}}], "P is not a table of numbers"),
    "half a state": ([{0: {0: [(1.0, 0.5, -1.0, True)]}}], "the table P of environment 0 has odd numbers"),
    "an infinite reward": ([ENDS, {0: {0: [(1.0, 0, -np.inf, True)]}}], "the table P of environment 1 has odd numbers"),
    "a negative action": ([{0: {-1: [(1.0, 0, -1.0, True)]}}], "the table P of environment 0 has odd numbers"),
    "a state out of range": ([ENDS, {0: {0: [(1.0, 7, -1.0, False)]}}], "of environment 1 is 7; expected 0 to 0"),
    "a row that does not sum to one": ([{0: {0: [(0.9, 0, -1.0, True)]}}], "sum to 0.9; expected 1"),
    "a negative probability": (
        [{0: {0: [(-0.5, 0, -1.0, False), (1.5, 0, -1.0, True)]}}],
        'a probability of state 0, action "0" is',
    ),
    "an action that one environment lacks": (
        [{0: {0: [(1.0, 0, -1.0, True)]}}, {0: {1: [(1.0, 0, -1.0, True)]}}],
        "sum to 0; expected 1",
    ),
    "a reward without a discount": ([{0: {0: [(1.0, 0, 1.0, True)]}}], "0 or less, or a discount or a horizon"),
}


@pytest.mark.parametrize(("envs", "told"), WRONG_TABLES.values(), ids=WRONG_TABLES)
def test_what_is_wrong_in_a_table_is_told_in_one_line(envs, told):
    with pytest.raises(rue.BadInput) as refused:
        rue.from_gymnasium(envs)
    assert told in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


WRONG = {
    "no file of arrays": (b"hello", "it cannot be read"),
    "no P": ({"R": R}, "there is no array P; expected P and R, found R"),
    "no R": ({"P": P}, "there is no array R"),
    "one matrix": ({"P": P[0], "R": R}, "P has 2 axes; expected P[action] or P[sample][action]"),
    "no square": ({"P": P[:, :2], "R": R}, "P[0] has shape (2, 3); expected states × states"),
    "words": ({"P": np.array([[["a"]]]), "R": R}, "P[0] is no matrix of numbers"),
    "not finite": ({"P": np.where(P == 0.5, np.nan, P), "R": R}, "P[0] has numbers that are not finite"),
    "axes of R": (
        {"P": np.moveaxis(np.stack([P] * 4), (0, 1), (3, 2)), "R": R},
        "expected states × states as the last axes; the shape of P is (3, 3, 2, 4), with states first, as in R",
    ),
    "too few names": ({"P": P, "R": R, "states": ["a", "b"]}, "there are 2 names of states; expected 3"),
    "a name twice": ({"P": P, "R": R, "actions": ["a", "a"]}, "'a'"),
    "too many weights": (
        {"P": P, "R": R, "weight": [1.0, 2.0]},
        "weight has shape (2,); expected one number for each of 1 samples",
    ),
    "a row that does not sum to one": ({"P": P * 0.9, "R": R}, "sum to 0.9; expected 1"),
    "a negative probability": ({"P": P * -1, "R": R}, "expected 0 to 1"),
    "rewards of another shape": ({"P": P, "R": np.zeros((4, 4))}, "R has shape (4, 4); expected [3], [3, 2] or"),
    "rewards without a discount": ({"P": P, "R": -R}, "the reward in state 0 is 3"),
    "a wrong discount": ({"P": P, "R": R, "discount": 2.0}, "discount is 2.0; expected"),
    "a wrong initial state": ({"P": P, "R": R, "initial": 7}, "initial 7 is out of range"),
    "objects": ({"P": np.array([None, 1]), "R": R}, "it cannot be read"),
    "two discounts": ({"P": P, "R": R, "discount": [0.5, 0.9]}, "discount has 2 numbers; expected one"),
    "half a horizon": ({"P": P, "R": R, "horizon": 2.5}, "horizon is 2.5; expected a whole number, 1 or more"),
    "terminal rewards of others": (
        {"P": P, "R": R, "horizon": 2, "terminal": [1.0]},
        "terminal has shape (1,); expected (3,)",
    ),
    "terminal rewards alone": ({"P": P, "R": R, "terminal": [1.0] * 3}, "terminal is given without a horizon"),
    "half a state": ({"P": P, "R": R, "initial": 0.5}, "initial is 0.5; expected"),
    "too few samples of rewards": (
        {"P": np.stack([P] * 3), "R": np.zeros((2, 2, 3, 3))},
        "R has 2 samples; expected 3",
    ),
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


def laid_out(order: str, *variables: tuple[str, np.ndarray, int, int]) -> bytes:
    """A file byte by byte, as the format is published: the name, the values, their type and class; small elements."""
    word = f"{order}u4"

    def element(kind: int, data: bytes) -> bytes:
        if 0 < len(data) <= 4:
            return np.array([len(data) << 16 | kind], word).tobytes() + data.ljust(4, b"\0")
        return np.array([kind, len(data)], word).tobytes() + data + bytes(-len(data) % 8)

    found = b"MATLAB 5.0 MAT-file, laid out by hand".ljust(124) + (b"\x00\x01IM" if order == "<" else b"\x01\x00MI")
    for name, table, kind, matlab_class in variables:
        parts = element(6, np.array([matlab_class, 0], word).tobytes())
        parts += element(5, np.array(table.shape, f"{order}i4").tobytes()) + element(1, name.encode())
        parts += element(kind, table.astype(table.dtype.newbyteorder(order)).tobytes(order="F"))
        found += np.array([14, len(parts)], word).tobytes() + parts
    return found


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_file_laid_out_byte_by_byte_with_stray_bytes_behind_it(order, tmp_path):
    """Probabilities as doubles, rewards as small whole numbers of a double array, in both orders of bytes."""
    first = np.moveaxis(P, 0, 2).astype("f8")
    data = laid_out(order, ("P", first, 9, 6), ("R", R.astype("i1"), 1, 6), ("initial", np.array([[1]], "u1"), 2, 6))
    (tmp_path / "m.mat").write_bytes(data + b"\x00\x1a\r\n")
    assert values(rue.load(tmp_path / "m.mat")) == [3]


def test_sparse_cells_with_rows_of_seven_digits_repeated_entries_and_a_state_that_is_never_reached(tmp_path):
    """State 3 leads to the goal, and nothing leads there. Its entry is there twice, with a half each."""
    first = scipy.sparse.csc_matrix(
        (np.array([0.3333333, 0.6666667, 1.0, 1.0000001, 0.5, 0.5]), [0, 0, 1, 2, 3, 3], [0, 0, 1, 6, 6]), shape=(4, 4)
    )
    cells = np.empty((1, 1), object)
    cells[0, 0] = first
    (tmp_path / "m.mat").write_bytes(matlab({"P": cells, "R": np.array([[-1.0], [-2], [0], [-4]])}))
    model = rue.load(tmp_path / "m.mat")
    assert np.flatnonzero(model.graph.goal).tolist() == [2]
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)
    assert values(model) == [pytest.approx(1 + 2 / 3, abs=1e-6)]


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
