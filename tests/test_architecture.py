"""What docs/architecture.md names exists."""

import re
from pathlib import Path

import pytest

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
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("_") and "kernels" not in path.name}
    missing = {name for name in rooms | modules if name not in TEXT}
    assert missing <= {"errors.py", "grid_layout.py", "table.py"}
