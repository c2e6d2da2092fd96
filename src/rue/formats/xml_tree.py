"""XML as a tree of nodes that know their line.

What is in large elements of one name may be left out of the tree: it stays in the file, in pieces that are read when
they are needed. Only plain elements are left out; where there are comments or references, all is in the tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, NoReturn
from xml.parsers import expat

from rue._text import short_line
from rue.errors import BadFile

BLOCK = 1 << 20  # bytes of a piece
SMALL = 1 << 14  # bytes that are not left out
ODD = (b"<!", b"<?", b"&")
STRAY = b"\x00\x1a \t\r\n"  # at the end of a file


class Piece(NamedTuple):
    """Whole elements that are not in the tree."""

    first: int  # where they begin in the file
    size: int
    line: int  # where they begin, too


@dataclass
class Node:
    """An element: its name, where it is, its attributes, its text, and what is in it."""

    path: Path
    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list["Node"] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)  # in place of children
    encoding: str | None = None  # of the file, as it says

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

    def data(self) -> Iterator[tuple[Piece, bytes]]:
        """Yield what was left out, piece by piece."""
        with self.path.open("rb") as stream:
            for piece in self.pieces:
                stream.seek(piece.first)
                yield piece, stream.read(piece.size)

    def nodes(self, piece: Piece, data: bytes) -> list["Node"]:
        """Return the elements of a piece as nodes."""
        builder = _Builder(self.path, self.encoding)
        try:
            builder.feed(b"<piece>" + b"\n" * (piece.line - 1))
            builder.feed(data)
            builder.feed(b"</piece>", last=True)
        except BadFile:
            read_tree(self.path)  # which tells what is wrong in the words of the whole file
            raise
        return builder.top.children[0].children


class _Builder:
    """Makes a tree of what the parser finds."""

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.path, self.encoding = path, encoding
        self.top = Node(path, "", 1)
        self.open_nodes, self.texts = [self.top], [list[str]()]
        self.parser = parser = expat.ParserCreate(encoding)
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.XmlDeclHandler = self._text, self._declared
        parser.buffer_text = True

    def _declared(self, _: str, encoding: str | None, __: int) -> None:
        self.encoding = encoding

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        node = Node(self.path, tag, self.parser.CurrentLineNumber, attributes, encoding=self.encoding)
        self.open_nodes[-1].children.append(node)
        self.open_nodes.append(node)
        self.texts.append([])

    def _end(self, _: str) -> None:
        node, text = self.open_nodes.pop(), self.texts.pop()
        node.text = "" if node.pieces else "".join(text)

    def _text(self, data: str) -> None:
        self.texts[-1].append(data)

    def feed(self, data: bytes, last: bool = False) -> None:
        """Parse the next bytes."""
        try:
            self.parser.Parse(data, last)
        except (expat.ExpatError, ValueError, LookupError) as error:
            line = self.parser.CurrentLineNumber
            raise BadFile(f"{self.path}, line {line}: no XML ({short_line(str(error), 80)})") from None


def read_tree(path: Path, left_out: str | None = None, unit: str = "") -> Node:
    """Return the root of an XML file; large elements of the name `left_out` have pieces of whole `unit` elements."""
    builder = _Builder(path)
    try:
        with path.open("rb") as stream:
            done = 0 if left_out is None else _leave_out(builder, stream, left_out, unit)
            stream.seek(done)
            rest = stream.read().rstrip(STRAY)
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror or error})") from None
    builder.feed(rest, last=True)
    return builder.top.children[0]


def _leave_out(builder: _Builder, stream: IO[bytes], tag: str, unit: str) -> int:
    """Parse the file up to the last large element of a name, without what is in such elements; return how far."""
    done, seen = 0, None
    while (begin := _find(stream, f"<{tag}".encode(), done)) is not None:
        after, close = (_find(stream, end, begin) for end in (b">", f"</{tag}".encode()))
        if after is None or close is None or close < after:
            break
        stream.seek(done)
        builder.feed(stream.read(after + 1 - done))
        done = after + 1
        node = builder.open_nodes[-1]
        # What was found may be a part of a comment, even one in such an element.
        is_new, seen = node is not seen, node
        if node.tag != tag or not is_new or close - done < SMALL:
            continue
        pieces, lines = _pieces(stream, (done, close), builder.parser.CurrentLineNumber, f"</{unit}>".encode())
        if pieces:
            node.pieces, done = pieces, close
            for _ in range(lines // BLOCK):
                builder.feed(b"\n" * BLOCK)
            builder.feed(b"\n" * (lines % BLOCK))
    return done


def _find(stream: IO[bytes], wanted: bytes, start: int) -> int | None:
    """Return where a text comes next in a file."""
    stream.seek(start)
    place, data = start, b""
    while block := stream.read(BLOCK):
        data += block
        found = data.find(wanted)
        if found >= 0:
            return place + found
        place += len(data) - len(wanted) + 1
        data = data[len(data) - len(wanted) + 1 :]
    return None


def _pieces(stream: IO[bytes], span: tuple[int, int], line: int, end: bytes) -> tuple[list[Piece], int]:
    """Return a part of a file in pieces, each after the end of an element, and its lines; none if it is not plain."""
    first, close = span
    stream.seek(first)
    pieces, lines, data = list[Piece](), 0, b""
    while first + len(data) < close:
        data += stream.read(min(BLOCK, close - first - len(data)))
        cut = len(data) if first + len(data) == close else data.rfind(end) + len(end) if end in data else 0
        whole, data = data[:cut], data[cut:]
        if any(odd in whole for odd in ODD):
            return [], 0
        if whole:
            pieces.append(Piece(first, len(whole), line + lines))
            lines += whole.count(b"\n")
            first += len(whole)
    return pieces, lines
