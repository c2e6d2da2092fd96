"""Find solvers, domains and file formats by name, also those of other packages.

A class registers itself when it is defined. A package announces its own in its metadata, and they are imported when a
name is looked up that rue does not know, or when all names are listed:

    [project.entry-points."rue.solvers"]
    toy = "my_package.toy:Toy"

The groups are `rue.solvers`, `rue.domains` and `rue.formats`.
"""

import logging
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, TypeVar

from rue.errors import BadInput

logger = logging.getLogger("rue")

T = TypeVar("T")


class Registry(dict[str, T]):
    """Map names to what is registered under them. An unknown name imports what installed packages announce."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group
        self._complete = False

    def add(self, name: str, thing: T) -> None:
        """Register a thing; a class may be defined again, but no other one may take its name."""
        known: Any = super().get(name, thing)
        if _place(known) != _place(thing):
            raise BadInput(f"{_place(thing)} is called {name!r}, as {_place(known)} is; expected another name")
        self[name] = thing

    def knows(self, name: str) -> bool:
        """Return whether a name is registered, without importing anything."""
        return super().__contains__(name)

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name):
            self._import_announced()
        return super().__contains__(name)

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return what is registered under a name, or the default."""
        if name not in self:  # which imports what is announced
            return default
        return self[name]

    def __iter__(self) -> Iterator[str]:
        self._import_announced()
        return super().__iter__()

    def _import_announced(self) -> None:
        """Import what packages announce, once. What cannot be imported is reported in one line."""
        if self._complete:
            return
        self._complete = True
        for entry in entry_points(group=self.group):
            try:
                self.take(entry.name, entry.load())
            except Exception as error:
                package = entry.dist.name if entry.dist is not None else "a package"
                logger.warning(
                    "%s announces %r in %s, which cannot be used: %s", package, entry.name, self.group, error
                )

    def take(self, name: str, thing: Any) -> None:
        """Register what a package announces under a name; most things registered themselves when they were imported."""
        self.setdefault(name, thing)


def _place(thing: object) -> str:
    """Return where a class is defined."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
