"""`python -m fuzz --seconds 600`: look at cases until the time is over, and tell what failed."""

import argparse
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

from fuzz import corpus
from fuzz.checks import Failure
from fuzz.known import known_as
from fuzz.worker import Report, Worker

WHAT = ("model", "script")
# Seeds are this far apart from run to run, so that no two runs share a case.
SPREAD = 10**6
PROGRESS_SECONDS = 10.0


def main() -> int:
    """Run; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--cases", type=int, help="how many of each kind, instead of how long")
    parser.add_argument("--seed", type=int, help="of the run; a new one unless given")
    parser.add_argument("--only", choices=WHAT, help="models, or scripts: mutated files and odd words")
    parser.add_argument("--corpus", type=Path, default=corpus.FOLDER, help="where failures are written")
    parser.add_argument("--most", type=int, default=20, help="stop after this number of failures")
    given = parser.parse_args()
    seed = secrets.randbelow(10**9) if given.seed is None else given.seed
    print(f"fuzz: seed {seed}; the same cases again: python -m fuzz --seed {seed}", flush=True)
    run = Run(given.corpus, given.most)
    try:
        run.go(seed * SPREAD, [given.only] if given.only else list(WHAT), given.seconds, given.cases)
    finally:
        run.worker.stop()
    print(run.summary())
    return 1 if run.failures else 0


class Run:
    """A run under way: what was looked at, and what failed."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        self.worker = Worker()
        self.cases: Counter[str] = Counter()
        self.done: Counter[tuple[str, str]] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        self.known: Counter[str] = Counter()

    def go(self, first: int, kinds: list[str], seconds: float, cases: int | None) -> None:
        """One case of each kind after the other."""
        began = told = time.monotonic()
        for number in range(cases if cases is not None else SPREAD):
            for what in kinds:
                self.look(what, first + number)
            now = time.monotonic()
            if now - told > PROGRESS_SECONDS:
                told = now
                total, failed = self.cases.total(), self.failures.total()
                print(f"fuzz: {total} cases, {60 * total / (now - began):.0f} a minute, {failed} failures", flush=True)
            if (cases is None and now - began > seconds) or self.failures.total() >= self.most:
                return

    def look(self, what: str, seed: int) -> None:
        """One case."""
        report = self.worker.ask(what, seed)
        self.cases[what] += 1
        if report is None:
            self.note(what, Failure("hang" if "processor" in self.worker.why else "crash", self.worker.why), seed)
            return
        assert isinstance(report, Report)
        self.done[what, report.kind] += 1
        for check, count in report.done.items():
            self.done[what, f"checked: {check}"] += count
        for failure in report.failures:
            self.note(what, failure, seed)

    def note(self, what: str, failure: Failure, seed: int) -> None:
        """Tell a failure and write it down, as small as it gets, unless it is known."""
        known = known_as(failure)
        if known is not None:
            self.known[known] += 1
            return
        self.failures[what, failure.check] += 1
        print(f"fuzz: {what} {seed}: {failure.check}: {failure.detail[:1000]}", flush=True)
        if self.failures[what, failure.check] > 3:  # enough of the same
            return
        entry = None if failure.check in ("hang", "crash") else self.worker.ask(what, seed, failure)
        entry = entry or {"kind": what, "check": failure.check, "detail": failure.detail, "seed": seed}
        print(f"fuzz: {corpus.write(entry, self.folder)}", flush=True)

    def summary(self) -> str:
        """Counts by kind and by check."""
        lines = [""]
        for what, total in self.cases.items():
            lines.append(f"{what}: {total} cases")
            lines += [f"  {name:24} {count:8}" for (kind, name), count in sorted(self.done.items()) if kind == what]
        lines.append(f"failures: {self.failures.total()}")
        lines += [f"  {what}: {check:20} {count:8}" for (what, check), count in sorted(self.failures.items())]
        lines += [f"known, {name}: {count}" for name, count in sorted(self.known.items())]
        return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
