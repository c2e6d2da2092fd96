"""Run the benchmarks: `python -m benchmarks [NAME …] [--quick] [--markdown FILE]`."""

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import (
    adaptive,
    bandwidth,
    cold,
    coverage,
    files,
    fixed_belief,
    fresh_samples,
    glider_options,
    hidden,
    interrupts,
    large,
    large_adaptive,
    limits,
    many_samples,
    moving_belief,
    options,
    peers,
    readings,
    simplify,
    stationary,
    workers,
    worlds,
)
from benchmarks.report import Table, machine

BENCHMARKS = {
    "peers": peers.run,
    "bandwidth": bandwidth.run,
    "large": large.run,
    "large-adaptive": large_adaptive.run,
    "options": options.run,
    "glider-options": glider_options.run,
    "adaptive": adaptive.run,
    "hidden": hidden.run,
    "fixed-belief": fixed_belief.run,
    "moving-belief": moving_belief.run,
    "stationary": stationary.run,
    "readings": readings.run,
    "simplify": simplify.run,
    "cold": cold.run,
    "limits": limits.run,
    "interrupts": interrupts.run,
    "coverage": coverage.run,
    "files": files.run,
    "workers": workers.run,
    "worlds": worlds.run,
    "many-samples": many_samples.run,
    "fresh-samples": fresh_samples.run,
}


def main() -> int:
    """Run what was asked for; 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{' or '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes, less than a minute: a smoke check")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file as well")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; expected {' or '.join(BENCHMARKS)}")
    console = Console()
    console.print(machine(), "\n", highlight=False)
    tables: list[Table] = []
    for name in arguments.names or BENCHMARKS:
        for table in BENCHMARKS[name](arguments.quick):
            table.show(console)
            tables.append(table)
    if arguments.markdown:
        text = "\n".join(["# Benchmarks\n", f"{machine()}.\n", *(table.markdown() for table in tables)])
        arguments.markdown.write_text(text, encoding="utf-8")
    return int(any("FAILED" in note for table in tables for note in table.notes))


if __name__ == "__main__":
    raise SystemExit(main())
