"""Large models: work in parts by workers, and what does not fit into memory."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from clusters import dask_cluster
from hypothesis import given, settings
from models import Shape, models_with_controllers

import rue
from rue import _check, parts, values
from rue.judge import policy_cost
from rue.parts import do_parts, part_of, parts_of
from rue.solution import Run
from rue.values import optimal_values
from rue.workers import dask_executor

FIELDS = ("lower", "upper", "dead", "choice")


@pytest.fixture(scope="module")
def model():
    return rue.domains.Disaster(width=24, height=24, seed=2).sample(10, seed=2)


@pytest.fixture(scope="module")
def solution(model):
    return rue.solve(model, rue.Regret())


def assert_same(model, solution, executor):
    """Values, costs and solutions are the same to the last digit."""
    mine, theirs = optimal_values(model), optimal_values(model, run=Run(executor=executor))
    assert theirs.complete
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(theirs, name), getattr(mine, name))
    here, there = rue.evaluate(model, solution.policy), rue.evaluate(model, solution.policy, executor=executor)
    np.testing.assert_array_equal(there.value, here.value)
    np.testing.assert_array_equal(there.regret, here.regret)
    assert (there.error, there.at_most, there.complete) == (here.error, here.at_most, True)
    again = rue.solve(model, solution.solver, executor=executor)
    assert again.regret == solution.regret
    assert again.objective == solution.objective
    assert again.max_regret == solution.max_regret


def test_it_is_cut_into_parts(model):
    assert parts_of(model) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    few = rue.domains.Disaster(width=4, height=4, seed=2).sample(10, seed=2)
    assert parts_of(few) == [slice(0, 10)]


def test_threads(model, solution):
    with ThreadPoolExecutor(2) as executor:
        assert_same(model, solution, executor)


def test_processes(model, solution):
    with rue.Processes(2) as executor:
        assert_same(model, solution, executor)


def test_options_of_two_steps(model):
    solver = rue.Regret(2, "history")
    plain = rue.solve(model, solver)
    with rue.Processes(2) as executor:
        spread = rue.solve(model, solver, executor=executor)
    assert (spread.objective, spread.regret) == (plain.objective, plain.regret)


def die_once(part, seconds, path):
    """Kill the worker at the first call; return what the part is then."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return float(part.prob.sum())
    os.kill(os.getpid(), signal.SIGKILL)


def do_with_a_death(model, executor, path):
    """What becomes of the parts if a worker dies with one of them."""
    found = {}
    run = Run(executor=executor)
    do_parts(model, parts_of(model), die_once, (path,), lambda part, total: found.update({part.start: total}), run)
    return found


def test_a_dead_process_means_repeated_work(model, solution, tmp_path):
    with rue.Processes(2) as executor:
        found = do_with_a_death(model, executor, str(tmp_path / "dead"))
        assert_same(model, solution, executor)
    assert found == {part.start: model.prob[:, part].sum() for part in parts_of(model)}


def test_a_broken_pool_leaves_the_work_to_this_process(model, solution, tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        assert len(do_with_a_death(model, executor, str(tmp_path / "dead"))) < len(parts_of(model))
        assert_same(model, solution, executor)


def test_a_dask_worker_is_killed_in_the_middle(model, solution):
    pytest.importorskip("distributed")
    with dask_cluster(4) as (address, workers), dask_executor(address) as executor:
        assert_same(model, solution, executor)

        def kill_one(progress):
            if progress.stage.startswith("optimal values") and len(workers) > 2:
                workers.pop().kill()

        plain = optimal_values(model)
        spread = optimal_values(model, run=Run(executor=executor, hook=kill_one))
        assert len(workers) == 2
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(spread, name), getattr(plain, name))
        workers[0].kill()
        assert_same(model, solution, executor)


def test_a_part_travels_once(model, solution, monkeypatch):
    made = []
    monkeypatch.setattr(parts, "part_of", lambda *args: made.append(args[1]) or part_of(*args))
    with rue.Processes(1) as executor:
        rue.solve(model, rue.BestSample(), executor=executor, bound=False)
    assert made == parts_of(model)


def test_a_worker_without_the_part_asks_for_it(model, solution, monkeypatch):
    cache = rue.Cache()
    with rue.Processes(1) as executor:
        optimal_values(model, run=Run(executor=executor, cache=cache))
    with rue.Processes(1) as other:
        there = rue.evaluate(model, solution.policy, executor=other, cache=cache)
    np.testing.assert_array_equal(there.regret, np.array(solution.regret))


def test_no_time(model):
    with rue.Processes(1) as executor:
        found = rue.solve(model, rue.Regret(), executor=executor, limits=rue.Limits(seconds=0))
    assert found.status is rue.Status.TIME_LIMIT


@settings(max_examples=40)
@given(models_with_controllers(Shape(states=6, samples=9)))
def test_a_part_is_like_the_whole(pair):
    """Also where samples have different supports, and policies miss the goal in some."""
    model, policy = pair
    whole = policy_cost(model, policy, Run(threads=1))
    for part in (slice(0, 4), slice(4, model.samples)):
        if part.start >= model.samples:
            continue
        cost = policy_cost(part_of(model, part), policy, Run(threads=1))
        np.testing.assert_array_equal(cost.value, whole.value[part])
        np.testing.assert_array_equal(cost.error, whole.error[part])


def test_what_does_not_fit_is_told_before(model, tmp_path, monkeypatch):
    rue.save(tmp_path / "m.rue", model)
    for module in (_check, values):
        monkeypatch.setattr(module, "machine_memory", lambda: 1e6)
    with pytest.raises(
        rue.BadInput, match=r"15 samples of disaster:.* would take [\d.]+ MB of memory; expected at most 1 MB"
    ):
        rue.domains.Disaster(width=24, height=24, seed=2).sample(15, seed=2)
    with pytest.raises(rue.BadInput, match=r"m\.rue: its model would take .* MB of memory; expected at most 1 MB"):
        rue.load(tmp_path / "m.rue")
    for call in (optimal_values, rue.lower_bound, lambda m: rue.solve(m, rue.Regret())):
        with pytest.raises(rue.BadInput, match=r"optimal values of 576 states, .* would take .* MB of memory"):
            call(model)


def test_fewer_threads_where_memory_is_short(model, monkeypatch):
    plain = optimal_values(model, threads=4)
    held = model.nbytes + 2e6
    asked = []
    monkeypatch.setattr(values, "machine_memory", lambda: held)
    monkeypatch.setattr(values, "each", lambda work, items, threads: asked.append(threads) or [work(i) for i in items])
    again = optimal_values(model, threads=4)
    assert asked[0] < 3
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
