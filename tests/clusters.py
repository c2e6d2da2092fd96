"""A Dask cluster on loopback, in processes of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def dask_cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """The address of the scheduler, and its workers."""
    port = free_port()
    processes = [dask("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-show")]
    address = f"tcp://127.0.0.1:{port}"
    for _ in range(workers):
        processes.append(start_worker(address))
    started = processes[1:]
    try:
        wait_for_port(port)
        yield address, started
    finally:
        for process in {*processes, *started}:
            process.kill()
            process.wait()


def start_worker(address: str) -> subprocess.Popen:
    """Start one more worker."""
    return dask("worker", address, "--nthreads", 1, "--no-nanny", "--no-dashboard")


def dask(*words: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens to port {port} after {seconds} s")
