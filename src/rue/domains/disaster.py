"""Disaster rescue: an 8-connected grid with swamps and obstacles whose places are known only roughly.

Each square is the centre of a swamp region with probability 1/15, and of an obstacle region with 1/15; a region is
the centre and the eight squares around it. A sample puts one swamp and one obstacle on a random square of each region.
An action aims at one of 8 neighbours and gets there with probability 0.8, and to the neighbours on either side with
0.1 each; onto an obstacle it is 0.05 instead. With the remaining probability it stays. Entering a square costs 0.5, or
in a swamp an amount drawn from [1, 2] in each sample; staying costs as much as entering the square.

What the paper leaves open, and our choice: the initial state is the corner (row 0, column 0), the goal the opposite
one, and neither is ever a swamp or an obstacle; a move off the grid stays put. `diagonals=False` is the other reading
of "adjacent": regions of five squares.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rue._arrays import Array, pointers
from rue._check import flag, real_number, whole_number
from rue.domains.base import Domain
from rue.domains.disaster_kernels import fill
from rue.model import UMDP, Graph

MOVES = {
    "north": (-1, 0), "north-east": (-1, 1), "east": (0, 1), "south-east": (1, 1),
    "south": (1, 0), "south-west": (1, -1), "west": (0, -1), "north-west": (-1, -1),
}  # fmt: skip
# The aim, then its neighbours on either side: the turn in steps of 45 degrees, and the probability.
AIMS = ((0, 0.8), (1, 0.1), (-1, 0.1))
ONTO_OBSTACLE = 0.05
ENTRY_COST = 0.5


@dataclass(frozen=True)
class Disaster(Domain):
    """A rescue on a grid of `width` × `height` squares."""

    name: ClassVar[str] = "disaster"
    width: int = 8
    height: int = 8
    region_chance: float = 1 / 15  # that a square is the centre of a swamp region; the same for obstacles
    diagonals: bool = True  # whether a region has the squares that touch its centre at a corner: nine squares or five

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("width", self.width, 2, 2000)
        whole_number("height", self.height, 2, 2000)
        real_number("region_chance", self.region_chance, "0 to 1", 0, 1)
        flag("diagonals", self.diagonals)

    @property
    def rough_size(self) -> int:
        """Eight choices a square with three outcomes or four."""
        return self._squares * len(MOVES) * len(AIMS)

    @cached_property
    def regions(self) -> tuple[Array, Array]:
        """The squares of each swamp region and of each obstacle region, a row for each, padded with −1."""
        rng = np.random.default_rng(self.seed)
        swamp = np.flatnonzero(rng.random(self._squares) < self.region_chance)
        obstacle = np.flatnonzero(rng.random(self._squares) < self.region_chance)
        return self._region_squares(swamp), self._region_squares(obstacle)

    @cached_property
    def graph(self) -> Graph:
        """Eight choices a square; a choice can stay put where it may meet the border or an obstacle."""
        possible = self._possible  # [S, 8, 4]
        length = possible.sum(axis=2).ravel()[: -len(MOVES)]
        return Graph(
            choice_ptr=np.append(np.arange(self._squares) * 8, (self._squares - 1) * 8),
            action=np.tile(np.arange(8), self._squares - 1),
            trans_ptr=pointers(length),
            successor=self._target[:-1][possible[:-1]],
            initial=0,
            state_label=tuple(f"(row {i}, column {j})" for i in range(self.height) for j in range(self.width)),
            action_label=tuple(MOVES),
            layout={"grid": [self.height, self.width], "heading": list(range(0, 360, 45)), "domain": self.spec},
        )

    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw `count` placements of all swamps and obstacles."""
        rng = self.random(count, seed)
        swamps, obstacles = self.regions
        entry = np.full((self._squares, count), ENTRY_COST)
        obstacle = np.zeros((self._squares, count), bool)
        for k in range(count):
            place = _draw_squares(rng, swamps)
            entry[place, k] = rng.uniform(1.0, 2.0, place.size)
            obstacle[_draw_squares(rng, obstacles), k] = True
        return self._model(entry, obstacle)

    def _model(self, entry: Array, obstacle: Array) -> UMDP:
        """Return the model with these entry costs and obstacles, both [S, K]."""
        graph, samples = self.graph, entry.shape[1]
        prob, cost = np.empty((graph.transitions, samples)), np.empty((graph.choices, samples))
        chance = np.array([chance for _, chance in AIMS])
        fill(self._target, self._possible, obstacle, entry, chance, ONTO_OBSTACLE, prob, cost)
        prob.flags.writeable = cost.flags.writeable = False
        return UMDP(graph, prob, cost, scenery={"entry_cost": entry, "obstacle": obstacle})

    @property
    def _squares(self) -> int:
        return self.width * self.height

    @cached_property
    def _target(self) -> Array:  # [S, 8, 4]
        """Where each outcome of an action leads: the three aims, then staying; −1 off the grid."""
        row, column = np.divmod(np.arange(self._squares), self.width)
        target = np.empty((self._squares, 8, 4), np.int32)
        target[:, :, 3] = np.arange(self._squares)[:, None]
        moves = list(MOVES.values())
        for action in range(8):
            for aim, (turn, _) in enumerate(AIMS):
                down, right = moves[(action + turn) % 8]
                target[:, action, aim] = self._square(row + down, column + right)
        return target

    @cached_property
    def _possible(self) -> Array:  # [S, 8, 4]
        """Which outcomes can happen in some sample."""
        possible = self._target >= 0
        contested = np.zeros(self._squares + 1, bool)
        contested[self.regions[1].ravel()] = True
        contested[-1] = True  # index −1: off the grid
        possible[:, :, 3] = contested[self._target[:, :, :3]].any(axis=2)
        return possible

    def _square(self, row: Array, column: Array) -> Array:
        inside = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        return np.where(inside, row * self.width + column, -1)

    def _region_squares(self, centre: Array) -> Array:  # [regions, 9 or 5]
        row, column = np.divmod(centre, self.width)
        offsets = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if self.diagonals or i == 0 or j == 0]
        squares = np.stack([self._square(row + i, column + j) for i, j in offsets], axis=1)
        squares[(squares == 0) | (squares == self._squares - 1)] = -1
        return squares[(squares >= 0).any(axis=1)]


def _draw_squares(rng: np.random.Generator, regions: Array) -> Array:
    """Return one square of each region."""
    there = regions >= 0
    pick = (rng.random(len(regions)) * there.sum(axis=1)).astype(np.int64)  # an index among those that are there
    column = (np.cumsum(there, axis=1) == pick[:, None] + 1).argmax(axis=1)
    return np.asarray(regions[np.arange(len(regions)), column])
