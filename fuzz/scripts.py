"""Mutated files and odd words on the command line: either it works or there is one line that says why not.

A case is a `Script`: some files, and commands to be run beside them. `draw` makes one from a seed: a good file, changed
in one to three places, and what people do with such files.
"""

import base64
import contextlib
import io
import json
import math
import sys
import tempfile
import tokenize
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rue
from fuzz.checks import Failure
from fuzz.models import Random
from rue.cli import main
from rue.experiments.spec import read_spec

EVERY = range(100)  # all mutations
LONGEST_LINE = 5000  # letters that somebody may read
PNG = 0.08  # pictures are slow to draw: the part of the cases with one


@dataclass(frozen=True)
class Script:
    """Files by name, and commands that are run in their folder."""

    kind: str
    files: dict[str, bytes]
    commands: tuple[tuple[str, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """The form of corpus files: text as it is, other files packed."""
        return {"files": {name: _packed(data) for name, data in self.files.items()}, "commands": list(self.commands)}

    @classmethod
    def from_json(cls, kind: str, data: dict[str, Any]) -> "Script":
        """A script from a corpus file."""
        files = {name: _unpacked(text) for name, text in data["files"].items()}
        return cls(kind, files, tuple(tuple(command) for command in data["commands"]))


def _packed(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("ascii")}
    except UnicodeDecodeError:
        return {"zlib+base64": base64.b64encode(zlib.compress(data, 9)).decode()}


def _unpacked(data: dict[str, str]) -> bytes:
    return data["text"].encode() if "text" in data else zlib.decompress(base64.b64decode(data["zlib+base64"]))


def examine(script: Script) -> tuple[list[Failure], Counter[str]]:
    """What goes wrong in a script, and how many of its commands were done or refused."""
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, data in (_bases() | script.files).items():
            Path(name).write_bytes(data)
        for command in script.commands:
            wrong = _run(command, done)
            if wrong is not None:
                return [Failure(wrong[0], f"rue {' '.join(command)[:200]}: {wrong[1]}")], done
    return [], done


def _run(command: tuple[str, ...], done: Counter[str]) -> tuple[str, str] | None:
    """The check that a command fails, and how; None if all is well."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    told = warnings.catch_warnings(record=True)
    sys.argv = ["rue", *command]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), told as strange:
            warnings.simplefilter("always")  # not only the first of its kind
            if command[0] == "read":
                _read_spec(command[1])
            main()
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "traceback", f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    finally:
        sys.argv = argv
    lines = err.getvalue().splitlines()
    if status not in (0, 1, 2) or "Traceback" in err.getvalue():
        return "status", f"exit status {status}; {err.getvalue()[-300:]}"
    if status == 2 and (len(lines) != 1 or len(lines[0]) > LONGEST_LINE):
        return "one line", f"{len(lines)} lines of {len(err.getvalue())} letters; {err.getvalue()[:200]}"
    if strange:
        return "warning", f"{Path(strange[0].filename).name}:{strange[0].lineno}: {strange[0].message}"
    done["refused" if status == 2 else "worked"] += 1
    if "--json" in command and (status == 0 or (status == 1 and command[0] != "verify")):
        try:
            facts = json.loads(out.getvalue(), parse_constant=_no_json)
        except ValueError as error:
            return "json", f"{error}: {out.getvalue()[:200]}"
        if command[0] == "verify" and status == 0:
            return _check_proof(facts)
    return None


def _read_spec(path: str) -> None:
    """What a spec stands for, as `rue experiment run` has it before it starts other processes, which take long."""
    try:
        read_spec(path)
    except rue.RueError as error:
        print(f"rue: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _no_json(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _check_proof(facts: dict[str, Any]) -> tuple[str, str] | None:
    """A certificate that was accepted must be true."""
    proved = float(facts.get("proved", facts.get("bound", 0.0)))
    least = _least()[facts.get("objective", "regret")]
    return None if proved <= least else ("certificate", f"accepted with {proved!r}; some policy has {least!r}")


# What is mutated: a model with names, a grid with a picture, and what solvers made of them.


@cache
def _models() -> dict[str, rue.UMDP]:
    builder = rue.Builder(samples=3)
    builder.add("new", "look", {"left": [0.75, 0.25, 0.5], "right": [0.25, 0.75, 0.5]}, cost=1.0)
    builder.add("new", "go", {"done": 0.5, "new": 0.5}, cost=[2.0, 3.0, 4.0])
    for state in ("left", "right"):
        builder.add(state, "a", {"done": 1.0}, cost=[1.0, 5.0, 3.0])
        builder.add(state, "b", {"done": [0.5, 1.0, 0.5], "new": [0.5, 0.0, 0.5]}, cost=[5.0, 1.0, 2.0])
    return {
        "base": builder.goal("done").build(),
        "grid": rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1),
    }


@cache
def _solutions() -> dict[str, rue.Solution]:
    found = {}
    for name, model in _models().items():
        found[f"{name}-adaptive"] = rue.solve(model, rue.Adaptive(0.01))
        found[f"{name}-cost"] = rue.solve(model, rue.Adaptive(0.01, objective="cost"))
        found[f"{name}-mixture"] = rue.solve(model, rue.Mixture())
    return found


@cache
def _least() -> dict[str, float]:
    """The least max regret and the least worst-case cost of any known policy of the first model."""
    verdicts = [
        rue.evaluate(_models()["base"], s.policy) for name, s in _solutions().items() if name.startswith("base")
    ]
    return {
        "regret": min(v.max_regret + v.error for v in verdicts),
        "cost": min(float(v.value.max()) + v.error for v in verdicts),
    }


@cache
def _bases() -> dict[str, bytes]:
    """The good files, by name."""
    with tempfile.TemporaryDirectory() as folder:
        things: dict[str, Any] = {**_models(), **_solutions(), "policy": _solutions()["base-mixture"].policy}
        for name, thing in things.items():
            rue.save(Path(folder) / f"{name}.rue", thing)
        rue.save(Path(folder) / "policy.json", things["policy"])
        rue.save(Path(folder) / "policy.csv", things["policy"])
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


# Odd values

DEEP: Any = 1
for _ in range(50):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 10**6, 2**31, 2**63, 10**400, -(10**30), 0.5, -0.0, 1e308, 1e-320, math.nan,
    math.inf,
    "", "x", "nan", "3", "\n\t\x00", "é\u2028\ud800", "x" * 5000, [], {}, [[]], [None], [1, 2], [3, 3], [-1, 4],
    [1e9, 1e9],    ["a", "a"], {"a": 1}, {"": None}, DEEP,
)  # fmt: skip


def _odd(random: Random) -> Any:
    return ODD[random.integers(len(ODD))]


def _in_tree(random: Random, tree: Any) -> Any:
    """The tree with one place changed: another value, one less, one more, or two swapped."""
    if isinstance(tree, dict) and tree and random.random() < 0.85:
        keys = list(tree)
        key = keys[random.integers(len(keys))]
        kind = random.random()
        if kind < 0.12:
            return {k: v for k, v in tree.items() if k != key}
        if kind < 0.2:
            return {**tree, str(_odd(random)): _odd(random)}
        if kind < 0.27:
            return {**tree, key: tree[keys[random.integers(len(keys))]]}
        return {**tree, key: _in_tree(random, tree[key])}
    if isinstance(tree, list) and tree and random.random() < 0.7:
        at = int(random.integers(len(tree)))
        kind = random.random()
        if kind < 0.15:
            return tree[:at] + tree[at + 1 :]
        if kind < 0.3:
            return [*tree[:at], tree[at], *tree[at:]]
        return [*tree[:at], _in_tree(random, tree[at]), *tree[at + 1 :]]
    if isinstance(tree, int | float) and not isinstance(tree, bool) and random.random() < 0.4:
        nearly_same = [1, -1, 0.5, 1e-9][random.integers(4)]
        return tree + (nearly_same if abs(tree) < 1e300 else 1)  # a whole number may be too large for a float
    return _odd(random)


def _in_bytes(random: Random, data: bytes) -> bytes:
    """The bytes with some changed, cut off, doubled or put in."""
    kind, at = random.integers(5), int(random.integers(len(data) + 1))
    length = int(random.integers(1, 64))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + length :]
    if kind == 2:
        return data[:at] + random.bytes(length) + data[at:]
    if kind == 3:
        return data[:at] + data[max(at - length, 0) : at] + data[at:]
    changed = bytearray(data)
    for place in random.integers(len(data), size=length // 8 + 1) if data else ():
        changed[place] ^= 1 << int(random.integers(8))
    return bytes(changed)


def _in_array(random: Random, array: np.ndarray) -> np.ndarray:
    """The array with other values, of another type or of another shape."""
    kind = random.random()
    if kind < 0.15:
        types = ["f4", "f8", "i4", "i8", "u1", "?", "U3", "c16", ">f8", "M8[s]", "f2", "i1", "S2", "V4"]
        with np.errstate(all="ignore"):
            try:
                return array.astype(types[random.integers(len(types))])
            except (TypeError, ValueError):
                return array.view("u1")
    if kind < 0.3:
        flat = array.ravel()
        twice = np.concatenate([flat, flat])
        shapes = [flat[:-1], array[None], flat, array.T, array[:0], twice, flat[:, None], np.array(0.0), array[::-1]]
        return np.ascontiguousarray(shapes[random.integers(len(shapes))])
    changed = array.copy()
    if changed.size:
        at = random.integers(changed.size, size=int(random.integers(1, 4)))
        if changed.dtype.kind == "f":
            odd = [math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 2.0, 1e308, 1e-320, 0.5, 1e100, 1e17]
            with np.errstate(all="ignore"):
                changed.flat[at] = odd[random.integers(len(odd))]
        elif changed.dtype.kind in "iu":
            info = np.iinfo(changed.dtype)
            odd_whole = [-1, 0, 1, 2, 3, 7, info.max, info.min, info.max - 1]
            changed.flat[at] = odd_whole[random.integers(len(odd_whole))]
    return changed


def _in_zip(random: Random, data: bytes) -> bytes:
    """A good zip with another header, or with arrays changed, swapped, renamed, gone or of the wrong kind."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in parts if name.endswith(".npy")]
    name, other = (arrays[i] for i in random.integers(len(arrays), size=2))
    kind = random.random()
    if kind < 0.5:
        header = _in_tree(random, json.loads(parts["header.json"]))
        with contextlib.suppress(ValueError):  # half of a letter
            parts["header.json"] = json.dumps(header, ensure_ascii=bool(random.random() < 0.5)).encode()
    elif kind < 0.85:
        changed = io.BytesIO()
        try:
            np.save(changed, _in_array(random, np.load(io.BytesIO(parts[name]))), allow_pickle=False)
            parts[name] = changed.getvalue()
        except (EOFError, ValueError, tokenize.TokenError):  # the mutation before left no array
            parts[name] = _in_bytes(random, parts[name])
    elif kind < 0.9:
        parts[name], parts[other] = parts[other], parts[name]
    elif kind < 0.93:
        parts[name + "x"] = parts.pop(name)
    elif kind < 0.95:
        del parts[name]
    elif kind < 0.97:
        parts[name] = _in_bytes(random, parts[name])
    else:  # of another file
        bases = [base for base in _bases() if base.endswith(".rue")]
        with zipfile.ZipFile(io.BytesIO(_bases()[bases[random.integers(len(bases))]])) as archive:
            strange = archive.namelist()
            one = strange[random.integers(len(strange))]
            parts[one] = archive.read(one)
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", zipfile.ZIP_DEFLATED if random.random() < 0.02 else zipfile.ZIP_STORED
    ) as archive:
        for part, content in parts.items():
            archive.writestr(zipfile.ZipInfo(part), content)
    return stream.getvalue()


def _mutated(seed: int, data: bytes, mutate: Callable[[Random, bytes], bytes], wanted: Collection[int]) -> bytes:
    """The data after one to three mutations, of which only the wanted ones are done."""
    for i in range(int(np.random.default_rng([seed, 4]).integers(1, 4))):
        if i in wanted:
            data = mutate(np.random.default_rng([seed, 5, i]), data)
    return data


def _rue_file(seed: int, wanted: Collection[int]) -> Script:
    random = np.random.default_rng([seed, 6])
    names = [name for name in _bases() if name.endswith(".rue")]
    name = names[random.integers(len(names))]
    mutate = _in_bytes if random.random() < 0.25 else _in_zip
    data = _mutated(seed, _bases()[name], mutate, wanted)
    model = "grid.rue" if name.startswith("grid") else "base.rue"
    if name in ("base.rue", "grid.rue"):
        policy = name.replace(".rue", "-adaptive.rue")
        uses = [
            ("info", "x.rue", "--json"), ("info", "x.rue"), ("evaluate", "x.rue", policy, "--json"),
            ("convert", "x.rue", "y.rue"),
            ("solve", "x.rue", "--method", "reg-h2", "--iterations", "3", "--json", "-o", "s.rue"),
            ("solve", "x.rue", "--method", "adaptive", "--seconds", "0.2"), ("verify", "x.rue", policy, "--json"),
            ("simulate", "x.rue", policy, "--sample", "0", "--episodes", "2", "--seed", "1"),
            ("evaluate", "x.rue", policy, "--test", "2"),
        ]  # fmt: skip
        pictures = [
            ("plot", "x.rue", policy, "-o", "p.png"),
            ("plot", "x.rue", policy, "--kind", "regret", "-o", "p.svg"),
        ]
    else:
        uses = [
            ("info", "x.rue"), ("evaluate", model, "x.rue", "--json"), ("evaluate", model, "x.rue"),
            ("verify", model, "x.rue", "--json"),
            ("convert", "x.rue", "y.rue"), ("convert", "x.rue", "y.json"), ("convert", "x.rue", "y.csv"),
            ("simulate", model, "x.rue", "--sample", "0", "--episodes", "2", "--seed", "1"),
        ]  # fmt: skip
        pictures = [
            ("plot", model, "x.rue", "-o", "p.png"), ("plot", model, "x.rue", "--kind", "bounds", "-o", "p.svg"),
            ("plot", model, "x.rue", "--kind", "regret", "-o", "p.svg"),
        ]  # fmt: skip
    # A certificate of the grid is not for the other model, and what it proves is another figure.
    uses = [use for use in uses if use[0] != "verify" or model == "base.rue"]
    commands = [uses[i] for i in random.choice(len(uses), 3, replace=False)]
    if random.random() < PNG:
        commands.append(pictures[random.integers(len(pictures))])
    return Script("rue", {"x.rue": data}, tuple(commands))


LOG = """state,action,cost,next_state,episode
new,wait,1.5,worn,1
worn,repair,4,new,1
worn,wait,2.25,done,1
new,"wait",1,new,2
new,replace,3,"done",2
worn,repair,4,done,2
"""


def _in_text(random: Random, data: bytes) -> bytes:
    """Odd bytes, quotes, encodings, fields and numbers."""
    kind = random.random()
    if kind < 0.25:
        return _in_bytes(random, data)
    if kind < 0.33:
        with contextlib.suppress(UnicodeError):
            coding = ["utf-16", "utf-8-sig", "utf-16-le", "cp1252", "utf-32"][random.integers(5)]
            return data.decode().encode(coding)
        return data
    separators = [b",", b"\n", b"=", b" ", b'"']
    separator = separators[random.choice(5, p=[0.5, 0.2, 0.1, 0.1, 0.1])]
    parts = data.split(separator)
    at = int(random.integers(len(parts)))
    odd = [
        b"", b"nan", b"inf", b"-1", b"1e999", b"1e-400", b"1,5", b"0x10", b"1_000", b"\xff\xfe", b'"', b'""', b"'",
        b"\x00", b"\r",
        "é\u2028".encode(), b"done", b"new", b"x" * 200_000, b"9" * 5000, b"1" + b"0" * 400, b"=1+1", b"#",
        b"true", b"[", b"{", b"}",
        b"\n\n", b";", b"\t", b"[[problems]]", b"-0.0", b"2**3", b"  ", b"1e5", b"\xc3", b"Infinity",
        b"1979-05-27", b"[1, [2, 3]]",
    ]  # fmt: skip
    if kind < 0.7:
        parts[at] = odd[random.integers(len(odd))]
    elif kind < 0.8:
        del parts[at]
    elif kind < 0.9:
        parts.insert(at, parts[int(random.integers(len(parts)))])
    else:
        other = int(random.integers(len(parts)))
        parts[at], parts[other] = parts[other], parts[at]
    return separator.join(parts)


def _log(seed: int, wanted: Collection[int]) -> Script:
    random = np.random.default_rng([seed, 6])
    data = _mutated(seed, LOG.encode(), _in_text, wanted)
    learn = ["learn", "log.csv", "--initial", "new", "--goal", "done", "--samples", "3", "--seed", "1", "-o", "m.rue"]
    if random.random() < 0.3:
        learn += ["--episode", "episode"]
    if random.random() < 0.2:
        learn += ["--select", "2"]
    return Script("log", {"log.csv": data}, (tuple(learn), ("info", "m.rue", "--json")))


SPEC = """title = "Small"
methods = ["reg-d1", "best", { name = "adaptive", gap = 0.5 }]
seconds = 0.05
keep = 1

[[problems]]
domain = "disaster"
sizes = [{ width = 2, height = 2 }]
seeds = 1
samples = 2
test = 2

[[problems]]
model = "base.rue"
name = "mine"
"""


def _experiment(seed: int, wanted: Collection[int]) -> Script:
    data = _mutated(seed, SPEC.encode(), _in_text, wanted)
    return Script("spec", {"spec.toml": data}, (("read", "spec.toml"),))


def _policy_text(seed: int, wanted: Collection[int]) -> Script:
    random = np.random.default_rng([seed, 6])
    if random.random() < 0.5:

        def mutate(random: Random, data: bytes) -> bytes:
            if random.random() < 0.3:
                return _in_text(random, data)
            try:
                return json.dumps(_in_tree(random, json.loads(data))).encode()
            except ValueError:  # the first mutation left no JSON
                return _in_bytes(random, data)

        name, data = "x.json", _mutated(seed, _bases()["policy.json"], mutate, wanted)
    else:
        name, data = "x.csv", _mutated(seed, _bases()["policy.csv"], _in_text, wanted)
    return Script("policy", {name: data}, (("evaluate", "base.rue", name, "--json"), ("convert", name, "y.rue")))


def _words(seed: int, wanted: Collection[int]) -> Script:
    """Methods, domains and settings as people type them, and as nobody would."""
    random = np.random.default_rng([seed, 6])
    numbers = [
        "1",
        "2",
        "3",
        "0",
        "-1",
        "2.5",
        "1e3",
        "nan",
        "inf",
        "",
        "x",
        "true",
        "none",
        "9" * 30,
        "9" * 5000,
        "1_0",
        "٣",
        "0x3",
        " 2 ",
    ]
    pick = lambda values: values[int(random.integers(len(values)))]  # noqa: E731
    domains = {
        "disaster": ["width", "height", "samples", "seed", "pool", "by", "noise"],
        "medical": ["samples", "seed", "pool", "by", "stages"],
        "": ["seed"],
    }
    domain = pick([*domains, "disaster", "disaster", "medical"])
    good = {"width": "3", "height": "2", "samples": "2", "seed": "1"}
    settings = [f"{key}={good[key]}" for key in domains[domain] if key in good]
    for i in range(int(random.integers(0, 3))):
        if i in wanted:
            key = pick([*domains[domain], "", "width", "wide"])
            value = pick([*numbers, "coverage", "random", "regret"])
            settings = [s for s in settings if not s.startswith(f"{key}=") or random.random() < 0.1]
            settings.append(pick([f"{key}={value}", f"{key}={value}", f"{key}={value}", key, "=", f"{key}=={value}"]))
    model = f"{domain}:{','.join(settings)}"
    methods = "reg-d1,reg-h2,reg-s1,cemr-d2,robust,best,adaptive,mixture,milp,reg-d0,reg-x1,reg-d-1,ADAPTIVE"
    method = pick([*methods.split(","), "", "reg d1", "reg-d" + "9" * 30])
    parameter = pick(["gap", "steps", "options", "prune", "kappa", "engine", "memory", "objective", "breakpoints", ""])
    odd = f"{parameter}={pick([*numbers, 'history', 'cost', 'highs', 'scip'])}"
    sets = ("--set", odd) if random.random() < 0.5 else ()
    solve = ("solve", model, "--method", method, *sets, "--iterations", "5", "--seconds", "0.3", "--json")
    compare = ("compare", model, "--methods", f"{method},average", "--seconds", "0.1", "--json")
    others = [
        ("info", model, "--json"),
        compare,
        ("generate", domain or "x", *[w for s in settings for w in ("--set", s)], "-o", "g.rue"),
    ]
    return Script("words", {}, (solve, pick(others)))


KINDS: dict[str, tuple[float, Callable[[int, Collection[int]], Script]]] = {
    "rue": (0.5, _rue_file),
    "log": (0.16, _log),
    "spec": (0.12, _experiment),
    "policy": (0.1, _policy_text),
    "words": (0.12, _words),
}


def draw(seed: int, wanted: Collection[int] = EVERY) -> Script:
    """The script of a seed; with only some of its mutations, if so wanted."""
    random = np.random.default_rng([seed, 7])
    weight = np.array([share for share, _ in KINDS.values()])
    name = list(KINDS)[random.choice(len(KINDS), p=weight / weight.sum())]
    return KINDS[name][1](seed, wanted)


def shrink(seed: int, check: str) -> Script:
    """The script with as few mutations and commands as fail in the same way."""

    def fails(script: Script) -> bool:
        return any(failure.check == check for failure in examine(script)[0])

    best, wanted = draw(seed), list(range(3))
    for i in list(wanted):
        fewer = [j for j in wanted if j != i]
        if fails(draw(seed, fewer)):
            best, wanted = draw(seed, fewer), fewer
    for command in best.commands:
        shorter = replace(best, commands=tuple(c for c in best.commands if c is not command))
        if fails(shorter):
            best = shorter
    return best
