"""Every format that is written: numbers that are no round ones come back to 1e-12, with names and weights."""

import numpy as np
import pytest

import rue
from rue.formats import endings
from tests.foreign import NAMES, assert_same

ENDINGS = (*endings(rue.UMDP), ".storm.tra")


def model_of(seed: int, ends: float = 0.0) -> rue.UMDP:
    """A model with numbers of all sizes, and some transitions that one sample does not have.

    With `ends`, the goal follows each choice with some probability.
    """
    random = np.random.default_rng(seed)
    samples, states = int(random.integers(1, 5)), int(random.integers(2, 9))
    possible = random.random((states, 2, states)) < 0.5
    possible[:, 0, -1] = True
    prob = random.dirichlet(np.full(states, 0.3), (samples, states, 2)) * possible
    prob *= random.random(prob.shape) < 0.8
    prob[:, :, 0, -1] += 0.01
    prob[..., -1] += ends
    prob[(prob.sum(axis=3) == 0).any(axis=0)[None].repeat(samples, axis=0)] = 0  # such an action is in no sample
    prob /= np.maximum(prob.sum(axis=3, keepdims=True), 1e-300)
    cost = random.random((samples, states, 2)) * 10.0 ** random.integers(-6, 7, (samples, states, 2))
    names = list(random.permutation(NAMES))
    return rue.UMDP.from_dense(
        prob, cost, goals=[states - 1], states=names[:states], actions=names[-2:], samples=names[8 : 8 + samples],
        weight=random.random(samples),
    )  # fmt: skip


def test_all_formats_of_models_are_here():
    assert set(ENDINGS) == {
        ".rue", ".csv", ".drn", ".tra", ".storm.tra", ".pomdpx", ".pomdp", ".umb", ".npz", ".mat"
    }  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_models_come_back(ending, tmp_path):
    for seed in range(40):
        model = model_of(seed)
        rue.save(tmp_path / f"{seed}{ending}", model)
        assert_same(model, rue.load(tmp_path / f"{seed}{ending}"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_units_come_back_where_a_target_is_named_twice(ending, tmp_path):
    graph = rue.Graph([0, 1, 1], [0], [0, 3], [1, 0, 1], 0)
    units = rue.Units(reward=True, shift=2.0, steps=4.0)
    model = rue.UMDP(graph, [[0.25], [0.5], [0.25]], [[1.0]], units=units)
    rue.save(tmp_path / f"m{ending}", model)
    assert rue.load(tmp_path / f"m{ending}").units == units
