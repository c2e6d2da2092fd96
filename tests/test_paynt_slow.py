"""The best stationary deterministic policy by PAYNT, which shares nothing with rue: five small models.

PAYNT (`pip install paynt`, GPL, brings Storm) finds the policy of least worst-case cost over a set of environments.
All samples become one MDP with a colour for each sample and one for each decision; PAYNT looks for decisions that are
good for every sample. One extra first step costs max_q V*_q − V*_k in sample k, so that the worst-case cost, less
max_q V*_q, is the max regret.
"""

import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rue

CASES = Path(__file__).parent / "data" / "cases"
TOLERANCE = 1e-6
PRECISION = 1e-9


def from_case(name: str) -> rue.UMDP:
    case = json.loads((CASES / f"{name}.json").read_text())["model"]
    return rue.UMDP.from_dense(case["transition"], case["cost"], initial=case["initial"], goals=case["goals"])


def with_improper_policies(seed: int) -> rue.UMDP:
    """Six states with three actions each, which lead to few states, and to fewer in some samples. Only the last two
    lead to the goal, so many policies never get there in some sample."""
    rng = np.random.default_rng(seed)
    samples, inner, actions = 4, 6, 3
    transition = np.zeros((samples, inner + 1, actions, inner + 1))
    for s, a in itertools.product(range(inner), range(actions)):
        support = rng.choice(inner, 2, replace=False)
        if s >= inner - 2 and a > 0:
            support[0] = inner
        for k in range(samples):
            first = rng.uniform(0.2, 1.0)
            if rng.random() < 0.2:
                first = 1.0
            transition[k, s, a, support] = first, 1.0 - first
    cost = rng.uniform(0.5, 3.0, (samples, inner + 1, actions))
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[inner])


MODELS = {
    "loopy3": lambda: from_case("loopy3"),
    "layered1": lambda: from_case("layered1"),
    "prop5": lambda: from_case("prop5"),
    "improper1": lambda: with_improper_policies(1),
    "improper2": lambda: with_improper_policies(2),
}


@cache
def by_enumeration(name: str) -> tuple[float, int]:
    """The least max regret of all stationary deterministic policies, and how many of them are improper."""
    model = MODELS[name]()
    graph = model.graph
    own = [range(graph.choice_ptr[s], graph.choice_ptr[s + 1]) or [-1] for s in range(graph.states)]
    found = [
        rue.evaluate(model, rue.Policy.from_choices(graph, np.array(choice))).max_regret
        for choice in itertools.product(*own)
    ]
    return min(found), sum(regret == np.inf for regret in found)


@cache
def by_paynt(name: str) -> float:
    """The least max regret of all stationary deterministic policies."""
    model = MODELS[name]()
    best = rue.optimal_values(model).value[model.graph.initial]
    return worst_case_by_paynt(model, best.max() - best) - float(best.max())


def worst_case_by_paynt(model: rue.UMDP, entry_fee: np.ndarray) -> float:
    """The least worst-case cost of a stationary deterministic policy, where sample k costs `entry_fee[k]` first."""
    reason = "PAYNT is not installed (pip install paynt)"
    pytest.importorskip("paynt", reason=reason, exc_type=ImportError)
    import payntbind
    import stormpy
    from paynt.colored_mdp import ColoredMdp
    from paynt.parameter_space.parameter_space import ParameterSpace
    from paynt.specification.property import Property
    from paynt.synthesizer.smpmc import SynthesizerSMPMC
    from paynt.task import SynthesisTask

    graph, samples = model.graph, model.samples
    space = ParameterSpace()
    space.add_parameter("sample", [str(k) for k in range(samples)])
    rows: list[dict[int, float]] = []
    paid: list[float] = []
    colours: list[list[tuple[int, int]]] = []
    first_row = []
    for s in range(graph.states):
        first_row.append(len(rows))
        if graph.goal[s]:
            rows.append({s: 1.0})
            paid.append(0.0)
            colours.append([])
            continue
        own = range(graph.choice_ptr[s], graph.choice_ptr[s + 1])
        decision = space.num_parameters
        if len(own) > 1:
            space.add_parameter(f"state {s}", [str(graph.action[c]) for c in own])
        for (i, choice), k in itertools.product(enumerate(own), range(samples)):
            rows.append(row_of(model, choice, k))
            paid.append(float(model.cost[choice, k]))
            colours.append([(0, k), (decision, i)] if len(own) > 1 else [(0, k)])
    first_row.append(len(rows))
    for k in range(samples):
        rows.append({graph.initial: 1.0})
        paid.append(float(entry_fee[k]))
        colours.append([(0, k)])

    mdp = storm_mdp(rows, paid, first_row, np.flatnonzero(graph.goal).tolist())
    colouring = payntbind.synthesis.Coloring(space.native, mdp.nondeterministic_choice_indices, colours)
    Property.model_checking_precision = PRECISION
    task = SynthesisTask(
        stormpy.parse_properties('R{"cost"}min=? [F "goal"]'),
        constraint_name="exists_forall",
        forall_pattern="^sample$",
        verify_robust=True,
    )
    result = SynthesizerSMPMC(ColoredMdp(mdp, space, colouring), task).run()
    assert result.success and result.robust_verified
    return float(result.value)


def row_of(model: rue.UMDP, choice: int, sample: int) -> dict[int, float]:
    graph, row = model.graph, {}
    for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1]):
        if model.prob[t, sample] > 0:
            to = int(graph.successor[t])
            row[to] = row.get(to, 0.0) + float(model.prob[t, sample])
    return row


def storm_mdp(rows: list[dict[int, float]], paid: list[float], first_row: list[int], goals: list[int]):
    """Storm's sparse MDP; the last state is the initial one."""
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    states = len(first_row)
    entries = [(i, to, p) for i, row in enumerate(rows) for to, p in sorted(row.items())]
    builder = SparseMatrixBuilder[float](
        rows=len(rows), columns=states, entries=len(entries),
        force_dimensions=True, has_custom_row_grouping=True, row_groups=states,
    )  # fmt: skip
    builder.add_next_values(*(list(column) for column in zip(*entries, strict=True)), first_row)
    labels = StateLabeling(states)
    for label, where in (("init", [states - 1]), ("goal", goals)):
        labels.add_label(label)
        for state in where:
            labels.add_label_to_state(label, state)
    rewards = {"cost": SparseRewardModel[float](optional_state_action_reward_vector=paid)}
    return SparseMdp[float](
        SparseModelComponents[float](transition_matrix=builder.build(), state_labeling=labels, reward_models=rewards)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_paynt_is_enumeration(name):
    regret = by_paynt(name)
    least, improper = by_enumeration(name)
    assert regret == pytest.approx(least, abs=TOLERANCE)
    assert (improper > 0) == name.startswith("improper")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_exact_stationary_is_paynt(name):
    regret = by_paynt(name)
    solution = rue.solve(MODELS[name](), rue.ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.upper == pytest.approx(regret, abs=TOLERANCE)
    assert solution.objective.lower == pytest.approx(regret, abs=TOLERANCE)
