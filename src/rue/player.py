"""Play a policy of rue, step by step. One file: Python 3.11 or later, and nothing else.

    python player.py POLICY.json          tells what to do and asks what came of it; .rue and .csv files too

    player = Player.load("policy.json")   what rue.save wrote as .json, .rue (a policy or a solution) or .csv
    player.act()                          the action to take: its name, or its number if there are no names
    player.observe(state)                 what came of it, by name or by number
    player.reset()                        a new episode
    player.state, player.node, player.done, player.steps
    player.options()                      [(action, probability)] of the present node
    player.outcomes()                     [Outcome(state, node, transition)] of the action that was drawn
    player.draw(chances)                  observe an outcome drawn with these chances, one for each of outcomes()

The file may be copied out of the package, and imports nothing of rue. `random` is a function that returns numbers from
[0, 1). An episode takes one for the start, one for each action, and one for each outcome that is drawn: a number picks
the first item whose cumulated probability is above it. So it plays the episodes of `rue.simulate` if the numbers are
the same. docs/acting.md describes the files. Whatever is wrong is a `PlayerError` with one line.
"""

import argparse
import csv
import hashlib
import io
import json
import random as standard
import struct
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TEXT_FORMAT, TEXT_VERSION = "rue policy", 1
FILE_FORMAT, FILE_VERSION = "rue", 2
COLUMNS = ("node", "state", "action", "probability", "next", "start")
TOLERANCE = 1e-8  # how far probabilities may be from one in sum
NUMBERS = {"<i4": "i", "<i8": "q", "<f8": "d"}  # of numpy, for the module struct
ARRAYS = ("node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight")
Name = str | int


class PlayerError(ValueError):
    """A file that cannot be played, or a step that cannot be made; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Outcome(NamedTuple):
    """What an action may lead to."""

    state: Name
    node: int
    transition: int | None  # its number in the graph; None in a CSV file, which has no graph


class Entry(NamedTuple):
    """What a node does with some probability."""

    action: Name
    probability: float
    outcomes: tuple[Outcome, ...]


class Node(NamedTuple):
    """A node of the controller; at a goal it has no entries."""

    state: Name
    entries: tuple[Entry, ...]


class Controller(NamedTuple):
    """A policy: what every node does, and the probability to start at some of them."""

    nodes: list[Node]
    start: list[tuple[int, float]]
    states: list[str] | None  # the names in the order of their numbers; None if there are none


class Player:
    """A policy that is played: where it is and what it does next."""

    def __init__(self, controller: Controller, random: Callable[[], float] | None = None) -> None:
        self._nodes, self._start, names = _checked(controller)
        self._number = None if names is None else {name: number for number, name in enumerate(names)}
        self._names = names
        self._known = {node.state for node in self._nodes}
        self._random = random or standard.random
        self._begun = True
        self.reset()

    @classmethod
    def load(cls, path: str | Path, random: Callable[[], float] | None = None) -> "Player":
        """Return a player of the policy in a file."""
        try:
            return cls(read(Path(path)), random)
        except PlayerError as error:
            raise PlayerError(f"{path}: {error}") from None

    def reset(self) -> None:
        """Begin a new episode in the initial state. Called again before the first action, it changes nothing."""
        if self._begun:
            self._begun = False
            self.node = self._start[_pick([chance for _, chance in self._start], self._random())][0]
            self.steps = 0
            self._entry: Entry | None = None

    @property
    def state(self) -> Name:
        """The present state: its name, or its number if there are no names."""
        return self._nodes[self.node].state

    @property
    def done(self) -> bool:
        """Whether a goal is reached."""
        return not self._nodes[self.node].entries

    def act(self) -> Name:
        """Return the action to take. It is drawn once: until the next step the answer stays the same."""
        if self._entry is None:
            entries = self._nodes[self.node].entries
            if not entries:
                raise PlayerError(f"the player is at the goal {self.state}; expected reset() before it acts again")
            self._entry = entries[_pick([entry.probability for entry in entries], self._random())]
            self._begun = True
        return self._entry.action

    def observe(self, state: Name, outcome: int | None = None) -> None:
        """Take the state that the action led to; `outcome` is needed where the policy tells two ways there apart."""
        reached = self._name_of(state)
        places = [place for place, other in enumerate(self.outcomes()) if other.state == reached]
        if outcome is not None:
            places = [place for place in places if place == outcome]
        found = [self.outcomes()[place].node for place in places]
        if not found:
            raise PlayerError(f"{self._taken()} cannot lead to state {reached}; expected another")
        if len(set(found)) > 1:
            expected = " or ".join(f"outcome={place}" for place in places)
            raise PlayerError(
                f"{self._taken()} leads to state {reached} by {len(found)} outcomes that the policy tells apart; "
                f"expected {expected}"
            )
        self._move(found[0])

    def options(self) -> list[tuple[Name, float]]:
        """Return what the present node does, with probabilities."""
        return [(entry.action, entry.probability) for entry in self._nodes[self.node].entries]

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what the action that was drawn may lead to, in the order of the graph."""
        if self._entry is None:
            raise PlayerError(f"the player in state {self.state} has not acted; expected act() first")
        return self._entry.outcomes

    def draw(self, chances: Sequence[float]) -> Outcome:
        """Observe an outcome that is drawn with these chances, one for each of `outcomes()`; return it."""
        outcomes = self.outcomes()
        if len(chances) != len(outcomes):
            raise PlayerError(f"there are {len(chances)} chances; expected one for each of {len(outcomes)} outcomes")
        place = _pick(chances, self._random())
        if place < 0:
            raise PlayerError("no chance is above 0; expected those of the outcomes")
        self._move(outcomes[place].node)
        return outcomes[place]

    def _move(self, node: int) -> None:
        self.node, self._entry = node, None
        self.steps += 1

    def _name_of(self, state: Name) -> Name:
        """Return the state as the nodes have it: by name if there are names."""
        if isinstance(state, str) and self._number is not None:
            if state not in self._number:
                raise PlayerError(f"unknown state {state!r}; expected the name of a state of the policy")
            return state
        try:
            number = int(state)
        except (TypeError, ValueError):
            raise PlayerError(f"unknown state {state!r}; expected a state of the policy") from None
        if self._names is not None:
            if not 0 <= number < len(self._names):
                raise PlayerError(f"the state {state} is out of range; expected 0 to {len(self._names) - 1}")
            return self._names[number]
        if number not in self._known:
            raise PlayerError(f"unknown state {state!r}; expected a state of the policy")
        return number

    def _taken(self) -> str:
        return f'action "{self.act()}" of state {self.state}'


def _pick(chances: Sequence[float], draw: float) -> int:
    """Return the item that a number in [0, 1) picks: the first whose cumulated chance is above it; -1 if all are 0."""
    last = -1
    for place, chance in enumerate(chances):
        if chance > 0:
            last = place
            draw -= chance
            if draw < 0:
                break
    return last


def read(path: Path) -> Controller:
    """Return the policy in a file: .json or .csv by its name, else rue's own format."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise PlayerError(f"cannot be read ({error.strerror})") from None
    kind = path.suffix.lower()
    try:
        if kind == ".json":
            return from_json(whole.decode("utf-8-sig"))
        return from_csv(whole.decode("utf-8-sig")) if kind == ".csv" else from_rue(whole)
    except PlayerError:
        raise
    except UnicodeError:
        raise PlayerError("it is no text in UTF-8; expected a policy as rue.save writes it") from None
    except Exception as error:  # whatever goes wrong here, the file is wrong
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise PlayerError(f"the policy is damaged ({problem}); expected one as rue.save writes it") from None


def from_json(text: str) -> Controller:
    """Return the policy that `Policy.to_json` wrote."""
    try:
        whole = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise PlayerError(f"it is no JSON ({error}); expected a policy as rue.save writes it") from None
    if not isinstance(whole, dict) or whole.get("format") != TEXT_FORMAT:
        raise PlayerError("it is JSON of something else; expected a policy as rue.save writes it")
    if whole.get("version") != TEXT_VERSION:
        raise PlayerError(f"it has version {whole.get('version')} of the format; expected version {TEXT_VERSION}")
    graph, nodes = whole["graph"], []
    names, labels = graph["state_label"], graph["action_label"]
    number = {name: i for i, name in enumerate(names or map(str, range(len(graph["choice_ptr"]) - 1)))}
    known = {name: i for i, name in enumerate(labels or map(str, range(max(graph["action"], default=-1) + 1)))}
    for place, node in enumerate(whole["nodes"]):
        if node["node"] != place:
            raise PlayerError(f"node {node['node']} is in place {place}; expected nodes in order, 0, 1, 2, ...")
        state, entries = number[node["state"]], []
        begin, end = graph["choice_ptr"][state : state + 2]
        for entry in node["actions"]:
            action = known[entry["action"]]
            first = graph["trans_ptr"][begin + graph["action"][begin:end].index(action)]
            outcomes = tuple(
                Outcome(out["state"] if names else number[out["state"]], out["node"], first + j)
                for j, out in enumerate(entry["next"])
            )
            entries.append(Entry(entry["action"] if labels else action, entry["probability"], outcomes))
        nodes.append(Node(node["state"] if names else state, tuple(entries)))
    return Controller(nodes, [(begin["node"], begin["probability"]) for begin in whole["start"]], names)


def from_csv(text: str) -> Controller:
    """Return the policy that `Policy.to_csv` wrote. Names that are all whole numbers count as numbers."""
    csv.field_size_limit(max(len(text), csv.field_size_limit()))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for name in COLUMNS:
        if not rows or name not in rows[0]:
            raise PlayerError(f"there is no column {name!r}; expected a table with {', '.join(COLUMNS)}")
    as_state = int if all(row["state"].isdecimal() for row in rows) else str
    as_action = int if all(row["action"].isdecimal() for row in rows if row["action"]) else str
    state: dict[int, Name] = {int(row["node"]): as_state(row["state"]) for row in rows}
    start = {int(row["node"]): float(row["start"] or 0) for row in rows}
    entries: dict[int, list[Entry]] = {node: [] for node in range(len(state))}
    for row in rows:
        if row["action"]:
            outcomes = tuple(Outcome(state[int(node)], int(node), None) for node in row["next"].split())
            entries[int(row["node"])].append(Entry(as_action(row["action"]), float(row["probability"]), outcomes))
    nodes = [Node(state[node], tuple(entries[node])) for node in range(len(state))]
    names = None if as_state is int else [str(name) for name in dict.fromkeys(state.values())]
    return Controller(nodes, [(node, chance) for node, chance in sorted(start.items()) if chance > 0], names)


def from_rue(whole: bytes) -> Controller:
    """Return the policy in a .rue file: a zip without compression, with a header and one .npy for each array."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(whole))
        header = json.loads(archive.read("header.json"))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise PlayerError(f"it is no rue file ({error}); expected one as rue.save writes it") from None
    if header.get("format") != FILE_FORMAT:
        raise PlayerError("it is a file of another program; expected one as rue.save writes it")
    if header.get("version") != FILE_VERSION:
        raise PlayerError(f"it has version {header.get('version')} of the format; expected version {FILE_VERSION}")
    if header.get("kind") == "model":
        raise PlayerError("it holds a model; expected a policy or a solution")
    lines = "".join(f"{part.filename} {part.file_size} {part.CRC}\n" for part in archive.infolist())
    if archive.comment != hashlib.sha256(lines.encode()).hexdigest().encode():
        raise PlayerError("its parts are not those that were written; expected a file as rue.save writes it")
    graph = {name: _numbers(archive, name) for name in ("choice_ptr", "action", "trans_ptr", "successor")}
    names, labels = header["graph"]["state_label"], header["graph"]["action_label"]
    own = {name: _numbers(archive, f"policy_{name}") for name in ARRAYS}
    state: list[Name] = [names[s] if names else s for s in own["node_state"]]
    entries = []
    for e, choice in enumerate(own["choice"]):
        following = own["next_node"][own["next_ptr"][e] : own["next_ptr"][e + 1]]
        first, action = graph["trans_ptr"][choice], graph["action"][choice]
        outcomes = tuple(Outcome(state[node], node, first + j) for j, node in enumerate(following))
        entries.append(Entry(labels[action] if labels else action, own["weight"][e], outcomes))
    ptr = own["entry_ptr"]
    nodes = [Node(here, tuple(entries[ptr[i] : ptr[i + 1]])) for i, here in enumerate(state)]
    return Controller(nodes, list(zip(own["start_node"], own["start_weight"], strict=True)), names)


def _numbers(archive: zipfile.ZipFile, name: str) -> list[Any]:
    """Return the numbers of an array in numpy's format."""
    part = archive.read(f"{name}.npy")
    (length,) = struct.unpack_from("<H", part, 8)
    kind = part[10 : 10 + length].split(b"'descr': '")[1][:3].decode()
    if part[:6] != b"\x93NUMPY" or kind not in NUMBERS:
        raise PlayerError(f"the array {name} holds {kind} values; expected {', '.join(NUMBERS)}")
    count = (len(part) - 10 - length) // int(kind[2])
    return list(struct.unpack_from(f"<{count}{NUMBERS[kind]}", part, 10 + length))


def _checked(controller: Controller) -> Controller:
    """Return the controller, if every step of it leads somewhere and its probabilities are some."""
    nodes, start, _ = controller
    for place, node in enumerate(nodes):
        chances = [entry.probability for entry in node.entries]
        if chances and not (min(chances) > 0 and abs(sum(chances) - 1) <= TOLERANCE):
            raise PlayerError(f"the probabilities of node {place} are {chances}; expected positive ones, 1 in sum")
        for out in (out for entry in node.entries for out in entry.outcomes):
            if not (isinstance(out.node, int) and 0 <= out.node < len(nodes)) or nodes[out.node].state != out.state:
                raise PlayerError(f"node {place} leads to node {out.node}; expected a node of state {out.state}")
    if not start or any(not 0 <= node < len(nodes) for node, _ in start):
        raise PlayerError("there is no node to start at, or one that does not exist; expected start nodes")
    total = sum(chance for _, chance in start)
    if not (min(chance for _, chance in start) >= 0 and abs(total - 1) <= TOLERANCE):
        raise PlayerError(f"the probabilities to start sum to {total}; expected 1")
    return controller


def main(arguments: Sequence[str] | None = None) -> int:
    """Play a policy with somebody who says what happened."""
    parser = argparse.ArgumentParser(description="Tell what a policy does, and ask what came of it.")
    parser.add_argument("policy", help="a .json, .csv or .rue file, as rue.save writes it")
    parser.add_argument("--seed", type=int, help="fixes what is drawn")
    given = parser.parse_args(arguments)
    try:
        player = Player.load(given.policy, standard.Random(given.seed).random)
        while not player.done:
            print(f"{player.state}: {player.act()}", flush=True)
            line = sys.stdin.readline()
            if not line:
                return 0
            try:
                player.observe(line.strip())
            except PlayerError as error:
                print(error, file=sys.stderr)
        print(f"{player.state}: done after {player.steps} steps")
    except PlayerError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
