"""What a result was computed with: the version and code of rue, other packages, and the machine.

Two copies of one version may differ, as in a checkout; so the text of every module that computes is hashed. Modules
that only read input, store or show results (`cli`, `experiments`, `report`, `table`) are left out: if only they change,
stored results stay valid.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import rue

SHOWS = ("cli", "experiments", "report", "grid_layout.py", "table.py")
# The one module of the experiments that computes: it solves and evaluates.
COMPUTES = Path("experiments", "worker.py")
DATA = (".npz",)
PACKAGES = ("rue", "numpy", "scipy", "numba", "highspy")


@cache
def code_version() -> str:
    """Return the version of rue and twelve digits of the hash: `0.2.0+3fa2b81c9d04`."""
    root = Path(rue.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.*"), key=lambda path: path.relative_to(root).as_posix()):
        name = path.relative_to(root)
        if name.parts[0] in SHOWS and name != COMPUTES:
            continue
        if path.suffix == ".py":
            content = path.read_bytes().replace(b"\r\n", b"\n")  # a checkout on Windows is the same code
        elif path.suffix in DATA:
            content = path.read_bytes()
        else:
            continue
        digest.update(f"{name.as_posix()} {len(content)}\n".encode() + content)
    return f"{rue.__version__}+{digest.hexdigest()[:12]}"


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def machine() -> dict[str, str | int]:
    """Return the system, the processor and the number of cores, on which times depend."""
    return {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count() or 1}


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
