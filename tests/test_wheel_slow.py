"""The release: wheel and sdist, what is in them, and the quick start and the tutorials in an empty environment.

`RUE_PYTHONS` lists interpreters to try, with the separator of PATH; by default it is the one that runs the tests.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import BLOCK, compare, split_commands

import rue

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PYTHONS = os.environ.get("RUE_PYTHONS", sys.executable).split(os.pathsep)
NEEDED = {
    "rue/py.typed", "rue/player.js", "rue/player.py", "rue/checker.py", "rue/domains/data/norkyst.npz",
    "rue/explorer/explorer.js", "rue/explorer/explorer.html.j2", "rue/report/page.html.j2", "rue/report/rue.mplstyle",
}  # fmt: skip
UNWANTED = re.compile(r"(^|/)(tests|fuzz|benchmarks|__pycache__|\.venv|build)/|\.(pyc|nbi|nbc)$")
# What pip says where there is no package index.
OFFLINE = ("No matching distribution found", "Could not find a version", "Temporary failure in name resolution")


def run(*command, **settings):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **settings)
    if done.returncode and any(words in done.stdout + done.stderr for words in OFFLINE):
        pytest.skip("no package index can be reached: pip finds nothing to install")
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder with the wheel and the sdist; the wheel is made from the sdist."""
    pytest.importorskip("build", reason="the extra `dev` is not installed")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


def names_in_sdist(path):
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_archives_have_what_is_needed_and_no_more(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"rue-{rue.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "rue").rglob("*.py")}
    assert modules | NEEDED <= names
    assert [name for name in names if UNWANTED.search(name)] == []
    assert {name.partition("/")[0] for name in names} == {"rue", f"rue-{rue.__version__}.dist-info"}
    source = names_in_sdist(sdist)
    assert {f"src/{name}" for name in modules | NEEDED} <= source
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= source
    assert [name for name in source if UNWANTED.search(name)] == []


def test_the_metadata_are_those_of_an_index_page(built):
    """All links are absolute, and lead to files of this repository."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        facts = email.message_from_bytes(archive.read(f"rue-{rue.__version__}.dist-info/METADATA"))
    assert facts["Version"] == rue.__version__ and facts["Requires-Python"] == ">=3.11"
    assert facts["License-Expression"] == "MIT" and facts["Description-Content-Type"] == "text/markdown"
    home = dict(entry.split(", ") for entry in facts.get_all("Project-URL"))["Source"]
    page = facts.get_payload()
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 10 and f"{home}/raw/" in page
    for link in links:
        assert urlsplit(link).scheme == "https", link
        if link.startswith(home):
            version, _, path = urlsplit(link.removeprefix(home)).path.removeprefix("/").split("/", 1)[1].partition("/")
            assert version == f"v{rue.__version__}"
            assert (ROOT / path).is_file(), link


class Reader:
    """Somebody who types what a page says, in a folder with an empty environment."""

    def __init__(self, folder, python, wheels):
        self.folder = folder
        self.settings = dict(
            os.environ, COLUMNS="100", PIP_FIND_LINKS=f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}"
        )
        self.settings["PATH"] = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        for name in ("PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV"):
            self.settings.pop(name, None)

    def type(self, lines):
        """Run lines of a shell, in the environment if there is one, and return what they print."""
        before = ". env/bin/activate\n" if (self.folder / "env").exists() else ""
        return run("bash", "-ec", before + lines, cwd=self.folder, env=self.settings)

    def follow(self, page, program="program.py"):
        """Do all that a page says: consecutive blocks of Python are one program."""
        waiting = ""
        for code, _, _, commands in [*BLOCK.findall(page), ("", "", "", "$ true\n")]:
            if code:
                waiting += code
                continue
            if waiting:
                (self.folder / program).write_text(waiting, encoding="utf-8")
                self.type(f"python {program}")
                waiting = ""
            for command, shown in split_commands(commands):
                compare(self.type(command), shown, 0.06)


@pytest.fixture(scope="module", params=PYTHONS)
def reader(request, built, tmp_path_factory):
    """Return a reader who has followed the first block of the quick start, which installs rue."""
    if os.name != "posix":
        pytest.skip("the commands are those of a POSIX shell")
    someone = Reader(tmp_path_factory.mktemp("reader"), request.param, built)
    (install,) = re.findall(r"```sh\n(.*?)```", (DOCS / "quickstart.md").read_text(encoding="utf-8"), re.DOTALL)
    assert install.rstrip().endswith("pip install rue")
    someone.type(install)
    assert someone.type("python -c 'import rue; print(rue.__version__)'").strip() == rue.__version__
    where = someone.type("python -c 'import rue; print(rue.__file__)'").strip()
    assert where.startswith(str(someone.folder))
    return someone


def test_the_quick_start_word_for_word(reader):
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    reader.follow(page, "printer.py")
    assert (reader.folder / "plan.html").stat().st_size > 10_000


def test_dependencies_are_enough(reader):
    """Nothing but rue and what it depends on is there: each module can be imported, but for those of extras."""
    code = (
        "import importlib, pkgutil, rue\n"
        "names = [module.name for module in pkgutil.walk_packages(rue.__path__, 'rue.')]\n"
        "print(len([importlib.import_module(name) for name in names if not name.endswith('__main__')]))\n"
    )
    assert int(reader.type(f'python -c "{code}"')) > 150


@pytest.mark.parametrize("name", ["health", "ecology", "formal", "data", "robotics"])
def test_the_tutorials_in_the_same_environment(reader, name):
    shutil.copy(DOCS / "data" / "tickets.csv", reader.folder)
    shutil.copytree(DOCS / "data" / "links", reader.folder / "links", dirs_exist_ok=True)
    if name == "robotics":
        reader.type("pip install rue gymnasium")
    reader.follow((DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8"))
