"""The paper's disaster rescue figures: 25 UMDPs of each size, 15 samples chosen by coverage out of 1000, 100 test
samples. The paper's sizes are not in its text; ours are 4×4 to 10×10."""

import numpy as np
import pytest
from tables import ELEVEN, Results, print_table

import rue

UMDPS = 25
SIZES = range(4, 11)
WARM_UP = (6, 1000)
OURS = ("reg-h2", "reg-h3", "reg-h4", "mixture", "adaptive")
# Mean normalised max regret over all sizes, as printed.
TRAIN = (0.576, 0.340, 0.297, 0.840, 0.633, 0.521, 0.647, 0.661, 0.578, 0.353, 0.695)
TEST = (0.601, 0.410, 0.348, 0.826, 0.636, 0.528, 0.680, 0.643, 0.626, 0.389, 0.669)
PAPER_TRAIN, PAPER_TEST = (dict(zip(ELEVEN, row, strict=True)) for row in (TRAIN, TEST))


def train_and_test(size_and_seed: tuple[int, int]) -> tuple[rue.UMDP, rue.UMDP]:
    size, seed = size_and_seed
    domain = rue.domains.Disaster(width=size, height=size, seed=seed)
    return rue.select(domain.sample(1000, seed=1), 15, by="coverage"), domain.sample(100, seed=2)


@pytest.mark.slow
def test_longer_options_have_much_less_regret(capsys):
    items = [(size, seed) for size in SIZES for seed in range(UMDPS)]
    results = Results.measure(train_and_test, items, WARM_UP, OURS)
    train, test = results.cells(results.train), results.cells(results.test)
    columns = {
        "train": train, "paper, train": PAPER_TRAIN, "test": test, "paper, test": PAPER_TEST,
        "seconds": results.mean_seconds(results.seconds),
    }  # fmt: skip
    rows = {f"{size}×{size}": np.array([own == size for own, _ in items]) for size in SIZES}
    by_size = {size: results.cells(results.train[row]) for size, row in rows.items()}
    seconds_by_size = {size: results.mean_seconds(results.seconds[row]) for size, row in rows.items()}
    with capsys.disabled():
        print_table("Disaster, normalised max regret: mean; standard deviation", columns, results.methods)
        print_table("Disaster, train, by size", by_size, results.methods)
        print_table("Disaster, mean seconds by size", seconds_by_size, results.methods)
        print(f"\n{results.notes()}")
    assert train["reg-d3"].mean <= 0.6 * train["reg-d1"].mean
    assert train["reg-h3"].mean <= train["reg-d3"].mean
