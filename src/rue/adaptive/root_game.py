"""The game at the root: the best mixture of the policies that are known, and beliefs at which they leave room.

Each vector at the initial state is the regret in each sample of a real controller. A mixture is drawn at the start. The
value of the game over these vectors is an upper bound, and its dual is the belief at which they are worst.
"""

from dataclasses import dataclass, field

import numpy as np

from rue._arrays import Array
from rue.active import Part
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.sum_kernels import nearest_above
from rue.matrix_game import GameSolution, solve_game

# Vectors in a game.
COLUMNS = 300
# Steps of the method that finds the nearest belief.
PROJECTION_STEPS = 3000


@dataclass(eq=False)
class RootGame:
    """The game over the vectors of the initial state, and its solution once there is a vector."""

    part: Part
    graph: BeliefGraph
    offset: Array  # [K] what is added to the graph's regrets
    vectors: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    matrix: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [K, J] of those vectors
    solution: GameSolution | None = None

    @property
    def value(self) -> float:
        """The value of the game, infinite if no vector is known."""
        return self.solution.value if self.solution is not None else np.inf

    @property
    def dual(self) -> Array:  # [K]
        """The belief at which the known vectors have the largest regret."""
        return self.solution.belief if self.solution is not None else self.part.centre

    @property
    def favourites(self) -> Array:
        """The vectors of the best mixture."""
        return self.vectors[self.solution.weight > 0] if self.solution is not None else self.vectors

    def update(self) -> None:
        """Solve the game: if the vectors are many, with those of the last mixture, the newest and the best."""
        self.vectors, regret = self.graph.root_vectors()
        if self.vectors.size > COLUMNS and self.graph.belief.size:
            wanted = np.isin(self.vectors, self.graph.favourites)
            wanted[: COLUMNS // 2] = True  # the newest
            wanted[np.argsort(regret @ self.graph.belief, kind="stable")[: COLUMNS // 2]] = True
            self.vectors, regret = self.vectors[wanted], regret[wanted]
        self.matrix = np.maximum((regret + self.offset).T, 0.0)
        self.solution = solve_game(self.matrix, self.part.cap, ties=False) if self.vectors.size else None
        if self.solution is not None:
            self.graph.favourites = self.favourites

    def toward_dual(self, belief: Array, wanted: float) -> Array:  # [K]
        """Go from a belief towards the dual, until all known vectors have this regret at least."""
        near, far = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (near + far)
            if (((1 - middle) * belief + middle * self.dual) @ self.matrix).min() >= wanted:
                far = middle
            else:
                near = middle
        return np.asarray((1 - far) * belief + far * self.dual)

    def nearest(self, belief: Array, wanted: float) -> Array:  # [K]
        """Return the belief nearest to another one at which all known vectors have this regret at least."""
        cuts = np.ascontiguousarray(self.matrix.T) / self.value
        found = np.maximum(nearest_above(cuts, wanted / self.value, np.array(belief), PROJECTION_STEPS), 0.0)
        # Where cuts are nearly parallel the method may not have come there. It would end at the same belief again.
        return self.toward_dual(self.part.within(found / found.sum()), wanted)
