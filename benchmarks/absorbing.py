"""One sample of a model as the peers want it: a sparse matrix with a row for each choice, and goals that loop."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from rue import UMDP


@dataclass(frozen=True, eq=False)
class Absorbing:
    """Rows are choices; each goal has one row more, which stays there and costs nothing."""

    first_row: NDArray[np.int64]  # [S+1]
    matrix: csr_matrix  # sorted, without zeros and repeated targets
    cost: NDArray[np.float64]  # of each row
    action: NDArray[np.int64]  # of each row
    goals: NDArray[np.int64]
    initial: int

    @property
    def states(self) -> int:
        return self.first_row.size - 1

    @classmethod
    def of(cls, model: UMDP, sample: int = 0) -> "Absorbing":
        graph = model.graph
        goals = np.flatnonzero(graph.goal)
        first_row = np.concatenate(([0], np.cumsum(np.where(graph.goal, 1, np.diff(graph.choice_ptr)))))
        # Goals before a state have shifted its rows.
        row = np.arange(graph.choices) + (first_row[:-1] - graph.choice_ptr[:-1])[graph.choice_state]
        cost, action = np.zeros(first_row[-1]), np.zeros(first_row[-1], np.int64)
        cost[row], action[row] = model.cost[:, sample], graph.action
        live = model.prob[:, sample] > 0
        entries = (
            np.concatenate((model.prob[live, sample], np.ones(goals.size))),
            (
                np.concatenate((row[graph.trans_choice[live]], first_row[goals])),
                np.concatenate((graph.successor[live], goals)),
            ),
        )
        matrix = csr_matrix(entries, shape=(first_row[-1], graph.states))
        matrix.sum_duplicates()
        return cls(first_row, matrix, cost, action, goals, graph.initial)
