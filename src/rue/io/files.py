"""rue's own file format, for models, policies and solutions.

A `.rue` file is an uncompressed zip: first `header.json` with the format's name and version, what the file holds, and
everything that is not an array; then one `.npy` for each array, aligned so that large ones can be mapped into memory
as they lie (such a file must not be changed in place while it is in use). Nothing is pickled. Files are written beside
their place and moved there at the end, so that a crash never leaves half a file. The checksum of each part is verified
when it is read.

A policy, or the policy of a solution, is exported as text if the name ends in `.json` or `.csv`.
"""

import json
import mmap
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from rue._check import one_of
from rue._flat import Array
from rue.certificate import Certificate
from rue.errors import BadFile, BadInput, RueError
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Interval, Solution, Solver, Status, TracePoint

FORMAT = "rue"
VERSION = 1
# Sizes in the zip format: the fixed part of a member's header, and its extra field for large members.
LOCAL_HEADER, ZIP64_EXTRA = 30, 20
ALIGNMENT, PADDING_ID = 64, 0xD935
NPY_HEADER = 65_536
# Smaller arrays are copied when they are read, larger ones are mapped.
SMALL = 64_000_000
GRAPH_ARRAYS = ("choice_ptr", "action", "trans_ptr", "successor")
POLICY_ARRAYS = (
    "node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight",
)  # fmt: skip

CERTIFICATE_ARRAYS = ("potential", "state", "weight", "value", "follow")

Storable = UMDP | Policy | Solution


class _Named(dict[str, Array]):
    """Arrays by name; a name that is not there is told as such."""

    def __missing__(self, name: str) -> Array:
        raise BadFile(f"the array {name} is missing; expected it in the file")


def save(path: str | Path, thing: Storable) -> None:
    """Write a model, a policy or a solution; a policy also as `.json` or `.csv`."""
    target = Path(path)
    export = _EXPORTS.get(target.suffix.lower())
    if export is not None and isinstance(thing, UMDP | Policy | Solution):
        if isinstance(thing, UMDP):
            raise BadInput(f"{target}: a model cannot be written as {target.suffix}; expected a name ending in .rue")
        text = export(thing.policy if isinstance(thing, Solution) else thing)
        write_text(target, text)
        return
    for kind, (type_, pack, _) in _KINDS.items():
        if isinstance(thing, type_):
            header, arrays = pack(thing)
            _write_atomically(target, lambda stream: _write_zip(stream, kind, header, arrays))  # noqa: B023
            return
    raise BadInput(f"a {type(thing).__name__} cannot be saved; expected a model, a policy or a solution")


def endings(kind: type[Storable]) -> tuple[str, ...]:
    """What the name of a file may end in, for a model, a policy or a solution."""
    return (".rue",) if issubclass(kind, UMDP) else (".rue", *_EXPORTS)


def load(path: str | Path) -> Any:
    """Read what `save` wrote: a UMDP, a Policy or a Solution."""
    source = Path(path)
    try:
        source.stat()
    except (OSError, ValueError) as error:
        raise BadInput(f"{source}: there is no such file ({getattr(error, 'strerror', error)})") from None
    try:
        with source.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            header = _read_header(source, archive)
            memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            arrays = {info.filename.removesuffix(".npy"): _map_array(memory, info) for info in members}
    except RueError:
        raise
    except Exception as error:  # whatever a reader trips over, it is the file that is wrong
        raise BadFile(
            f"{source}: {_why_unreadable(source)} ({_one_line(error)}); expected a file written by rue.save"
        ) from None
    try:
        return _KINDS[header["kind"]][2](header, _Named(arrays))
    except BadInput as error:
        raise BadFile(f"{source}: {error}") from None
    except Exception as error:
        raise BadFile(f"{source}: the file is damaged ({_one_line(error)}); expected a {header['kind']}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    _write_atomically(Path(path), lambda stream: stream.write(data))


def check_writable(path: str | Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    target = Path(path)
    try:
        here, beside = target.is_dir(), target.parent.is_dir()
    except (OSError, ValueError) as error:  # it is no name of a file
        raise BadInput(f"{target}: cannot be written ({getattr(error, 'strerror', error)})") from None
    if here:
        raise BadInput(f"{target}: cannot be written (it is a folder); expected the name of a file")
    if not beside:
        raise BadInput(f"{target}: cannot be written (there is no folder {target.parent}); expected one that is there")
    handle, name = _open_beside(target)
    os.close(handle)
    Path(name).unlink()


def make_folder(path: str | Path) -> Path:
    """A folder to write to, made if it is not there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made a folder ({error.strerror})") from None
    return folder


def _open_beside(target: Path) -> tuple[int, str]:
    """A new file in the folder of the target, open for writing: its handle and its name."""
    try:
        return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise BadInput(f"{target}: cannot be written ({error.strerror})") from None


def _write_atomically(target: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write beside the target, then move into place."""
    handle, name = _open_beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp's files are private; ours are like any other
        Path(name).replace(target)
    except OSError as error:
        raise BadInput(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        Path(name).unlink(missing_ok=True)


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


def _padding(offset: int) -> bytes:
    """An extra field for a zip member's header after which its data, now at `offset`, are aligned."""
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


def _map_array(memory: mmap.mmap, info: zipfile.ZipInfo) -> Array:
    """An array as it lies in the file, read-only, once its checksum is verified."""
    name_length, extra_length = struct.unpack_from("<HH", memory, info.header_offset + LOCAL_HEADER - 4)
    first = info.header_offset + LOCAL_HEADER + name_length + extra_length
    if info.compress_type != zipfile.ZIP_STORED or first + info.file_size > len(memory):
        raise ValueError(f"{info.filename} is compressed or cut off")
    view = memoryview(memory)[first : first + info.file_size]
    if zlib.crc32(view) != info.CRC:
        raise ValueError(f"the checksum of {info.filename} is wrong")
    start = BytesIO(view[:NPY_HEADER])
    np.lib.format.read_magic(start)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(start)
    if dtype.hasobject or fortran:
        raise ValueError(f"{info.filename} holds {dtype} values in Fortran order or as objects")
    array: Array = np.frombuffer(memory, dtype, offset=first + start.tell(), count=int(np.prod(shape)))
    if start.tell() + array.nbytes != info.file_size:
        raise ValueError(f"{info.filename} has a length that its header does not say")
    # A mapped file must not change while it is in use; what is small is not worth that worry.
    if array.nbytes < SMALL or not array.flags.aligned:
        array = array.copy()
        array.flags.writeable = False
    return array.reshape(shape)


def _why_unreadable(source: Path) -> str:
    if source.is_dir():
        return "it is a directory"
    with source.open("rb") as stream:
        return "the file is damaged" if stream.read(2) == b"PK" else "it is no rue file"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _pack_graph(graph: Graph) -> tuple[dict[str, Any], dict[str, Array]]:
    header = {
        "initial": graph.initial,
        "state_label": graph.state_label,
        "action_label": graph.action_label,
        "layout": graph.layout,
    }
    return {"graph": header}, {name: getattr(graph, name) for name in GRAPH_ARRAYS}


def _unpack_graph(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Graph:
    fields: dict[str, Any] = {**{name: arrays[name] for name in GRAPH_ARRAYS}, **header["graph"]}
    return Graph(**fields)


def _pack_model(model: UMDP) -> tuple[dict[str, Any], dict[str, Array]]:
    header, arrays = _pack_graph(model.graph)
    scenery = {f"scenery_{number}": values for number, values in enumerate(model.scenery.values())}
    header |= {"sample_label": model.sample_label, "scenery": list(model.scenery)}
    return header, {**arrays, "prob": model.prob, "cost": model.cost, **scenery}


def _unpack_model(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> UMDP:
    scenery = {name: arrays[f"scenery_{number}"] for number, name in enumerate(header.get("scenery", ()))}
    return UMDP(_unpack_graph(header, arrays), arrays["prob"], arrays["cost"], header["sample_label"], scenery)


def _pack_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, Array]]:
    header, arrays = _pack_graph(policy.graph)
    return header, {**arrays, **{f"policy_{name}": getattr(policy, name) for name in POLICY_ARRAYS}}


def _unpack_policy(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Policy:
    return Policy(_unpack_graph(header, arrays), **{name: arrays[f"policy_{name}"] for name in POLICY_ARRAYS})


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
    }
    arrays["regret"] = np.array(solution.regret)
    proof = solution.certificate
    if proof is not None:
        about["certificate"] = {
            "objective": proof.objective, "fingerprint": proof.fingerprint, "bound": proof.bound,
        }  # fmt: skip
        arrays |= {f"certificate_{name}": getattr(proof, name) for name in CERTIFICATE_ARRAYS}
    return {**header, "solution": about}, arrays


def _unpack_solution(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Solution:
    about = header["solution"]
    solver = about["solver"]
    return Solution(
        policy=_unpack_policy(header, arrays),
        solver=Solver.known[one_of("method", solver["name"], Solver.known)](**solver["parameters"]),
        status=Status(about["status"]),
        objective=Interval(*about["objective"]),
        max_regret=Interval(*about["max_regret"]),
        regret=tuple(arrays["regret"].tolist()),
        seconds=about["seconds"],
        trace=tuple(TracePoint(*point) for point in about["trace"]),
        counters=about["counters"],
        certificate=_unpack_certificate(about.get("certificate"), arrays),
    )


def _unpack_certificate(about: Mapping[str, Any] | None, arrays: Mapping[str, Array]) -> Certificate | None:
    if about is None:
        return None
    fields: dict[str, Any] = {**about, **{name: arrays[f"certificate_{name}"] for name in CERTIFICATE_ARRAYS}}
    return Certificate(**fields)


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "model": (UMDP, _pack_model, _unpack_model),
    "policy": (Policy, _pack_policy, _unpack_policy),
    "solution": (Solution, _pack_solution, _unpack_solution),
}
_EXPORTS: dict[str, Callable[[Policy], str]] = {".json": Policy.to_json, ".csv": Policy.to_csv}
