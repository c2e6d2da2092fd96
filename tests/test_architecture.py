"""What docs/architecture.md names exists, and what CONTRIBUTING.md says works."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rue
from rue.parsing import parse_method

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rue"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):(\w+)`", TEXT)))
FILES = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)`", TEXT)))
ROOMS = sorted(set(re.findall(r"`(\w+)/`", TEXT)) - {"inner"})


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_what_the_walk_names_exists(file, name):
    text = (SOURCE / file).read_text(encoding="utf-8")
    assert re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), f"{file} defines no {name}"


def test_the_walk_is_there():
    assert len(NAMED) > 15


@pytest.mark.parametrize("file", FILES)
def test_files_exist(file):
    assert any((folder / file).exists() for folder in (SOURCE, ROOT)) or list(SOURCE.rglob(file)), file


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_exist(room):
    assert (SOURCE / room).is_dir()


def test_every_room_is_named():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {
        path.name for path in SOURCE.glob("*.py") if not path.name.startswith("_") and "kernels" not in path.name
    }
    missing = {name for name in rooms | modules if name not in TEXT}
    assert missing <= {"errors.py", "grid_layout.py", "table.py"}


def test_the_solver_of_the_recipe_works():
    code = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(textwrap.dedent(code[1]), names)
    try:
        model = rue.domains.Medical(seed=1).sample(3, seed=1)
        solution = rue.solve(model, parse_method("first"), bound=False)
        assert solution.max_regret.upper == rue.evaluate(model, solution.policy).at_most
    finally:
        rue.Solver.known.pop("first")


def test_what_packages_announce_is_found(tmp_path):
    """An installed package with an entry point: its solver is known by name."""
    (tmp_path / "toy.py").write_text(
        "from dataclasses import dataclass\nimport rue\n\n"
        "@dataclass(frozen=True)\nclass Toy(rue.Average):\n    name = 'toy'\n"
    )
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rue.solvers]\ntoy = toy:Toy\n")
    code = "from rue.parsing import parse_method; print(parse_method('toy'))"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Toy()\n"
