"""XML as a tree of nodes that know their line."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from rue._text import short_line
from rue.errors import BadFile


@dataclass
class Node:
    """An element: its name, where it is, its attributes, its text, and what is in it."""

    path: Path
    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list["Node"] = field(default_factory=list)

    def all(self, tag: str) -> list["Node"]:
        """Return the children of a name."""
        return [child for child in self.children if child.tag == tag]

    def get(self, tag: str) -> "Node":
        """Return the only child of a name."""
        found = self.all(tag)
        if len(found) != 1:
            self.fail(f"<{self.tag}> has {len(found)} times <{tag}>; expected it once")
        return found[0]

    def attribute(self, name: str) -> str:
        """Return an attribute."""
        if name not in self.attributes:
            self.fail(f"<{self.tag}> has no {name}; expected one")
        return self.attributes[name]

    def fail(self, what: str) -> NoReturn:
        """Raise an error that names the file and the line."""
        raise BadFile(f"{self.path}, line {self.line}: {what}")


def read_tree(path: Path) -> Node:
    """Return the root of an XML file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror or error})") from None
    parser = expat.ParserCreate()
    top = Node(path, "", 1)
    open_nodes = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        node = Node(path, tag, parser.CurrentLineNumber, attributes)
        open_nodes[-1].children.append(node)
        open_nodes.append(node)

    def end(_: str) -> None:
        open_nodes.pop()

    def text(data: str) -> None:
        open_nodes[-1].text += data

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.buffer_text = True
    try:
        parser.Parse(data.rstrip(b"\x00\x1a \t\r\n"), True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadFile(f"{path}, line {parser.CurrentLineNumber}: no XML ({short_line(str(error), 80)})") from None
    return top.children[0]
