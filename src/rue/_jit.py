"""Compile loops over flat arrays with numba, and keep the machine code on disk.

Such loops are in files called `*_kernels.py` beside the code that calls them. They check nothing and allocate nothing
inside loops. A kernel may call helpers of other kernel files: the key of numba's cache, which sees edits in the file of
the kernel alone, is extended by the text of all files whose functions it can reach (`_KernelCache`).

A *kernel* is called from Python. It is compiled for one list of types, which its decorator gives, one word for each
parameter: a letter for the numbers in an array (f float64, l int64, i int32, s int8, u uint64, b bool), in capitals if
the array is read-only, as those of a model are, and its number of dimensions; or `int`, `float`, `bool`, `generator`,
or the name of a record. So everything can be compiled before it is needed, and nothing is compiled twice.

A *helper*, whose name begins with an underscore, is called by kernels alone, never from Python: it is compiled in a
third of the time without what such a call needs. It must not allocate arrays. To numba a constant, or an index of
another width, is another type: `np.int64(0)` where a helper gets both a constant and a variable saves a compilation.
"""

import gc
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

Function = Callable[..., Any]

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
NUMBERS = {
    "f": "float64", "l": "int64", "i": "int32", "s": "int8", "u": "uint64", "b": "boolean",
    "int": "int64", "float": "float64", "bool": "boolean", "generator": "npy_rng",
}  # fmt: skip

IMPORT = re.compile(r"^from ([\w.]+) import ([^(\n]*)", re.MULTILINE)
# Without compilation, kernels are ordinary functions.
IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"

KERNELS: dict[str, "Kernel"] = {}  # all, by file and name: "judge_kernels.prove"
RECORDS: dict[str, Callable[[], Any]] = {}  # by name, functions that return the type that numba gives them


class Deferred:
    """A function that numba compiles; numba's own object is made when it is first called or read."""

    def __init__(self, function: Function, make: Callable[[Function], Any]) -> None:
        update_wrapper(self, function)
        self._function, self._make = function, make
        self._dispatcher: Any = None

    def dispatcher(self) -> Any:
        """Return the object that numba makes of the function.

        This is no property: an AttributeError inside one would call `__getattr__`, which would ask for it again.
        """
        if self._dispatcher is None:
            self._dispatcher = self._make(self._function)
            # Numba can call only its own objects: put them in the place of all functions that this one may call.
            names = self._function.__globals__
            names.update({name: value.dispatcher() for name, value in names.items() if isinstance(value, Deferred)})
        return self._dispatcher

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher()(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher(), name)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel and the types that it is compiled for."""

    function: Any
    words: str
    module: str

    @property
    def types(self) -> tuple[Any, ...]:
        """The type of each parameter, as numba has it."""
        return tuple(_type(word) for word in self.words.split())

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled, in this process; without compilation (NUMBA_DISABLE_JIT) it always is."""
        return IS_INTERPRETED or bool(self.function.signatures)

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


def compiled(fastmath: Set[str] = frozenset()) -> tuple[Callable[[str], Any], Callable[[Function], Any]]:
    """Return the decorators of a file's kernels and of its helpers, with some flags of fast arithmetic."""
    options = {**OPTIONS, "fastmath": set(fastmath)} if fastmath else OPTIONS

    def kernel(words: str) -> Callable[[Function], Any]:
        def decorate(function: Function) -> Any:
            deferred = _deferred(function, _kept_on_disk, options)
            module = function.__module__
            KERNELS[f"{module.rpartition('.')[2]}.{function.__name__}"] = Kernel(deferred, words, module)
            return deferred

        return decorate

    return kernel, lambda function: _deferred(function, _inside_kernels, options)


def inlined(function: Function) -> Any:
    """Decorate a small helper of inner loops: numba itself puts its code in the place of each call.

    LLVM does not inline functions whose own loops are vectorised, and calls with records take longer than such loops.
    """
    return _deferred(function, _inside_kernels, {**OPTIONS, "inline": "always"})


def _deferred(function: Function, make: Callable[..., Any], options: dict[str, Any]) -> Any:
    return function if IS_INTERPRETED else Deferred(function, lambda function: make(function, options))


@cache
def _numba() -> Any:
    """Return the module numba, with the listener of this file registered."""
    import numba  # takes as long as all other imports together

    numba.core.event.Listener.register(_First)
    return numba


def _inside_kernels(function: Function, options: dict[str, Any]) -> Any:
    return _numba().njit(no_cpython_wrapper=True, _nrt=False, **options)(function)


def _kept_on_disk(function: Function, options: dict[str, Any]) -> Any:
    """Return the function, compiled when it is first called, and kept on disk if any folder can be written."""
    dispatcher = _numba().njit(**options)(function)
    # Neither NUMBA_CACHE_DIR nor the folder of the package nor the user's cache may be writable.
    with suppress(RuntimeError):
        dispatcher._cache = _kernel_cache()(function)
    return dispatcher


@cache
def _kernel_cache() -> Any:
    """Return the class of numba's cache on disk, with a key over all files whose functions a kernel can reach."""
    from numba.core.caching import FunctionCache

    class KernelCache(FunctionCache):  # type: ignore[misc]
        def _index_key(self, sig: object, codegen: object) -> tuple[object, ...]:
            return (*super()._index_key(sig, codegen), source_hash(self._py_func.__module__))

        def load_overload(self, sig: object, target_context: object) -> Any:
            """Return the compiled code, or None; an index of another version may name records that no longer exist."""
            try:
                return super().load_overload(sig, target_context)
            except (AttributeError, ImportError, TypeError):
                self.flush()
                return None

    return KernelCache


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
    # `from_types` also knows records whose fields all have one type, which is another type to numba.
    _declare(record.__name__, lambda types: types.BaseTuple.from_types([_type(word) for word in words.split()], record))


def declare_rows(name: str, dtype: np.dtype[Any]) -> None:
    """Make arrays of rows with named fields known to kernels, under a name."""
    _declare(name, lambda types: types.Array(_numba().from_dtype(dtype), 1, "C"))


def declare_like(name: str, value: object) -> None:
    """Make the type of a value known to kernels, under a name."""
    _declare(name, lambda _: _numba().typeof(value))


def _declare(name: str, make: Callable[[Any], Any]) -> None:
    assert name not in RECORDS, f"two records are called {name}"
    RECORDS[name] = cache(lambda: make(_numba().types))


def _type(word: str) -> Any:
    if word in RECORDS:
        return RECORDS[word]()
    types = _numba().types
    if word in NUMBERS:
        return getattr(types, NUMBERS[word])
    return types.Array(getattr(types, NUMBERS[word[0].lower()]), int(word[1:]), "C", readonly=word[0].isupper())


def make_ready(names: Iterable[str], on_compile: Callable[[str], None]) -> None:
    """Load these kernels, or compile those that are not on disk; call `on_compile` before each of the latter."""
    for name in [name for name in names if not KERNELS[name].is_ready]:
        with _numba().core.event.install_listener("numba:compile", _First(on_compile, name)):
            KERNELS[name].make_ready()


class _First:
    """A listener to numba's events that tells when the first compilation begins: the kernel's, then its helpers'."""

    def __init__(self, tell: Callable[[str], None], name: str) -> None:
        self.tell, self.name, self.told = tell, name, False

    def notify(self, event: object) -> None:
        """Take an event: a compilation begins or has ended."""
        if not self.told:
            self.told = True
            self.tell(self.name)


kernel, helper = compiled()
