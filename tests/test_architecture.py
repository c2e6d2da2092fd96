"""What docs/architecture.md names exists, and what CONTRIBUTING.md says works."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rue
from rue._text import percent_text
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
    assert re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE), f"{file} defines no {name}"


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


# The checker is one file that can be copied out.
LONG_FILES = {"checker.py"}
LINES, PARAMETERS = 600, 8
# Public functions with many keywords. Options of commands are parameters, too.
MANY_PARAMETERS = {"from_dense", "from_matrices", "from_transitions", "from_counts", "read_log"}


def test_files_are_short():
    sizes = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {name for name, lines in sizes.items() if lines > LINES} <= LONG_FILES


def test_parameter_lists_are_short():
    long = set()
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len(parameters) - (parameters[:1] != [] and parameters[0].arg in ("self", "cls")) > PARAMETERS:
                    long.add(node.name)
    assert long <= MANY_PARAMETERS


def test_the_solver_of_the_recipe_works():
    code = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(textwrap.dedent(code[1]), names)
    try:
        model = rue.domains.Medical(seed=1).sample(3, seed=1)
        solution = rue.solve(model, parse_method("uniform"), bound=False)
        assert solution.max_regret.upper == rue.evaluate(model, solution.policy).at_most
    finally:
        rue.Solver.known.pop("uniform")


ANNOUNCED = """
from dataclasses import dataclass
import rue
from rue.formats import Format


@dataclass(frozen=True)
class Toy(rue.Average):
    name = "toy"


KEPT = Format("toy", (".toy",), lambda path, model: rue.load(path.with_suffix(".rue")), None, (rue.UMDP,))
"""


def with_a_package(folder, entries, code):
    """Run code where a package is installed that announces things; return the finished process."""
    (folder / "toy.py").write_text(ANNOUNCED)
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_what_packages_announce_is_found(tmp_path):
    """The solver of an installed package is known by name, also to files; so is its file format."""
    code = """
import rue
from pathlib import Path
from rue.parsing import parse_method
model = rue.domains.Medical(seed=1).sample(2, seed=1)
rue.save("model.rue", model)
Path("model.toy").touch()
print(parse_method("toy"), rue.load("model.toy").samples, "toy" in [*rue.Solver.known])
rue.save("solution.rue", rue.solve(model, parse_method("toy")))
"""
    entries = "[rue.solvers]\ntoy = toy:Toy\n[rue.formats]\nany = toy:KEPT\n"
    assert with_a_package(tmp_path, entries, code).stdout == "Toy() 2 True\n"
    code = "import rue; print(rue.load('solution.rue').solver)"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "Toy()\n"


def test_a_package_that_cannot_be_imported_does_no_harm(tmp_path):
    code = "import rue; print('reg' in rue.Solver.known, 'toy' in rue.Solver.known)"
    done = with_a_package(tmp_path, "[rue.solvers]\ntoy = toys:Toy\n", code)
    assert done.stdout == "True False\n"
    assert done.stderr == "toy announces 'toy' in rue.solvers, which cannot be used: No module named 'toys'\n"


def test_no_class_takes_the_name_of_another():
    with pytest.raises(rue.BadInput, match=r"'average', as rue\.baselines\.Average is; expected another name"):
        type("Mine", (rue.Average,), {"name": "average"})


def test_a_solver_that_returns_something_else_is_told():
    class Wrong(rue.Solver):
        def run(self, model, run):
            return None

    model = rue.domains.Medical(seed=1).sample(2, seed=1)
    with pytest.raises(rue.BadInput, match=r"Wrong\.run returned a NoneType; expected a rue\.Outcome"):
        rue.solve(model, Wrong(), bound=False)


@pytest.mark.parametrize(("gap", "shown"), [(0.0123, "1.3 %"), (0.07, "7 %"), (0.997, "100 %"), (1.0, "100 %")])
def test_gaps_are_printed_in_plain_digits(gap, shown):
    assert percent_text(gap) == shown
