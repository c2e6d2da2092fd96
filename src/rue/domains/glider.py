"""Underwater glider: to a goal through ocean currents that are known only as the forecasts of a day.

A state is a square cell of the sea, an action a heading. With v_g(a) the glider's velocity through the water and v_c(s)
the current at the centre x_s of a cell, a step of Δt ends at

    x' ~ N(x_s + (v_g(a) + v_c(s)) Δt, σ² I),

and the probability of a cell is that of its square, Φ((right − m)/σ) − Φ((left − m)/σ) in each of the two directions,
multiplied. A probability below `threshold` is dropped and the others are divided by their sum. After that, outcomes
outside the region or on land stay in the cell. Entering a cell costs an amount drawn once from [0.8, 1], and 3 more
where the sea is less than 260 m deep and the sample's current is above 0.12 m/s; staying costs as much as entering.

The paper's 12 training samples are the hourly forecasts of a day, 06 to 17 h: `training()`. Unseen samples, `sample`,
are taken at a random time between the first and the last of them, linear between forecasts, with Gaussian noise of 2 %
of the current's speed on each component in each cell (the paper's test set). The noise is cut at four standard
deviations, so that the current is bounded: a transition of the graph is one that some current within the bounds of
its cell, over all hours and all days of the data, can make likely enough. So all samples of all days have one graph,
and another day is a test set too: `replace(domain, day=1).training()`.

What the paper leaves open, and our choice: the region lies inside the box (or is centred on it, where it is larger), a
cell is sea if the nearest point of the data is, and sea that is cut off from the largest piece counts as land. Region,
start and goal are drawn until the goal can be reached surely in every forecast of all days.

The built-in currents are not the paper's (a Copernicus forecast for 1 May 2020) but MET Norway's NorKyst-800 of 16 to
18 November 2015, in the same place. Times are UTC.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rue._arrays import Array, pointers
from rue._check import real_number, whole_number
from rue.domains.base import Domain
from rue.domains.ocean import Currents, check_box, clock, read_currents
from rue.errors import BadInput
from rue.model import UMDP, Graph

BUILT_IN = Path(__file__).parent / "data" / "norkyst.npz"
EARTH = 6_371_000.0  # m, its radius
DAY, HOUR = 86_400.0, 3_600.0
NOISE_LIMIT = 4.0  # standard deviations of the noise on currents
DRAWS = 100
BLOCK = 16  # samples at a time, to save memory


@dataclass(frozen=True)
class Glider(Domain):
    """A glider in a region of `width` × `height` cells. Lengths in m, speeds in m/s, places in degrees."""

    name: ClassVar[str] = "glider"
    draws_training: ClassVar[bool] = False
    file_parameters: ClassVar[tuple[str, ...]] = ("data", "bathymetry")
    width: int = 16
    height: int = 16
    day: int = 0  # of those in the data, the first is 0
    data: str | None = None  # a NetCDF file, or an .npz of Currents.save; None: the built-in currents
    bathymetry: str | None = None  # a second NetCDF file, where the first has no depths
    south: float = 61.1
    north: float = 61.2
    west: float = 4.5
    east: float = 4.65
    start: int | None = None  # row * width + column, row 0 in the north; None: drawn
    goal: int | None = None
    apart: float = 0.5  # start and goal at least, as a share of the longer side
    cell: float = 500.0
    headings: int = 12
    speed: float = 0.6
    seconds: float = 800.0
    strength: float = 1.0  # a factor on all currents: a diving glider feels less than the surface does
    noise: float = 150.0
    entry_low: float = 0.8
    entry_high: float = 1.0
    shallow: float = 260.0
    strong: float = 0.12
    penalty: float = 3.0
    first_hour: int = 6
    hours: int = 12
    current_noise: float = 0.02
    threshold: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("width", self.width, 2, 128)
        whole_number("height", self.height, 2, 128)
        whole_number("day", self.day, 0)
        check_box((self.south, self.north, self.west, self.east))
        for name in ("data", "bathymetry"):
            if not isinstance(getattr(self, name), str | None):
                raise BadInput(f"{name} is {getattr(self, name)!r}; expected the name of a file")
        for name in ("start", "goal"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 0, self.width * self.height - 1)
        if self.start is not None and self.start == self.goal:
            raise BadInput(f"start and goal are both {self.start}; expected two cells")
        real_number("apart", self.apart, "0 to 1", 0, 1)
        real_number("cell", self.cell, "metres, 1 or more", 1)
        whole_number("headings", self.headings, 3, 360)
        real_number("speed", self.speed, "metres per second, 0 to 10", 0, 10)
        real_number("seconds", self.seconds, "1 or more", 1)
        real_number("strength", self.strength, "0 to 10", 0, 10)
        real_number(
            "noise", self.noise, "metres, from a thousandth of a cell to two cells", self.cell / 1000, 2 * self.cell
        )
        real_number("entry_low", self.entry_low, "0 or more", 0)
        real_number("entry_high", self.entry_high, "entry_low or more", self.entry_low)
        for name in ("shallow", "strong", "penalty"):
            real_number(name, getattr(self, name), "0 or more", 0)
        whole_number("first_hour", self.first_hour, 0, 23)
        whole_number("hours", self.hours, 1, 24 - self.first_hour)
        real_number("current_noise", self.current_noise, "0 to 1", 0, 1)
        # The likeliest cell has more than this: noise of two cells around a corner leaves 0.03 to each beside it.
        real_number("threshold", self.threshold, "1e-9 to 0.01", 1e-9, 0.01)

    @property
    def rough_size(self) -> int:
        """A cell and those around it, for each heading and cell."""
        return self.width * self.height * self.headings * 9

    @cached_property
    def graph(self) -> Graph:
        """One state for each cell of the sea, `headings` choices each but for the goal."""
        return self._motion.graph

    @cached_property
    def region(self) -> "Region":
        """The cells, the sea, start and goal, and the costs of entering."""
        return self._motion.region

    @property
    def credit(self) -> str:
        """The source of the currents."""
        return self._currents.credit

    def training(self, count: int | None = None, *, seed: int = 0) -> UMDP:
        """Return the forecasts of the day, one sample for each hour; with a `count`, that many, evenly spread.

        The seed has no effect: forecasts are given, not drawn.
        """
        wanted = self.hours if count is None else whole_number("the number of forecasts", count, 1, self.hours)
        time = self.forecast_time()[np.linspace(0, self.hours - 1, wanted).round().astype(np.int64)]
        return self._motion.forecasts(self, time)

    def sample(self, count: int, *, seed: int) -> UMDP:
        """Draw `count` unseen samples: currents at random times between the forecasts of the day, with noise."""
        rng = self.random(count, seed)
        forecast = self.forecast_time()
        time = rng.uniform(forecast[0], forecast[-1], count)
        east, north = self.region.water_of_states(time)  # [S, K]
        noise = rng.standard_normal((2, *east.shape)).clip(-NOISE_LIMIT, NOISE_LIMIT)
        noise *= self.current_noise * np.hypot(east, north)
        names = tuple(f"{k}: {clock(moment)}" for k, moment in enumerate(time))
        return self._motion.model(self, east + noise[0], north + noise[1], names)

    @cached_property
    def _currents(self) -> Currents:
        if self.data is None:
            return _built_in()
        if self.data.endswith(".npz"):
            return Currents.load(self.data)
        return read_currents(self.data, bathymetry=self.bathymetry, box=self._reach())

    def _reach(self) -> tuple[float, float, float, float]:
        """Return the box of all regions that may be drawn, with a cell around."""
        middle, half = self._middle()
        reach = (half + self.cell * (np.array([self.height, self.width]) / 2 + 1)) / _metres(middle[0])
        (south, west), (north, east) = middle - reach, middle + reach
        return south, north, west, east

    def _middle(self) -> tuple[Array, Array]:
        """Return the middle of the box in degrees, and how far from it, in metres, that of a region may be."""
        middle = np.array([self.south + self.north, self.west + self.east]) / 2
        side = np.array([self.north - self.south, self.east - self.west]) * _metres(middle[0])
        return middle, np.maximum(side - self.cell * np.array([self.height, self.width]), 0.0) / 2

    @property
    def days(self) -> int:
        """How many days of the data have a forecast for every hour."""
        return int(self._midnights.size)

    def forecast_time(self, day: int | None = None) -> Array:
        """Return when the forecasts of a day are, in seconds since 1970; `self.day` unless another is given."""
        number = whole_number("day", self.day if day is None else day, 0, self.days - 1)
        return np.asarray(self._midnights[number] + self._hours)

    @cached_property
    def _midnights(self) -> Array:
        """The days for which there is a forecast within half an hour of each of the hours."""
        time = self._currents.time
        midnight = np.arange(time[0] // DAY, time[-1] // DAY + 1) * DAY
        wanted = midnight[:, None] + self._hours
        near = np.abs(time[None, None] - wanted[:, :, None]).min(axis=2) <= HOUR / 2
        whole = near.all(axis=1) & (wanted[:, 0] >= time[0]) & (wanted[:, -1] <= time[-1])
        if not whole.any():
            raise BadInput(
                f"the currents have no day with every hour from {self.first_hour:02} to "
                f"{self.first_hour + self.hours - 1:02} h (UTC); they go from {clock(time[0])} to {clock(time[-1])}"
            )
        return np.asarray(midnight[whole])

    @property
    def _hours(self) -> Array:
        return (self.first_hour + np.arange(self.hours)) * HOUR

    @cached_property
    def _motion(self) -> "_Motion":
        """The region and the graph, drawn until the goal can be reached in all forecasts."""
        self.forecast_time()  # report errors in the data before anything is drawn
        rng = np.random.default_rng(self.seed)
        fixed = self.start is not None and self.goal is not None and not self._middle()[1].any()
        reason = ""
        for _ in range(1 if fixed else DRAWS):
            try:
                motion = _Motion.of(self, self._draw(rng))
                for day in range(self.days):
                    motion.forecasts(self, self.forecast_time(day))
            except BadInput as error:
                reason = str(error)
            else:
                return motion
        if fixed:
            raise BadInput(reason)
        raise BadInput(f"none of {DRAWS} draws of a region with start and goal can be used; the last: {reason}")

    def _draw(self, rng: np.random.Generator) -> "Region":
        """Draw a place for the region, then start and goal in it, then the cost of entering each cell."""
        middle, half = self._middle()
        middle = middle + rng.uniform(-half, half) / _metres(middle[0])
        row, column = np.divmod(np.arange(self.width * self.height), self.width)
        place = np.stack([(self.height - 1) / 2 - row, column - (self.width - 1) / 2], axis=1) * self.cell
        latitude, longitude = (middle + place / _metres(middle[0])).T.reshape(2, self.height, self.width)
        water = self._currents.at(latitude, longitude)
        water = replace(water, east=self.strength * water.east, north=self.strength * water.north)
        sea = _largest_piece(water.sea).ravel()
        where = f"the region at {middle[0]:.4f} N {middle[1]:.4f} E"
        if sea.sum() < 2:
            raise BadInput(f"{where} is all land; expected some cells of sea")
        start, goal = self._draw_ends(rng, sea, where)
        entry = rng.uniform(self.entry_low, self.entry_high, sea.size)
        return Region(water, sea, start, goal, entry)

    def _draw_ends(self, rng: np.random.Generator, sea: Array, where: str) -> tuple[int, int]:
        """Start and goal, as given or drawn from the cells of the sea that are far enough from the other."""
        ends = {"start": self.start, "goal": self.goal}
        for name, end in ends.items():
            if end is not None and not sea[end]:
                raise BadInput(f"the {name}, cell {end} of {where}, is land or cut off; expected a cell of sea")
        cells = np.flatnonzero(sea)
        row, column = np.divmod(cells, self.width)
        least = max(self.apart * max(self.width, self.height), 1.0)
        for name, other in (("start", "goal"), ("goal", "start")):
            if ends[name] is not None:
                continue
            far, anchor = cells, ends[other]
            if anchor is not None:
                far = cells[np.hypot(row - anchor // self.width, column - anchor % self.width) >= least]
            if far.size == 0:
                raise BadInput(f"no cell of {where} is {least:g} cells from cell {anchor}; expected a smaller apart")
            ends[name] = int(far[rng.integers(far.size)])
        assert ends["start"] is not None and ends["goal"] is not None
        return ends["start"], ends["goal"]


@dataclass(frozen=True, eq=False)
class Region:
    """Cells numbered row by row from the north-west."""

    water: Currents  # at the cells' centres, at all times of the data
    sea: Array  # [cells]; without pieces that are cut off
    start: int  # a cell
    goal: int  # a cell
    entry: Array  # [cells], the cost of entering

    @cached_property
    def cells(self) -> Array:  # [S]
        """The cell of each state."""
        return np.flatnonzero(self.sea)

    @cached_property
    def depth(self) -> Array:  # [S]
        """The depth at each state."""
        return np.asarray(self.water.depth.ravel()[self.cells])

    def water_of_states(self, time: Array) -> tuple[Array, Array]:  # [S, K] each
        """Return the currents of all states at these times."""
        east, north = (field.reshape(time.size, -1)[:, self.cells].T for field in self.water.when(time))
        return east, north


@dataclass(frozen=True, eq=False)
class _Motion:
    """Where each heading can lead from each state: its outcomes, and the transitions they add up to.

    An outcome is a cell some columns to the east and some rows to the north. Outcomes are sorted by transition; all
    that stay put belong to one.
    """

    region: Region
    graph: Graph
    edge: Array  # [J+1], of cells in one direction, in metres from the centre of the one where the glider is
    outcome_ptr: Array  # [T+1]
    outcome_choice: Array  # [O]
    to_east: Array  # [O], an index of an interval between edges
    to_north: Array  # [O]

    @classmethod
    def of(cls, domain: Glider, region: Region) -> "_Motion":
        """Return all outcomes that some current within its bounds makes likely enough."""
        state = np.repeat(np.flatnonzero(region.cells != region.goal), domain.headings)
        action = np.tile(np.arange(domain.headings), region.cells.size - 1)
        drifts = [
            ((sail + low[state]) * domain.seconds, (sail + high[state]) * domain.seconds)
            for sail, (low, high) in zip(_sail(domain, action), _bounds(domain, region), strict=True)
        ]  # the least and the largest, east and north
        edge = _edges(domain, float(np.abs(drifts).max()))
        # A little below the threshold: rounding must not lose an outcome that a sample then has.
        likely = domain.threshold * (1 - 1e-9)
        best_east, best_north = (_best_chance(edge, *drift, domain.noise) for drift in drifts)
        choice, rise, right = np.nonzero(best_north[:, :, None] * best_east[:, None, :] >= likely)
        middle = (edge.size - 2) // 2
        row, column = np.divmod(region.cells[state[choice]], domain.width)
        row, column = row - (rise - middle), column + (right - middle)
        inside = (row >= 0) & (row < domain.height) & (column >= 0) & (column < domain.width)
        target = np.where(inside, row * domain.width + column, 0)
        number = np.cumsum(region.sea) - 1  # the state of each cell of sea
        successor = np.where(inside & region.sea[target], number[target], state[choice])
        order = np.lexsort((successor, choice))
        choice, successor, rise, right = (array[order] for array in (choice, successor, rise, right))
        first = np.flatnonzero(np.diff(choice, prepend=-1) | np.diff(successor, prepend=-1))
        length = np.bincount(choice[first], minlength=state.size)
        graph = Graph(
            choice_ptr=pointers((region.cells != region.goal) * domain.headings),
            action=action,
            trans_ptr=pointers(length),
            successor=successor[first],
            initial=int(number[region.start]),
            state_label=tuple(f"(row {cell // domain.width}, column {cell % domain.width})" for cell in region.cells),
            action_label=tuple(f"{360 * a / domain.headings:03.4g}°" for a in range(domain.headings)),
            layout=_layout(domain, region),
        )
        return cls(region, graph, edge, np.append(first, choice.size), choice, right, rise)

    def forecasts(self, domain: Glider, time: Array) -> UMDP:
        """Return the model with the currents of these times."""
        return self.model(domain, *self.region.water_of_states(time), tuple(clock(moment) for moment in time))

    def model(self, domain: Glider, east: Array, north: Array, names: tuple[str, ...]) -> UMDP:
        """Return the model with these currents, [S, K] each."""
        graph, samples = self.graph, east.shape[1]
        prob, cost = np.empty((graph.transitions, samples)), np.empty((graph.choices, samples))
        entry = self.region.entry[self.region.cells][:, None] + domain.penalty * (
            (self.region.depth < domain.shallow)[:, None] & (np.hypot(east, north) > domain.strong)
        )  # [S, K]
        for k in range(0, samples, BLOCK):
            part = slice(k, k + BLOCK)
            prob[:, part] = self._chance(domain, east[:, part], north[:, part])
        np.add.reduceat(prob * entry[graph.successor], graph.trans_ptr[:-1], axis=0, out=cost)
        prob.flags.writeable = cost.flags.writeable = False
        return UMDP(graph, prob, cost, names, {"entry_cost": entry, "east": east, "north": north})

    def _chance(self, domain: Glider, east: Array, north: Array) -> Array:  # [T, K]
        """Return the probability of each transition."""
        graph = self.graph
        sails, flows, indices = _sail(domain, graph.action), (east, north), (self.to_east, self.to_north)
        chance = np.ones((self.outcome_choice.size, east.shape[1]))
        for sail, flow, index in zip(sails, flows, indices, strict=True):
            drift = (sail[:, None] + flow[graph.choice_state]) * domain.seconds  # [C, K]
            chance *= _interval_chance(self.edge, drift, domain.noise)[self.outcome_choice, index]
        chance[chance < domain.threshold] = 0.0
        start = np.flatnonzero(np.diff(self.outcome_choice, prepend=-1))
        chance /= np.add.reduceat(chance, start, axis=0)[self.outcome_choice]
        return np.add.reduceat(chance, self.outcome_ptr[:-1], axis=0)


@cache
def _built_in() -> Currents:
    return Currents.load(BUILT_IN)


def _metres(latitude: float) -> Array:
    """Return the length of one degree of latitude and of longitude."""
    return np.array([1.0, float(np.cos(np.deg2rad(latitude)))]) * (EARTH * np.pi / 180)


def _largest_piece(sea: Array) -> Array:
    """Return the largest piece of sea, where cells that share a side or a corner are connected."""
    from scipy.ndimage import label  # slow to import, and needed only here

    piece, count = label(sea, np.ones((3, 3)))
    return np.asarray(piece == 1 + np.bincount(piece[sea] - 1).argmax()) if count else sea


def _sail(domain: Glider, action: Array) -> tuple[Array, Array]:
    """Return the glider's velocity through the water, east and north; heading 0 is north, and they go clockwise."""
    angle = 2 * np.pi * action / domain.headings
    return domain.speed * np.sin(angle), domain.speed * np.cos(angle)


def _bounds(domain: Glider, region: Region) -> list[tuple[Array, Array]]:
    """Return the least and the largest current of each state, east and north, in all samples of all days.

    Between two forecasts a component is between theirs and the speed below the larger; then comes the noise.
    """
    time = np.concatenate([domain.forecast_time(day) for day in range(domain.days)])
    flows = region.water_of_states(time)
    spare = NOISE_LIMIT * domain.current_noise * np.hypot(*flows).max(axis=1) + 1e-9
    return [(flow.min(axis=1) - spare, flow.max(axis=1) + spare) for flow in flows]


def _edges(domain: Glider, farthest: float) -> Array:
    """Return the edges of all cells that a mean displacement of at most this can give a likely outcome."""
    from scipy.special import ndtri  # slow to import

    reach = farthest - float(ndtri(domain.threshold)) * domain.noise
    cells = int(np.ceil(reach / domain.cell)) + 1
    return (np.arange(-cells, cells + 2) - 0.5) * domain.cell


def _interval_chance(edge: Array, mean: Array, noise: float) -> Array:  # [C, J, K]
    """Return the probability of each interval between edges for means [C, K]."""
    from scipy.special import ndtr

    below = ndtr((edge[None, :, None] - mean[:, None, :]) / noise)
    return np.asarray(np.diff(below, axis=1))


def _best_chance(edge: Array, low: Array, high: Array, noise: float) -> Array:  # [C, J]
    """Return the largest probability of each interval over all means from low to high."""
    from scipy.special import ndtr

    mean = np.clip((edge[:-1] + edge[1:]) / 2, low[:, None], high[:, None])
    return np.asarray(ndtr((edge[1:] - mean) / noise) - ndtr((edge[:-1] - mean) / noise))


def _layout(domain: Glider, region: Region) -> dict[str, Any]:
    """Return what a map needs, in plain numbers: land has no depth."""
    water = region.water
    return {
        "domain": domain.spec,
        "grid": [domain.height, domain.width],
        "heading": [360 * action / domain.headings for action in range(domain.headings)],
        "cell": region.cells.tolist(),
        "cell_size": domain.cell,
        "start": region.start,
        "goal": region.goal,
        "latitude": [round(float(water.latitude[row, 0]), 6) for row in range(domain.height)],
        "longitude": [round(float(water.longitude[0, column]), 6) for column in range(domain.width)],
        "depth": [None if np.isnan(depth) else round(float(depth), 1) for depth in water.depth.ravel()],
        "shallow": domain.shallow,
        "credit": water.credit,
    }
