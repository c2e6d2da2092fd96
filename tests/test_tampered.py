"""Files whose parts were changed: refused in one line, or as good as any other in all that is done with them."""

import io
import json
import math
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rue
from rue.description import describe
from rue.formats import rue_file as files
from rue.parsing import domain_of

ODD = [None, True, -1, 0, 10**30, -1e308, float("inf"), float("nan"), "x", [1], {"a": 1}]


def model() -> rue.UMDP:
    model = rue.domains.Disaster(width=3, height=3, seed=2).sample(2, seed=2)
    layout = {
        **model.graph.layout, "cell": list(range(9)), "cell_size": 800.0, "latitude": [59.0, 58.9, 58.8],
        "longitude": [10.0, 10.1, 10.2], "depth": [3.0] * 9, "credit": "nobody", "shallow": 5.0,
        "axes": ["row", "column"],
    }  # fmt: skip
    graph = rue.Graph(*(getattr(model.graph, name) for name in files.GRAPH_FIELDS), 0, None, None, layout)
    return rue.UMDP(graph, model.prob, model.cost, ("dry", "wet"), model.scenery)


@pytest.fixture(scope="module")
def parts() -> dict[str, dict[str, bytes]]:
    """The parts of a model's file and of a solution's."""
    solution = rue.solve(model(), rue.Adaptive(gap=0.2))
    assert solution.trace and solution.counters and solution.certificate
    return {"model": _parts(model()), "solution": _parts(solution)}


def _parts(thing: rue.UMDP | rue.Solution) -> dict[str, bytes]:
    stream = io.BytesIO()
    for kind, (type_, pack, _) in files._KINDS.items():
        if isinstance(thing, type_):
            files._write_zip(stream, kind, *pack(thing))
    with zipfile.ZipFile(stream) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: dict[str, bytes], *, digest: bool = True) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        if digest:
            archive.comment = files._digest(archive.infolist())
    return path


def use(thing: rue.UMDP | rue.Policy | rue.Solution, folder: Path) -> None:
    """All that is done with what was loaded."""
    for name in ("again.rue", "again.json", "again.csv"):
        if name.endswith(".rue") or not isinstance(thing, rue.UMDP):
            rue.save(folder / name, thing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(thing, rue.UMDP):
            json.dumps(describe(thing))
            rue.report.draw_map(thing, rue.Policy.stationary(thing, [2] * 9)).canvas.draw()
            domain_of(thing)
        if isinstance(thing, rue.Solution):
            assert repr(thing) and not math.isnan(thing.gap + thing.mean_regret)
            rue.report.draw_bounds({"it": thing}).canvas.draw()


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a header, the first two of long lists."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*place, key))


def changed(header: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = dict(header) if isinstance(header, dict) else list(header)
    copy[place[0]] = changed(copy[place[0]], place[1:], value)
    return copy


def try_all(attempts: Iterator[tuple[object, dict[str, bytes]]], folder: Path) -> tuple[int, int]:
    """How many changed files are refused, and how many can be used; nothing else may come of them."""
    refused = used = 0
    for what, parts in attempts:
        path = write(folder / "odd.rue", parts)
        try:
            use(rue.load(path), folder)
            used += 1
        except rue.RueError as error:
            assert len(str(error).splitlines()) == 1
            refused += 1
        except Exception as error:
            raise AssertionError(f"{what}") from error
    return refused, used


@pytest.mark.parametrize("kind", ["model", "solution"])
def test_odd_values_in_a_header_are_refused_or_do_no_harm(kind, parts, tmp_path):
    header = json.loads(parts[kind]["header.json"])
    places = [place for place in leaves(header) if kind == "model" or "graph" not in place]
    texts = ((place, odd, json.dumps(changed(header, place, odd)).encode()) for place in places for odd in ODD)
    refused, used = try_all(((text[:2], {**parts[kind], "header.json": text[2]}) for text in texts), tmp_path)
    assert refused > 100 and used > 10


@pytest.mark.parametrize("kind", ["model", "solution"])
def test_odd_arrays_are_refused_or_do_no_harm(kind, parts, tmp_path):
    def attempts() -> Iterator[tuple[object, dict[str, bytes]]]:
        for name, content in parts[kind].items():
            array = np.load(io.BytesIO(content)) if name.endswith(".npy") else None
            if array is None or name.startswith("certificate"):
                continue  # what a certificate claims is not believed before it is checked
            for change in CHANGES:
                with np.errstate(all="ignore"):
                    other = change(array)
                stream = io.BytesIO()
                np.save(stream, other)
                yield (name, other.dtype, other.shape, other.ravel()[:1]), {**parts[kind], name: stream.getvalue()}

    refused, used = try_all(attempts(), tmp_path)
    assert refused > 50 and used > 1


CHANGES = [
    lambda array: array * np.nan, lambda array: array * np.inf, lambda array: array * 1e200, lambda array: array - 1e30,
    lambda array: -array, lambda array: array[:-1], lambda array: array[None], lambda array: array.astype(str),
    lambda array: array.astype(np.float32), lambda array: array.astype(np.int8), lambda array: array[:0],
]  # fmt: skip


# Parts that are sound by themselves and are not those that were written.


def swapped(parts: dict[str, bytes], one: str, other: str) -> dict[str, bytes]:
    return {**parts, one: parts[other], other: parts[one]}


def as_policy(parts: dict[str, bytes]) -> dict[str, bytes]:
    """A solution whose header says that it is a policy: its file would load as one."""
    header = {**json.loads(parts["header.json"]), "kind": "policy"}
    return {**parts, "header.json": json.dumps(header).encode()}


EXCHANGED = {
    "scenery swapped": ("model", lambda parts: swapped(parts, "scenery_0.npy", "scenery_1.npy")),
    "another kind": ("solution", as_policy),
    "a part more": ("model", lambda parts: {**parts, "scenery_2.npy": parts["scenery_0.npy"]}),
    "a part less": ("solution", lambda parts: {k: v for k, v in parts.items() if k != "certificate_value.npy"}),
    "another order": ("model", lambda parts: dict(sorted(parts.items(), reverse=True))),
}


@pytest.mark.parametrize(("kind", "change"), EXCHANGED.values(), ids=EXCHANGED)
def test_a_file_with_other_parts_is_refused(kind, change, parts, tmp_path):
    sound = write(tmp_path / "sound.rue", parts[kind])
    rue.load(sound)
    path = write(tmp_path / "odd.rue", change(parts[kind]), digest=False)
    with zipfile.ZipFile(sound) as before, zipfile.ZipFile(path, "a") as after:
        after.comment = before.comment
    with pytest.raises(rue.BadFile, match="its parts are not those that were written"):
        rue.load(path)


def test_a_part_that_is_there_twice_is_refused(parts, tmp_path):
    path = write(tmp_path / "odd.rue", parts["model"])
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("cost.npy", parts["model"]["cost.npy"])
    with pytest.raises(rue.BadFile, match="its parts are not those that were written"):
        rue.load(path)
