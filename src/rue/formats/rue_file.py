"""rue's own file format, for models, policies and solutions.

A `.rue` file is an uncompressed zip: first `header.json` with the format's name and version, what the file holds, and
everything that is not an array; then one `.npy` for each array, aligned so that large ones can be mapped into memory
(such a file must not be changed in place while it is in use). Nothing is pickled. The checksum of each part is verified
when it is read, and the zip's comment has a digest of all names, sizes and checksums: parts cannot be exchanged, added
or left out.
"""

import hashlib
import json
import math
import mmap
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from rue._arrays import Array
from rue._check import check_memory, one_of, real_number, whole_number
from rue.certificate import Certificate
from rue.errors import BadFile, BadInput, RueError
from rue.formats.writing import write_atomically
from rue.model import GRAPH_FIELDS, UMDP, Graph
from rue.policy import POLICY_FIELDS, Policy
from rue.solution import Interval, Solution, Solver, Status, TracePoint
from rue.units import PLAIN, Units

FORMAT = "rue"
VERSION = 2
# Sizes in the zip format: the fixed part of a member's header, and its extra field for large members.
LOCAL_HEADER, ZIP64_EXTRA = 30, 20
ALIGNMENT, PADDING_ID = 64, 0xD935
NPY_HEADER = 65_536
# The largest numbers in a solution: costs are at most 1e100 each, and no run takes a century.
LARGEST, MOST_SECONDS = 1e150, 3e9
# Smaller arrays are copied when they are read, larger ones are mapped.
SMALL = 64_000_000
CERTIFICATE_ARRAYS = ("potential", "state", "weight", "value", "follow")
SUM_ARRAYS = ("sum_ptr", "sum_point", "sum_share")  # only where a certificate has sums

Storable = UMDP | Policy | Solution


class _Named(dict[str, Array]):
    """Arrays by name; a missing name is an error of the file."""

    def __missing__(self, name: str) -> Array:
        raise BadFile(f"the array {name} is missing; expected it in the file")


def write_rue(path: Path, thing: Storable) -> None:
    """Write a model, a policy or a solution."""
    kind, (_, pack, _) = next(item for item in _KINDS.items() if isinstance(thing, item[1][0]))
    header, arrays = pack(thing)
    write_atomically(path, lambda stream: _write_zip(stream, kind, header, arrays))


def read_rue(source: Path, model: UMDP | Graph | None = None) -> Storable:
    """Read what `write_rue` wrote; no model is needed for it."""
    try:
        with source.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            header = _read_header(source, archive)
            if archive.comment != _digest(archive.infolist()):
                raise ValueError("its parts are not those that were written")
            memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            parts = archive.infolist()[1:]
            check_memory(f"{source}: its {header['kind']}", sum(part.file_size for part in parts))
            arrays = {info.filename.removesuffix(".npy"): _read_array(stream, memory, info) for info in parts}
    except RueError:
        raise
    except Exception as error:  # whatever goes wrong here, the file is wrong
        problem = f"{_why_unreadable(source)} ({str(error) or type(error).__name__})"
        raise BadFile(f"{source}: {problem}; expected a file written by rue.save") from None
    try:
        thing: Storable = _KINDS[header["kind"]][2](header, _Named(arrays))
        return thing
    except BadInput as error:
        raise BadFile(f"{source}: {error}") from None
    except Exception as error:
        problem = str(error) or type(error).__name__
        raise BadFile(f"{source}: the file is damaged ({problem}); expected a {header['kind']}") from None


def _write_zip(stream: IO[bytes], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    full = {"format": FORMAT, "version": VERSION, "kind": kind, **header}
    try:
        text = json.dumps(full, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"the {kind} cannot be saved: {error}; expected a layout of plain numbers, words and lists"
        ) from None
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # A fixed date makes equal things equal files.
        archive.writestr(zipfile.ZipInfo("header.json"), text)
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.extra = _padding(stream.tell() + LOCAL_HEADER + len(member.filename) + ZIP64_EXTRA)
            with archive.open(member, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
        archive.comment = _digest(archive.infolist())


def _padding(offset: int) -> bytes:
    """Return an extra field for a zip member's header after which its data, now at `offset`, are aligned."""
    length = -(offset + 4) % ALIGNMENT
    return struct.pack("<HH", PADDING_ID, length) + bytes(length)


def _read_header(source: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    if "header.json" not in archive.namelist():
        raise BadFile(f"{source}: it is a zip file of something else; expected a file written by rue.save")
    header = json.loads(archive.read("header.json"))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BadFile(f"{source}: it is a file of another program; expected a file written by rue.save")
    if header.get("version") != VERSION:
        raise BadFile(f"{source}: it has version {header.get('version')} of the format; expected version {VERSION}")
    if str(header.get("kind")) not in _KINDS:
        raise BadFile(f"{source}: it holds a {header.get('kind')!r}; expected one of {', '.join(_KINDS)}")
    return header


def _digest(parts: Iterable[zipfile.ZipInfo]) -> bytes:
    """Return a hash of the names, sizes and checksums of all parts, in order."""
    lines = "".join(f"{part.filename} {part.file_size} {part.CRC}\n" for part in parts)
    return hashlib.sha256(lines.encode()).hexdigest().encode()


def _read_array(stream: BufferedReader, memory: mmap.mmap, info: zipfile.ZipInfo) -> Array:
    """Return an array of the file, read-only, once its checksum is verified; a large one is mapped into memory.

    A mapped file must not change while it is in use, so small arrays are read instead.
    """
    name_length, extra_length = struct.unpack_from("<HH", memory, info.header_offset + LOCAL_HEADER - 4)
    first = info.header_offset + LOCAL_HEADER + name_length + extra_length
    if info.compress_type != zipfile.ZIP_STORED or first + info.file_size > len(memory):
        raise ValueError(f"{info.filename} is compressed or cut off")
    start = BytesIO(memory[first : first + min(info.file_size, NPY_HEADER)])
    np.lib.format.read_magic(start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns of old names of types, which rue does not write
        try:
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(start)
        except Warning as warning:
            raise ValueError(f"{info.filename} has an odd type ({warning})") from None
    if dtype.hasobject or fortran:
        raise ValueError(f"{info.filename} holds {dtype} values in Fortran order or as objects")
    if start.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
        raise ValueError(f"{info.filename} has a length that its header does not say")
    begin = first + start.tell()
    if info.file_size >= SMALL and begin % dtype.alignment == 0:
        array: Array = np.frombuffer(memory, dtype, offset=begin, count=math.prod(shape))
    else:
        stream.seek(begin)
        array = np.empty(math.prod(shape), dtype)
        stream.readinto(array.data)
        array.flags.writeable = False
    if zlib.crc32(array.data, zlib.crc32(memory[first:begin])) != info.CRC:
        raise ValueError(f"the checksum of {info.filename} is wrong")
    return array.reshape(shape)


def _why_unreadable(source: Path) -> str:
    if source.is_dir():
        return "it is a directory"
    with source.open("rb") as stream:
        return "the file is damaged" if stream.read(2) == b"PK" else "it is no rue file"


def _pack_graph(graph: Graph) -> tuple[dict[str, Any], dict[str, Array]]:
    return {"graph": graph.header()}, {name: getattr(graph, name) for name in GRAPH_FIELDS}


def _unpack_graph(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Graph:
    fields: dict[str, Any] = {**header["graph"], **{name: arrays[name] for name in GRAPH_FIELDS}}
    return Graph(**fields)


def _pack_model(model: UMDP) -> tuple[dict[str, Any], dict[str, Array]]:
    header, arrays = _pack_graph(model.graph)
    scenery = {f"scenery_{number}": values for number, values in enumerate(model.scenery.values())}
    header |= {"sample_label": model.sample_label, "scenery": list(model.scenery)}
    header |= {} if model.units == PLAIN else {"units": asdict(model.units)}
    weight = {"weight": model.weight} if model.is_weighted else {}
    return header, {**arrays, "prob": model.prob, "cost": model.cost, **weight, **scenery}


def _unpack_model(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> UMDP:
    scenery = {name: arrays[f"scenery_{number}"] for number, name in enumerate(header.get("scenery", ()))}
    numbers = (arrays["prob"], arrays["cost"], header["sample_label"], scenery, arrays.get("weight"))
    return UMDP(_unpack_graph(header, arrays), *numbers, Units(**header.get("units", {})))


def _pack_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, Array]]:
    header, arrays = _pack_graph(policy.graph)
    return header, {**arrays, **{f"policy_{name}": getattr(policy, name) for name in POLICY_FIELDS}}


def _unpack_policy(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Policy:
    return Policy(_unpack_graph(header, arrays), **{name: arrays[f"policy_{name}"] for name in POLICY_FIELDS})


def _pack_solution(solution: Solution) -> tuple[dict[str, Any], dict[str, Array]]:
    header, arrays = _pack_policy(solution.policy)
    about: dict[str, Any] = {
        "solver": {"name": solution.solver.name, "parameters": asdict(solution.solver)},
        "status": solution.status.value,
        "objective": [solution.objective.lower, solution.objective.upper],
        "max_regret": [solution.max_regret.lower, solution.max_regret.upper],
        "seconds": solution.seconds,
        "trace": [list(point) for point in solution.trace],
        "counters": dict(solution.counters),
        "reason": solution.reason,
        "floor": solution.floor,
        **({} if solution.units == PLAIN else {"units": asdict(solution.units)}),
        **({"average_error": solution.average_error} if solution.units.average else {}),
    }
    arrays["regret"] = np.array(solution.regret)
    if solution.weight:
        arrays["regret_weight"] = np.array(solution.weight)
    proofs = {"certificate": solution.certificate}
    if solution.regret_certificate is not solution.certificate:  # mostly it is
        proofs["regret_certificate"] = solution.regret_certificate
    for place, proof in proofs.items():
        if proof is not None:
            about[place] = {"objective": proof.objective, "fingerprint": proof.fingerprint, "bound": proof.bound}
            about[place] |= {} if proof.tail is None else {"tail": proof.tail}
            part = ("sample",) if proof.sample.size else ()
            names = CERTIFICATE_ARRAYS + (SUM_ARRAYS if proof.sums else ()) + part
            arrays |= {f"{place}_{name}": getattr(proof, name) for name in names}
    return {**header, "solution": about}, arrays


def _number(name: str, value: object, low: float = -LARGEST) -> float:
    """Return a number of a header, infinite or within what can be drawn."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (low <= value <= LARGEST or abs(value) == math.inf)
    ):
        return float(value)
    raise BadFile(f"{name} is {value!r}; expected a number from {low:g} to {LARGEST:g}, or an infinite one")


def _seconds(value: object) -> float:
    return real_number("seconds", value, f"0 to {MOST_SECONDS:g}", 0, MOST_SECONDS)


def _interval(name: str, value: object) -> Interval:
    if not isinstance(value, list) or len(value) != 2:
        raise BadFile(f"{name} is {value!r}; expected a lower and an upper end")
    return Interval(_number(f"the lower end of {name}", value[0]), _number(f"the upper end of {name}", value[1]))


def _trace(points: object) -> tuple[TracePoint, ...]:
    if not isinstance(points, list) or not all(isinstance(point, list) and len(point) == 4 for point in points):
        raise BadFile("the trace has other points; expected seconds, iteration, lower and upper end")
    trace = []
    for seconds, iteration, *ends in points:
        lower, upper = (_number("an end of the trace", end) for end in ends)
        trace.append(TracePoint(_seconds(seconds), whole_number("iteration of the trace", iteration, 0), lower, upper))
    return tuple(trace)


def _unpack_solution(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Solution:
    about = header["solution"]
    solver, counters, reason = about["solver"], about["counters"], about.get("reason", "")
    regret = arrays["regret"]
    if regret.ndim != 1 or regret.size == 0:
        raise BadFile(f"the array regret has shape {regret.shape}; expected one number for each sample")
    if not isinstance(counters, dict):
        raise BadFile(f"the counters are {counters!r}; expected a number for each name")
    if not isinstance(reason, str):
        raise BadFile(f"the reason is {reason!r}; expected text")
    weight = arrays.get("regret_weight", np.empty(0))
    if weight.size and (weight.shape != regret.shape or (weight < 0).any() or not abs(weight.sum() - 1) < 1e-6):
        raise BadFile("the array regret_weight has other numbers; expected the probability of each sample")
    certificate = _unpack_certificate("certificate", about, arrays)
    other = _unpack_certificate("regret_certificate", about, arrays)
    is_of_regret = certificate is not None and certificate.is_of_max_regret
    return Solution(
        policy=_unpack_policy(header, arrays),
        solver=Solver.known[one_of("method", solver["name"], Solver.known)](**solver["parameters"]),
        status=Status(about["status"]),
        objective=_interval("the objective", about["objective"]),
        max_regret=_interval("the max regret", about["max_regret"]),
        regret=tuple(_number("a regret", value, 0) for value in regret.tolist()),
        seconds=_seconds(about["seconds"]),
        trace=_trace(about["trace"]),
        counters={name: whole_number(f"the counter {name!r}", count, 0) for name, count in counters.items()},
        certificate=certificate,
        regret_certificate=certificate if is_of_regret else other,
        reason=reason,
        floor=_number("the floor", about.get("floor", 0.0), 0),
        weight=tuple(weight.tolist()),
        units=Units(**about.get("units", {})),
        average_error=_number("the error of averages", about.get("average_error", 0.0), 0),
    )


def _unpack_certificate(place: str, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> Certificate | None:
    if place not in about:
        return None
    part = ("sample",) if f"{place}_sample" in arrays else ()
    names = CERTIFICATE_ARRAYS + (SUM_ARRAYS if f"{place}_sum_ptr" in arrays else ()) + part
    fields: dict[str, Any] = {**about[place], **{name: arrays[f"{place}_{name}"] for name in names}}
    return Certificate(**fields)


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "model": (UMDP, _pack_model, _unpack_model),
    "policy": (Policy, _pack_policy, _unpack_policy),
    "solution": (Solution, _pack_solution, _unpack_solution),
}
