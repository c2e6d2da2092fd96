"""Medical decision making: seven days of treatment of a patient who responds in an unknown way.

The state is (health, day) with health 0..19 and day 0..6. On each of the first six days one of three treatments
changes the health by −3..3. For each health level the nominal outcome of each treatment is certain, drawn from the
seven; a sample adds |N(0, 0.1)| to each probability and normalises. On day 6 the one action ends the episode and costs
0.05 (19 − h), and 2 more if h = 0.

What the paper leaves open, and our choice: initial health 10, health clipped to 0..19, and the nominal outcomes of a
level drawn independently, so that two treatments may share one. These reproduce the paper's table; three different
outcomes at each level (`distinct=True`) do not (docs/reproduction.md has both).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rue._arrays import Array, pointers
from rue._check import flag, real_number, whole_number
from rue.domains.base import Domain
from rue.model import UMDP, Graph

LEVELS = 20
DAYS = 7
TREATMENTS = 3
CHANGES = np.arange(-3, 4)
# For each health level, the levels that can follow, and the first change that leads to each.
FOLLOWING = [np.unique(np.clip(h + CHANGES, 0, LEVELS - 1), return_index=True) for h in range(LEVELS)]


@dataclass(frozen=True)
class Medical(Domain):
    """A patient with `initial_health`, whose response has a certain `noise`."""

    name: ClassVar[str] = "medical"
    initial_health: int = 10
    noise: float = 0.1
    distinct: bool = False  # whether the treatments of a health level have different nominal outcomes

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("initial_health", self.initial_health, 0, LEVELS - 1)
        real_number("noise", self.noise, "0 to 10", 0, 10)
        flag("distinct", self.distinct)

    @property
    def rough_size(self) -> int:
        """A change of health for each day, level and treatment."""
        return DAYS * LEVELS * TREATMENTS * CHANGES.size

    @cached_property
    def nominal(self) -> Array:  # [health, treatment, change]
        """Three rows of the identity for each health level."""
        rng = np.random.default_rng(self.seed)
        rows = [rng.choice(CHANGES.size, TREATMENTS, replace=not self.distinct) for _ in range(LEVELS)]
        return np.eye(CHANGES.size)[np.stack(rows)]

    @cached_property
    def graph(self) -> Graph:
        """States by day, then by health, then the end."""
        treated, end = LEVELS * (DAYS - 1), LEVELS * DAYS
        following = [level for level, _ in FOLLOWING for _ in range(TREATMENTS)]  # of each choice of a day
        successor = [LEVELS * (day + 1) + level for day in range(DAYS - 1) for level in following]
        length = [level.size for level in following] * (DAYS - 1) + [1] * LEVELS
        return Graph(
            choice_ptr=pointers([TREATMENTS] * treated + [1] * LEVELS + [0]),
            action=np.append(np.tile(np.arange(TREATMENTS), treated), np.full(LEVELS, TREATMENTS)),
            trans_ptr=pointers(length),
            successor=np.concatenate([*successor, np.full(LEVELS, end)]),
            initial=self.initial_health,
            state_label=(*(f"(h={h}, d={d})" for d in range(DAYS) for h in range(LEVELS)), "end"),
            action_label=(*(f"treatment {i + 1}" for i in range(TREATMENTS)), "finish"),
            layout={"grid": [DAYS, LEVELS], "axes": ["day", "health"], "domain": self.spec},
        )

    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw `count` responses to treatment."""
        rng = self.random(count, seed)
        noise = np.abs(rng.normal(0.0, self.noise, (count, *self.nominal.shape))) if self.noise else 0.0
        response = self.nominal + noise
        response = np.broadcast_to(response / response.sum(axis=-1, keepdims=True), (count, *self.nominal.shape))
        day = np.concatenate(
            [
                np.add.reduceat(response[:, h, a], first, axis=1)
                for h, (_, first) in enumerate(FOLLOWING)
                for a in range(TREATMENTS)
            ],
            axis=1,
        )  # [K, transitions of a day]
        prob = np.concatenate([np.tile(day, (1, DAYS - 1)), np.ones((count, LEVELS))], axis=1).T
        health = np.arange(LEVELS)
        final = 0.05 * (LEVELS - 1 - health) + 2.0 * (health == 0)
        cost = np.append(np.zeros(LEVELS * (DAYS - 1) * TREATMENTS), final)
        return UMDP(self.graph, prob, np.repeat(cost[:, None], count, axis=1))
