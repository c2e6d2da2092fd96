"""Ocean currents and depth, from NetCDF files of ocean models or from rue's own small `.npz`.

`read_currents` finds variables by their CF standard name, then by name, and gives the current towards east and north:
as the file has it, or turned from the axes of the file's grid. With E_x the unit vector (east, north) along the grid's
x axis and E_y the one along its y axis, both from differences of latitude and longitude between grid points,

    (east, north) = u E_x + v E_y,

which holds for any projection. Latitude and longitude may have one axis or two, in either order. A grid point is sea if
both components are defined at every time and its depth is known and positive.

Reading NetCDF needs xarray (the extra `ocean`); `Currents.load` does not.
"""

import importlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rue._arrays import Array
from rue._check import in_all, real_number
from rue.errors import BadFile, BadInput

# What each variable is called: CF standard names, then plain names.
EAST = (("eastward_sea_water_velocity",), ("uo", "u_eastward"))
NORTH = (("northward_sea_water_velocity",), ("vo", "v_northward"))
GRID_X = (("x_sea_water_velocity", "sea_water_x_velocity"), ("u", "vxo"))
GRID_Y = (("y_sea_water_velocity", "sea_water_y_velocity"), ("v", "vyo"))
FLOOR = (
    ("sea_floor_depth_below_geoid", "sea_floor_depth_below_sea_level", "model_sea_floor_depth_below_geoid"),
    ("deptho", "h", "model_depth"),
)
LATITUDE = (("latitude",), ("lat", "latitude", "nav_lat"))
LONGITUDE = (("longitude",), ("lon", "longitude", "nav_lon"))
TIME = (("time",), ("time", "ocean_time"))
LEVEL = ("depth", "elevation", "deptht", "depthu", "depthv", "lev", "level", "z")
SPEED_UNITS = ("m s-1", "m/s", "m s^-1", "m.s-1", "meter second-1", "metre second-1", "meters second-1", "m s**-1")
# In the `.npz`: speeds in mm/s, depths in cm, places in millionths of a degree (a tenth of a metre).
SPEED_UNIT, DEPTH_UNIT, DEGREE_UNIT = 1e-3, 1e-2, 1e-6
LAND = np.iinfo(np.int16).min
LARGEST_SPEED = 32.0
FORMAT = "rue-currents-1"
# A place found to be this far outside the grid, in grid cells, is on its border: it is rounding.
BORDER = 1e-6
NEWTON_STEPS = 30

Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Currents:
    """The current at H times on a grid of Y × X places, and the depth there. Land is nan in both components."""

    time: Array  # [H], seconds since 1970, UTC
    latitude: Array  # [Y, X], degrees
    longitude: Array  # [Y, X], degrees
    east: Array  # [H, Y, X], m/s
    north: Array  # [H, Y, X], m/s
    depth: Array  # [Y, X], of the sea floor, m
    credit: str

    def __post_init__(self) -> None:
        for name in ("time", "latitude", "longitude", "east", "north", "depth"):
            array = np.array(getattr(self, name), np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        shape = self.latitude.shape
        flow = (self.time.size, *shape)
        for name, wanted in {"longitude": shape, "depth": shape, "east": flow, "north": flow}.items():
            if getattr(self, name).shape != wanted or len(shape) != 2:
                raise BadInput(f"{name} of the currents has shape {getattr(self, name).shape}; expected {wanted}")
        if self.time.size == 0 or (np.diff(self.time) <= 0).any():
            raise BadInput("the times of the currents do not rise; expected at least one, each later than the last")

    def __repr__(self) -> str:
        hours, rows, columns = self.east.shape
        first, last = clock(self.time[0]), clock(self.time[-1])
        return f"Currents({hours} times from {first} to {last}, {rows} x {columns} places)"

    @cached_property
    def sea(self) -> Array:  # [Y, X]
        """Where there is sea: both components defined at all times, and the depth known and positive."""
        flows = np.isfinite(self.east).all(axis=0) & np.isfinite(self.north).all(axis=0)
        return np.asarray(flows & (self.depth > 0))

    def at(self, latitude: Array, longitude: Array) -> "Currents":
        """Return the currents and depths at other places, [Y, X] each.

        Bilinear between the four grid points around a place. A place is sea if the nearest of the four is; then land
        points among the four are left out and the weights of the others are divided by their sum.
        """
        row, column = locate(self.latitude, self.longitude, latitude, longitude)
        outside = np.isnan(row)
        if outside.any():
            place = np.flatnonzero(outside.ravel())[0]
            raise BadInput(
                f"the place {latitude.flat[place]:.4f} N {longitude.flat[place]:.4f} E is outside the currents' grid; "
                f"expected a place on it, {_extent(self.latitude, self.longitude)}; "
                f"{in_all(int(outside.sum()), 'place')}"
            )
        corner, weight, sea = _weights(row, column, self.sea)

        def mean(field: Array) -> Array:  # [H, Y, X]
            known = np.nan_to_num(field.reshape(len(field), -1))
            return np.where(sea, sum(known[:, corner[i]] * weight[i] for i in range(4)), np.nan)

        east, north, depth = mean(self.east), mean(self.north), mean(self.depth[None])[0]
        return Currents(self.time, latitude, longitude, east, north, depth, self.credit)

    def when(self, time: Array) -> tuple[Array, Array]:  # [times, Y, X] each
        """Return east and north at other times, in seconds since 1970 and in any order, by linear interpolation."""
        time = np.asarray(time, float)
        if time.min() < self.time[0] or time.max() > self.time[-1]:
            off = time.min() if time.min() < self.time[0] else time.max()
            raise BadInput(
                f"there are no currents at {clock(off)}; expected {clock(self.time[0])} to {clock(self.time[-1])} (UTC)"
            )
        earlier = np.clip(np.searchsorted(self.time, time, side="right") - 1, 0, self.time.size - 1)
        later = np.minimum(earlier + 1, self.time.size - 1)
        gap = np.where(later > earlier, self.time[later] - self.time[earlier], 1.0)
        share = ((time - self.time[earlier]) / gap)[:, None, None]
        east, north = ((1 - share) * field[earlier] + share * field[later] for field in (self.east, self.north))
        return east, north

    def save(self, path: str | Path) -> None:
        """Write a compact `.npz`: speeds to 1 mm/s, depths to 1 cm, places to a millionth of a degree."""
        if np.nanmax(np.abs([self.east, self.north]), initial=0.0) > LARGEST_SPEED:
            raise BadInput(f"a current is faster than {LARGEST_SPEED:g} m/s; expected metres per second")
        arrays = {
            "format": np.array(FORMAT),
            "credit": np.array(self.credit),
            "time": np.rint(self.time).astype(np.int64),
            "latitude": np.rint(self.latitude / DEGREE_UNIT).astype(np.int32),
            "longitude": np.rint(self.longitude / DEGREE_UNIT).astype(np.int32),
            "depth": np.rint(np.where(self.sea, self.depth, 0.0) / DEPTH_UNIT).astype(np.int32),
            "east": _pack(self.east, self.sea),
            "north": _pack(self.north, self.sea),
        }
        try:
            with Path(path).open("wb") as stream:
                np.savez_compressed(stream, **arrays)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written ({error.strerror})") from None

    @classmethod
    def load(cls, path: str | Path) -> "Currents":
        """Read what `save` wrote."""
        _check_there(Path(path))
        try:
            with np.load(path, allow_pickle=False) as file:
                if str(file["format"]) != FORMAT:
                    raise ValueError(f"the format is {file['format']}")
                place = file["latitude"] * DEGREE_UNIT, file["longitude"] * DEGREE_UNIT
                flow = _unpack(file["east"]), _unpack(file["north"])
                depth = np.where(file["depth"] > 0, file["depth"] * DEPTH_UNIT, np.nan)
                return cls(file["time"], *place, *flow, depth, str(file["credit"]))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise BadFile(f"{path}: {error}; expected a file written by Currents.save") from None


def read_currents(
    path: str | Path,
    *,
    bathymetry: str | Path | None = None,
    box: Box | None = None,
    times: tuple[str, str] | None = None,
    depth: float = 0.0,
) -> Currents:
    """Read currents and depth from a NetCDF file of an ocean model (NorKyst and other ROMS, Copernicus Marine).

    `box` is (south, north, west, east) in degrees and must lie inside the file; `times` the first and the last time,
    as in "2015-11-16T06:00", both included (UTC). Of several depth levels the nearest to `depth` is taken. A second
    file may hold the `bathymetry`; on another grid it is interpolated.
    """
    real_number("depth", depth, "metres below the surface, 0 or more", 0)
    with _open(path) as data:
        latitude, longitude, across = _places(data, path)
        rows, columns = _window(latitude, longitude, box, path)
        latitude, longitude = latitude[rows, columns], longitude[rows, columns]
        time, hours = _times(data, times, path)
        part = data.isel({across[0]: rows, across[1]: columns})
        cut = _Cut(part, across, hours, float(depth), str(path))
        east, north = _east_north(cut, latitude, longitude)
        if bathymetry is not None:
            level = _floor(bathymetry, latitude, longitude)
        elif (floor := _find(part, FLOOR)) is not None:
            level = cut.plane(floor)
        else:
            raise BadInput(
                f"{path}: there is no bathymetry ({_names(FLOOR)}); expected one there or in bathymetry=FILE"
            )
        level = np.where(np.isfinite(level) & (level > 0), level, np.nan)
        currents = Currents(time, latitude, longitude, east, north, level, _credit(data))
    return replace(currents, east=np.where(currents.sea, east, np.nan), north=np.where(currents.sea, north, np.nan))


def clock(time: float) -> str:
    """Return a time in words: `2015-11-16 06:00 UTC`."""
    return str(np.datetime64(round(float(time)), "s"))[:16].replace("T", " ") + " UTC"


def locate(grid_latitude: Array, grid_longitude: Array, latitude: Array, longitude: Array) -> tuple[Array, Array]:
    """Return row and column of places on a grid as fractions; nan outside the grid.

    The grid need not lie along parallels and meridians. Newton's method on the bilinear map of the grid cell that holds
    the current guess, from the nearest grid point. By hand, since scipy interpolates on triangles, which gives other
    currents than the model's bilinear cells.
    """
    from scipy.spatial import cKDTree  # slow to import, and needed here alone

    def chart(latitude: Array, longitude: Array) -> Array:
        """Return east and north of the grid's middle, in degrees of latitude: a plane with nearly square grid cells.

        Grid and places go through the same map, so that its distortion over the whole grid does not matter.
        """
        middle = float(grid_longitude.flat[grid_longitude.size // 2])
        turn = (np.asarray(longitude, float) - middle + 180.0) % 360.0 - 180.0
        shrink = np.cos(np.deg2rad(grid_latitude.mean()))
        return np.stack([turn * shrink, np.asarray(latitude, float) - grid_latitude.mean()])

    rows, columns = grid_latitude.shape
    plane = chart(grid_latitude, grid_longitude)  # [2, Y, X]
    target = chart(latitude, longitude).reshape(2, -1)
    _, nearest = cKDTree(plane.reshape(2, -1).T).query(target.T)
    row, column = (index.astype(float) for index in np.divmod(nearest, columns))
    size = sum(float(np.median(np.abs(np.diff(plane, axis=axis)).sum(axis=0))) for axis in (1, 2))
    for _ in range(NEWTON_STEPS):
        place, down, right = _bilinear(plane, row, column)
        miss = target - place
        area = down[0] * right[1] - down[1] * right[0]
        area = np.where(np.abs(area) > 1e-12 * size**2, area, np.inf)
        row = np.clip(row + (miss[0] * right[1] - miss[1] * right[0]) / area, -1.0, rows)
        column = np.clip(column + (down[0] * miss[1] - down[1] * miss[0]) / area, -1.0, columns)
        if np.abs(miss).max() < 1e-12 * size:
            break
    missed = np.abs(target - _bilinear(plane, row, column)[0]).max(axis=0) > BORDER * size
    inside = ~missed & (row > -BORDER) & (row < rows - 1 + BORDER)
    inside &= (column > -BORDER) & (column < columns - 1 + BORDER)
    shape = np.shape(latitude)
    row = np.where(inside, np.clip(row, 0, rows - 1), np.nan).reshape(shape)
    return row, np.where(inside, np.clip(column, 0, columns - 1), np.nan).reshape(shape)


def _cell(row: Array, column: Array, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
    """Return the first row and column of the grid cell that holds each place, and how far down and right it lies."""
    top, left = (np.clip(np.floor(x), 0, n - 2).astype(np.int64) for x, n in zip((row, column), shape, strict=True))
    return top, left, row - top, column - left


def _bilinear(plane: Array, row: Array, column: Array) -> tuple[Array, Array, Array]:
    """Return the point of the plane at fractional row and column, and its derivatives by both."""
    top, left, down, right = _cell(row, column, plane.shape[1:])
    a, b = plane[:, top, left], plane[:, top, left + 1]
    c, d = plane[:, top + 1, left], plane[:, top + 1, left + 1]
    place = (1 - down) * ((1 - right) * a + right * b) + down * ((1 - right) * c + right * d)
    return place, (1 - right) * (c - a) + right * (d - b), (1 - down) * (b - a) + down * (d - c)


def _weights(row: Array, column: Array, sea: Array) -> tuple[Array, Array, Array]:
    """Return the four grid points around each place, their weights without land, and which places are sea."""
    top, left, down, right = _cell(row, column, sea.shape)
    corner = np.stack([(top + i) * sea.shape[1] + left + j for i in (0, 1) for j in (0, 1)])
    weight = np.stack([(down if i else 1 - down) * (right if j else 1 - right) for i in (0, 1) for j in (0, 1)])
    wet = np.take_along_axis(sea.ravel()[corner], weight.argmax(axis=0)[None], axis=0)[0]
    weight = weight * sea.ravel()[corner]
    return corner, weight / np.where(wet, weight.sum(axis=0), 1.0), wet


def _pack(field: Array, sea: Array) -> Array:
    """Return whole mm/s with a mark for land, as differences in time, which compress well (sums wrap to the same)."""
    whole = np.where(sea, np.rint(np.where(sea, field, 0.0) / SPEED_UNIT), LAND).astype(np.int16)
    return np.asarray(np.diff(whole, axis=0, prepend=np.zeros((1, *sea.shape), np.int16)))


def _unpack(packed: Array) -> Array:
    whole = np.cumsum(packed, axis=0, dtype=np.int16)
    return np.where(whole == LAND, np.nan, whole * SPEED_UNIT)


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")


def _open(path: str | Path) -> Any:
    try:
        xarray = importlib.import_module("xarray")
    except ImportError:
        raise BadInput(
            f"{path}: NetCDF files are read with xarray, which is not installed; expected rue with its extra 'ocean' "
            "(pip install 'rue[ocean]')"
        ) from None
    _check_there(Path(path))
    try:
        return xarray.open_dataset(path, decode_timedelta=False)
    except Exception as error:  # the backends of xarray raise errors of many kinds
        raise BadFile(f"{path}: cannot be read ({str(error)[:200]}); expected a NetCDF file") from None


def _find(data: Any, what: tuple[Sequence[str], Sequence[str]]) -> Any:
    """Return the variable with one of these standard names, then one with these names; None if there is neither.

    Of several with the same standard name (a current and its tidal part, say) the one with a known name is taken.
    """
    standard, plain = what
    for wanted in standard:
        found = [name for name, variable in data.variables.items() if variable.attrs.get("standard_name") == wanted]
        if found:
            return data[next((name for name in found if name in plain), found[0])]
    return next((data[name] for name in plain if name in data.variables), None)


def _names(what: tuple[Sequence[str], Sequence[str]]) -> str:
    return ", ".join((*what[0], *what[1]))


def _places(data: Any, path: str | Path) -> tuple[Array, Array, tuple[str, str]]:
    """Return latitude and longitude as [Y, X] each, and the names of these two axes."""
    latitude, longitude = _find(data, LATITUDE), _find(data, LONGITUDE)
    if latitude is None or longitude is None:
        missing = "latitude" if latitude is None else "longitude"
        raise BadInput(f"{path}: there is no {missing}; expected {_names(LATITUDE)} and {_names(LONGITUDE)}")
    axes = tuple(dict.fromkeys((*latitude.dims, *longitude.dims)))
    if len(axes) != 2:
        raise BadInput(
            f"{path}: latitude and longitude have the axes {latitude.dims} and {longitude.dims}; expected one or two"
        )
    north, east = (
        np.asarray(place.broadcast_like(other).transpose(*axes).values, float)
        for place, other in ((latitude, longitude), (longitude, latitude))
    )
    if min(north.shape) < 2:
        raise BadInput(f"{path}: the grid has {north.shape[0]} x {north.shape[1]} points; expected 2 x 2 or more")
    if not (np.isfinite(north).all() and np.isfinite(east).all()):
        raise BadInput(f"{path}: latitude or longitude is missing at some grid points; expected it at all")
    return north, east, (str(axes[0]), str(axes[1]))


def _window(latitude: Array, longitude: Array, box: Box | None, path: str | Path) -> tuple[slice, slice]:
    """Return the rows and columns that hold the box, with one more on each side where there is one."""
    if box is None:
        return slice(None), slice(None)
    south, north, west, east = check_box(box)
    # The sides of the box are not straight on a turned grid: look all along them, not at the corners alone.
    along = np.linspace(0.0, 1.0, 21)
    up, right = south + along * (north - south), west + along * (east - west)
    side = np.concatenate([up, up, np.full(21, south), np.full(21, north)])
    other = np.concatenate([np.full(21, west), np.full(21, east), right, right])
    row, column = locate(latitude, longitude, side, other)
    if np.isnan(row).any():
        raise BadInput(
            f"{path}: the box {south:g} to {north:g} N, {west:g} to {east:g} E is not inside the grid, which lies "
            f"{_extent(latitude, longitude)}"
        )
    rows, columns = (slice(max(int(index.min()) - 1, 0), int(np.ceil(index.max())) + 2) for index in (row, column))
    return rows, columns


def _extent(latitude: Array, longitude: Array) -> str:
    north, east = (f"{array.min():.3f} to {array.max():.3f}" for array in (latitude, longitude))
    return f"within {north} N, {east} E"


def check_box(box: Box) -> Box:
    """Return a box (south, north, west, east) in degrees, if it is one."""
    wanted = "(south, north, west, east) in degrees"
    if len(box) != 4:
        raise BadInput(f"the box is {box!r}; expected {wanted}")
    south, north = (real_number("latitude of the box", value, "-90 to 90", -90, 90) for value in box[:2])
    west, east = (real_number("longitude of the box", value, "-180 to 360", -180, 360) for value in box[2:])
    if south > north or west > east:
        raise BadInput(f"the box {tuple(box)} is upside down; expected {wanted}")
    return south, north, west, east


def _times(data: Any, times: tuple[str, str] | None, path: str | Path) -> tuple[Array, tuple[str | None, Array]]:
    """Return the times asked for in seconds since 1970, the time axis, and the places along it."""
    variable = _find(data, TIME)
    if variable is None:
        raise BadInput(f"{path}: there is no time; expected {_names(TIME)}")
    if not np.issubdtype(variable.dtype, np.datetime64) or variable.ndim > 1:
        raise BadInput(
            f"{path}: the time {variable.name} is {variable.dtype}; expected one axis with CF units "
            "(seconds since ...) in the standard calendar"
        )
    stamp = np.atleast_1d(variable.values).astype("datetime64[s]")
    index = np.arange(stamp.size)
    if times is not None:
        try:
            first, last = (np.datetime64(time, "s") for time in times)
        except ValueError:
            raise BadInput(f"times is {times!r}; expected the first and the last, as 2015-11-16T06:00") from None
        index = np.flatnonzero((stamp >= first) & (stamp <= last))
        if index.size == 0:
            raise BadInput(
                f"{path}: there is no time from {times[0]} to {times[1]}; expected some within "
                f"{clock(stamp.min().astype(np.int64))} to {clock(stamp.max().astype(np.int64))} (UTC)"
            )
    axis = str(variable.dims[0]) if variable.ndim else None
    return stamp[index].astype(np.int64).astype(float), (axis, index)


@dataclass(frozen=True, eq=False)
class _Cut:
    """The part of a file that is wanted."""

    data: Any  # at the places wanted
    across: tuple[str, str]  # the axes of latitude and longitude
    hours: tuple[str | None, Array]  # the time axis, and the places along it
    depth: float
    path: str

    def field(self, variable: Any) -> Array:  # [H, Y, X]
        """Return a current at the times, the level and the places wanted."""
        self._check_axes(variable)
        axis, index = self.hours
        if axis in variable.dims:
            variable = variable.isel({axis: index})
        elif index.size > 1:
            raise BadInput(f"{self.path}: {variable.name} has the axes {variable.dims}; expected {axis} among them")
        for extra in [dim for dim in variable.dims if dim not in (axis, *self.across)]:
            variable = variable.isel({extra: self._level(variable, str(extra))})
        order = [dim for dim in (axis, *self.across) if dim in variable.dims]
        values = np.asarray(variable.transpose(*order).values, float)
        return values.reshape(index.size, *values.shape[-2:])

    def plane(self, variable: Any) -> Array:  # [Y, X]
        """Return a field without time; the first where there are several."""
        self._check_axes(variable)
        variable = variable.isel({dim: 0 for dim in variable.dims if dim not in self.across})
        return np.asarray(variable.transpose(*self.across).values, float)

    def _check_axes(self, variable: Any) -> None:
        if not set(self.across) <= set(variable.dims):
            raise BadInput(
                f"{self.path}: {variable.name} has the axes {variable.dims}; expected {self.across[0]} and "
                f"{self.across[1]} among them, as latitude and longitude have"
            )

    def _level(self, variable: Any, axis: str) -> int:
        """Return the level nearest to the depth wanted. Levels count upward in some files."""
        if variable.sizes[axis] == 1:
            return 0
        coordinate = self.data.variables.get(axis)
        standard = None if coordinate is None else coordinate.attrs.get("standard_name")
        if coordinate is None or not (axis.lower() in LEVEL or standard in ("depth", "height", "elevation")):
            raise BadInput(
                f"{self.path}: {variable.name} has {variable.sizes[axis]} levels along {axis}, which are no depths; "
                "expected depth levels in metres"
            )
        level = np.asarray(coordinate.values, float)
        up = coordinate.attrs.get("positive") == "up" or axis == "elevation" or level.max() <= 0
        return int(np.abs((-level if up else level) - self.depth).argmin())


def _east_north(cut: _Cut, latitude: Array, longitude: Array) -> tuple[Array, Array]:
    """Return both components, as the file has them or turned from the grid's axes."""
    for x, y, turned in ((EAST, NORTH, False), (GRID_X, GRID_Y, True)):
        first, second = _find(cut.data, x), _find(cut.data, y)
        if first is None or second is None:
            continue
        for variable in (first, second):
            units = variable.attrs.get("units")
            if units is not None and units.strip() not in SPEED_UNITS:
                raise BadInput(f"{cut.path}: {variable.name} is in {units!r}; expected m s-1")
        u, v = cut.field(first), cut.field(second)
        if not turned:
            return u, v
        (east_y, north_y), (east_x, north_x) = (_direction(cut, axis, latitude, longitude) for axis in (0, 1))
        return u * east_x + v * east_y, u * north_x + v * north_y
    raise BadInput(
        f"{cut.path}: there are no currents; expected {_names(EAST)} and {_names(NORTH)}, "
        f"or along the grid {_names(GRID_X)} and {_names(GRID_Y)}"
    )


def _direction(cut: _Cut, axis: int, latitude: Array, longitude: Array) -> tuple[Array, Array]:
    """Return the unit vector (east, north) along an axis of the grid, in which its coordinate rises."""
    order: Literal[1, 2] = 2 if latitude.shape[axis] > 2 else 1
    north = np.gradient(latitude, axis=axis, edge_order=order)
    turn = np.unwrap(longitude, period=360.0, axis=axis)
    east = np.gradient(turn, axis=axis, edge_order=order) * np.cos(np.deg2rad(latitude))
    coordinate = cut.data.variables.get(cut.across[axis])
    known = coordinate is not None and coordinate.ndim == 1
    sense = -1.0 if known and float(coordinate.values[-1]) < float(coordinate.values[0]) else 1.0
    length = np.hypot(east, north) * sense
    return east / length, north / length


def _floor(path: str | Path, latitude: Array, longitude: Array) -> Array:
    """Return depths from a file of their own, at these places."""
    with _open(path) as data:
        variable = _find(data, FLOOR)
        if variable is None:
            raise BadInput(f"{path}: there is no bathymetry; expected {_names(FLOOR)}")
        north, east, across = _places(data, path)
        level = _Cut(data, across, (None, np.arange(1)), 0.0, str(path)).plane(variable)
    still = np.zeros((1, *level.shape))
    return Currents(np.zeros(1), north, east, still, still, level, "").at(latitude, longitude).depth


def _credit(data: Any) -> str:
    """Return the credit and the licence that the file names."""
    words = [str(data.attrs[key]) for key in ("credit", "attribution", "institution", "source") if key in data.attrs]
    licence = [str(data.attrs[key]) for key in ("license", "licence") if key in data.attrs]
    return "; ".join([*words[:1], *licence[:1]])
