"""What can go wrong, as six exceptions.

Bad input is refused where it comes in, with one line that says where, what, and what was expected. A limit is no
exception but a status; `Solution.require` turns it into `NotSolved` for those who want that. A backend that fails is
`SolverFailed`, and a certificate that does not hold is `NotProved`. Two proofs that exclude each other are a
`Contradiction`: one of them is wrong, and so is rue. Everything else is our own bug, and an assertion.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

# Of a message, in characters; of names that are listed in it; and of names among which a similar one is looked for.
LONGEST_MESSAGE, MOST_NAMES, MOST_COMPARED = 2000, 40, 10_000

# What messages call the arguments of functions, where the caller has other words for them, such as flags.
_callers_words: ContextVar[Mapping[str, str]] = ContextVar("_callers_words", default={})  # noqa: B039


class RueError(Exception):
    """Anything rue raises on purpose; the message is one line that can be read, whatever names it quotes."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        half = LONGEST_MESSAGE // 2
        super().__init__(line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}")


class BadInput(RueError, ValueError):
    """A model, policy, parameter or file that cannot be used; the message is one line."""


class BadFile(BadInput):
    """A file that is damaged, foreign, or of another version."""


class NotSolved(RueError):
    """A solution was required, and a limit came first."""


class NotProved(RueError):
    """A certificate that does not prove what it claims; the message says where."""


class Contradiction(RueError):
    """Two proved figures exclude each other: a bug of rue. The message has both, and where to find what shows it."""


class SolverFailed(RueError):
    """A numerical backend gave up; the message carries its own status."""


def argument(words: str) -> str:
    """Return the words for an argument in a message: those of the library, unless the caller has others."""
    return _callers_words.get().get(words, words)


@contextmanager
def arguments_called(words: Mapping[str, str]) -> Iterator[None]:
    """Use the caller's words for arguments, by the library's words, in all messages made within."""
    token = _callers_words.set(words)
    try:
        yield
    finally:
        _callers_words.reset(token)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """Return the error for an unknown name, with the nearest one that exists."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:LONGEST_MESSAGE], islice(names, MOST_COMPARED), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return BadInput(f"unknown {kind} {name!r}; {hint}known: {', '.join(names[:MOST_NAMES]) or 'none'}{more}")
