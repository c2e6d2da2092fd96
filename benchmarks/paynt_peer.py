"""PAYNT: the stationary deterministic policy of least worst-case cost over a set of environments.

PAYNT (`pip install paynt`, GPL, brings Storm) is used only where it is installed. All samples become one MDP with a
colour for each sample and one for each decision; PAYNT looks for decisions that are good for every sample. One extra
first step costs max_q V*_q − V*_k in sample k, so that the worst-case cost, less max_q V*_q, is the max regret.
"""

import itertools

import numpy as np
import payntbind
import stormpy
from paynt.colored_mdp import ColoredMdp
from paynt.parameter_space.parameter_space import ParameterSpace
from paynt.specification.property import Property
from paynt.synthesizer.smpmc import SynthesizerSMPMC
from paynt.task import SynthesisTask
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

from rue import UMDP, optimal_values
from rue._arrays import Array

PRECISION = 1e-9
QUESTION = 'R{"cost"}min=? [F "goal"]'


def least_max_regret(model: UMDP) -> float:
    """Return the least max regret of all stationary deterministic policies."""
    best = optimal_values(model).value[model.graph.initial]
    return least_worst_case(model, best.max() - best) - float(best.max())


def least_worst_case(model: UMDP, entry_fee: Array) -> float:
    """Return the least worst-case cost of such a policy, where sample k costs `entry_fee[k]` first."""
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
            rows.append(_row(model, choice, k))
            paid.append(float(model.cost[choice, k]))
            colours.append([(0, k), (decision, i)] if len(own) > 1 else [(0, k)])
    first_row.append(len(rows))
    for k in range(samples):
        rows.append({graph.initial: 1.0})
        paid.append(float(entry_fee[k]))
        colours.append([(0, k)])

    mdp = _storm_mdp(rows, paid, first_row, np.flatnonzero(graph.goal).tolist())
    colouring = payntbind.synthesis.Coloring(space.native, mdp.nondeterministic_choice_indices, colours)
    Property.model_checking_precision = PRECISION
    task = SynthesisTask(
        stormpy.parse_properties(QUESTION),
        constraint_name="exists_forall",
        forall_pattern="^sample$",
        verify_robust=True,
    )
    result = SynthesizerSMPMC(ColoredMdp(mdp, space, colouring), task).run()
    if not (result.success and result.robust_verified):
        raise RuntimeError("PAYNT has found no policy")
    return float(result.value)


def _row(model: UMDP, choice: int, sample: int) -> dict[int, float]:
    graph = model.graph
    row: dict[int, float] = {}
    for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1]):
        if model.prob[t, sample] > 0:
            to = int(graph.successor[t])
            row[to] = row.get(to, 0.0) + float(model.prob[t, sample])
    return row


def _storm_mdp(rows: list[dict[int, float]], paid: list[float], first_row: list[int], goals: list[int]) -> SparseMdp:
    """Return Storm's sparse MDP; the last state is the initial one."""
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
