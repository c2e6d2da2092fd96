"""Samples in blocks: the same figures whoever judges which block, whatever is lost on the way."""

import dataclasses
import gc
import os
import pickle
import signal
import time
import weakref
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from clusters import dask_cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers

import rue
from rue import evaluation
from rue.evaluation import judge_source
from rue.solution import Run
from rue.workers import LostWorker, dask_executor, open_executor
from rue.worlds import block_seed

DOMAIN = rue.domains.Disaster(width=4, height=4, seed=3)
POLICY = rue.solve(DOMAIN.sample(3, seed=1), rue.Average(), bound=False).policy
OTHER = rue.solve(DOMAIN.sample(3, seed=2), rue.Mixture(), bound=False).policy
ROWS = [("a", "go", 1.0, "b"), ("b", "go", 1.0, "end"), ("a", "go", 2.0, "end"), ("a", "fly", 3.0, "end")]
COUNTS = rue.count_transitions(ROWS, initial="a", goals=["end"])


def draw(block: int) -> rue.UMDP:
    """Blocks of five samples, with weights that differ."""
    return DOMAIN.sample(5, seed=100 + block).with_weight([1, 2, 3, 4, block])


def draw_and_die(block: int) -> rue.UMDP:
    """The same; block 2 kills the process that draws it, a number of times, unless that is the one of the tests."""
    mark = Path(os.environ["RUE_TEST_MARK"])
    is_deadly = block == 2 and len(list(mark.iterdir())) < int(os.environ["RUE_TEST_DEATHS"])
    if is_deadly and os.getpid() != int(os.environ["RUE_TEST_PARENT"]):
        (mark / str(time.monotonic_ns())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(block)


def facts(verdict: rue.Evaluation) -> tuple:
    arrays = (verdict.value, verdict.optimal, verdict.regret, verdict.weight, verdict.judged)
    return (*(array.tobytes() for array in arrays), verdict.error, verdict.at_most, verdict.complete)


class Unordered(Executor):
    """Does the work in threads of this process, the first tasks last."""

    def __init__(self):
        self.pool, self.given = ThreadPoolExecutor(8), 0

    def submit(self, fn, /, *args):
        self.given += 1
        pause = 0.1 / self.given
        return self.pool.submit(lambda: time.sleep(pause) or fn(*args))


@pytest.fixture(scope="module")
def processes():
    with rue.Processes(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(3) as executor:
        yield executor


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for i in range(3):
        rue.save(folder / f"{'cab'[i]}.rue", DOMAIN.sample(2 + i, seed=i).with_weight(range(1, 3 + i)))
    return {
        "domain": rue.Source.from_domain(DOMAIN, 30, seed=1, block=7),
        "counts": rue.Source.from_counts(COUNTS, 30, seed=1, block=8, cost_noise=0.5),
        "files": rue.Source.from_files(folder, weight=[1, 2, 0]),
        "function": rue.Source.from_function(draw, 25, block=5, weight=[1, 1, 2, 3, 5]),
        "model": rue.Source.from_model(DOMAIN.sample(20, seed=1).with_weight(np.arange(20)), 6),
    }


KINDS = ("domain", "counts", "files", "function", "model")


def policy_for(source: rue.Source) -> rue.Policy:
    fits = source.graph.fingerprint == POLICY.graph.fingerprint
    return POLICY if fits else rue.Policy.stationary(source.graph, [0] * source.graph.states)


# The same figures


@settings(max_examples=100)
@given(models_with_controllers(Shape(samples=5)), st.integers(1, 6), st.data())
def test_a_model_in_blocks_has_the_figures_of_the_model(pair, block, data):
    model, policy = pair
    weight = data.draw(st.lists(st.integers(0, 3), min_size=model.samples, max_size=model.samples))
    model = model.with_weight(weight) if any(weight) else model
    whole, parts = (rue.evaluate(thing, policy) for thing in (model, rue.Source.from_model(model, block)))
    if block >= model.samples:
        assert facts(parts) == facts(whole)
    error = whole.error + parts.error
    for name in ("value", "optimal", "regret"):
        one, other = getattr(whole, name), getattr(parts, name)
        assert (np.isinf(one) == np.isinf(other)).all()
        finite = np.isfinite(one)
        assert (np.abs(one[finite] - other[finite]) <= error).all()
    assert (parts.weight == whole.weight).all() and parts.complete and parts.judged.all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_of_the_blocks_one_by_one(sources, kind):
    source = sources[kind]
    policy = policy_for(source)
    verdict = rue.evaluate(source, policy)
    blocks = [rue.evaluate(source.block(i), policy) for i in range(source.blocks)]
    for name in ("value", "optimal", "regret", "judged"):
        assert (getattr(verdict, name) == np.concatenate([getattr(one, name) for one in blocks])).all()
    assert verdict.at_most == max(one.at_most for one in blocks)
    given_weight = source.size if source.weight is None else source.weight
    weight = np.concatenate([w * one.weight for w, one in zip(given_weight, blocks, strict=True)])
    if kind == "model":
        assert (verdict.weight == source.model.weight).all()
    else:
        assert verdict.weight == pytest.approx(weight / weight.sum(), rel=1e-14)
    if kind in ("domain", "counts"):
        assert (verdict.weight == 1 / source.samples).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_figure_depends_on_the_executor(sources, kind, processes, pool, threads):
    source = sources[kind]
    policy = policy_for(source)
    found = facts(rue.evaluate(source, policy))
    for executor in (processes, pool, threads, Unordered()):
        assert facts(rue.evaluate(source, policy, executor=executor)) == found
    for number in (1, 2, 5):
        assert facts(rue.evaluate(source, policy, threads=number)) == found


def test_small_blocks_go_together_and_all_are_done_once(monkeypatch):
    source = rue.Source.from_domain(DOMAIN, 1000, seed=1, block=1)
    chunks = evaluation._chunks(source)
    assert [i for chunk in chunks for i in chunk] == list(range(1000))
    assert {len(chunk) for chunk in chunks[:-1]} == {31}
    monkeypatch.setattr(evaluation, "TASK_NUMBERS", 3 * (source.graph.transitions + source.graph.choices))
    assert {len(chunk) for chunk in evaluation._chunks(source)[:-1]} == {3}
    assert len(evaluation._chunks(rue.Source.from_domain(DOMAIN, 1000, seed=1, block=100))) == 10


# What is drawn


def test_a_block_depends_on_the_seed_and_its_number_alone():
    few, many = (rue.Source.from_domain(DOMAIN, samples, seed=1, block=5) for samples in (12, 40))
    for source in (few, pickle.loads(pickle.dumps(few))):
        assert [source.block(i).samples for i in range(3)] == [5, 5, 2]
        for i in (1, 0):
            assert (source.block(i).cost == many.block(i).cost).all()
    seeds = {block_seed(seed, block) for seed in range(30) for block in range(30)}
    assert len(seeds) == 900
    assert (few.block(1).cost == DOMAIN.sample(5, seed=block_seed(1, 1)).cost).all()


def test_seeds_of_blocks_stay_what_they_are():
    seeds = [8431846347943309920, 4042681867674859579, 3890642289391122579]
    assert [block_seed(1, 0), block_seed(1, 1), block_seed(2, 0)] == seeds


def test_blocks_have_a_usual_size_that_depends_on_the_graph():
    assert rue.Source.from_domain(DOMAIN, 100_000, seed=1).size[:2].tolist() == [1000, 1000]
    large = rue.Source.from_domain(rue.domains.Disaster(width=100, height=100, seed=1), 100, seed=1)
    assert large.size[0] == 2_000_000 // large.graph.transitions < 10
    assert repr(large).endswith(f"100 samples in {large.blocks} blocks)")


@pytest.mark.parametrize("kind", KINDS)
def test_sources_can_be_pickled(sources, kind):
    source = sources[kind]
    again = pickle.loads(pickle.dumps(source))
    assert again.samples == source.samples and again.blocks == source.blocks
    for i in range(source.blocks):
        one, other = source.block(i), again.block(i)
        assert (one.prob == other.prob).all() and (one.cost == other.cost).all() and (one.weight == other.weight).all()


def test_files_are_read_by_name_and_counted_unless_that_is_told(sources, tmp_path):
    files = sources["files"]
    assert files.size.tolist() == [3, 4, 2] and files.samples == 9  # a, b, c
    assert [files.sample_name(k) for k in (0, 3, 8)] == ["a, 0", "b, 0", "c, 1"]
    rue.save(tmp_path / "one.rue", DOMAIN.sample(1, seed=1))
    rue.save(tmp_path / "two.rue", DOMAIN.sample(1, seed=2))
    (tmp_path / "notes.txt").write_text("not a model")
    told = rue.Source.from_files([tmp_path / "two.rue", tmp_path / "one.rue"], samples=1)
    assert [told.sample_name(k) for k in (0, 1)] == ["two", "one"]
    assert (told.block(1).cost == rue.Source.from_files(tmp_path).block(0).cost).all()


def test_names_of_samples():
    model = replace(DOMAIN.sample(2, seed=1), sample_label=("dry", "wet"))
    assert rue.Source.from_model(model, 1).sample_name(1) == "wet"
    assert rue.Source.from_domain(DOMAIN, 9, seed=1).sample_name(7) == "7"


# Some samples of many


@pytest.mark.parametrize("kind", KINDS)
def test_gathered_samples_are_those_of_the_source(sources, kind):
    source = sources[kind]
    weight = rue.evaluate(source, policy_for(source)).weight
    chosen = np.random.default_rng(1).permutation(source.samples)[:6]
    model = source.gather(chosen)
    assert model.graph is source.graph and model.samples == 6
    for k, sample in enumerate(chosen):
        block = int(np.searchsorted(source.first, sample, side="right")) - 1
        own = source.block(block).subset([sample - source.first[block]])
        assert (model.prob[:, k] == own.prob[:, 0]).all() and (model.cost[:, k] == own.cost[:, 0]).all()
        assert {name: values[:, k].tolist() for name, values in model.scenery.items()} == {
            name: values[:, 0].tolist() for name, values in own.scenery.items()
        }
        assert model.sample_name(k) == str(sample)
    assert model.weight == pytest.approx(weight[chosen] / weight[chosen].sum(), rel=1e-12)


def test_gathered_labels_are_kept_and_made_different():
    def labelled(block: int) -> rue.UMDP:
        return replace(DOMAIN.sample(2, seed=block), sample_label=("dry", "wet"))

    source = rue.Source.from_function(labelled, 6, block=2)
    assert source.gather([1, 2, 3, 5, 1]).sample_label == ("wet", "dry", "wet (2)", "wet (3)", "wet (4)")


def test_each_block_is_drawn_once():
    drawn = []
    source = rue.Source.from_function(lambda i: drawn.append(i) or draw(i), 25, block=5)
    drawn.clear()
    assert source.gather([24, 0, 23, 1, 10]).samples == 5
    assert sorted(drawn) == [0, 2, 4]
    drawn.clear()
    rue.evaluate(source, POLICY)
    assert drawn == [0, 1, 2, 3, 4]


def test_samples_without_weight_can_be_gathered():
    source = rue.Source.from_function(draw, 10, block=5, weight=[0, 1])
    assert source.gather([0, 1]).weight.tolist() == [0.5, 0.5]
    assert source.gather([0, 9]).weight.tolist() == [0, 1]


# What is kept


def test_nothing_of_a_block_is_kept():
    alive = []

    def watched(block: int) -> rue.UMDP:
        gc.collect()
        assert sum(one() is not None for one in alive) <= 1  # the one before, at most
        model = draw(block)
        alive.append(weakref.ref(model))
        return model

    source = rue.Source.from_function(watched, 50, block=5)
    cache = rue.Cache()
    for policy in (POLICY, OTHER):
        rue.evaluate(source, policy, cache=cache)
    gc.collect()
    assert len(alive) == 21 and not any(one() is not None for one in alive)


def test_optimal_values_are_computed_for_the_first_policy_only(monkeypatch, threads):
    source = rue.Source.from_domain(DOMAIN, 30, seed=1, block=7)
    fresh = [facts(rue.evaluate(source, policy)) for policy in (POLICY, OTHER)]
    computed = []
    honest = evaluation.least_cost
    monkeypatch.setattr(evaluation, "least_cost", lambda model, run: computed.append(model) or honest(model, run))
    run = Run()
    for executor in (None, threads):
        assert [facts(judge_source(source, policy, run, executor)) for policy in (POLICY, OTHER)] == fresh
    assert len(computed) == source.blocks
    verdict = judge_source(source, POLICY, run)
    assert judge_source(source, POLICY, run) is verdict  # the last verdict is kept


# Limits


def test_a_limit_leaves_samples_out(processes, threads):
    source = rue.Source.from_domain(DOMAIN, 30, seed=1, block=7)
    for executor in (None, processes, threads):
        verdict = rue.evaluate(source, POLICY, limits=rue.Limits(seconds=0), executor=executor)
        assert not verdict.complete and not verdict.judged.any()
        assert verdict.error == verdict.at_most == np.inf and np.isinf(verdict.value).all()
        assert (verdict.weight == 1 / 30).all()


@pytest.mark.parametrize("spread", [False, True])
def test_ctrl_c_ends_with_what_was_judged(spread):
    source = rue.Source.from_domain(DOMAIN, 350, seed=1, block=7)
    whole = rue.evaluate(source, POLICY)
    reports = []

    def interrupts(progress: rue.Progress) -> None:
        reports.append(progress.stage)
        if len(reports) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    cache = rue.Cache()
    executor = ThreadPoolExecutor(1) if spread else None
    verdict = rue.evaluate(source, POLICY, executor=executor, progress=interrupts, cache=cache)
    assert not verdict.complete and 21 <= verdict.judged.sum() < 350
    assert reports[0] == "judging: 7 of 350 samples"
    for name in ("value", "optimal", "regret"):
        assert (getattr(verdict, name)[verdict.judged] == getattr(whole, name)[verdict.judged]).all()
    assert np.isinf(verdict.regret[~verdict.judged]).all() and verdict.max_regret == np.inf
    # The next call goes on with the optimal values that are there.
    assert facts(rue.evaluate(source, POLICY, cache=cache)) == facts(whole)
    if spread:
        executor.shutdown()


def test_progress_is_told_for_each_block(threads):
    source = rue.Source.from_domain(DOMAIN, 30, seed=1, block=7)
    for executor in (None, threads):
        told = []
        rue.evaluate(source, POLICY, executor=executor, progress=told.append)
        assert len(told) == 5 and told[-1].stage == "judging: 30 of 30 samples"


# Lost workers


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """A source whose block 2 kills the processes that draw it, a number of times."""
    (tmp_path / "mark").mkdir()
    monkeypatch.setenv("RUE_TEST_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("RUE_TEST_PARENT", str(os.getpid()))

    def make(deaths: int) -> rue.Source:
        monkeypatch.setenv("RUE_TEST_DEATHS", str(deaths))
        return rue.Source.from_function(draw_and_die, 50, block=5)

    return make


def test_a_lost_process_means_work_done_again(deadly):
    source = deadly(2)
    with rue.Processes(2) as executor:
        verdict = rue.evaluate(source, POLICY, executor=executor)
        assert facts(verdict) == facts(rue.evaluate(rue.Source.from_function(draw, 50, block=5), POLICY))
        assert executor.submit(os.getpid).result() != os.getpid()  # it goes on


def test_a_block_that_always_kills_its_process_is_told(deadly):
    with rue.Processes(2) as executor, pytest.raises(rue.BadInput) as told:
        rue.evaluate(deadly(1000), POLICY, executor=executor)
    assert str(told.value) == (
        "block 2: the process that judges it died 3 times, perhaps for want of memory; "
        "expected smaller blocks, or fewer processes"
    )


def test_the_rest_is_done_here_if_an_executor_breaks(deadly):
    source, told = deadly(1000), []
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        verdict = rue.evaluate(source, POLICY, executor=executor, progress=told.append)
    assert facts(verdict) == facts(rue.evaluate(rue.Source.from_function(draw, 50, block=5), POLICY))
    assert any("the executor takes no more work" in progress.stage for progress in told)
    told.clear()
    verdict = rue.evaluate(source, POLICY, executor=executor, progress=told.append)  # it was shut down
    assert facts(verdict) == facts(rue.evaluate(rue.Source.from_function(draw, 50, block=5), POLICY))
    assert "10 blocks are judged in this process" in told[0].stage


def test_what_an_executor_loses_again_and_again_is_done_here(sources):
    class Forgetful(ThreadPoolExecutor):
        def submit(self, fn, /, *args):
            if 1 not in args[0].blocks:
                return super().submit(fn, *args)
            lost = Future()
            lost.set_exception(LostWorker())
            return lost

    told = []
    with Forgetful(2) as executor:
        verdict = rue.evaluate(sources["domain"], POLICY, executor=executor, progress=told.append)
    assert facts(verdict) == facts(rue.evaluate(sources["domain"], POLICY))
    assert [p.stage for p in told if "lost" in p.stage] == [
        "the executor lost the work on block 1; it is judged in this process"
    ]


def test_processes_pass_on_results_and_errors(processes):
    assert [one.result() for one in [processes.submit(pow, 2, n) for n in range(5)]] == [1, 2, 4, 8, 16]
    with pytest.raises(ZeroDivisionError):
        processes.submit(divmod, 1, 0).result()
    with pytest.raises(Exception, match=r"(?i)pickle"):
        processes.submit(lambda: 0).result()
    with pytest.raises(RuntimeError, match="cannot be sent back"):
        processes.submit(eval, "lambda: 0").result()
    assert processes.submit(pow, 2, 3).result() == 8
    executor = rue.Processes(1)
    busy = executor.submit(time.sleep, 100)
    while not executor._busy:
        time.sleep(0.01)
    waiting = executor.submit(time.sleep, 100)
    executor.shutdown()
    assert waiting.cancelled()
    with pytest.raises(LostWorker):
        busy.result()
    with pytest.raises(RuntimeError):
        executor.submit(pow, 2, 3)


@pytest.fixture
def cluster():
    """The address of a Dask scheduler on loopback, and its three workers."""
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with dask_cluster(workers=3) as found:
        yield found


@pytest.mark.parametrize("samples", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_dask_cluster_that_loses_a_worker_in_the_middle(cluster, samples):
    address, workers = cluster
    domain = rue.domains.Disaster(width=8, height=8, seed=1)
    policy = rue.solve(domain.sample(5, seed=1), rue.Regret(2), bound=False).policy
    source = rue.Source.from_domain(domain, samples, seed=1, block=250)
    killed = []

    def kills(progress: rue.Progress) -> None:
        judged = int(progress.stage.split()[1])
        if judged >= samples // 4 and not killed:
            os.kill(workers[0].pid, signal.SIGKILL)
            killed.append(judged)

    with dask_executor(address) as executor:
        executor._client.wait_for_workers(3, timeout=120)
        verdict = rue.evaluate(source, policy, executor=executor, progress=kills)
        assert workers[0].wait(timeout=10) == -signal.SIGKILL and killed[0] < samples
        assert len(executor._client.scheduler_info()["workers"]) == 2
        few, usual = rue.Source.from_domain(domain, 30, seed=1, block=9), executor._client.get_executor()
        assert facts(rue.evaluate(few, policy, executor=usual)) == facts(rue.evaluate(few, policy))
    assert verdict.complete and verdict.judged.all()
    assert facts(verdict) == facts(rue.evaluate(source, policy))


# What goes wrong


def test_what_goes_wrong_is_told_in_one_line(tmp_path, processes, threads):
    other = rue.domains.Disaster(width=3, height=4, seed=1).sample(5, seed=1)
    own, theirs = POLICY.graph.fingerprint, other.graph.fingerprint
    cases = {
        f"block 3 has a graph with the fingerprint {theirs}; expected {own}, that of the source":
            lambda i: other if i == 3 else draw(i),
        "block 3 has 4 samples; expected 5": lambda i: draw(i).subset(range(4)) if i == 3 else draw(i),
        "block 3 is a NoneType; expected a rue.UMDP": lambda i: None if i == 3 else draw(i),
        "block 3 cannot be drawn: KeyError: 'three'; expected a rue.UMDP":
            lambda i: {}["three"] if i == 3 else draw(i),
        "block 3: there is no such file": lambda i: rue.load(tmp_path / "none.rue") if i == 3 else draw(i),
    }  # fmt: skip
    for message, function in cases.items():
        source = rue.Source.from_function(function, 25, block=5)
        for executor in (None, threads):
            with pytest.raises(rue.BadInput) as told:
                rue.evaluate(source, POLICY, executor=executor)
            assert message.removeprefix("block 3: ") in str(told.value) and str(told.value).startswith("block 3")
            assert len(str(told.value).splitlines()) == 1
        with pytest.raises(rue.BadInput, match="block 3"):
            source.gather([0, 16])
    with pytest.raises(rue.BadInput, match=r"block 0 is a int; expected a rue\.UMDP"):
        rue.Source.from_function(lambda i: 1, 25, block=5)
    with pytest.raises(rue.BadInput, match=r"the source cannot be sent to other processes \(.*\); expected a function"):
        rue.evaluate(rue.Source.from_function(lambda i: draw(i), 25, block=5), POLICY, executor=processes)
    small = rue.Source.from_model(other)
    with pytest.raises(
        rue.BadInput, match=rf"policy is for another graph .* {own}\); expected .* fingerprint {theirs}"
    ):
        rue.evaluate(small, POLICY)


def test_files_that_do_not_fit_are_named(tmp_path):
    with pytest.raises(rue.BadInput, match=r"there is no file of a model in the folder; expected \.rue"):
        rue.Source.from_files(tmp_path)
    rue.save(tmp_path / "a.rue", DOMAIN.sample(2, seed=1))
    rue.save(tmp_path / "b.rue", rue.domains.Disaster(width=3, height=4, seed=1).sample(2, seed=1))
    with pytest.raises(rue.BadInput, match=r"block 1 \(.*b\.rue\) has a graph with the fingerprint .*; expected"):
        rue.Source.from_files(tmp_path)
    rue.save(tmp_path / "b.rue", POLICY)
    with pytest.raises(rue.BadInput, match=r"block 1 \(.*b\.rue\): it holds a Policy; expected a model"):
        rue.Source.from_files(tmp_path)
    rue.save(tmp_path / "b.rue", DOMAIN.sample(3, seed=2))
    source = rue.Source.from_files(tmp_path, samples=2)
    with pytest.raises(rue.BadInput, match=r"block 1 \(.*b\.rue\) has 3 samples; expected 2"):
        rue.evaluate(source, POLICY)
    (tmp_path / "b.rue").unlink()
    with pytest.raises(rue.BadInput, match=r"block 1 .*there is no such file"):
        rue.evaluate(source, POLICY)
    with pytest.raises(rue.BadInput, match=r"there is no such folder"):
        rue.Source.from_files(tmp_path / "none")
    with pytest.raises(rue.BadInput, match=r"the list of files is empty"):
        rue.Source.from_files([])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2], r"weight has shape \(2,\); expected one number for each of 5 blocks"),
        ([1, -1, 2, -3, 1], r"the weight of block 1 is -1\.0; expected a finite number, 0 or more; 2 are off in all"),
        ([1, np.nan, 2, 3, 1], r"the weight of block 1 is nan; expected a finite number"),
        ([0, 0, 0, 0, 0], r"the weight of every block is 0; expected a positive weight in one at least"),
    ],
)
def test_weights_of_blocks_are_checked(weight, message):
    with pytest.raises(rue.BadInput, match=message):
        rue.Source.from_function(draw, 25, block=5, weight=weight)


def test_sizes_are_checked():
    with pytest.raises(rue.BadInput, match=r"block 1 has 0 samples; expected one at least; 2 are off in all"):
        rue.Source(DOMAIN.graph, [2, 0, -1], draw)
    with pytest.raises(rue.BadInput, match=r"the figures of 1000000000000 samples would take 100 TB of memory"):
        rue.Source.from_domain(DOMAIN, 10**12, seed=1)
    with pytest.raises(rue.BadInput, match=r"block 9 is out of range; expected 0 to 4"):
        rue.Source.from_function(draw, 25, block=5).block(9)
    with pytest.raises(rue.BadInput, match=r"sample 25 is out of range; expected 0 to 24"):
        rue.Source.from_function(draw, 25, block=5).gather([25])


def test_one_of_processes_and_scheduler():
    with pytest.raises(rue.BadInput, match="expected one of the two"), open_executor(2, "tcp://127.0.0.1:1"):
        pass
    with open_executor(None, None) as nobody:
        assert nobody is None


def ring(seed=1):
    """Counts of three states with rewards, as negative costs, some of them near 0."""
    random = np.random.default_rng(seed)
    cost = np.array([[-2.0, 0.5], [-0.1, 3.0], [1.0, -1.0]])
    return rue.build._count_table(random.integers(1, 9, (3, 2, 3)), cost, 0, (), "observed")


@pytest.mark.parametrize("way", [{"discount": 0.9}, {"average": 0.9}])
def test_counts_with_noisy_costs_are_in_figures(way):
    """Values of all blocks are those of the costs that were drawn, whatever shift keeps them above 0."""
    source = rue.Source.from_counts(ring(), 30, seed=3, block=7, cost_noise=0.8, **way)
    policy = rue.Policy.from_choices(source.graph, source.graph.choice_ptr[:-1])
    verdict = rue.evaluate(source, policy)
    own = []
    for block in map(source.block, range(source.blocks)):
        assert block.units == source.units and block.units.shift > 0
        for k in range(block.samples):  # the discounted value, by a linear system in the costs themselves
            step, cost = np.zeros((3, 3)), block.units.step(block.cost[:, k])
            for s, c in enumerate(source.graph.choice_ptr[:3]):
                for t in range(source.graph.trans_ptr[c], source.graph.trans_ptr[c + 1]):
                    if source.graph.successor[t] < 3:
                        step[s, source.graph.successor[t]] += block.prob[t, k]
            value = np.linalg.solve(np.eye(3) - step, cost[source.graph.choice_ptr[:3]])[0]
            own.append(value * (0.1 if "average" in way else 1.0))
    assert verdict.value == pytest.approx(own, abs=1e-9)
    kept = source.gather([25, 3, 11])
    assert kept.units == source.units
    assert rue.evaluate(kept, policy).value == pytest.approx(verdict.value[[25, 3, 11]], abs=1e-9)
    assert (verdict.value < 0).any()  # so they are no shifted costs


def test_noise_of_costs_keeps_the_graph():
    """Goals wait in every block, or in none, also where only some draws are negative."""
    counts = dataclasses.replace(ring(), cost=np.array([2.0, 2.0, 0.2, 3.0, 1.0, 1.0]))
    small = dataclasses.replace(counts, cost_spread=np.full(6, 0.15))
    source = rue.Source.from_counts(small, 40, seed=1, block=1, cost_noise=1.0, discount=0.9)
    assert {source.block(i).units.shift for i in range(40)} == {source.units.shift}
    sure = rue.Source.from_counts(counts, 40, seed=1, block=1, cost_noise=1e-3, discount=0.9)
    assert sure.units == rue.Units()
