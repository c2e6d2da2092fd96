"""The figures that people give, and the costs that the solvers minimise.

Solvers minimise expected costs, 0 or more. People also have rewards, or costs of either sign. So a model may be made of
other figures, and remembers how:

    cost of a step  =  ± figure + shift             − for rewards; the shift is the same for all steps

With a shift every policy takes the same number of steps in expectation, so it pays the same amount more:

    V  =  ± figure of the policy + offset           offset = constant + shift · steps

Regrets are differences of two such values, and are the same in both. What people see is in their own figures:
`rue.evaluate`, `rue.simulate`, objectives that are values, tables and JSON.

Averages per step are values of a discount γ near 1, times 1−γ (`average.py`). Costs are divided by the expected number
of steps, 1/(1−γ), and then values, regrets and bounds of the model are averages as they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import flag, real_number
from rue.errors import BadInput

COST, REWARD = "cost", "reward"


@dataclass(frozen=True)
class Units:
    """How the costs of a model follow from the figures that were given."""

    reward: bool = False  # the figures are to be large: costs are their negatives
    shift: float = 0.0  # added to the cost of each step
    steps: float = 0.0  # expected number of steps of every policy, if there is a shift or values are averages
    constant: float = 0.0  # added to the cost of each episode
    average: bool = False  # values are averages per step: all costs are divided by the number of steps

    def __post_init__(self) -> None:
        flag("reward", self.reward)
        flag("average", self.average)
        for name in ("shift", "steps", "constant"):
            number = real_number(f"{name} of the units", getattr(self, name), "0 or more, and finite", 0, 1e300)
            object.__setattr__(self, name, number)
        if self.average and self.steps <= 1:
            raise BadInput(f"steps of the units is {self.steps}; expected more than 1 for averages per step")

    @property
    def offset(self) -> float:
        """What every policy pays more than its figure."""
        return self.constant + self.shift * self.steps / self._divisor

    @property
    def _divisor(self) -> float:
        return self.steps if self.average else 1.0

    @property
    def discount(self) -> float:
        """The discount that stands for the long run, if values are averages per step."""
        return round(1 - 1 / self.steps, 15)

    def averages(self, error: float) -> dict[str, float]:
        """Return what is told of averages per step: the discount, and how far they may be from the long run."""
        return {"discount": self.discount, "error": error} if self.average else {}

    @property
    def name(self) -> str:
        """What the figures of steps are called."""
        return REWARD if self.reward else COST

    @property
    def value_name(self) -> str:
        """What the values of policies are called."""
        return f"{self.name} per step" if self.average else self.name

    def measures(self, words: str) -> str:
        """Return what a solver measures, such as "worst-case cost", with the name of the values."""
        return words.removesuffix(COST) + self.value_name if words.endswith(COST) else words

    def figure(self, cost: Any) -> Any:
        """Return the figure of an expected cost from the initial state, or of an array of them."""
        return self._signed(cost - self.offset)

    def step(self, cost: Array) -> Array:
        """Return the figures of single steps."""
        return np.asarray(self._signed(cost * self._divisor - self.shift))

    def episode(self, cost: Array, steps: Array) -> Array:
        """Return the figures of single episodes; the mean of many is that of `figure`."""
        return np.asarray(self._signed(cost - self.shift * steps / self._divisor - self.constant))

    def ends(self, lower: float, upper: float) -> tuple[float, float]:
        """Return an interval of costs as one of figures."""
        low, high = self.figure(lower), self.figure(upper)
        return (high, low) if self.reward else (low, high)

    def _signed(self, number: Any) -> Any:
        return 0.0 - number if self.reward else number + 0.0  # no negative zero


PLAIN = Units()
