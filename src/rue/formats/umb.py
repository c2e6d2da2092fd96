"""UMB 1.0, the unified Markov binary format: a tar of little-endian arrays, with `index.json` first.

States have choices, choices have branches, and branches have a target and a probability; all as arrays with pointers
(CSR). A file of one sample has its probabilities in the branches. A file of several samples, as rue writes it, has
their weighted mean there, so that other tools open it as the averaged model, and each sample in annotations of the
groups `sample-probability` (of branches) and `sample-cost` (of choices), which other tools leave alone.

The cost is the only reward, or the one called `cost`: a choice costs its own reward, that of its state, and the mean of
those of its branches. Goals have the atomic proposition `goal`, else `target`, else `done`.
"""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from rue._arrays import Array, pointers
from rue._text import short_line
from rue.errors import BadFile
from rue.flat import Flat
from rue.formats.assemble import Part, put_together
from rue.formats.drn import numbered_actions
from rue.formats.names import check_names, label_fields, names_of
from rue.formats.picks import Picks, other_labels, pick_goal, pick_reward
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.umb_valuations import state_names
from rue.formats.writing import write_atomically
from rue.model import UMDP

ENDING = ".umb"
INDEX = "index.json"
PROBABILITIES, SAMPLE_COSTS, NAMES = "sample-probability", "sample-cost", "rue-names"
DOUBLE, BOOL = {"type": "double", "size": 64}, {"type": "bool", "size": 1}


def looks_like_umb(start: bytes) -> bool:
    """Return whether a file that begins so is in this format."""
    return start[257:262] == b"ustar" and start.startswith(b"index.json\x00")


def read_umb(path: Path, model: object, **picked: str) -> UMDP:
    """Read a model."""
    return read_umb_files([path], **picked)


def read_umb_files(paths: Sequence[Path], **picked: str) -> UMDP:
    """Read a model of several files, each with one sample or more; `Picks` says which labels and rewards count."""
    picks = Picks(**picked)
    readers = [Reader(path, picks) for path in paths]
    flat = put_together([reader.part() for reader in readers], picks.avoid)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return model_from_rewards(where, flat, None, sign=1, ours=readers[0].names)


class Reader:
    """Reads one file."""

    def __init__(self, path: Path, picks: Picks, *, where: str | None = None) -> None:
        self.path, self.picks = where or str(path), picks
        self.about = where or f"{path}, {INDEX}"  # for messages about names
        self.file = _members(path)
        try:
            self.index = json.loads(self.file[INDEX].decode("utf-8-sig"))
            self.system: Mapping[str, Any] = self.index["transition-system"]
            self.states, self.choices, self.branches = (
                int(self.system[name]) for name in ("#states", "#choices", "#branches")
            )
            self.action_count = int(self.system.get("#choice-actions", 0))
        except KeyError as error:
            raise BadFile(f"{path}, {INDEX}: there is no {error}; expected a model in UMB") from None
        except (RecursionError, ValueError, TypeError, AttributeError):
            raise BadFile(f"{path}, {INDEX}: it is no JSON object of a model; expected a model in UMB") from None
        if min(self.states - 1, self.choices, self.branches, self.action_count) < 0:
            raise self.fail(
                INDEX, "a number of states, choices, branches or actions is too small; expected 0 or more, and a state"
            )
        self._check_kind()
        self.names = self._names()

    def fail(self, name: str, what: str) -> BadFile:
        """Return an error that names the file and the part of it, unless it was made of another file."""
        return BadFile(f"{self.path}: {what}" if self.about == self.path else f"{self.path}, {name}: {what}")

    def _check_kind(self) -> None:
        version = self.index.get("format-version")
        if version not in (0, 1):
            raise self.fail(INDEX, f"the version of the format is {version!r}; expected 1")
        for name, wanted in (("time", ("discrete",)), ("#players", (0, 1)), ("#observations", (0,))):
            value = self.system.get(name, wanted[0])
            if value not in wanted:
                raise self.fail(INDEX, f"{name} is {value!r}; expected {' or '.join(map(repr, wanted))}")
        kind = _type_of(self.system.get("branch-probability-type"))
        if kind not in ("double", "rational"):
            raise self.fail(INDEX, f"probabilities are of type {kind!r}; expected double or rational")
        self.kind = kind

    def array(self, name: str, dtype: str, size: int) -> Array | None:
        """Return an array; None if it is not there."""
        raw = self.file.get(name)
        if raw is None:
            return None
        wanted = size * np.dtype(dtype).itemsize
        if len(raw) != wanted:
            raise self.fail(name, f"it has {len(raw)} bytes; expected {wanted}")
        return np.frombuffer(raw, dtype)

    def bits(self, name: str, size: int) -> Array:
        """Return truth values; all false if they are not there."""
        raw = self.file.get(name)
        if raw is None:
            return np.zeros(size, bool)
        if len(raw) < (size + 7) // 8:
            raise self.fail(name, f"it has {len(raw)} bytes; expected {-(-size // 64) * 8}")
        return np.unpackbits(np.frombuffer(raw, np.uint8), count=size, bitorder="little").astype(bool)

    def pointers(self, name: str, size: int, end: int) -> Array:
        """Return where lists begin; each has one item if that is not said."""
        given = self.array(name, "<u8", size + 1)
        if given is None and size != end:
            raise self.fail(name, f"it is not there, and there are {size} lists of {end} items; expected one of each")
        ptr = np.arange(size + 1) if given is None else given.astype(np.int64)
        if ptr[0] != 0 or ptr[-1] != end or (np.diff(ptr) < 0).any():
            raise self.fail(name, f"it does not rise from 0 to {end}; expected pointers")
        return ptr

    def numbers(self, name: str, kind: str, size: int) -> Array | None:
        """Return floating-point numbers, or fractions as such."""
        if kind == "double":
            found = self.array(name, "<f8", size)
        else:
            pair = self.array(name, "<i8", 2 * size)
            with np.errstate(all="ignore"):
                found = None if pair is None else pair[::2] / pair[1::2].view("<u8")
        if found is not None and not np.isfinite(found).all():
            raise self.fail(name, f"number {int(np.argmin(np.isfinite(found)))} is not finite; expected numbers")
        return found

    def strings(self, folder: str, count: int) -> tuple[str, ...] | None:
        """Return texts, if they are there."""
        raw = self.file.get(f"{folder}/strings.bin")
        if raw is None or f"{folder}/string-mapping.bin" not in self.file:
            return None
        ptr = self.pointers(f"{folder}/string-mapping.bin", count, len(raw))
        try:
            return tuple(raw[a:b].decode() for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True))
        except UnicodeDecodeError:
            raise self.fail(f"{folder}/strings.bin", "it is no text; expected UTF-8") from None

    def part(self) -> Part:
        """Return the file as a part of a model."""
        prob = self.numbers("branch-to-probability.bin", self.kind, self.branches)
        if prob is None:
            raise self.fail("branch-to-probability.bin", "it is not there; expected probabilities")
        trans_ptr = self.pointers("choice-to-branches.bin", self.choices, self.branches)
        choice_ptr = self.pointers("state-to-choices.bin", self.states, self.choices)
        target = self._targets()
        flat = Flat(
            choice_ptr, np.arange(self.choices), trans_ptr, target, prob[:, None], np.zeros((self.choices, 1)), 0
        )
        flat = replace(flat, cost=self._cost(flat)[:, None], initial=self._initial())
        flat = self._samples(flat)
        flat = replace(flat, **self._actions(choice_ptr, self.names))
        own = label_fields(self.names)
        names = own["state_label"] if self.names else self._valuations()
        flat = replace(flat, state_label=names, sample_label=own["sample_label"], weight=own["weight"])
        masks = {name: self._labelled(key) for name, key in self._by_name("aps").items()}
        labels = {name: mask for name, mask in masks.items() if mask.any()}
        found = pick_goal(self.about, labels, self.picks.goal)
        none = np.zeros(self.states, bool)
        goal, avoid = (None if name is None else labels.get(name, none) for name in (found, self.picks.avoid))
        self.file.clear()
        return Part(str(self.path), flat, goal, None, bool(self.names), other_labels(labels), avoid)

    def _targets(self) -> Array:
        given = self.array("branch-to-target.bin", "<u8", self.branches)
        if given is None:
            return np.zeros(self.branches, np.int32)
        odd = np.flatnonzero(given >= self.states)
        if odd.size:
            raise self.fail(
                "branch-to-target.bin", f"target {odd[0]} is {given[odd[0]]}; expected 0 to {self.states - 1}"
            )
        self.file.pop("branch-to-target.bin")  # large, and not needed any more
        return given.astype(np.int32)

    def _names(self) -> Mapping[str, Any]:
        found = self.index.get("file-data", {})
        names = found.get("parameters") if isinstance(found, dict) and found.get("tool") == "rue" else None
        return check_names(f"{self.path}, {INDEX}", names[NAMES]) if isinstance(names, dict) and NAMES in names else {}

    def _valuations(self) -> tuple[str, ...] | None:
        about = _item(_item(self.index, "valuations"), "states")
        return state_names(
            _item(about, "classes"), bytes(self.file.get("valuations/states/valuations.bin", b"")), self.states
        )

    def _initial(self) -> int:
        initial = np.flatnonzero(self.bits("state-is-initial.bin", self.states))
        if initial.size != 1:
            raise self.fail("state-is-initial.bin", f"{initial.size} states are initial; expected one")
        return int(initial[0])

    def _annotations(self, group: str) -> Mapping[str, Any]:
        every = self.index.get("annotations") or {}
        found = _item(every, group) or {} if isinstance(every, dict) else None
        if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
            raise self.fail(INDEX, f"the annotations {group} are damaged; expected an object for each")
        return found

    def _by_name(self, group: str) -> dict[str, str]:
        """Return the keys of annotations by their names."""
        return {str(one.get("alias", key)): key for key, one in self._annotations(group).items()}

    def _labelled(self, key: str) -> Array:
        """Return which states have a label."""
        return self.bits(f"annotations/aps/{key}/states/values.bin", self.states)

    def _cost(self, flat: Flat) -> Array:  # [C]
        rewards = self._annotations("rewards")
        by_name = self._by_name("rewards")
        column = pick_reward(self.about, list(by_name), self.picks)
        if not by_name:
            return np.zeros(self.choices)
        known = list(by_name.values())[column]
        folder, kind = f"annotations/rewards/{known}", _type_of(rewards[known].get("type"))
        if kind not in ("double", "rational"):
            raise self.fail(INDEX, f"rewards are of type {kind!r}; expected double or rational")
        cost = np.zeros(self.choices)
        states = self.numbers(f"{folder}/states/values.bin", kind, self.states)
        if states is not None:
            cost += np.repeat(states, np.diff(flat.choice_ptr))
        choices = self.numbers(f"{folder}/choices/values.bin", kind, self.choices)
        if choices is not None:
            cost += choices
        branches = self.numbers(f"{folder}/branches/values.bin", kind, self.branches)
        if branches is not None:
            choice = np.repeat(np.arange(self.choices), np.diff(flat.trans_ptr))
            cost += np.bincount(choice, branches * flat.prob[:, 0], self.choices)
        return cost

    def _samples(self, flat: Flat) -> Flat:
        """Return the flat arrays with the samples of annotations, if there are some."""
        groups = [self._annotations(group) for group in (PROBABILITIES, SAMPLE_COSTS)]
        if not groups[0]:
            return flat
        columns: list[list[Array]] = [[], []]
        for k in range(len(groups[0])):
            for place, (group, entity, size) in enumerate(
                ((PROBABILITIES, "branches", self.branches), (SAMPLE_COSTS, "choices", self.choices))
            ):
                name = f"annotations/{group}/{k}/{entity}/values.bin"
                values = self.numbers(name, "double", size)
                if values is None or str(k) not in groups[place]:
                    raise self.fail(name, f"it is not there; expected the numbers of sample {k}")
                columns[place].append(values)
        return replace(flat, prob=np.stack(columns[0], axis=1), cost=np.stack(columns[1], axis=1))

    def _actions(self, choice_ptr: Array, names: Mapping[str, Any]) -> dict[str, Any]:
        count = self.action_count
        position = np.arange(self.choices) - np.repeat(choice_ptr[:-1], np.diff(choice_ptr))
        if count == 0:
            return {"action": position}
        action = self.array("actions/choices/values.bin", "<u4", self.choices)
        number = np.zeros(self.choices, np.int64) if action is None else action.astype(np.int64)
        if number.size and number.max() >= count:
            raise self.fail("actions/choices/values.bin", f"an action is {number.max()}; expected 0 to {count - 1}")
        label = self.strings("actions/choices", count)
        if names:
            return {"action": number, "action_label": None if names.get("action_label") is None else label}
        text = label or tuple(map(str, range(count)))
        words = [text[a] or short_line(f"action {a}") for a in number.tolist()]
        number, known = numbered_actions(words, choice_ptr, [one for one in text if one])
        return {"action": number, "action_label": known}


def _item(found: object, key: str) -> Any:
    """Return what an object of JSON has under a name; None if it is none, or has none."""
    return found.get(key) if isinstance(found, dict) else None


def _type_of(found: object) -> object:
    return found.get("type") if isinstance(found, dict) else found


def _members(path: Path) -> dict[str, bytearray]:
    """Return the files in the archive, by name."""
    try:
        with tarfile.open(path, "r:*") as archive:
            found: dict[str, bytearray] = {}
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    data = bytearray(member.size)  # which may be written to: arrays of the model lie in it
                    if stream.readinto(data) != member.size:  # type: ignore[attr-defined]
                        raise EOFError(f"{member.name} is cut off")
                    found[member.name.removeprefix("./").lstrip("/")] = data
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise BadFile(f"{path}: it is no archive ({short_line(str(error), 80)}); expected a model in UMB") from None
    if INDEX not in found:
        raise BadFile(f"{path}: there is no {INDEX}; expected a model in UMB")
    return found


def write_umb(path: Path, thing: Storable) -> None:
    """Write a model with all its samples."""
    assert isinstance(thing, UMDP)
    write_atomically(path, lambda stream: _write(stream, _possible(thing)))


def _possible(model: UMDP) -> UMDP:
    """Return the model without transitions that no sample has: other tools take each branch for a possible one."""
    live = model.ever_live
    if live.all():
        return model
    graph = model.graph
    length = np.bincount(graph.trans_choice[live], minlength=graph.choices)
    graph = replace(graph, trans_ptr=pointers(length), successor=graph.successor[live])
    return UMDP(graph, model.prob[live], model.cost, model.sample_label, {}, model.weight, model.units)


def _write(stream: IO[bytes], model: UMDP) -> None:
    graph, goals = model.graph, np.flatnonzero(model.graph.goal)
    # Other tools want a choice in each state: goals loop.
    choice, row = graph.choice_ptr[goals], graph.trans_ptr[graph.choice_ptr[goals]]
    actions = np.maximum(np.diff(graph.choice_ptr), 1)
    length = np.insert(np.diff(graph.trans_ptr), choice, 1)
    # A sample of weight zero counts too, or what only it can do would be a branch of probability zero.
    weight = model.weight if model.weight.all() else np.full(model.samples, 1 / model.samples)
    mean = np.insert(model.prob @ weight, row, 1.0)
    count = max(int(graph.action.max(initial=0)) + 1, len(graph.action_label or ()))
    label = [graph.action_name(action) for action in range(count)]
    files: dict[str, Array | bytes] = {
        "state-to-choices.bin": np.concatenate(([0], np.cumsum(actions))).astype("<u8"),
        "state-is-initial.bin": _bits(np.arange(graph.states) == graph.initial),
        "choice-to-branches.bin": np.concatenate(([0], np.cumsum(length))).astype("<u8"),
        "branch-to-target.bin": np.insert(graph.successor, row, goals).astype("<u8"),
        "branch-to-probability.bin": mean.astype("<f8"),
        "actions/choices/values.bin": np.insert(graph.action, choice, 0).astype("<u4"),
        "actions/choices/string-mapping.bin": np.cumsum([0, *(len(one.encode()) for one in label)]).astype("<u8"),
        "actions/choices/strings.bin": "".join(label).encode(),
        "annotations/aps/goal/states/values.bin": _bits(graph.goal),
        "annotations/rewards/cost/choices/values.bin": np.insert(model.cost @ weight, choice, 0.0).astype("<f8"),
    }
    annotations: dict[str, Any] = {
        "rewards": {"cost": {"alias": "cost", "applies-to": ["choices"], "type": DOUBLE}},
        "aps": {"goal": {"alias": "goal", "applies-to": ["states"], "type": BOOL}},
    }
    if model.samples > 1:
        for group, entity, table, place, fill in (
            (PROBABILITIES, "branches", model.prob, row, 1.0), (SAMPLE_COSTS, "choices", model.cost, choice, 0.0),
        ):  # fmt: skip
            annotations[group] = {}
            for k in range(model.samples):
                annotations[group][str(k)] = {"applies-to": [entity], "type": DOUBLE}
                files[f"annotations/{group}/{k}/{entity}/values.bin"] = np.insert(table[:, k], place, fill).astype(
                    "<f8"
                )
    index = {
        "format-version": 1,
        "format-revision": 0,
        "file-data": {"tool": "rue", "parameters": {NAMES: {**names_of(model), **units_of(model)}}},
        "transition-system": {
            "time": "discrete", "#players": 1, "#states": graph.states, "#initial-states": 1,
            "#choices": graph.choices + goals.size, "#choice-actions": count,
            "#branches": graph.transitions + goals.size, "#branch-actions": 0, "#observations": 0,
            "branch-probability-type": DOUBLE,
        },
        "annotations": annotations,
    }  # fmt: skip
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, INDEX, json.dumps(index).encode())
        for name, data in files.items():
            _add(archive, name, data if isinstance(data, bytes) else data.tobytes())


def _bits(values: Array) -> bytes:
    """Return truth values as bits, in whole groups of 64."""
    packed = np.packbits(values, bitorder="little").tobytes()
    return packed + bytes(-len(packed) % 8)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
