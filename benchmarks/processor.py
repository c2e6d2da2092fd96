"""Limits in seconds of the processor, for machines that do other work at the same time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from rue import Run


@contextmanager
def processor_time() -> Iterator[None]:
    """Let limits of seconds count the time of the processor, of all threads."""
    start: dict[float, float] = {}  # by the clock when a run began

    def seconds(run: Run) -> float:
        now = time.process_time()
        return now - start.setdefault(run.began, now)

    with patch.object(Run, "seconds", property(seconds)):
        yield
