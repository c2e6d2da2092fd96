"""Find solvers, domains and file formats by name, also those of other packages.

A class registers itself when it is defined. A package announces its own in its metadata, and they are imported when a
name is looked up that rue does not know:

    [project.entry-points."rue.solvers"]
    toy = "my_package.toy:Toy"

The groups are `rue.solvers`, `rue.domains` and `rue.formats`.
"""

from importlib.metadata import entry_points
from typing import TypeVar

T = TypeVar("T")


class Registry(dict[str, T]):
    """Map names to what is registered under them. An unknown name imports what installed packages announce."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group
        self._complete = False

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (self._import_announced() and super().__contains__(name))

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        raise KeyError(name)

    def _import_announced(self) -> bool:
        """Import what packages announce, once. Return whether anything may be new."""
        if self._complete:
            return False
        self._complete = True
        for entry in entry_points(group=self.group):
            self.setdefault(entry.name, entry.load())
        return True
