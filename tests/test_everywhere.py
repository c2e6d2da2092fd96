"""Where people run it: systems without POSIX modules, several threads on one model, processes of every kind."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import rue
from rue import parsing

# What Windows does not have, taken away before anything of ours is imported; its locks are played by the system's own.
# The standard library looks at the system when it is imported: what does that comes first.
LIKE_WINDOWS = """
import asyncio, multiprocessing.connection, os, signal, subprocess, sys, types

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
lockf, held = os.lockf, []
for name in ("fork", "forkpty", "getuid", "sched_getaffinity", "killpg", "mkfifo", "lockf", "sysconf"):
    delattr(os, name)
for name in ("pthread_sigmask", "SIGKILL", "SIGHUP", "SIGALRM", "alarm", "setitimer"):
    delattr(signal, name)

def locking(file, mode, size):
    if held and held[0] == "busy":
        raise OSError("locked")
    assert (mode, size) == (2, 1)
    held.append(lockf(file, 2, size))

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
import rue, rue.cli, rue.experiments, rue.report
"""
RUN = """
from concurrent.futures import ThreadPoolExecutor
from rue.experiments import Store, read_spec, run_experiment

with ThreadPoolExecutor(1) as pool:
    summary = run_experiment(read_spec(sys.argv[1]), sys.argv[2], executor=pool)
print(summary.done, len(held), len(Store(__import__("pathlib").Path(sys.argv[2])).records()))
held.insert(0, "busy")
try:
    run_experiment(read_spec(sys.argv[1]), sys.argv[2])
except rue.BadInput as error:
    print(error)
"""
COMMAND = """
sys.argv = ["rue", *sys.argv[1:]]
rue.cli.main()
"""
SPEC = """
methods = ["average"]
[[problems]]
domain = "disaster"
sizes = [{ width = 3, height = 3 }]
seeds = 1
samples = 3
"""
SOLVERS = (rue.Regret(), rue.Regret(2, "history"), rue.Average(), rue.ExactStationary())
# It looks at the clock, and may stop at another policy that is as good.
ADAPTIVE = rue.Adaptive(gap=0.01)


def run(script: str, *arguments: object, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True, encoding="utf-8", check=False, timeout=300, env={**os.environ, **variables},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def small() -> rue.UMDP:
    return rue.domains.Disaster(width=4, height=4, seed=1).sample(4, seed=1)


def solve_small(solver: rue.Solver) -> tuple[float, ...]:
    return rue.solve(small(), solver).regret


def test_an_experiment_runs_without_posix(tmp_path):
    (tmp_path / "s.toml").write_text(SPEC)
    done, busy = run(LIKE_WINDOWS + RUN, tmp_path / "s.toml", tmp_path / "store").splitlines()
    assert done == "1 1 1"
    assert busy.endswith("another run is writing to this store; expected it to end first")


def test_commands_run_without_posix(tmp_path):
    model, solution = tmp_path / "m.rue", tmp_path / "s.rue"
    run(LIKE_WINDOWS + COMMAND, "generate", "disaster", "--set", "width=3", "--samples", 3, "--seed", 1, "-o", model)
    # A Windows console knows few letters; what it cannot show must not break it.
    out = run(LIKE_WINDOWS + COMMAND, "solve", model, "-o", solution, PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    assert "max regret" in out
    assert rue.load(solution).status is rue.Status.SOLVED


def test_a_store_is_written_the_same_on_every_system(tmp_path):
    """Lines end as they do here, whatever the system's own way is."""
    (tmp_path / "s.toml").write_text(SPEC)
    run(LIKE_WINDOWS + 'os.linesep = "\\r\\n"' + RUN, tmp_path / "s.toml", tmp_path / "store")
    for path in (tmp_path / "store").glob("*.*"):
        assert b"\r" not in path.read_bytes()


def test_threads_that_share_a_model_get_the_same_results():
    alone = [rue.solve(small(), solver).regret for solver in SOLVERS]
    shared = small()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda solver: rue.solve(shared, solver), (*SOLVERS * 3, ADAPTIVE, ADAPTIVE)))
        verdicts = list(pool.map(lambda solution: rue.evaluate(shared, solution.policy), together))
    assert [solution.regret for solution in together[:-2]] == alone * 3
    assert [tuple(verdict.regret.tolist()) for verdict in verdicts] == [solution.regret for solution in together]
    best = rue.solve(small(), ADAPTIVE).max_regret
    for solution in together[-2:]:
        assert solution.max_regret.upper >= best.lower and solution.max_regret.lower <= best.upper
        assert solution.status is rue.Status.SOLVED and solution.gap <= ADAPTIVE.gap


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes_of_every_kind_get_the_same_results(method):
    here = [solve_small(solver) for solver in SOLVERS]  # also starts what threads there are, before a fork
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(solve_small, SOLVERS)) == here
        assert max(pool.submit(solve_small, ADAPTIVE).result()) <= max(solve_small(ADAPTIVE)) / (1 - ADAPTIVE.gap)


def test_a_model_and_a_solution_travel_between_processes():
    model = small()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(rue.solve, model, rue.Regret()).result()
    assert there.regret == rue.solve(model, rue.Regret()).regret


def test_a_path_with_a_drive_is_no_domain():
    with pytest.raises(rue.BadInput, match="there is no such file"):
        parsing.read_model("C:\\models\\nothing.rue")
