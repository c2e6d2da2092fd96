"""The command line: thin. It reads what people type, calls the library, and prints.

`app` is the list of all commands, and how they end. Each of `models`, `policies`, `compare`, `plot` and `experiments`
has the commands of its name, and what only they need; they do not know each other. What they share: `options` that
several of them take, `outputs` that they write, `unseen` samples to test on, `progress` while one waits, and
`printing`.

Human output goes through rich; `--json` prints one JSON object on standard output and nothing else. Exit status: 0
done; 1 not solved (a limit, Ctrl-C, no proof, infinite regret), or a result that could not be written where it was to
be; 2 bad input with one line on standard error; 130 broken off by Ctrl-C.
"""

from rue.cli.app import main

__all__ = ["main"]
