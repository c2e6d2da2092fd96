"""Write files whole or not at all: beside their place, then moved there, so that a crash never leaves half a file."""

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from rue.errors import BadInput


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_pieces(path: str | Path, pieces: Iterable[str]) -> None:
    """Write a text file, whole or not at all, from pieces that need not be in memory together."""
    write_atomically(Path(path), lambda stream: [stream.write(piece.encode()) for piece in pieces])


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    write_atomically(Path(path), lambda stream: stream.write(data))


def check_writable(path: str | Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    target = Path(path)
    try:
        here, beside = target.is_dir(), target.parent.is_dir()
    except (OSError, ValueError) as error:  # it is no name of a file
        raise BadInput(f"{target}: cannot be written ({getattr(error, 'strerror', error)})") from None
    if here:
        raise BadInput(f"{target}: cannot be written (it is a folder); expected the name of a file")
    if not beside:
        raise BadInput(f"{target}: cannot be written (there is no folder {target.parent}); expected one that is there")
    handle, name = _open_beside(target)
    os.close(handle)
    Path(name).unlink()


def make_folder(path: str | Path) -> Path:
    """Return a folder to write to; make it if it is not there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made a folder ({error.strerror})") from None
    return folder


def _open_beside(target: Path) -> tuple[int, str]:
    """Open a new file in the folder of the target for writing; return its handle and its name."""
    try:
        return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise BadInput(f"{target}: cannot be written ({error.strerror})") from None


def write_atomically(target: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside the target, then move it into place."""
    handle, name = _open_beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp's files are private; these are like any other
        Path(name).replace(target)
    except OSError as error:
        raise BadInput(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        Path(name).unlink(missing_ok=True)
