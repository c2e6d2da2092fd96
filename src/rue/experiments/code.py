"""Which rue computes: its version, and a hash of the code that results depend on.

Two copies of one version may differ, as in a checkout; so the text of every module that computes is hashed. Modules
that only type, store or show results (`cli`, `experiments`, `report`) are left out, so that a new picture costs no run.
"""

import hashlib
from functools import cache
from pathlib import Path

import rue

SHOWS = ("cli", "experiments", "report", "table.py")
# One module of the experiments computes: it solves, and has the policy judged.
COMPUTES = Path("experiments", "work.py")
DATA = (".npz",)


@cache
def code_version() -> str:
    """The version of rue and twelve digits of the hash: `0.1.0+3fa2b81c9d04`."""
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
