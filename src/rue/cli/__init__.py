"""The command line: it parses arguments, calls the library, and prints.

`app` lists all commands and handles errors and exit status. `models`, `policies`, `compare`, `plot`, `insight`,
`experiments` and `warm` have the commands; they do not import each other. Shared: `options` of several commands,
`outputs` (files that they write), `unseen` (test samples), `progress`, `facts` (what `--json` prints) and `printing`.

Output for people goes through rich; `--json` prints one JSON object on standard output and nothing else. Exit status:
0 done; 1 not solved (a limit, Ctrl-C, no proof, infinite regret), or a result that could not be written to its file;
2 bad input, with one line on standard error; 130 ended by Ctrl-C.
"""

from rue.cli.app import main

__all__ = ["main"]
