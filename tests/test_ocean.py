"""Ocean currents: interpolation and the small file on their own, and the loader on files as ocean models write them."""

import sys

import numpy as np
import pytest

import rue
from rue.domains.glider import BUILT_IN, Glider
from rue.domains.ocean import Currents, locate, read_currents

MAY_DAY = 1_588_291_200.0  # 2020-05-01, 00 h
LATITUDE, LONGITUDE = np.linspace(61.0, 61.3, 13), np.linspace(4.3, 4.8, 11)
POLE = 70.0  # the meridian along which the turned grid's y axis points


def true_east(hour, latitude, longitude):
    return 0.1 + 0.01 * hour + 0.4 * (latitude - 61.1) - 0.3 * (longitude - 4.5)


def true_north(hour, latitude, longitude):
    return -0.2 + 0.005 * hour - 0.2 * (latitude - 61.1) + 0.5 * (longitude - 4.5)


def true_depth(latitude, longitude):
    return 200.0 + 300.0 * (latitude - 61.0) + 100.0 * (longitude - 4.3)


def plain(hours=24, land=None):
    """Currents on parallels and meridians."""
    latitude, longitude = np.meshgrid(LATITUDE, LONGITUDE, indexing="ij")
    hour = np.arange(hours)[:, None, None]
    depth = true_depth(latitude, longitude)
    if land is not None:
        depth[land] = np.nan
    east, north = true_east(hour, latitude, longitude), true_north(hour, latitude, longitude)
    return Currents(MAY_DAY + 3600.0 * np.arange(hours), latitude, longitude, east, north, depth, "nobody")


def turned():
    """Latitude and longitude of a polar stereographic grid of 800 m, as ROMS on the coast of Norway has."""
    radius, scale = 6_371_000.0, (1 + np.sin(np.deg2rad(60))) / 2
    # A grid around 61.15 N, 4.55 E.
    away = 2 * radius * scale * np.tan(np.deg2rad(90 - 61.15) / 2)
    angle = np.deg2rad(4.55 - POLE)
    x = away * np.sin(angle) + 800.0 * np.arange(-22, 23)
    y = -away * np.cos(angle) + 800.0 * np.arange(-20, 21)
    across, up = np.meshgrid(x, y)
    longitude = POLE + np.rad2deg(np.arctan2(across, -up))
    latitude = 90 - 2 * np.rad2deg(np.arctan(np.hypot(across, up) / (2 * radius * scale)))
    return x, y, latitude, longitude


def check_everywhere(currents, within=1e-3):
    """The true currents and depths at all places and times of the file."""
    hour = ((currents.time - MAY_DAY) / 3600)[:, None, None]
    for field, truth in ((currents.east, true_east), (currents.north, true_north)):
        exact = truth(hour, currents.latitude, currents.longitude)
        np.testing.assert_allclose(field[:, currents.sea], exact[:, currents.sea], atol=within)
    exact = true_depth(currents.latitude, currents.longitude)
    np.testing.assert_allclose(currents.depth[currents.sea], exact[currents.sea], atol=0.1)


# Interpolation and the small file.


def test_between_grid_points_currents_are_bilinear():
    currents = plain()
    rng = np.random.default_rng(1)
    latitude, longitude = rng.uniform(61.0, 61.3, (4, 5)), rng.uniform(4.3, 4.8, (4, 5))
    check_everywhere(currents.at(latitude, longitude), 1e-12)


def test_between_grid_points_of_a_turned_grid():
    _, _, latitude, longitude = turned()
    hour = np.arange(2)[:, None, None]
    east, north = true_east(hour, latitude, longitude), true_north(hour, latitude, longitude)
    depth = true_depth(latitude, longitude)
    currents = Currents(MAY_DAY + 3600 * np.arange(2), latitude, longitude, east, north, depth, "")
    rng = np.random.default_rng(1)
    check_everywhere(currents.at(rng.uniform(61.1, 61.2, (30, 1)), rng.uniform(4.5, 4.65, (30, 1))), 1e-6)


def test_places_are_found_on_any_grid():
    _, _, latitude, longitude = turned()
    row, column = locate(latitude, longitude, latitude[3:6, 7:9], longitude[3:6, 7:9])
    np.testing.assert_allclose(row, [[3, 3], [4, 4], [5, 5]], atol=1e-9)
    np.testing.assert_allclose(column, [[7, 8]] * 3, atol=1e-9)
    # Round the date line, and counted from 0 to 360.
    grid = np.meshgrid(np.arange(-2.0, 3.0), np.arange(175.0, 186.0), indexing="ij")
    row, column = locate(*grid, np.array([0.5, 0.0, 3.0]), np.array([-178.5, 179.25, 180.0]))
    np.testing.assert_allclose(row, [2.5, 2.0, np.nan])
    np.testing.assert_allclose(column, [6.5, 4.25, np.nan])


def test_beside_land_the_sea_counts_alone():
    land = np.zeros((13, 11), bool)
    land[:, 6:] = True
    currents = plain(land=land)
    step = LONGITUDE[1] - LONGITUDE[0]
    near, far = LONGITUDE[5] + 0.3 * step, LONGITUDE[5] + 0.6 * step
    found = currents.at(np.full((1, 2), 61.15), np.array([[near, far]]))
    assert found.sea.tolist() == [[True, False]]
    np.testing.assert_allclose(found.east[:, 0, 0], true_east(np.arange(24), 61.15, LONGITUDE[5]), atol=1e-12)
    assert np.isnan(found.east[:, 0, 1]).all()


def test_between_times_currents_are_linear():
    currents = plain()
    east, north = currents.when(MAY_DAY + 3600 * np.array([7.5, 0.0, 23.0, 7.25]))
    for k, hour in enumerate((7.5, 0.0, 23.0, 7.25)):
        np.testing.assert_allclose(east[k], true_east(hour, currents.latitude, currents.longitude), atol=1e-12)
        np.testing.assert_allclose(north[k], true_north(hour, currents.latitude, currents.longitude), atol=1e-12)
    with pytest.raises(rue.BadInput, match=r"no currents at 2020-05-02 00:00 UTC; .* 2020-05-01 00:00 UTC to .*23:00"):
        currents.when(np.array([MAY_DAY + 86_400]))
    single = plain(hours=1)
    np.testing.assert_array_equal(single.when(single.time)[0], single.east)


def test_outside_the_grid_is_told():
    with pytest.raises(rue.BadInput, match=r"62.0000 N 4.5000 E is outside .* within 61.000 to 61.300 N"):
        plain().at(np.array([[62.0]]), np.array([[4.5]]))


def test_small_files_keep_a_millimetre_per_second(tmp_path):
    land = np.zeros((13, 11), bool)
    land[2:4, 3] = True
    currents = plain(land=land)
    currents.save(tmp_path / "a.npz")
    again = Currents.load(tmp_path / "a.npz")
    assert (again.sea == currents.sea).all() and again.credit == "nobody" and (again.time == currents.time).all()
    for name, within in (("east", 5.1e-4), ("north", 5.1e-4), ("depth", 0.0051), ("latitude", 6e-7)):
        there = getattr(currents, name)[..., currents.sea]
        np.testing.assert_allclose(getattr(again, name)[..., again.sea], there, rtol=0, atol=within)
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_small_files_that_are_none(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK something")
    np.savez(tmp_path / "b.npz", format=np.array("else"))
    for name, pattern in (("a.npz", "expected a file written by"), ("b.npz", "else"), ("c.npz", "no such file")):
        with pytest.raises(rue.BadInput, match=pattern):
            Currents.load(tmp_path / name)
    with pytest.raises(rue.BadInput, match="cannot be written"):
        plain().save(tmp_path / "none" / "a.npz")


def test_the_built_in_currents():
    currents = Currents.load(BUILT_IN)
    assert currents.time.size == 67 and currents.time[0] == 1_447_632_000  # 16 November 2015, 00 h
    # Figures of the source, found apart from this code: the mean flow in the paper's box is 0.20 m/s to the north and
    # 0.02 to the east, and 345 of the 352 cells of 500 m that fill it are sea.
    latitude = 61.15 + (10.5 - np.arange(22)[:, None]) * 500 / 111_195 + np.zeros((22, 16))
    longitude = 4.575 + (np.arange(16) - 7.5) * 500 / (111_195 * np.cos(np.deg2rad(61.15))) + np.zeros((22, 16))
    cells = currents.at(latitude, longitude)
    assert cells.sea.sum() == 345
    today = slice(6, 18)
    speed = np.hypot(cells.east, cells.north)[today][:, cells.sea]
    np.testing.assert_allclose(np.percentile(speed, [5, 50, 95]), [0.06, 0.23, 0.46], atol=0.01)
    assert ((cells.depth[cells.sea] < 260) & (speed > 0.12)).mean() == pytest.approx(0.70, abs=0.01)
    assert np.nanmean(cells.north) == pytest.approx(0.20, abs=0.03)
    assert np.nanmean(cells.east) == pytest.approx(0.02, abs=0.03)


def test_without_xarray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(rue.BadInput, match=r"xarray, which is not installed; .*rue\[ocean\]"):
        read_currents(tmp_path / "a.nc")


# The loader.


@pytest.fixture
def xarray():
    return pytest.importorskip("xarray")


def time_axis(hours):
    return np.datetime64("2020-05-01T00:00:00", "ns") + np.arange(hours).astype("timedelta64[h]")


def copernicus(xarray, *, names=("latitude", "longitude"), falling=False, levels=None, floor=True, hours=6):
    """A file as Copernicus Marine gives it; the current at level i is the true one plus i."""
    currents = plain(hours)
    latitude = LATITUDE[::-1] if falling else LATITUDE
    fields = {}
    for name, field in (("uo", currents.east), ("vo", currents.north)):
        values = field[:, ::-1] if falling else field
        if levels is None:
            fields[name] = (("time", *names), values)
        else:
            axis = next(iter(levels))
            deep = np.stack([values + i for i in range(len(levels[axis]))], axis=1)
            fields[name] = (("time", axis, *names), deep)
    if floor:
        fields["deptho"] = (names, currents.depth[::-1] if falling else currents.depth)
    coords = {"time": time_axis(hours), names[0]: latitude, names[1]: LONGITUDE, **(levels or {})}
    data = xarray.Dataset(fields, coords, {"institution": "an institute", "license": "free"})
    data.uo.attrs |= {"standard_name": "eastward_sea_water_velocity", "units": "m s-1"}
    data.vo.attrs |= {"standard_name": "northward_sea_water_velocity", "units": "m s-1"}
    return data


@pytest.mark.parametrize("names", [("latitude", "longitude"), ("lat", "lon")], ids="-".join)
@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_copernicus(xarray, tmp_path, names, falling, packed):
    data = copernicus(xarray, names=names, falling=falling)
    short = {"dtype": "int16", "scale_factor": 0.0005, "add_offset": 0.1, "_FillValue": -32767}
    data.to_netcdf(tmp_path / "a.nc", encoding={"uo": short, "vo": short} if packed else None)
    currents = read_currents(tmp_path / "a.nc")
    assert currents.sea.all() and currents.credit == "an institute; free"
    check_everywhere(currents)


def test_variables_are_found_by_standard_name_then_by_name(xarray, tmp_path):
    data = copernicus(xarray).rename(uo="first", vo="second", deptho="bottom", latitude="rows", longitude="columns")
    data["rows"].attrs["standard_name"], data["columns"].attrs["standard_name"] = "latitude", "longitude"
    data["bottom"].attrs["standard_name"] = "sea_floor_depth_below_geoid"
    data["uo"] = data["first"] * 7  # a name that is known, but no standard name
    data["uo"].attrs.clear()
    data.to_netcdf(tmp_path / "a.nc")
    check_everywhere(read_currents(tmp_path / "a.nc"))
    bare = copernicus(xarray)
    bare.uo.attrs.clear()
    bare.vo.attrs.clear()
    bare.to_netcdf(tmp_path / "b.nc")
    check_everywhere(read_currents(tmp_path / "b.nc"))
    # The whole current and its tidal part under one standard name.
    bare["utide"] = bare["uo"] * 0
    bare = bare[["utide", "vo", "deptho", "uo"]]
    bare["utide"].attrs["standard_name"] = bare["uo"].attrs["standard_name"] = "eastward_sea_water_velocity"
    bare.to_netcdf(tmp_path / "c.nc")
    check_everywhere(read_currents(tmp_path / "c.nc"))


def test_land_and_depths_from_another_file(xarray, tmp_path):
    data = copernicus(xarray, floor=False).copy(deep=True)
    data["uo"][:, 2, 3] = np.nan  # land for one component at all times
    data["vo"][1, 5, 5] = np.nan  # and for the other at one
    data.to_netcdf(tmp_path / "a.nc")
    latitude, longitude = np.linspace(60.9, 61.4, 61), np.linspace(4.2, 5.0, 81)
    grid = np.meshgrid(latitude, longitude, indexing="ij")
    depth = true_depth(*grid)
    depth[grid[1] > 4.72] = np.nan
    floor = xarray.Dataset({"deptho": (("lat", "lon"), depth)}, {"lat": latitude, "lon": longitude})
    floor.to_netcdf(tmp_path / "floor.nc")
    currents = read_currents(tmp_path / "a.nc", bathymetry=tmp_path / "floor.nc")
    check_everywhere(currents)
    expected = np.ones((13, 11), bool)
    expected[2, 3] = expected[5, 5] = False
    expected[:, 9:] = False  # 4.75 and 4.8 E
    np.testing.assert_array_equal(currents.sea, expected)
    assert np.isnan(currents.east[:, ~expected]).all()


@pytest.mark.parametrize("falling", ["", "x", "y", "both"])
def test_currents_along_a_turned_grid(xarray, tmp_path, falling):
    x, y, latitude, longitude = turned()
    hour = np.arange(3)[:, None, None]
    east, north = true_east(hour, latitude, longitude), true_north(hour, latitude, longitude)
    angle = np.deg2rad(longitude - POLE)
    u, v = east * np.cos(angle) - north * np.sin(angle), east * np.sin(angle) + north * np.cos(angle)
    data = xarray.Dataset(
        {
            "u": (("time", "Y", "X"), u, {"standard_name": "x_sea_water_velocity", "units": "meter second-1"}),
            "v": (("time", "Y", "X"), v, {"standard_name": "y_sea_water_velocity", "units": "meter second-1"}),
            "h": (("Y", "X"), true_depth(latitude, longitude)),
            "lat": (("Y", "X"), latitude),
            "lon": (("Y", "X"), longitude),
        },
        {"time": time_axis(3), "X": x, "Y": y},
    )
    if falling in ("x", "both"):
        data = data.isel(X=slice(None, None, -1))
    if falling in ("y", "both"):
        data = data.isel(Y=slice(None, None, -1))
    data.to_netcdf(tmp_path / "a.nc")
    currents = read_currents(tmp_path / "a.nc")
    check_everywhere(currents)
    box = read_currents(tmp_path / "a.nc", box=(61.1, 61.2, 4.5, 4.65))
    check_everywhere(box)
    assert box.latitude.size < currents.latitude.size
    check_everywhere(box.at(np.array([[61.1, 61.2], [61.15, 61.1]]), np.array([[4.5, 4.65], [4.6, 4.65]])))
    # What the file itself says to be east and north is preferred.
    data["east"] = (("time", "Y", "X"), np.full(data.u.shape, 0.5), {"standard_name": "eastward_sea_water_velocity"})
    data["north"] = (("time", "Y", "X"), np.zeros(data.u.shape), {"standard_name": "northward_sea_water_velocity"})
    data.to_netcdf(tmp_path / "b.nc")
    assert (read_currents(tmp_path / "b.nc").east == 0.5).all()


@pytest.mark.parametrize(
    ("levels", "depth", "level"),
    [
        ({"depth": [0.5, 10.0, 50.0]}, 0.0, 0),
        ({"depth": [0.5, 10.0, 50.0]}, 12.0, 1),
        ({"depth": [0.5, 10.0, 50.0]}, 500.0, 2),
        ({"elevation": [-50.0, -10.0, -0.5]}, 0.0, 2),
        ({"elevation": [-50.0, -10.0, -0.5]}, 12.0, 1),
        ({"depth": [3.0]}, 0.0, 0),
    ],
)
def test_the_nearest_level_is_taken(xarray, tmp_path, levels, depth, level):
    copernicus(xarray, levels=levels).to_netcdf(tmp_path / "a.nc")
    currents = read_currents(tmp_path / "a.nc", depth=depth)
    exact = true_east(0, currents.latitude, currents.longitude) + level
    np.testing.assert_allclose(currents.east[0], exact, atol=1e-6)


def test_times_and_axes_in_any_order(xarray, tmp_path):
    data = copernicus(xarray).transpose("longitude", "latitude", "time")
    data.to_netcdf(tmp_path / "a.nc", encoding={"time": {"units": "hours since 1950-01-01"}})
    currents = read_currents(tmp_path / "a.nc", times=("2020-05-01T02:00", "2020-05-01T04:00"))
    assert currents.time.tolist() == [MAY_DAY + 3600 * hour for hour in (2, 3, 4)]
    check_everywhere(currents)
    single = copernicus(xarray).isel(time=2)
    single.to_netcdf(tmp_path / "b.nc")
    check_everywhere(read_currents(tmp_path / "b.nc"))


def test_what_is_missing_is_told_in_one_line(xarray, tmp_path):
    def refuses(pattern, data, **settings):
        path = tmp_path / "x.nc"
        path.unlink(missing_ok=True)
        data.to_netcdf(path)
        with pytest.raises(rue.BadInput, match=pattern) as caught:
            read_currents(path, **settings)
        assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)

    data = copernicus(xarray)
    refuses(r"no bathymetry \(sea_floor.*bathymetry=FILE", data.drop_vars("deptho"))
    data.drop_vars("deptho").to_netcdf(tmp_path / "floor.nc")
    refuses(r"floor.nc: there is no bathymetry", data, bathymetry=tmp_path / "floor.nc")
    refuses("no currents; expected eastward_sea_water_velocity, uo", data.drop_vars("vo"))
    refuses("the box 62 to 63 N, 4.5 to 4.65 E is not inside the grid", data, box=(62.0, 63.0, 4.5, 4.65))
    refuses("is not inside", data, box=(61.1, 61.2, 4.5, 4.9))
    refuses("no time from 2021-01-01 to 2021-01-02; .* 2020-05-01 00:00 UTC", data, times=("2021-01-01", "2021-01-02"))
    refuses("no time; expected", data.isel(time=0, drop=True))
    refuses("no latitude", data.drop_vars("latitude"))
    slow = data.copy()
    slow["uo"].attrs["units"] = "cm s-1"
    refuses("uo is in 'cm s-1'; expected m s-1", slow)
    refuses("40 levels along s_rho, which are no depths", data.expand_dims(s_rho=40).transpose("time", ...))
    staggered = data.copy()
    staggered["vo"] = (("time", "latitude_v", "longitude"), np.zeros((6, 12, 11)), data.vo.attrs)
    refuses("vo has the axes .* expected latitude and longitude", staggered)
    refuses("latitude or longitude is missing", data.assign_coords(latitude=np.append(LATITUDE[:-1], np.nan)))
    refuses("2 x 2 or more", data.isel(latitude=[0]))


def test_bad_settings_and_files(xarray, tmp_path):
    copernicus(xarray).to_netcdf(tmp_path / "a.nc")
    for pattern, settings in (
        ("upside down", {"box": (61.2, 61.1, 4.5, 4.65)}),
        ("south, north, west, east", {"box": (61.2, 61.1)}),
        ("depth is -1", {"depth": -1.0}),
        ("expected the first and the last", {"times": ("noon", "night")}),
    ):
        with pytest.raises(rue.BadInput, match=pattern):
            read_currents(tmp_path / "a.nc", **settings)
    (tmp_path / "b.nc").write_text("no NetCDF")
    with pytest.raises(rue.BadInput, match="expected a NetCDF file"):
        read_currents(tmp_path / "b.nc")
    with pytest.raises(rue.BadInput, match="there is no such file"):
        read_currents(tmp_path / "c.nc")


def test_a_glider_in_a_file_of_ones_own(xarray, tmp_path):
    copernicus(xarray, hours=24).to_netcdf(tmp_path / "a.nc")
    read_currents(tmp_path / "a.nc").save(tmp_path / "a.npz")
    models = [Glider(seed=1, width=6, height=6, data=str(tmp_path / name)).training() for name in ("a.nc", "a.npz")]
    assert models[0].sample_label[0] == "2020-05-01 06:00 UTC"
    assert models[0].graph.states == models[1].graph.states
    np.testing.assert_allclose(models[0].cost.mean(), models[1].cost.mean(), rtol=1e-2)
    copernicus(xarray, hours=24).drop_vars("deptho").to_netcdf(tmp_path / "b.nc")
    copernicus(xarray, hours=1).drop_vars(["uo", "vo"]).to_netcdf(tmp_path / "depth.nc")
    files = {"data": str(tmp_path / "b.nc"), "bathymetry": str(tmp_path / "depth.nc")}
    again = Glider(seed=1, width=6, height=6, **files).training()
    np.testing.assert_allclose(again.prob, models[0].prob, atol=1e-9)
