"""Samples in blocks: an 8 × 8 disaster grid judged in 10,000 and in 100,000 samples, each in a process of its own.

Seconds are wall-clock, from the start of the processes, with drawing the samples and their optimal values; processor
seconds are those of all processes. The peaks are the largest resident memory of the process that hands out the blocks
and of the largest worker, with Python, the libraries and the compiled code.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.large import MEGABYTE, peak
from benchmarks.report import Table

SAMPLES, QUICK_SAMPLES = (10_000, 100_000), (1_000, 4_000)
JOBS = 2
# What the peak of 100,000 samples may be, as a part of that of 10,000. Figures of 90,000 samples more take 10 MB.
FLAT = 1.1
POLICIES = ("average", "adaptive")


def run(quick: bool = False) -> list[Table]:
    """One table of seconds and memory."""
    table = Table(
        f"Samples in blocks of 1,000: disaster 8 × 8, {JOBS} processes",
        ("policy", "samples", "seconds", "processor seconds", "peak, MB", "peak of a worker, MB", "max regret"),
    )
    few, many = QUICK_SAMPLES if quick else SAMPLES
    for policy in POLICIES:
        found = [_in_own_process(policy, samples) for samples in (few, many)]
        for one in found:
            peaks = (f"{one[name] / MEGABYTE:.0f}" for name in ("peak", "worker"))
            seconds = (f"{one[name]:.1f}" for name in ("seconds", "cpu"))
            name = f"{policy}, {one['nodes']} nodes"
            table.rows.append((name, f"{one['samples']:,}", *seconds, *peaks, f"{one['max_regret']:.4f}"))
        growth = max(found[1][name] / found[0][name] for name in ("peak", "worker"))
        words = f"{policy}: memory at {many:,} samples is {growth:.2f} times that at {few:,}, at most {FLAT}"
        table.notes.append(words if growth <= FLAT else f"FAILED: {words}")
    return [table]


def _in_own_process(policy: str, samples: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.worlds", policy, str(samples)]
    root = Path(__file__).resolve().parent.parent
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def measure(method: str, samples: int) -> dict[str, Any]:
    """Judge one policy in a number of samples."""
    import rue
    from rue.parsing import parse_method

    domain = rue.domains.Disaster(width=8, height=8, seed=1)
    policy = rue.solve(domain.sample(15, seed=1), parse_method(method), bound=False).policy
    source = rue.Source.from_domain(domain, samples, seed=2)
    before, began = _processor_seconds(), time.perf_counter()
    with rue.Processes(JOBS) as executor:
        verdict = rue.evaluate(source, policy, executor=executor)
        seconds = time.perf_counter() - began
        # All are busy until the last one has begun.
        worker = max(one.result() for one in [executor.submit(_peak_after_a_while) for _ in range(JOBS)])
    found = {"samples": samples, "nodes": policy.nodes, "seconds": seconds, "cpu": _processor_seconds() - before}
    return {**found, "peak": peak(), "worker": worker, "max_regret": verdict.max_regret}


def _processor_seconds() -> float:
    """Of this process and of those that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak_after_a_while() -> int:
    time.sleep(1.0)
    return peak()


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
