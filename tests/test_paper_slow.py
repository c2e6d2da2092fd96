"""The paper's evaluation, small: its orderings hold, and the medical figures are near the printed ones.

`experiments/paper.toml` has all problems; docs/reproduction.md has what came of it."""

from pathlib import Path

import numpy as np
import pytest

from rue.experiments import Results, Store, read_spec, run_experiment
from rue.experiments.published_figures import PAPER

SPEC = Path(__file__).parent.parent / "experiments" / "paper-small.toml"


@pytest.fixture(scope="module")
def means(tmp_path_factory):
    """Mean normalised max regret by group, set of samples and method."""
    folder = tmp_path_factory.mktemp("paper")
    summary = run_experiment(read_spec(SPEC), folder, jobs=2)
    assert summary.failed == 0 and summary.done == summary.total
    results = Results.of(Store(folder).records(), Store(folder).reference)
    found = {}
    for group in results.groups:
        for samples in ("train", "test"):
            table = group.normalised(samples)
            assert not np.isnan(table).any()
            found[group.name, samples] = dict(zip(group.methods, table.mean(axis=0), strict=True))
    return found


@pytest.mark.slow
def test_longer_options_have_less_regret_and_ours_least(means):
    for domain in ("medical", "disaster"):
        train = means[domain, "train"]
        assert train["reg-d1"] > train["reg-d2"] > train["reg-d3"] > train["reg-h3"] > train["adaptive"]
    assert means["disaster", "train"]["reg-d3"] <= 0.7 * means["disaster", "train"]["reg-d1"]


@pytest.mark.slow
def test_medical_is_near_the_paper(means):
    # The others are cemr, which is decided by ties here: all myopic gaps are zero.
    for method in ("reg-d1", "reg-d2", "reg-d3", "best", "average", "robust", "reg-s1"):
        for samples in ("train", "test"):
            # Of 25 problems the standard error is 0.04.
            assert means["medical", samples][method] == pytest.approx(PAPER["medical"][samples][method], abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("samples", ["train", "test"])
def test_on_the_glider_the_baselines_have_more_regret(means, samples):
    found = means["glider", samples]
    for baseline in ("cemr-d1", "cemr-d2", "cemr-d3", "robust", "average"):
        assert found["reg-d3"] < found[baseline]
    assert found["adaptive"] < found["reg-d3"]
