"""Write the corpus of broken files: `python tests/data/make_broken.py` fills tests/data/broken/.

`rue.save` refuses what is not a model, so each file is put together by hand, a zip of header.json and .npy members, and
rue is not imported. Every file starts from something sound and has one thing wrong. `expected.json`, beside the files,
says what the message must contain.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Header = dict[str, Any]
Arrays = dict[str, Any]

# camp --walk--> ridge --walk--> hut (the goal), or camp --wade--> ford --walk--> hut; samples "dry" and "wet".
CAMP, RIDGE, FORD, HUT = range(4)


def model_header() -> Header:
    return {
        "format": "rue",
        "version": 2,
        "kind": "model",
        "graph": {
            "initial": CAMP,
            "state_label": ["camp", "ridge", "ford", "hut"],
            "action_label": ["walk", "wade"],
            "layout": {},
        },
        "sample_label": ["dry", "wet"],
    }


def graph_arrays() -> Arrays:
    return {
        "choice_ptr": np.array([0, 2, 3, 4, 4]),
        "action": np.array([0, 1, 0, 0], np.int32),
        "trans_ptr": np.array([0, 2, 3, 5, 6]),
        "successor": np.array([RIDGE, CAMP, FORD, HUT, RIDGE, HUT], np.int32),
    }


def model_arrays() -> Arrays:
    prob = [[0.9, 0.8], [0.1, 0.2], [1.0, 1.0], [0.5, 0.25], [0.5, 0.75], [1.0, 1.0]]
    cost = [[1.0, 1.0], [2.0, 4.0], [1.0, 1.5], [1.0, 3.0]]
    return {**graph_arrays(), "prob": np.array(prob), "cost": np.array(cost)}


def policy_header() -> Header:
    header = {**model_header(), "kind": "policy"}
    del header["sample_label"]
    return header


def policy_arrays() -> Arrays:
    """Walk everywhere: one node for each state."""
    return {
        **graph_arrays(),
        "policy_node_state": np.arange(4, dtype=np.int32),
        "policy_entry_ptr": np.array([0, 1, 2, 3, 3]),
        "policy_choice": np.array([0, 2, 3], np.int32),
        "policy_weight": np.ones(3),
        "policy_next_ptr": np.array([0, 2, 4, 5]),
        "policy_next_node": np.array([RIDGE, CAMP, HUT, RIDGE, HUT], np.int32),
        "policy_start_node": np.array([CAMP], np.int32),
        "policy_start_weight": np.ones(1),
    }


def solution_header() -> Header:
    about = {
        "solver": {"name": "average", "parameters": {}},
        "status": "solved",
        "objective": [3.0, 3.0],
        "max_regret": [0.0, 0.5],
        "seconds": 0.25,
        "trace": [],
        "counters": {},
    }
    return {**policy_header(), "kind": "solution", "solution": about}


def solution_arrays() -> Arrays:
    return {**policy_arrays(), "regret": np.array([0.0, 0.5])}


def npy(array: Any, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=pickled)
    return stream.getvalue()


def npy_with_shape(shape: str) -> bytes:
    """An .npy whose header promises more than there is."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16)


def pack(header: Any, arrays: Arrays) -> bytes:
    """A zip as rue writes it; a header or an array may also be given as raw bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        archive.writestr(zipfile.ZipInfo("header.json"), text)
        for name, array in arrays.items():
            content = array if isinstance(array, bytes) else npy(array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content)
        archive.comment = digest(archive)
    return stream.getvalue()


def digest(archive: zipfile.ZipFile) -> bytes:
    """Of the names, sizes and checksums of all parts."""
    lines = "".join(f"{part.filename} {part.file_size} {part.CRC}\n" for part in archive.infolist())
    return hashlib.sha256(lines.encode()).hexdigest().encode()


def sound_model() -> bytes:
    return pack(model_header(), model_arrays())


def sound_policy() -> bytes:
    return pack(policy_header(), policy_arrays())


def sound_solution() -> bytes:
    return pack(solution_header(), solution_arrays())


def model_with(change: Callable[[Header, Arrays], object]) -> bytes:
    header, arrays = model_header(), model_arrays()
    change(header, arrays)
    return pack(header, arrays)


def policy_with(**changed: Any) -> bytes:
    return pack(policy_header(), {**policy_arrays(), **{f"policy_{name}": array for name, array in changed.items()}})


def solution_with(**changed: Any) -> bytes:
    header = solution_header()
    header["solution"].update(changed)
    return pack(header, solution_arrays())


def numbers(name: str, *changes: tuple[Any, float]) -> bytes:
    """The sound model with other numbers at some places of an array."""

    def change(header: Header, arrays: Arrays) -> None:
        for place, value in changes:
            arrays[name][place] = value

    return model_with(change)


def replaced(name: str, array: Any) -> bytes:
    return model_with(lambda header, arrays: arrays.update({name: array}))


def labelled(**changed: Any) -> bytes:
    return model_with(lambda header, arrays: header["graph"].update(changed))


def headed(**changed: Any) -> bytes:
    return model_with(lambda header, arrays: header.update(changed))


def without(name: str) -> bytes:
    return model_with(lambda header, arrays: (header.pop(name, None), arrays.pop(name, None)))


def flipped(raw: bytes, place: int, bit: int = 0) -> bytes:
    changed = bytearray(raw)
    changed[place] ^= 1 << bit
    return bytes(changed)


def directory_entry(raw: bytes) -> int:
    """Where the zip's directory begins."""
    return raw.index(b"PK\x01\x02")


def trapped(header: Header, arrays: Arrays) -> None:
    """In the wet there is no way out of the ford, and both ways from the camp may lead there: no policy is safe."""
    arrays["successor"] = np.array([RIDGE, CAMP, FORD, HUT, FORD, HUT, FORD], np.int32)
    arrays["trans_ptr"] = np.array([0, 2, 3, 5, 7])
    arrays["prob"] = np.vstack([arrays["prob"][:3], [[1.0, 0.25], [0.0, 0.75], [1.0, 0.0], [0.0, 1.0]]])


def without_goal(header: Header, arrays: Arrays) -> None:
    arrays["choice_ptr"][-1] = 5
    arrays["action"] = np.append(arrays["action"], np.int32(0))
    arrays["trans_ptr"] = np.append(arrays["trans_ptr"], 7)
    arrays["successor"] = np.append(arrays["successor"], np.int32(HUT))
    arrays["prob"] = np.vstack([arrays["prob"], np.ones(2)])
    arrays["cost"] = np.vstack([arrays["cost"], np.zeros(2)])


def without_samples(header: Header, arrays: Arrays) -> None:
    header["sample_label"] = []
    arrays.update(prob=arrays["prob"][:, :0], cost=arrays["cost"][:, :0])


def foreign_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("word/document.xml"), "<w:document/>")
    return stream.getvalue()


def broken_files() -> Iterator[tuple[str, bytes]]:
    """Names and contents."""
    # Numbers.
    yield "rows_do_not_sum", numbers("prob", ((1, 1), 0.1), ((3, 0), 0.25), ((3, 1), 0.5))
    yield "negative_probability", numbers("prob", ((0, 0), -0.25), ((1, 0), 1.25))
    yield "nan_probability", numbers("prob", ((3, 1), np.nan), ((4, 1), np.nan))
    yield "probability_above_one", numbers("prob", ((2, 0), 3.0))
    yield "nan_cost", numbers("cost", ((1, 1), np.nan))
    yield "infinite_cost", numbers("cost", ((1, 0), np.inf), ((3, 1), -np.inf))
    yield "negative_cost", numbers("cost", ((2, 1), -1.5))
    yield "float32_rows", replaced("prob", model_arrays()["prob"].astype(np.float32))
    # What the graph says.
    yield "no_proper_policy", model_with(trapped)
    yield "no_goal", model_with(without_goal)
    yield "initial_too_large", labelled(initial=4)
    yield "initial_negative", labelled(initial=-1)
    yield "initial_no_number", labelled(initial="camp")
    yield "successor_out_of_range", numbers("successor", (5, 4))
    yield "successor_negative", numbers("successor", (2, -1))
    yield "successor_beyond_32_bits", replaced("successor", np.array([1, 0, 2**32 + 2, 3, 1, 3]))
    yield "action_twice", numbers("action", (1, 0))
    # Shapes that disagree.
    yield "no_samples", model_with(without_samples)
    yield "prob_row_missing", replaced("prob", model_arrays()["prob"][:-1])
    yield "prob_one_axis", replaced("prob", model_arrays()["prob"].ravel())
    yield "cost_row_missing", replaced("cost", model_arrays()["cost"][:-1])
    yield "cost_sample_missing", replaced("cost", model_arrays()["cost"][:, :1])
    yield "choice_pointers_too_far", numbers("choice_ptr", (4, 5))
    yield "choice_pointers_fall", numbers("choice_ptr", (1, 3), (2, 2))
    yield "choice_without_transitions", numbers("trans_ptr", (1, 3))
    yield "trans_pointers_too_many", replaced("trans_ptr", np.array([0, 2, 3, 4, 5, 6]))
    yield "pointers_are_floats", replaced("choice_ptr", model_arrays()["choice_ptr"].astype(float))
    yield "state_label_missing", labelled(state_label=["camp", "ridge", "ford"])
    yield "state_label_twice", labelled(state_label=["camp", "ridge", "camp", "hut"])
    yield "action_label_missing", labelled(action_label=["walk"])
    yield "sample_label_missing", headed(sample_label=["dry"])
    yield "sample_label_twice", headed(sample_label=["dry", "dry"])
    # Files.
    yield "empty", b""
    yield "text", b"state,action,cost\ncamp,walk,1\n"
    yield "foreign_zip", foreign_zip()
    yield "another_program", headed(format="other")
    yield "other_version", headed(version=1)
    yield "version_with_line_break", headed(version="2\n3")
    yield "unknown_kind", headed(kind="picture")
    yield "kind_is_a_list", headed(kind=["model"])
    yield "header_is_a_list", pack([1, 2], model_arrays())
    yield "header_no_json", pack(b"{format: rue}", model_arrays())
    yield "header_too_deep", pack(b"[" * 5_000, {})
    yield "header_without_graph", without("graph")
    yield "array_missing", without("cost")
    yield "array_of_objects", replaced("prob", npy(np.array([[1, "x"]], object), pickled=True))
    yield "array_of_text", replaced("cost", np.full((4, 2), "free"))
    yield "array_cut_short", replaced("prob", npy(model_arrays()["prob"])[:-8])
    yield "array_too_long", replaced("prob", npy(model_arrays()["prob"]) + b"\0")
    yield "array_of_terabytes", replaced("prob", npy_with_shape("(3000000000000, 2)"))
    yield "array_beyond_64_bits", replaced("prob", npy_with_shape("(300000000000000000000, 2)"))
    raw = sound_model()
    yield "truncated", raw[: len(raw) // 2]
    yield "truncated_at_the_end", raw[:-1]
    yield "byte_flipped_in_array", flipped(raw, raw.index(np.float64(0.9).tobytes()))
    yield "byte_flipped_in_header", flipped(raw, raw.index(b"ridge"))
    yield "marked_as_encrypted", flipped(raw, directory_entry(raw) + 8)
    yield "marked_as_compressed", flipped(raw, directory_entry(raw) + 10, bit=3)
    # Policies and solutions.
    yield "policy_choice_of_another_state", policy_with(choice=np.array([2, 2, 3], np.int32))
    yield "policy_choice_out_of_range", policy_with(choice=np.array([0, 2, 9], np.int32))
    yield "policy_weights_do_not_sum", policy_with(weight=np.array([1.0, 0.5, 1.0]))
    yield "policy_weights_missing", policy_with(weight=np.ones(2))
    yield "policy_weights_in_two_axes", policy_with(weight=np.ones((3, 2)))
    yield "policy_node_of_no_state", policy_with(node_state=np.array([0, 1, 2, 7], np.int32))
    yield "policy_next_node_elsewhere", policy_with(next_node=np.array([RIDGE, CAMP, HUT, FORD, HUT], np.int32))
    yield "policy_start_elsewhere", policy_with(start_node=np.array([RIDGE], np.int32))
    yield "policy_start_weight_missing", policy_with(start_node=np.array([CAMP, CAMP], np.int32))
    yield "policy_array_missing", pack(policy_header(), graph_arrays())
    yield "solution_of_unknown_solver", solution_with(solver={"name": "oracle", "parameters": {}})
    yield "solution_with_unknown_parameter", solution_with(solver={"name": "average", "parameters": {"steps": 1}})
    yield "solution_with_bad_parameter", solution_with(solver={"name": "reg", "parameters": {"steps": 0}})
    yield "solution_with_unknown_status", solution_with(status="finished")
    yield "solution_with_half_a_bound", solution_with(objective=[3.0])


def write_all(folder: Path) -> None:
    for name, content in broken_files():
        (folder / f"{name}.rue").write_bytes(content)


if __name__ == "__main__":
    write_all(Path(__file__).parent / "broken")
