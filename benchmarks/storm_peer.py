"""Storm through stormpy 2: a sparse MDP with a cost for each choice, asked for the least expected cost to the goal.

Timed is `model_checking` for all states, not the building of the model. Asking for the initial state only takes as
long. The precision is absolute. *Optimistic value iteration*, which is also what Storm takes by default when
soundness is asked for, was the fastest sound method at each size; interval iteration and sound value iteration are
shown beside it. Storm's own default, value iteration until a sweep changes little, proves nothing and is shown for
information. Policy iteration did not end within a minute on 100 × 100.

Storm sweeps from the last state to the first. Our grids number the goal last, which is the best case for that.
"""

from collections.abc import Callable

import numpy as np
import stormpy
from numpy.typing import NDArray
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.environments import Environment, MinMaxMethod, sound
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling
from stormpy.results import CheckResult

from benchmarks.absorbing import Absorbing

SOUND = {
    "optimistic value iteration": MinMaxMethod.OPTIMISTIC_VALUE_ITERATION,
    "interval iteration": MinMaxMethod.INTERVAL_ITERATION,
    "sound value iteration": MinMaxMethod.SOUND_VALUE_ITERATION,
}
QUESTION = 'R{"cost"}min=? [F "goal"]'

Values = NDArray[np.float64]


def build(problem: Absorbing) -> SparseMdp:
    """Storm's sparse MDP; not timed."""
    matrix = problem.matrix.tocoo()
    builder = SparseMatrixBuilder[float](
        rows=matrix.shape[0], columns=matrix.shape[1], entries=matrix.nnz,
        force_dimensions=True, has_custom_row_grouping=True, row_groups=problem.states,
    )  # fmt: skip
    builder.add_next_values(
        matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), problem.first_row[:-1].tolist()
    )
    labels = StateLabeling(problem.states)
    for label, states in (("init", [problem.initial]), ("goal", problem.goals.tolist())):
        labels.add_label(label)
        for state in states:
            labels.add_label_to_state(label, state)
    rewards = {"cost": SparseRewardModel[float](optional_state_action_reward_vector=problem.cost.tolist())}
    return SparseMdp[float](
        SparseModelComponents[float](transition_matrix=builder.build(), state_labeling=labels, reward_models=rewards)
    )


def checker(mdp: SparseMdp, method: MinMaxMethod | None, accuracy: float) -> Callable[[], CheckResult]:
    """Checks all states by a sound method; None is Storm's default, which is not sound."""
    environment = Environment() if method is None else sound()
    solver = environment.solver().min_max()
    if method is not None:
        solver.method = method
    solver.precision = stormpy.Rational(str(accuracy))
    solver.relative_termination_criterion = False
    solver.maximal_number_of_iterations = 10**7
    question = stormpy.parse_properties(QUESTION)[0]
    return lambda: stormpy.model_checking(mdp, question, environment=environment)


def read(result: CheckResult, states: int) -> Values:
    """The values of all states; not timed, as it goes through Python one by one."""
    return np.array([result.get_value(state) for state in range(states)])
