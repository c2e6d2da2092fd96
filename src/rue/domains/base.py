"""The base of all domains: frozen values whose seed fixes the problem, and which draw samples of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from rue._check import check_memory, whole_number
from rue._check import seed as check_seed
from rue.model import UMDP, Graph
from rue.registry import Registry

# Samples to plan with, as many as in the paper.
TRAINING = 15


@dataclass(frozen=True)
class Domain(ABC):
    """A problem that can be sampled. All its samples, for training and for testing, have the same graph."""

    seed: int = field(kw_only=True)
    name: ClassVar[str]  # on the command line
    known: ClassVar[Registry[type["Domain"]]] = Registry("rue.domains")  # every domain by its name
    draws_training: ClassVar[bool] = True  # whether the training samples are draws like any other
    file_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that name a file, or nothing

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            Domain.known.add(cls.name, cls)

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def spec(self) -> str:
        """The domain as the command line writes it; its models have it in the layout of their graph."""
        changed = [f for f in fields(self) if f.name == "seed" or getattr(self, f.name) != f.default]
        return f"{self.name}:" + ",".join(f"{f.name}={getattr(self, f.name)}" for f in changed)

    @property
    def rough_size(self) -> int:
        """The approximate number of transitions; domains should know it without making the graph."""
        return self.graph.transitions

    @cached_property
    @abstractmethod
    def graph(self) -> Graph:
        """States, choices and possible transitions of all samples."""

    @abstractmethod
    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw `count` samples. The same seed gives the same samples."""

    def training(self, count: int | None = None, *, seed: int) -> UMDP:
        """Return the samples to plan with: `count` draws, or fifteen; a domain may have its own training samples."""
        return self.sample(TRAINING if count is None else count, seed=seed)

    def check_samples(self, count: int) -> None:
        """Refuse more samples than there is memory for, before any work is done."""
        whole_number("the number of samples", count, 1)
        # Costs take about half as much as probabilities, and making the graph as much as about eight samples.
        check_memory(f"{count} samples of {self.spec}", 8 * self.rough_size * (8 * count // 5 + 8))

    def random(self, count: int, seed: int) -> np.random.Generator:
        """Return the source of the samples, which depends on the problem's own seed too."""
        check_seed(seed)
        self.check_samples(count)
        return np.random.default_rng([self.seed, seed])
