"""What every domain is: a frozen value whose seed fixes the problem, and which draws samples of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rue.errors import BadInput
from rue.model import UMDP, Graph


@dataclass(frozen=True)
class Domain(ABC):
    """A problem that can be sampled. All its samples, for training and for testing, live on one graph."""

    seed: int = field(kw_only=True)

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @cached_property
    @abstractmethod
    def graph(self) -> Graph:
        """States, choices and possible transitions of all samples."""

    @abstractmethod
    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw `count` samples. The same seed gives the same samples."""

    def random(self, count: int, seed: int) -> np.random.Generator:
        """The source of the samples: it depends on the problem's own seed too."""
        check_seed(seed)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadInput(f"the number of samples is {count!r}; expected a whole number, 1 or more")
        return np.random.default_rng([self.seed, seed])


def check_seed(seed: object) -> None:
    """Refuse what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput(f"the seed is {seed!r}; expected a whole number, 0 or more")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a parameter out of its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{name} is {value!r}; expected {low} to {high}")


def check_count(name: str, value: int, low: int, high: int) -> None:
    """Refuse a parameter that is no whole number in its range."""
    if not isinstance(value, int):
        raise BadInput(f"{name} is {value!r}; expected a whole number from {low} to {high}")
    check_range(name, value, low, high)
