"""The file for SARSOP, read back: its rows sum to one, and it has the value of the model. `pomdpsol` is not needed."""

import itertools
import math
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pytest

import rue
from benchmarks.fixed_belief import search_at
from benchmarks.sarsop import Bounds, Record, read_output
from rue.formats.pomdpx_text import ALMOST_ONE, discount_of, pomdpx

# What the program prints, with its header and its closing lines.
PRINTED = """
Loading the model ...
  input file   : model.pomdpx
  loading time : 0.25s 

SARSOP initializing ...
  initialization time : 0.50s

-------------------------------------------------------------------------------
 Time   |#Trial |#Backup |LBound    |UBound    |Precision  |#Alphas |#Beliefs  
-------------------------------------------------------------------------------
 0.5     0       0        -20        0          20          3        1        
 0.75    2       51       -0.4       -0.3       0.1         7        16       
 1.5e+01 38      784      -0.31      -3.0999e-1 1e-05       5        21       
-------------------------------------------------------------------------------

SARSOP finishing ...
  target precision reached
"""  # noqa: W291


@dataclass
class Pomdp:
    """A file as arrays."""

    discount: float
    start: np.ndarray  # [S]
    belief: np.ndarray  # [K]
    prob: np.ndarray  # [A, S, K, S]
    reward: np.ndarray  # [A, S, K]
    hidden: np.ndarray  # [K, K]
    observed: dict[str, str]


def read(text: str) -> Pomdp:
    """A reader of the part of POMDPX that is used: tables with names, `*` for any value and `-` for all of them."""
    root = ElementTree.fromstring(text.encode("ascii"))
    size = {var.get("vnamePrev"): int(var.findtext("NumValues")) for var in root.iter("StateVar")}
    size |= {var.get("vnameCurr"): int(var.findtext("NumValues")) for var in root.iter("StateVar")}
    size["action"] = int(root.findtext("Variable/ActionVar/NumValues"))

    def table(path: str, name: str) -> np.ndarray:
        (found,) = [one for one in root.findall(path) if one.findtext("Var") == name]
        axes = [axis for axis in found.findtext("Parent").split() if axis != "null"]
        axes += [name] if name in size else []
        whole = np.zeros([size[axis] for axis in axes])
        for entry in found.iter("Entry"):
            words = entry.findtext("Instance").split()
            assert len(words) == len(axes)
            place = tuple(slice(None) if word in "*-" else int(word[1:]) for word in words)
            numbers = (entry.findtext("ProbTable") or entry.findtext("ValueTable")).split()
            listed = [size[axis] for axis, word in zip(axes, words, strict=True) if word == "-"]
            if numbers == ["identity"]:
                whole[place] = np.eye(*listed)
            else:
                assert len(numbers) == math.prod(listed)
                whole[place] = np.array(numbers, float).reshape(listed)
        return whole

    return Pomdp(
        float(root.findtext("Discount")),
        table("InitialStateBelief/CondProb", "state_0"),
        table("InitialStateBelief/CondProb", "sample_0"),
        table("StateTransitionFunction/CondProb", "state_1"),
        table("RewardFunction/Func", "reward"),
        table("StateTransitionFunction/CondProb", "sample_1"),
        {var.get("vnamePrev"): var.get("fullyObs") for var in root.iter("StateVar")},
    )


def value_of(file: Pomdp) -> float:
    """The largest expected reward, by backward induction on histories; absorbing states without reward are worth 0."""
    ends = np.array(
        [(file.prob[:, s, :, s] == 1).all() and not file.reward[:, s].any() for s in range(file.start.size)]
    )

    def best(state: int, weight: np.ndarray) -> float:
        if ends[state] or not weight.any():
            return 0.0
        return max(
            float(weight @ file.reward[a, state])
            + file.discount
            * sum(
                best(to, weight * file.prob[a, state, :, to]) for to in np.flatnonzero(file.prob[a, state].any(axis=0))
            )
            for a in range(file.prob.shape[0])
        )

    (state,) = np.flatnonzero(file.start)
    return best(state, file.belief)


def least_cost(model: rue.UMDP, belief: np.ndarray) -> float:
    """The least of Σ b_k V_k over all policies, by backward induction on the model's own histories."""
    graph = model.graph

    def best(state: int, weight: np.ndarray) -> float:
        if graph.goal[state] or not weight.any():
            return 0.0
        return min(
            float(weight @ model.cost[c])
            + sum(
                best(graph.successor[t], weight * model.prob[t])
                for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1])
            )
            for c in range(graph.choice_ptr[state], graph.choice_ptr[state + 1])
        )

    return best(graph.initial, belief)


def acyclic(seed: int) -> rue.UMDP:
    """Six states and a goal; choices lead to later states only, some in some samples only. State 1 has no action 0."""
    draw = np.random.default_rng(seed)
    samples, states, actions = 3, 7, 3
    prob = np.zeros((samples, states, actions, states))
    for s, a in itertools.product(range(states - 1), range(actions)):
        later = np.arange(s + 1, states)
        support = draw.choice(later, min(2, later.size), replace=False)
        prob[:, s, a, support] = draw.dirichlet(np.ones(support.size), samples)
        if support.size > 1 and draw.random() < 0.3:
            prob[0, s, a, support] = 1.0, 0.0
    prob[:, 1, 0] = 0.0
    cost = draw.uniform(0.1, 1.0, (samples, states, actions))
    return rue.UMDP.from_dense(prob, cost, goals=[states - 1])


SEEDS = range(6)


@pytest.mark.parametrize("discount", [None, 0.9])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_file_is_the_model(seed, discount):
    model = acyclic(seed) if discount is None else acyclic(seed).with_discount(discount)
    belief = np.random.default_rng(seed).dirichlet(np.ones(model.samples))
    cost, best = least_cost(model, belief), rue.optimal_values(model).value
    regret = cost - float(belief @ best[model.graph.initial])
    by_cost, by_regret = read(pomdpx(model, belief)), read(pomdpx(model, belief, best))
    for file in (by_cost, by_regret):
        assert file.discount == pytest.approx(ALMOST_ONE if discount is None else discount, rel=1e-15)
        assert file.prob.min() >= 0 and file.prob.sum(axis=-1) == pytest.approx(1.0, rel=1e-12)
        assert file.belief == pytest.approx(belief) and file.start.sum() == 1
        assert file.start[model.graph.initial] == 1
        assert (file.hidden == np.eye(model.samples)).all()
        assert file.observed == {"state_0": "true", "sample_0": "false"}
    within = 1e-4 if discount is None else 1e-9
    assert value_of(by_cost) == pytest.approx(-cost, rel=within)
    assert value_of(by_regret) == pytest.approx(-regret, rel=within, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_rue_finds_the_value_of_the_file(seed):
    """At the belief of the certificate it is the least max regret; at any belief, the search has it in its interval."""
    model = acyclic(seed).with_discount(0.9)
    best = rue.optimal_values(model).value
    solution = rue.solve(model, rue.Adaptive(1e-6))
    hard = solution.certificate.belief
    found = -value_of(read(pomdpx(model, hard, best)))
    assert solution.objective.lower - 1e-9 <= found <= solution.objective.upper + 1e-9
    for belief in (hard, np.full(model.samples, 1 / model.samples)):
        found = -value_of(read(pomdpx(model, belief, best)))
        last = search_at(model, belief, 1e-6, 5.0).trace[-1]
        assert last.lower - 1e-9 <= found <= last.upper + 1e-9
        assert last.gap <= 1e-6 or last.upper < 1e-9


def test_the_discount_is_what_ends_every_choice():
    model = acyclic(0)
    assert discount_of(model, 0.99) == 0.99
    assert discount_of(model.with_discount(0.75)) == pytest.approx(0.75, rel=1e-15)


def test_actions_that_a_state_has_not_do_what_its_first_one_does():
    model = acyclic(1)
    assert model.graph.action[model.graph.choice_ptr[1]] == 1
    file = read(pomdpx(model, np.full(3, 1 / 3)))
    assert (file.prob[0, 1] == file.prob[1, 1]).all() and (file.reward[0, 1] == file.reward[1, 1]).all()


def test_an_infinite_potential_is_refused():
    model = acyclic(0)
    with pytest.raises(ValueError, match="infinite"):
        pomdpx(model, np.full(3, 1 / 3), np.full((model.graph.states, 3), np.inf))


def test_bounds_are_read_from_what_is_printed():
    record = read_output(PRINTED)
    assert record.trace == (Bounds(0.75, 0.0, 20.0), Bounds(1.0, 0.3, 0.4), Bounds(15.25, 0.30999, 0.31))
    assert record.gap == pytest.approx(0.00001 / 0.31, rel=1e-6)
    assert record.seconds_to(0.26) == 1.0 and record.seconds_to(0.02) == 15.25
    assert record.seconds_to(1e-9) == math.inf
    assert read_output("killed").gap == Record(()).gap == 1.0
