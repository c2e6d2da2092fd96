"""Compile loops over flat arrays with numba, and keep the machine code on disk.

Such loops stand in files called `*_kernels.py` beside the code that calls them. They check nothing and allocate nothing
inside loops. A kernel may call helpers of other kernel files: the key of numba's cache, which sees edits in the file of
the kernel alone, is extended by the text of all files whose functions it can reach (`_KernelCache`).

A *kernel* is called from Python. It is compiled for one list of types, which stands in its decorator, one word for each
parameter: a letter for the numbers in an array (f float64, l int64, i int32, s int8, u uint64, b bool), in capitals if
the array is read-only, as those of a model are, and its number of dimensions; or `int`, `float`, `bool`, `generator`,
or the name of a record. So everything can be compiled before it is needed, and nothing is compiled twice.

A *helper*, whose name begins with an underscore, is called by kernels alone, never from Python: it is compiled in a
third of the time without what such a call needs. It must not allocate arrays. To numba a constant, or an index of
another width, is another type: `np.int64(0)` where a helper gets both a constant and a variable saves a compilation.
"""

import gc
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core import event
from numba.core.caching import FunctionCache

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
NUMBERS = {
    "f": types.float64, "l": types.int64, "i": types.int32, "s": types.int8, "u": types.uint64, "b": types.boolean,
}  # fmt: skip
WORDS = {
    "int": types.int64, "float": types.float64, "bool": types.boolean, "generator": types.npy_rng,
}  # fmt: skip

IMPORT = re.compile(r"^from ([\w.]+) import ([^(\n]*)", re.MULTILINE)

KERNELS: dict[str, "Kernel"] = {}  # all, by file and name: "judge_kernels.settle"


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel and the types that it is compiled for."""

    function: Any
    words: str
    module: str

    @property
    def types(self) -> tuple[types.Type, ...]:
        """The type of each parameter, as numba has it."""
        return tuple(_type(word) for word in self.words.split())

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled, in this process; without compilation (NUMBA_DISABLE_JIT) it always is."""
        return bool(getattr(self.function, "signatures", True))

    @property
    def cache_folder(self) -> str | None:
        """Where compiled code is kept for the next process; None if nothing can be kept."""
        path: str | None = self.function.stats.cache_path
        return path

    def make_ready(self) -> None:
        """Load the compiled code from disk, or compile it; without Python's garbage collector, an eighth faster."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.function.compile(self.types)
        finally:
            if collecting:
                gc.enable()


def compiled(fastmath: Set[str] = frozenset()) -> tuple[Callable[[str], Any], Callable[..., Any]]:
    """The decorators of a file's kernels and of its helpers, with the liberties that its arithmetic may take."""
    options = {**OPTIONS, "fastmath": set(fastmath)} if fastmath else OPTIONS

    def kernel(words: str) -> Callable[..., Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            dispatcher = _kept_on_disk(function, options)
            module = function.__module__
            KERNELS[f"{module.rpartition('.')[2]}.{function.__name__}"] = Kernel(dispatcher, words, module)
            return dispatcher

        return decorate

    return kernel, njit(no_cpython_wrapper=True, _nrt=False, **options)


def _kept_on_disk(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The function, compiled when it is first called, and kept on disk if any folder can be written."""
    dispatcher = njit(**options)(function)
    if hasattr(dispatcher, "py_func"):  # not where numba compiles nothing (NUMBA_DISABLE_JIT)
        # Neither NUMBA_CACHE_DIR nor the folder of the package nor the user's cache may be writable.
        with suppress(RuntimeError):
            dispatcher._cache = _KernelCache(function)
    return dispatcher


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache on disk, with a key that changes with every file whose functions the kernel can reach."""

    def _index_key(self, sig: object, codegen: object) -> tuple[object, ...]:
        return (*super()._index_key(sig, codegen), source_hash(self._py_func.__module__))

    def load_overload(self, sig: object, target_context: object) -> Any:
        """Return the compiled code, or None; an index of another version may name records that no longer exist."""
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError, TypeError):
            self.flush()
            return None


@cache
def source_hash(module: str) -> str:
    """Return a hash of a kernel file and of all files that it imports from."""
    digest = hashlib.sha256()
    for name in sorted(_reached_from(module, set())):
        digest.update(Path(sys.modules[name].__file__ or "").read_bytes())
    return digest.hexdigest()


def _reached_from(module: str, known: set[str]) -> set[str]:
    """Add a kernel file to those known, and the files of rue, or of other kernels, that it imports from."""
    if module in known or not (module.startswith("rue.") or module.endswith("_kernels")):
        return known
    known.add(module)
    text = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
    for package, names in IMPORT.findall(text):
        for name in (package, *(f"{package}.{word}" for word in names.split())):
            if name in sys.modules:
                _reached_from(name, known)
    return known


def declare(record: type, words: str) -> None:
    """Make a named tuple known to kernels, with the types of its fields."""
    assert record.__name__ not in WORDS, f"two records are called {record.__name__}"
    # `from_types` also knows records whose fields all have one type, which is another type to numba.
    WORDS[record.__name__] = types.BaseTuple.from_types([_type(word) for word in words.split()], record)


def _type(word: str) -> types.Type:
    if word in WORDS:
        return WORDS[word]
    return types.Array(NUMBERS[word[0].lower()], int(word[1:]), "C", readonly=word[0].isupper())


def make_ready(names: Iterable[str], on_compile: Callable[[str], None]) -> None:
    """Load these kernels, or compile those that are not on disk; tell before each that has to be compiled."""
    for name in names:
        if not KERNELS[name].is_ready:
            with event.install_listener("numba:compile", _First(on_compile, name)):
                KERNELS[name].make_ready()


class _First(event.Listener):  # type: ignore[misc]
    """Tells when the first compilation begins, which is the kernel's; those of its helpers follow."""

    def __init__(self, tell: Callable[[str], None], name: str) -> None:
        self.tell, self.name, self.told = tell, name, False

    def on_start(self, event: event.Event) -> None:
        """A compilation begins."""
        if not self.told:
            self.told = True
            self.tell(self.name)

    def on_end(self, event: event.Event) -> None:
        """A compilation has ended."""


kernel, helper = compiled()
