"""Searches over some of many samples: what they find and prove is about all of them."""

import gc
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from naive import Naive, belief_value

import rue
from rue import active, checker
from rue.worlds import Kept

TAILS = (None, 0.5, 0.1, 1.0)
MANY = 200


def layered(seed: int, samples: int, width: int = 2) -> rue.UMDP:
    """A model without circles: the start, two layers, the goal; samples disagree about what is best."""
    random = np.random.default_rng(seed)
    layers = [[0], list(range(1, 1 + width)), list(range(1 + width, 1 + 2 * width)), [1 + 2 * width]]
    states = 2 + 2 * width
    transition, cost = np.zeros((samples, states, 2, states)), np.zeros((samples, states, 2))
    for here, ahead in itertools.pairwise(layers):
        for k, s, a in itertools.product(range(samples), here, range(2)):
            transition[k, s, a, ahead] = random.multinomial(8, random.dirichlet(np.full(len(ahead), 0.7))) / 8
            cost[k, s, a] = random.integers(0, 17) / 8
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[states - 1])


def weighted(model: rue.UMDP, seed: int) -> rue.UMDP:
    return model.with_weight(np.random.default_rng(seed).integers(0, 6, model.samples))


def at_once(model: rue.UMDP, solver: rue.Solver) -> rue.Solution:
    """The solution of all samples at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(active, "MANY", model.samples)
        return rue.solve(model, solver, bound=False)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_the_interval_of_the_active_samples_has_the_value_of_all(tail, is_weighted, seed):
    model = weighted(layered(seed, MANY), seed) if is_weighted else layered(seed, MANY)
    whole = at_once(model, rue.Adaptive(1e-7, tail=tail))
    assert whole.status is rue.Status.SOLVED
    for gap in (0.05, 1e-6):
        parts = rue.solve(model, rue.Adaptive(gap, tail=tail), bound=False)
        assert parts.status is rue.Status.SOLVED and parts.objective.gap() <= gap
        assert parts.objective.lower <= whole.objective.upper + 1e-6
        assert parts.objective.upper >= whole.objective.lower - 1e-6
        assert rue.verify(model, parts.certificate) >= parts.objective.lower
        assert parts.certificate.tail == tail
        judged = rue.evaluate(model, parts.policy)
        figure = judged.max_regret if tail is None else judged.tail(tail)
        assert figure <= parts.objective.upper <= figure + 2 * judged.error + 1e-12


def test_the_active_samples_are_few_where_few_matter():
    solution = rue.solve(layered(1, 1000), rue.Adaptive(1e-6), bound=False)
    assert solution.counters["active samples"] < 100 and solution.certificate.sample.size < 100
    assert solution.exceedance() < 0.2


def test_a_tail_of_patients_is_solved():
    """The dual simplex method of HiGHS goes in circles in games of this one."""
    solution = rue.solve(rue.domains.Medical(seed=1).sample(150, seed=1), rue.Adaptive(tail=0.1), bound=False)
    assert solution.status is rue.Status.SOLVED and solution.objective.gap() <= 0.05


# Certificates about a part of the samples


@pytest.mark.parametrize("tail", TAILS)
def test_certificates_that_were_tampered_with_fail(tail):
    model = weighted(layered(1, MANY), 1)
    proof = rue.solve(model, rue.Adaptive(1e-4, tail=tail), bound=False).certificate
    assert rue.verify(model, proof) >= proof.bound > 0
    another = np.setdiff1d(np.arange(MANY), proof.sample)
    wrong = {
        "a larger bound": {"bound": 1.01 * proof.bound},
        "larger claims": {"value": 1.01 * proof.value},
        "other samples": {"sample": (proof.sample + 1) % MANY},
        "samples in another order": {"sample": proof.sample[::-1]},
        "a sample twice": {"sample": np.append(proof.sample[:-1], proof.sample[0])},
        "a sample that is not there": {"sample": np.append(proof.sample[:-1], MANY)},
        "a smaller potential, claims as before": {"potential": 0.99 * proof.potential},
    }
    if another.size:
        wrong["another sample"] = {"sample": np.append(proof.sample[:-1], another[0])}
    if tail is None:
        wrong["a mean in place of a maximum"] = {"tail": 1.0}
    elif tail < 1:
        wrong["a larger tail"] = {"tail": 1.0}
    for what, change in wrong.items():
        with pytest.raises((rue.NotProved, rue.BadInput)) as told:
            rue.verify(model, replace(proof, **change))
        assert len(str(told.value).splitlines()) == 1, what


def test_a_bound_for_a_small_tail_is_none_for_a_larger_one_if_weights_are_others():
    model = layered(2, MANY)
    proof = rue.solve(model, rue.Adaptive(1e-4, tail=0.1), bound=False).certificate
    few = np.where(np.isin(np.arange(MANY), proof.sample[proof.belief > 0][:1]), 1e-6, 1.0)
    with pytest.raises(rue.NotProved):
        rue.verify(model.with_weight(few), proof)


# Tails


@pytest.mark.parametrize("seed", range(8))
def test_the_mean_is_that_of_backward_induction(seed):
    model = layered(seed, 4, width=1 + seed % 2)
    weight = [Fraction(int(part)) for part in np.random.default_rng(seed).integers(1, 6, 4)]
    naive = Naive(model)
    total = sum(weight)
    exact = float(belief_value(naive, [part / total for part in weight], naive.states, naive.regret_gap()))
    solution = rue.solve(model.with_weight([float(part) for part in weight]), rue.Adaptive(1e-8, tail=1), bound=False)
    assert solution.objective.lower == pytest.approx(exact, abs=1e-7)
    assert solution.objective.upper == pytest.approx(exact, abs=1e-7)
    assert solution.mean_regret == pytest.approx(exact, abs=1e-7)


def test_the_mean_over_many_samples_is_that_of_backward_induction():
    """Many samples of which only three differ: backward induction has three weights."""
    few, random = layered(5, 3), np.random.default_rng(1)
    which = random.integers(0, 3, 150)
    weight = [Fraction(int((which == k).sum()), 150) for k in range(3)]
    naive = Naive(few)
    exact = float(belief_value(naive, weight, naive.states, naive.regret_gap()))
    solution = rue.solve(few.subset(which), rue.Adaptive(1e-7, tail=1), bound=False)
    assert solution.objective.upper == pytest.approx(exact, abs=1e-7) and solution.status is rue.Status.SOLVED


@pytest.mark.parametrize("seed", range(4))
def test_a_tail_below_the_least_weight_is_the_maximum(seed):
    model = weighted(layered(seed, 12), seed)
    model = model.subset(np.flatnonzero(model.weight))
    worst = rue.solve(model, rue.Adaptive(1e-7), bound=False)
    for factor in (1.0, 0.3):
        tail = rue.solve(model, rue.Adaptive(1e-7, tail=factor * float(model.weight.min())), bound=False)
        assert tail.objective.upper == pytest.approx(worst.objective.upper, abs=1e-6)
        assert tail.objective.lower == pytest.approx(worst.objective.lower, abs=1e-6)


def test_a_tail_below_the_least_weight_of_many_is_the_maximum():
    model = layered(3, MANY)
    worst = rue.solve(model, rue.Adaptive(1e-6), bound=False)
    tail = rue.solve(model, rue.Adaptive(1e-6, tail=0.5 / MANY), bound=False)
    assert tail.objective.upper == pytest.approx(worst.objective.upper, abs=1e-5)


# Other methods


@pytest.mark.parametrize("seed", range(3))
def test_the_best_stationary_policy_of_many_samples_is_exact(seed):
    model = layered(seed, MANY)
    whole, parts = at_once(model, rue.ExactStationary()), rue.solve(model, rue.ExactStationary())
    assert parts.status is whole.status is rue.Status.SOLVED
    assert parts.objective.upper == pytest.approx(whole.objective.upper, abs=1e-6)
    assert parts.objective.lower == pytest.approx(whole.objective.lower, abs=1e-5)
    assert parts.max_regret.lower <= rue.solve(model, rue.Adaptive(), bound=False).max_regret.upper
    assert parts.counters["active samples"] < MANY and "active samples" not in whole.counters
    assert rue.verify(model, parts.certificate) >= parts.max_regret.lower > 0


def test_pruned_searches_take_all_samples_at_once():
    solution = rue.solve(layered(1, MANY), rue.ExactStationary(prune=True), bound=False)
    assert "active samples" not in solution.counters
    with pytest.raises(rue.BadInput, match="needs all samples at once and a source is given"):
        rue.solve(rue.Source.from_model(layered(1, MANY)), rue.ExactStationary(prune=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_for_many_samples_is_bounded_over_all(seed):
    model = layered(seed, MANY)
    found, best = rue.solve(model, rue.Mixture()), rue.solve(model, rue.Adaptive(1e-3), bound=False)
    assert found.status is rue.Status.SOLVED and found.counters["active samples"] < MANY
    assert found.max_regret.upper == rue.evaluate(model, found.policy).at_most == found.objective.upper
    assert found.objective.gap() < 1e-4
    assert best.max_regret.lower <= found.max_regret.upper
    assert found.max_regret.upper <= at_once(model, rue.ExactStationary()).max_regret.upper * (1 + 1e-6)


# Sources


SOLVERS = (rue.Adaptive(), rue.Adaptive(tail=0.3), rue.Adaptive(tail=1), rue.Mixture(), rue.ExactStationary())


def same(one: rue.Solution, other: rue.Solution) -> None:
    assert one.objective == other.objective and one.regret == other.regret and one.weight == other.weight
    assert one.policy.to_json() == other.policy.to_json() and one.status == other.status
    assert one.counters == other.counters and one.max_regret == other.max_regret


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_a_source_is_solved_like_its_model(solver):
    model = weighted(layered(4, 150), 2)
    whole, parts = rue.solve(model, solver), rue.solve(rue.Source.from_model(model, 40), solver)
    assert parts.status is rue.Status.SOLVED and len(parts.regret) == 150
    assert parts.weight == whole.weight
    assert parts.objective.upper == pytest.approx(whole.objective.upper, rel=1e-9)
    assert parts.objective.lower == pytest.approx(whole.objective.lower, rel=1e-9)
    for thing in (model, rue.Source.from_model(model, 40)):
        assert rue.verify(thing, parts.certificate) >= parts.certificate.bound


def draw(block: int) -> rue.UMDP:
    """Blocks of fifteen samples, with weights that differ."""
    model = layered(7, 120).subset(np.arange(15 * block, 15 * block + 15))
    return model.with_weight(np.arange(1, 16) + block)


@pytest.mark.parametrize("solver", (rue.Adaptive(), rue.Adaptive(tail=0.2), rue.Mixture()), ids=str)
def test_a_source_with_weights_is_the_model_that_it_makes(solver):
    source = rue.Source.from_function(draw, 120, block=15, weight=np.arange(1, 9))
    model = source.gather(range(120))
    whole, parts = rue.solve(model, solver), rue.solve(source, solver)
    assert parts.weight == pytest.approx(whole.weight)
    assert parts.objective.upper == pytest.approx(whole.objective.upper, rel=1e-6)
    assert rue.verify(source, parts.certificate) >= parts.certificate.bound
    assert rue.verify(source, whole.certificate) >= whole.certificate.bound * (1 - 1e-9)


def test_results_do_not_depend_on_who_judges_which_block():
    source = rue.Source.from_function(draw, 120, block=15)
    with rue.Processes(2) as processes, ThreadPoolExecutor(3) as threads:
        for solver in (rue.Adaptive(), rue.Adaptive(tail=0.2), rue.Mixture()):
            alone = rue.solve(source, solver)
            for executor in (processes, threads):
                same(rue.solve(source, solver, executor=executor), alone)
            same(rue.solve(source, solver, threads=1), alone)


def test_few_samples_in_blocks_are_searched_in_parts_too():
    model = layered(4, 20)
    solution = rue.solve(rue.Source.from_model(model, 6), rue.Adaptive(1e-6))
    assert solution.objective.upper == pytest.approx(rue.solve(model, rue.Adaptive(1e-6)).objective.upper, rel=1e-5)


def test_one_block_is_in_memory_at_a_time_and_the_active_samples():
    alive, most = [], []

    def watched(block: int) -> rue.UMDP:
        gc.collect()
        most.append(sum(one() is not None for one in alive))
        model = draw(block)
        alive.append(weakref.ref(model))
        return model

    source = rue.Source.from_function(watched, 120, block=15)
    rue.solve(source, rue.Adaptive())
    assert max(most) <= 1


def test_active_samples_are_drawn_once():
    drawn = []
    source = rue.Source.from_function(lambda i: drawn.append(i) or draw(i), 120, block=15)
    kept = Kept(source)
    drawn.clear()
    weight = kept.part([3, 40])[1]
    assert drawn == [0, 2]
    again, more = kept.part([40, 100, 3])
    assert drawn == [0, 2, 6]
    assert (again.prob == source.gather([40, 100, 3]).prob).all() and (more[[2, 0]] == weight).all()
    assert (kept.part([40, 100, 3])[0]) is again
    assert [again.sample_name(k) for k in range(3)] == ["40", "100", "3"]
    assert more == pytest.approx(
        rue.evaluate(source, rue.Policy.stationary(source.graph, [0] * 6)).weight[[40, 100, 3]]
    )


def test_active_samples_stay_in_the_figures_of_the_source():
    # All blocks have the same largest reward, by which costs are shifted.
    random = np.random.default_rng(1)
    transition, reward = random.dirichlet(np.ones(3), (6, 3, 2)), random.random((6, 3, 2))
    reward[:, 0, 0] = 1.0
    source = rue.Source.from_function(
        lambda i: rue.UMDP.from_dense(transition[2 * i : 2 * i + 2], reward=reward[2 * i : 2 * i + 2], discount=0.9),
        6, block=2,
    )  # fmt: skip
    kept = Kept(source)
    for samples in ([0, 1], [0, 3], [3, 5]):
        assert kept.part(samples)[0].units == source.units
        assert source.units.reward


def test_a_source_without_a_policy_that_reaches_the_goal():
    """What leads to the goal in one sample leads into a trap in the other."""
    transition = np.zeros((2, 3, 2, 3))
    transition[0, 0, 0, 1] = transition[0, 0, 1, 2] = transition[1, 0, 0, 2] = transition[1, 0, 1, 1] = 1.0
    transition[:, 2, 0, 2] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, 3, 2)), initial=0, goals=[1])
    for solver in (rue.Adaptive(), rue.Mixture(), rue.ExactStationary()):
        whole, parts = rue.solve(model, solver), rue.solve(rue.Source.from_model(model, 1), solver)
        assert parts.status is whole.status and parts.max_regret == whole.max_regret
        assert parts.reason == whole.reason != ""


def test_limits_and_interrupts_leave_a_policy():
    source = rue.Source.from_function(draw, 120, block=15)
    nothing = rue.solve(source, rue.Adaptive(), limits=rue.Limits(seconds=0))
    assert nothing.status is rue.Status.TIME_LIMIT and len(nothing.regret) == 120
    first = rue.solve(source, rue.Adaptive(1e-9), limits=rue.Limits(iterations=1))
    assert first.status is rue.Status.ITERATION_LIMIT and np.isfinite(first.max_regret.upper)
    assert rue.evaluate(source, first.policy).max_regret == max(first.regret)


def test_solutions_of_sources_are_saved_and_read(tmp_path):
    source = rue.Source.from_function(draw, 120, block=15)
    solution = rue.solve(source, rue.Adaptive())
    rue.save(tmp_path / "s.rue", solution)
    again = rue.load(tmp_path / "s.rue")
    assert again.regret == solution.regret and again.weight == solution.weight
    assert rue.verify(source, again.certificate) >= solution.objective.lower
    (tmp_path / "proof.json").write_text(solution.certificate.to_json(source))
    assert float(checker.check(*checker.read([str(tmp_path / "proof.json")]))) >= solution.objective.lower * (1 - 1e-9)


def test_what_a_source_cannot_do_is_told_in_one_line():
    source = rue.Source.from_function(draw, 120, block=15)
    model = layered(1, 5)
    with pytest.raises(rue.BadInput, match=r"Average\(\) needs all samples at once and a source is given; expected"):
        rue.solve(source, rue.Average())
    with pytest.raises(rue.BadInput, match=r"the executor is 3; expected a concurrent\.futures\.Executor"):
        rue.solve(source, rue.Adaptive(), executor=3)
    other = rue.Source.from_function(lambda i: model.subset(range(5)) if i else draw(0).subset(range(5)), 10, block=5)
    same_graph = rue.solve(other, rue.Adaptive())  # the graphs have the same shape
    assert len(same_graph.regret) == 10
    strange = rue.domains.Disaster(width=3, height=3, seed=1).sample(5, seed=1)
    broken = rue.Source.from_function(lambda i: strange if i == 1 else model, 10, block=5)
    with pytest.raises(rue.BadInput, match=r"block 1 has a graph with the fingerprint") as told:
        rue.solve(broken, rue.Adaptive())
    assert len(str(told.value).splitlines()) == 1
    with pytest.raises(rue.BadInput, match=r"the certificate is for another model"):
        rue.verify(rue.Source.from_model(layered(2, 120), 15), rue.solve(source, rue.Adaptive()).certificate)
