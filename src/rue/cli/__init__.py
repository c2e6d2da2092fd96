"""The command line: thin. It reads what people type, calls the library, and prints.

`app` is the list of all commands, and how they end. Each of `models`, `policies`, `compare`, `plot` and `experiments`
has the commands of its name, and what only they need; they do not know each other. What they share: `options` that
several of them take, `unseen` samples to test on, `progress` while one waits, and `printing`.

Human output goes through rich; `--json` prints one JSON object on standard output and nothing else. Exit status: 0
done, 1 not solved, 2 bad input with one line on standard error.
"""

from rue.cli.app import main

__all__ = ["main"]
