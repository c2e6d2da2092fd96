"""Ctrl-C: seconds until it is heard, and until `solve` and `evaluate` return with what they have.

It is pressed at several moments of each run. A run that is over before has no entry.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from unittest import mock

import rue
from benchmarks.limits import METHODS, models
from benchmarks.report import Table
from rue.parsing import parse_method

MOMENTS = (0.05, 0.3, 1.0, 3.0)
HEARD_AT_MOST = 1.0


def run(quick: bool) -> Iterator[Table]:
    """One table: a row for each model and method, with the worst of all moments."""
    moments = MOMENTS[1:2] if quick else MOMENTS
    title = "Ctrl-C: the longest time until it is heard, and until the call returns"
    table = Table(title, ("model, method", "heard", "returned"))
    small = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)
    late = 0
    every = models() | {"disaster 100 × 100": rue.domains.Disaster(width=100, height=100, seed=1).sample(15, seed=1)}
    for name, model in every.items():
        policy = None
        for method in METHODS:
            solver = parse_method(method)
            rue.solve(small, solver)  # loads its kernels
            times = [_pressed(lambda: rue.solve(model, solver), moment) for moment in moments]  # noqa: B023
            late += _add_row(table, f"{name}, {method}", times)
            if policy is None:
                policy = rue.solve(model, solver, limits=rue.Limits(seconds=5)).policy
        times = [_pressed(lambda: rue.evaluate(model, policy), moment) for moment in moments]  # noqa: B023
        late += _add_row(table, f"{name}, evaluate", times)
    table.notes.append(f"{late} of {len(table.rows)} were heard after more than {HEARD_AT_MOST:g} s")
    yield table


def _add_row(table: Table, name: str, times: list[tuple[float, float] | None]) -> bool:
    known = [time for time in times if time is not None]
    heard, returned = (max(column, default=0.0) for column in (zip(*known, strict=True) if known else ((), ())))
    table.rows.append((name, *(f"{seconds:.2f}" if known else "done before" for seconds in (heard, returned))))
    return heard > HEARD_AT_MOST


def _pressed(call: Callable[[], object], moment: float) -> tuple[float, float] | None:
    """Press Ctrl-C a number of seconds after the call: how long until it was heard, and until the call was over."""
    pressed: list[float] = []
    heard: list[float] = []
    set_handler = signal.signal

    def listening(number: int, handler: Callable[..., object]) -> object:
        def wrapped(*arguments: object) -> None:
            heard.append(time.perf_counter())
            handler(*arguments)

        return set_handler(number, wrapped if getattr(handler, "__name__", "") == "on_interrupt" else handler)

    def press() -> None:
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(moment, press)
    with mock.patch.object(signal, "signal", listening):
        timer.start()
        try:
            call()
        except KeyboardInterrupt:
            heard.append(time.perf_counter())
    over = time.perf_counter()
    timer.cancel()
    if not pressed or not heard:
        return None
    return heard[0] - pressed[0], over - pressed[0]
