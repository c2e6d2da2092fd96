"""Samples that come in blocks: `Source`, for more samples than fit into memory.

A source knows the graph, how many samples there are, and how to draw block i by itself: a block is a `UMDP` that
depends on i alone, so it may be drawn anywhere, in any order, and again. Nothing of a block is kept.

*Seeds.* Block i of a domain, or of counts, is drawn with a seed that is derived from (seed, i). So the size of the
blocks is part of what is drawn: with blocks of another size the samples are others, and none of them are those that
`domain.sample(samples, seed=seed)` draws all at once.

*Weights.* A block may have weights within it, and each block has a weight of its own: the probability of a sample is in
proportion to their product. By default a block weighs as much as it has samples.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, pointers, read_only
from rue._check import (
    check_memory,
    check_weights,
    frozen_array,
    in_all,
    index_array,
    one_index,
    text_path,
    whole_number,
)
from rue._check import seed as check_seed
from rue._text import distinct
from rue.build import Counts, from_counts
from rue.errors import BadInput
from rue.formats import endings, load
from rue.model import UMDP, Graph, check_model
from rue.units import PLAIN, Units

# Most samples of a block, and most probabilities of all of them, unless a size is given.
MOST_SAMPLES, MOST_NUMBERS = 1000, 2_000_000
# What all that is kept of a sample takes, in bytes: figures, bounds and weights.
SAMPLE_BYTES = 100


class Sampled(Protocol):
    """What can be sampled, such as a domain."""

    @property
    def graph(self) -> Graph:
        """The graph of all samples."""

    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw samples; the same seed gives the same ones."""


@dataclass(frozen=True, eq=False)
class Source:
    """Samples on one graph, in blocks. Make one with `from_domain`, `from_counts`, `from_files` or `from_function`."""

    graph: Graph
    size: Array  # [B] how many samples each block has
    draw: Callable[[int], UMDP]  # block i; where blocks go to other processes, it must be possible to pickle it
    weight: Any = None  # [B] of each block, an array once it is made; by default as many as it has samples
    units: Units = PLAIN  # what the values are in: the figures that the blocks were made of, if all are the same

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise BadInput(f"the graph is a {type(self.graph).__name__}; expected a rue.Graph")
        if not callable(self.draw):
            raise BadInput(f"draw is {self.draw!r}; expected a function that takes the number of a block")
        size = frozen_array("size", self.size, np.int64)
        empty = np.flatnonzero(size < 1) if size.ndim == 1 else np.empty(0)
        if size.ndim != 1 or size.size == 0:
            raise BadInput(f"size has shape {size.shape}; expected a number of samples for each block")
        if empty.size:
            raise BadInput(
                f"{self._name(int(empty[0]))} has {size[empty[0]]} samples; expected one at least; {in_all(empty.size)}"
            )
        if not isinstance(self.units, Units):
            raise BadInput(f"the units are a {type(self.units).__name__}; expected rue.Units")
        object.__setattr__(self, "size", size)
        if self.weight is not None:
            object.__setattr__(self, "weight", check_weights("block", self.weight, range(size.size)))

    @classmethod
    def from_domain(cls, domain: Sampled, samples: int, *, seed: int, block: int | None = None) -> "Source":
        """Return draws of a domain, `block` of them at a time; block i has a seed derived from (seed, i).

        >>> grid = rue.domains.Disaster(width=4, height=4, seed=1)
        >>> policy = rue.solve(grid.sample(15, seed=1), rue.Regret()).policy
        >>> source = rue.Source.from_domain(grid, 3000, seed=2, block=1000)
        >>> rue.evaluate(source, policy).regret.size
        3000
        """
        if not callable(getattr(domain, "sample", None)) or not isinstance(getattr(domain, "graph", None), Graph):
            raise BadInput(f"the domain is {domain!r}; expected a rue.domains.Domain")
        size = _sizes(samples, block, domain.graph)
        return cls(domain.graph, size, _Draws(domain.sample, size, check_seed(seed)))

    @classmethod
    def from_counts(
        cls,
        counts: Counts,
        samples: int,
        *,
        seed: int,
        block: int | None = None,
        prior: float = 1.0,
        support: Literal["observed", "state"] = "state",
        cost_noise: float = 0.0,
        discount: float | None = None,
        average: bool | float = False,
    ) -> "Source":
        """Return posterior samples of counted transitions, as `rue.from_counts` draws them, in blocks."""
        if not isinstance(counts, Counts):
            raise BadInput(f"counts is a {type(counts).__name__}; expected a rue.Counts, see rue.count_transitions")
        posterior = partial(
            _draw_posterior, counts=counts, prior=prior, support=support, cost_noise=cost_noise, discount=discount,
            average=average,
        )  # fmt: skip
        first = posterior(1, seed=check_seed(seed))
        size = _sizes(samples, block, first.graph)
        return cls(first.graph, size, _Draws(posterior, size, seed), units=first.units)

    @classmethod
    def from_files(
        cls,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        samples: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> "Source":
        """Return the samples of several files, or of all model files in a folder by name; each file is a block.

        Each file holds a model with one sample or more on the same graph. All are read once to count their samples,
        unless `samples` has the number in each file, or one number for all. `weight` has a number for each file.
        """
        paths = _list_files(files)
        draw = _Files(tuple(str(path.absolute()) for path in paths))
        first = draw(0)
        if samples is None:
            counted = cls(first.graph, np.ones(len(paths), np.int64), draw, units=first.units)
            size = np.array([first.samples, *(counted._draw_checked(i).samples for i in range(1, len(paths)))])
        else:
            given = frozen_array("samples", samples, np.int64)
            size = np.full(len(paths), given) if given.ndim == 0 else given
            if size.shape != (len(paths),):
                raise BadInput(f"samples has shape {size.shape}; expected a number for each of {len(paths)} files")
        return cls(first.graph, size, draw, weight, first.units)

    @classmethod
    def from_function(
        cls,
        draw: Callable[[int], UMDP],
        samples: int,
        *,
        block: int,
        graph: Graph | None = None,
        weight: ArrayLike | None = None,
        units: Units | None = None,
    ) -> "Source":
        """Return the samples that a function draws: `draw(i)` is a model with the `block` samples of block i.

        The last block has the rest of `samples`. Graph and units are those of block 0 unless a graph is given. What the
        function returns must depend on i alone. `weight` has a number for each block.
        """
        if not callable(draw):
            raise BadInput(f"draw is {draw!r}; expected a function that takes the number of a block")
        size = _sizes(samples, block, None)
        if graph is None:
            first = _call(draw, 0, "block 0")
            graph, units = first.graph, first.units if units is None else units
        return cls(graph, size, draw, weight, PLAIN if units is None else units)

    @classmethod
    def from_model(cls, model: UMDP, block: int | None = None) -> "Source":
        """Return the samples of a model in memory, cut into blocks; weights and labels are those of the model."""
        size = _sizes(check_model(model).samples, block, model.graph)
        return cls(model.graph, size, _PartsOfModel(model, pointers(size)), units=model.units)

    @property
    def samples(self) -> int:
        """K, the number of samples."""
        return int(self.first[-1])

    @property
    def blocks(self) -> int:
        """B, the number of blocks."""
        return int(self.size.size)

    @cached_property
    def first(self) -> Array:  # [B+1]
        """Where the samples of each block begin, and where those of the last one end."""
        return read_only(pointers(self.size))

    @property
    def model(self) -> UMDP | None:
        """The model that is cut into blocks, if it is one."""
        return self.draw.model if isinstance(self.draw, _PartsOfModel) else None

    def block(self, block: int) -> UMDP:
        """Draw a block."""
        index = one_index("block", block, self.blocks)
        model = self._draw_checked(index)
        if model.samples != self.size[index]:
            raise BadInput(f"{self._name(index)} has {model.samples} samples; expected {self.size[index]}")
        return model

    def gather(self, samples: ArrayLike) -> UMDP:
        """Return a model of these samples, by their numbers in the source, in this order.

        Each block that has some of them is drawn once. They keep their labels, or are called by their numbers, and have
        the weights that they have in the source, divided by their sum.
        """
        return self.part(samples)[0]

    def part(self, samples: ArrayLike) -> tuple[UMDP, Array]:
        """Return a model of these samples, as `gather` does, and their probabilities in the source."""
        index = index_array("sample", samples, self.samples)
        if index.size == 0:
            raise BadInput("there are no samples to gather; expected at least one")
        size = self.graph.transitions + self.graph.choices
        check_memory(f"a model of {index.size} samples", 8 * size * (index.size + int(self.size.max())))
        prob = np.empty((self.graph.transitions, index.size))
        cost, weight = np.empty((self.graph.choices, index.size)), np.empty(index.size)
        label = [""] * index.size
        scenery: dict[str, Array] = {}
        of_block = self.block_of(index)
        for i in np.unique(of_block):
            place = np.flatnonzero(of_block == i)
            own = index[place] - self.first[i]
            model = self.block(int(i))
            prob[:, place], cost[:, place] = model.prob[:, own], model.cost[:, own]
            weight[place] = self.block_weight(int(i), None if not model.is_weighted else model.weight)[own]
            for k, j in zip(place, own, strict=True):
                label[k] = str(index[k]) if model.sample_label is None else model.sample_label[j]
            for name, values in model.scenery.items():
                whole = scenery.setdefault(name, np.full((self.graph.states, index.size), np.nan, np.float32))
                whole[:, place] = values[:, own]
        model = UMDP(
            self.graph, read_only(prob), read_only(cost), tuple(distinct(label)),
            {name: values for name, values in scenery.items() if np.isfinite(values).all()},
            weight if weight.any() else None, self.units,
        )  # fmt: skip
        return model, weight / self.total_weight

    @property
    def total_weight(self) -> float:
        """The sum of the weights that `block_weight` returns, over all blocks."""
        return 1.0 if self.model is not None else float((self.size if self.weight is None else self.weight).sum())

    def block_of(self, samples: Array) -> Array:
        """Return the block of each sample."""
        return np.asarray(np.searchsorted(self.first, samples, side="right") - 1)

    def block_weight(self, block: int, within: Array | None) -> Array:
        """Return the weights of the samples of a block, not divided by their sum; `within` are those that it has."""
        if self.model is not None:
            return np.asarray(self.model.weight[self.first[block] : self.first[block + 1]])
        size = float(self.size[block])
        total = size if self.weight is None else float(self.weight[block])
        return np.full(int(size), total / size) if within is None else total * within

    def sample_name(self, sample: int) -> str:
        """Return what a sample is called where labels are known without drawing it; else its number."""
        if self.model is not None:
            return self.model.sample_name(sample)
        if isinstance(self.draw, _Files):
            block = int(self.block_of(np.array([sample]))[0])
            stem = Path(self.draw.files[block]).stem
            return stem if self.size[block] == 1 else f"{stem}, {sample - self.first[block]}"
        return str(sample)

    def __repr__(self) -> str:
        graph = repr(self.graph).removeprefix("Graph")[:-1]
        return f"Source{graph}, {self.samples} samples in {self.blocks} blocks)"

    def _draw_checked(self, block: int) -> UMDP:
        """Draw a block, and refuse one on another graph."""
        model = _call(self.draw, block, self._name(block))
        if model.graph is not self.graph and model.graph.fingerprint != self.graph.fingerprint:
            raise BadInput(
                f"{self._name(block)} has a graph with the fingerprint {model.graph.fingerprint}; "
                f"expected {self.graph.fingerprint}, that of the source"
            )
        if self.units not in (PLAIN, model.units):
            raise BadInput(f"{self._name(block)} was made of {model.units}; expected {self.units}, as the source says")
        return model

    def _name(self, block: int) -> str:
        """Return a block in words, for messages."""
        return f"block {block} ({self.draw.files[block]})" if isinstance(self.draw, _Files) else f"block {block}"


@dataclass(eq=False)
class Kept:
    """Samples of a source that are in memory: those that were last asked for, so that each is drawn once."""

    source: Source
    sample: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # [K]
    model: UMDP | None = None
    probability: Array = field(default_factory=lambda: np.zeros(0))  # [K] in the source

    @property
    def samples(self) -> int:
        """How many samples the source has."""
        return self.source.samples

    def part(self, samples: ArrayLike) -> tuple[UMDP, Array]:
        """Return a model of these samples, and their probabilities in the source. Those that are new are drawn."""
        index = index_array("sample", samples, self.samples)
        if self.model is None or not np.isin(self.sample, index).any():
            self.model, self.probability = self.source.part(index)
        elif not np.array_equal(index, self.sample):
            self._exchange(index, self.model)
        self.sample = index
        return self.model, self.probability

    def _exchange(self, index: Array, model: UMDP) -> None:
        """Keep what is asked for again, and draw the rest."""
        known, new = self.sample, index[~np.isin(index, self.sample)]
        prob, cost, probability = model.prob, model.cost, self.probability
        label = [model.sample_name(k) for k in range(model.samples)]
        if new.size:
            drawn, added = self.source.part(new)
            prob, cost = np.hstack([prob, drawn.prob]), np.hstack([cost, drawn.cost])
            probability, known = np.append(probability, added), np.append(known, new)
            label += [drawn.sample_name(k) for k in range(new.size)]
        order = np.argsort(known, kind="stable")
        place = order[np.searchsorted(known, index, sorter=order)]
        self.probability = probability[place]
        self.model = UMDP(
            model.graph, read_only(prob[:, place]), read_only(cost[:, place]), tuple(distinct(label[k] for k in place)),
            weight=self.probability if self.probability.any() else None, units=model.units,
        )  # fmt: skip


def block_seed(seed: int, block: int) -> int:
    """Return the seed of a block, which no other block has."""
    return int(np.random.SeedSequence(seed, spawn_key=(block,)).generate_state(1, np.uint64)[0])


@dataclass(frozen=True, eq=False)
class _Draws:
    """Blocks of what can be sampled."""

    sample: Callable[..., UMDP]  # draws a number of samples with a `seed`
    size: Array
    seed: int

    def __call__(self, block: int) -> UMDP:
        return self.sample(int(self.size[block]), seed=block_seed(self.seed, block))


def _draw_posterior(count: int, **given: Any) -> UMDP:
    """Draw posterior samples of counted transitions."""
    return from_counts(samples=count, **given)


@dataclass(frozen=True, eq=False)
class _Files:
    """Each file is a block."""

    files: tuple[str, ...]

    def __call__(self, block: int) -> UMDP:
        model = load(self.files[block])
        if not isinstance(model, UMDP):
            raise BadInput(f"it holds a {type(model).__name__}; expected a model")
        return model


@dataclass(frozen=True, eq=False)
class _PartsOfModel:
    """Parts of a model that is in memory."""

    model: UMDP
    first: Array  # [B+1]

    def __call__(self, block: int) -> UMDP:
        return self.model.subset(np.arange(self.first[block], self.first[block + 1]))


def _call(draw: Callable[[int], object], block: int, name: str) -> UMDP:
    """Draw a block. Whatever goes wrong is reported in one line, with its name."""
    try:
        model = draw(block)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error
    except Exception as error:
        raise BadInput(f"{name} cannot be drawn: {type(error).__name__}: {error}; expected a rue.UMDP") from error
    if not isinstance(model, UMDP):
        raise BadInput(f"{name} is a {type(model).__name__}; expected a rue.UMDP")
    return model


def _sizes(samples: int, block: int | None, graph: Graph | None) -> Array:
    """Return the sizes of blocks: all equal except the last."""
    count = whole_number("the number of samples", samples, 1)
    check_memory(f"the figures of {count} samples", SAMPLE_BYTES * count)
    if block is None and graph is not None:
        block = max(1, min(MOST_SAMPLES, MOST_NUMBERS // max(graph.transitions, 1)))
    each = min(whole_number("block", block, 1), count)
    size = np.full(-(-count // each), each, np.int64)
    size[-1] = count - each * (size.size - 1)
    return size


def _list_files(files: object) -> list[Path]:
    """Return the files that are listed, or the model files in a folder, by name."""
    if isinstance(files, str | os.PathLike):
        folder = text_path(files)
        if not folder.is_dir():
            raise BadInput(f"{folder}: there is no such folder; expected a folder, or a list of files")
        known = endings(UMDP)
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in known and path.is_file())
        if not paths:
            raise BadInput(f"{folder}: there is no file of a model in the folder; expected {' or '.join(known)}")
        return paths
    try:
        listed = [text_path(path) for path in files]  # type: ignore[attr-defined]
    except TypeError:
        raise BadInput(f"files is {files!r}; expected a folder, or a list of files") from None
    if not listed:
        raise BadInput("the list of files is empty; expected one at least")
    return listed
