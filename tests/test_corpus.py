"""What the fuzzer once found: each case of `fuzz/corpus/` must pass now. And a short run of the fuzzer itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import corpus
from fuzz.models import draw

ROOT = Path(__file__).parent.parent
ENTRIES = sorted(corpus.FOLDER.glob("*.json"))


def marks(path):
    """Cases that nobody has dealt with yet are expected to fail, and must be told apart as soon as they pass."""
    expect = json.loads(path.read_text()).get("expect")
    return [pytest.mark.xfail(reason=expect, strict=True)] if expect else []


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=marks(path)) for path in ENTRIES])
def test_what_once_failed(path):
    failures, done = corpus.replay(json.loads(path.read_text()))
    assert not failures, "\n".join(f"{failure.check}: {failure.detail}" for failure in failures)
    assert done.total() > 0


def test_a_seed_is_a_case():
    assert draw(7) == draw(7) != draw(8)


def test_a_short_run_with_a_new_seed(tmp_path, capfd):
    command = [sys.executable, "-m", "fuzz", "--seconds", "15", "--corpus", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    with capfd.disabled():  # the seed is part of the log of every run
        print(f"\n{done.stdout.splitlines()[0]}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
