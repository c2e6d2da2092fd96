"""Large models: work in parts by workers, and what does not fit into memory."""

import os
import pickle
import signal
import sys
import time
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from clusters import dask_cluster, start_worker
from hypothesis import given, settings
from models import Shape, models_with_controllers

import rue
from rue import _check, judge, parts, values
from rue.formats import rue_file
from rue.judge import policy_cost
from rue.parts import _as_sent, do_parts, model_part, parts_of
from rue.policy import POLICY_FIELDS
from rue.sharing import read, share
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


@pytest.fixture(scope="module")
def two_steps(model):
    return rue.solve(model, rue.Regret(2, "history"))


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
    assert_same_solution(rue.solve(model, solution.solver, executor=executor), solution)


def assert_same_solution(one, other):
    """Figures and policies are the same to the last digit."""
    for name in ("regret", "objective", "max_regret", "status", "counters"):
        assert getattr(one, name) == getattr(other, name)
    for name in POLICY_FIELDS:
        np.testing.assert_array_equal(getattr(one.policy, name), getattr(other.policy, name))


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


def test_options_of_two_steps(model, two_steps):
    with rue.Processes(2) as executor:
        assert_same_solution(rue.solve(model, two_steps.solver, executor=executor), two_steps)


def die_once(path):
    """Kill this process, unless another was killed for this path before."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def total(model, samples, seconds, path):
    """Kill the worker at the first call; return what the part is then."""
    die_once(path)
    return float(model.prob[:, samples].sum())


SOLVE_PART, COST_OF_PART = values._solve_part, judge._cost_of_part


def solve_part(*arguments):
    """Optimal values of a part; the first worker that has them dies before it can say so."""
    found = SOLVE_PART(*arguments)
    die_once(os.environ["RUE_TEST_MARK"] + "values")
    return found


def cost_of_part(*arguments):
    """The same for what a policy costs."""
    found = COST_OF_PART(*arguments)
    die_once(os.environ["RUE_TEST_MARK"] + "judge")
    return found


def do_with_a_death(model, executor, path):
    """What becomes of the parts if a worker dies with one of them."""
    found = {}
    run = Run(executor=executor)
    do_parts(model, parts_of(model), total, (path,), lambda part, answer: found.update({part.start: answer}), run)
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Dask cluster whose workers are processes, and where they write that they die."""
    pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as patch:
        deaths = tmp_path_factory.mktemp("deaths")
        patch.setenv("RUE_TEST_MARK", str(deaths / "died of "))
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        with dask_cluster(0) as (address, workers), dask_executor(address) as executor:
            yield address, workers, executor, deaths


@pytest.fixture
def four_workers(cluster):
    """Four Dask workers; one of them dies. New ones take the places of those that died before."""
    address, workers, executor, deaths = cluster
    for path in deaths.iterdir():
        path.unlink()
    alive = [worker for worker in workers if worker.poll() is None]
    workers[:] = alive + [start_worker(address) for _ in range(4 - len(alive))]
    executor._client.wait_for_workers(4, timeout=120)
    yield executor
    assert [worker.wait(60) for worker in workers if worker.poll() is not None] == [-signal.SIGKILL]
    assert len(list(deaths.iterdir())) == 1


def test_a_dask_worker_dies_in_the_middle_of_optimal_values(model, four_workers, monkeypatch):
    plain = optimal_values(model)
    monkeypatch.setattr(values, "_solve_part", solve_part)
    spread = optimal_values(model, run=Run(executor=four_workers))
    assert spread.complete
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(spread, name), getattr(plain, name))


def test_a_dask_worker_dies_in_the_middle_of_a_judgement(model, solution, four_workers, monkeypatch):
    plain = rue.evaluate(model, solution.policy)
    monkeypatch.setattr(judge, "_cost_of_part", cost_of_part)
    spread = rue.evaluate(model, solution.policy, executor=four_workers)
    assert spread.complete and (spread.error, spread.at_most) == (plain.error, plain.at_most)
    for name in ("value", "optimal", "regret"):
        np.testing.assert_array_equal(getattr(spread, name), getattr(plain, name))


@pytest.mark.parametrize(("module", "work"), [(values, solve_part), (judge, cost_of_part)])
def test_a_dask_worker_dies_in_the_middle_of_options_of_two_steps(
    model, two_steps, four_workers, monkeypatch, module, work
):
    monkeypatch.setattr(module, f"_{work.__name__}", work)
    assert_same_solution(rue.solve(model, two_steps.solver, executor=four_workers), two_steps)


@pytest.fixture
def sent(monkeypatch):
    """The parts that were made to be sent."""
    made = []
    monkeypatch.setattr(parts, "_as_sent", lambda *given: made.append(given[1]) or _as_sent(*given))
    return made


def test_workers_of_this_machine_share_the_model(model, sent):
    with rue.Processes(2) as executor:
        rue.solve(model, rue.BestSample(), executor=executor, bound=False)
    assert sent == [slice(0, 10)]


def test_a_part_travels_once_where_nothing_can_be_shared(model, solution, sent, monkeypatch):
    monkeypatch.setattr(parts, "share", lambda thing: None)
    with rue.Processes(1) as executor:
        rue.solve(model, rue.BestSample(), executor=executor, bound=False)
        assert sorted(part.start for part in sent) == [0, 0, 4, 8]
        assert_same(model, solution, executor)


def test_a_part_travels_once_to_another_machine(model, solution, sent, monkeypatch):
    """There the memory of this one is not found, or something else in its place."""
    monkeypatch.setattr(parts, "share", elsewhere)
    with rue.Processes(1) as executor:
        rue.solve(model, rue.BestSample(), executor=executor, bound=False)
        assert sorted(part.start for part in sent) == [0, 0, 4, 8]
        assert_same(model, solution, executor)


def elsewhere(thing):
    """Share a thing, and tell a wrong address."""
    shared = share(thing)
    shared.address = of_another_file(shared.address)
    return shared


def of_another_file(address):
    """Return the address with a file that was changed at another time."""
    return address._replace(files=tuple(file._replace(changed=file.changed - 1) for file in address.files))


def test_what_is_shared_can_be_read_as_long_as_it_lives():
    thing = {"one": np.arange(5), "two": np.zeros((3, 0)), "three": [np.ones((2, 3)), "text"]}
    shared = share(thing)
    address = shared.address
    found = read(address)
    np.testing.assert_equal(found, thing)
    assert not found["one"].flags.writeable
    assert read(of_another_file(address)) is None
    del shared
    assert read(address) is None
    np.testing.assert_equal(found, thing)


def test_what_is_in_a_file_stays_there(model, tmp_path, monkeypatch):
    monkeypatch.setattr(rue_file, "SMALL", 0)  # larger arrays are mapped
    rue.save(tmp_path / "m.rue", model)
    loaded = rue.load(tmp_path / "m.rue")
    shared = share((loaded.prob, loaded.cost, np.arange(3)))
    address = shared.address
    assert [place.path == str(tmp_path / "m.rue") for place in address.places] == [True, True, False]
    prob, cost, numbers = read(address)
    np.testing.assert_array_equal(prob, model.prob)
    np.testing.assert_array_equal(cost, model.cost)
    assert numbers.tolist() == [0, 1, 2]
    rue.save(tmp_path / "m.rue", model)
    assert read(address) is None
    again = share(loaded.prob)  # the file that it is mapped from has no name any more
    np.testing.assert_array_equal(read(again.address), model.prob)


def test_a_worker_without_the_part_asks_for_it(model, solution, monkeypatch):
    monkeypatch.setattr(parts, "share", lambda thing: None)
    cache = rue.Cache()
    with rue.Processes(1) as executor:
        optimal_values(model, run=Run(executor=executor, cache=cache))
    with rue.Processes(1) as other:
        there = rue.evaluate(model, solution.policy, executor=other, cache=cache)
    np.testing.assert_array_equal(there.regret, np.array(solution.regret))


def count_samples(model, samples, seconds):
    """The work of a task that only looks at what it was given."""
    return len(range(model.samples)[samples])


def test_threads_of_a_worker_keep_what_they_need(monkeypatch):
    """Where there is room for one part, and two threads have different ones."""
    monkeypatch.setattr(parts, "_kept", OrderedDict())
    monkeypatch.setattr(parts, "machine_memory", lambda: time.sleep(1e-3) or 0.0)
    few = rue.domains.Disaster(width=4, height=4, seed=2).sample(2, seed=2)
    sent = pickle.dumps(_as_sent(few, slice(0, 2)))
    tasks = [parts._Task(slice(0, 2), name, sent, count_samples, (), 1.0) for name in "abcd" * 10]
    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(parts._perform, tasks)) == [(slice(0, 2), 2)] * len(tasks)


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
        cost = policy_cost(model_part(*_as_sent(model, part)), policy, Run(threads=1))
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
