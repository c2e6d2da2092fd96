"""A process that looks at cases, and who watches it: a case that takes too long, or too much memory, is a failure."""

import multiprocessing
import resource
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from fuzz import checks, corpus, models, scripts
from fuzz.checks import Failure
from fuzz.shrink import shrink

# Seconds of processor time after which a case hangs, and of any time, much more since others may use the processor.
CPU_SECONDS, WALL_SECONDS = 90.0, 900.0
MEMORY = 8 << 30


@dataclass(frozen=True)
class Report:
    """What came of a case."""

    kind: str  # the family of a model, or the kind of a script
    failures: list[Failure] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


def look(what: str, seed: int) -> Report:
    """Make the case of a seed, and examine it."""
    if what == "model":
        spec = models.draw(seed)
        return Report(spec.family, *checks.examine(spec, seed))
    script = scripts.draw(seed)
    return Report(script.kind, *scripts.examine(script))


def smallest(what: str, seed: int, failure: Failure) -> dict[str, Any]:
    """The corpus entry of a failure, as small as it gets."""
    entry: dict[str, Any] = {"kind": what, "check": failure.check, "detail": failure.detail, "seed": seed}
    if what == "model":
        spec, jobs = shrink(models.draw(seed), seed, failure.check)
        return entry | {"model": spec.to_json(), "jobs": [corpus.describe_job(job) for job in jobs]}
    script = scripts.shrink(seed, failure.check)
    return entry | {"kind": script.kind} | script.to_json()


def _serve(connection: Connection) -> None:
    """Do what is asked for until nothing more is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # nobody catches it: the process ends
        answer = look(*request) if len(request) == 2 else smallest(*request)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        connection.send(answer)


class Worker:
    """The process, started anew whenever it dies."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def ask(self, *request: Any) -> Any:
        """What the process answers; None if it died or had to be killed: see `why`."""
        began = time.monotonic()
        self.why = ""
        try:
            self.connection.send(request)
            if self.connection.poll(WALL_SECONDS):
                return self.connection.recv()
            self.why = f"no answer after {WALL_SECONDS:.0f} s"
        except (EOFError, ConnectionError):
            self.process.join(10)
            code = self.process.exitcode
            self.why = f"exit status {code} after {time.monotonic() - began:.0f} s"
            if code == -signal.SIGPROF:
                self.why = f"more than {CPU_SECONDS:.0f} s of processor time"
        self.stop()
        self.start()
        return None

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()
