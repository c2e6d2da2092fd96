"""A damaged file of any format is read, or refused in one line of rue's own; nothing else comes out of it."""

import random
from pathlib import Path

import pytest

import rue
from tests import (
    test_cassandra,
    test_drn,
    test_matrices,
    test_pomdpx,
    test_prism_explicit,
    test_symbolic,
    test_transition_csv,
    test_umb,
)

# What is malformed by hand, with the line that tells it, in the tests of each format.
MALFORMED = {
    "UMB": test_umb.WRONG, "DRN": test_drn.WRONG, "PRISM explicit": test_prism_explicit.WRONG,
    "PRISM's language": test_symbolic.WRONG, "JANI": test_symbolic.BROKEN, "Petrik's CSV": test_transition_csv.WRONG,
    "POMDPX": test_pomdpx.WRONG, "Cassandra's POMDP": test_cassandra.WRONG, ".npz": test_matrices.WRONG,
    ".mat": test_matrices.WRONG_MAT, "Gymnasium": test_matrices.WRONG_TABLES,
}  # fmt: skip
PIECES = (b"-", b"9" * 25, b"1e400", b"nan", b" ", b"\n", b"0", b"null", b"[]", b'"', b"\x00", b"\xff", b"<", b"*")


def model() -> rue.UMDP:
    builder = rue.Builder(["dry", "wet"], weight=[1, 2])
    builder.add("a", "go", {"a": [0.5, 0.25], "b": [0.5, 0.75]}, cost=1.0)
    builder.add("a", "wait", {"c": 1.0}, cost=4.0)
    return builder.add("b", "go", {"c": 1.0}, cost=[2.0, 3.0]).goal("c").build()


def damaged(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    place = chance.randrange(len(found))
    way = chance.randrange(3)
    if way == 0:
        found[place:place] = chance.choice(PIECES)
    elif way == 1:
        del found[place : place + chance.randint(1, 20)]
    else:
        found[place : place + 1] = chance.choice(PIECES)
    return bytes(found)


@pytest.mark.parametrize("ending", [".drn", ".tra", ".csv", ".pomdpx", ".pomdp", ".umb", ".npz", ".mat"])
def test_damage_is_told_in_one_line(ending, tmp_path):
    path = tmp_path / f"m{ending}"
    rue.save(path, model().subset([0]) if ending in (".drn", ".tra") else model())
    whole: dict[Path, bytes] = {file: file.read_bytes() for file in sorted(tmp_path.iterdir())}
    chance, refused = random.Random(7), 0
    for _ in range(150):
        file = chance.choice(list(whole))
        file.write_bytes(damaged(whole[file], chance))
        try:
            rue.load(path)
        except rue.BadInput as error:
            refused += 1
            assert len(str(error).splitlines()) == 1
        file.write_bytes(whole[file])
    assert refused > 20


def test_ten_malformed_files_of_each_format():
    assert {name: len(files) for name, files in MALFORMED.items() if len(files) < 10} == {}
