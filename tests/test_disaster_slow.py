"""The paper's disaster rescue figures: 25 UMDPs of each size, 15 samples chosen by coverage out of 1000, 100 test
samples. The paper's sizes are not in its text; ours are 4×4 to 10×10."""

import numpy as np
import pytest
from tables import ELEVEN, NO_REGRET, Task, cells, mean_seconds, measure, normalised, print_table, time_taken

import rue

UMDPS = 25
SIZES = range(4, 11)
WARM_UP = (6, 1000)
OURS = ("reg-h2", "reg-h3", "reg-h4", "mixture")
# Mean normalised max regret over all sizes, as printed.
PAPER_TRAIN = dict(
    zip(ELEVEN, (0.576, 0.340, 0.297, 0.840, 0.633, 0.521, 0.647, 0.661, 0.578, 0.353, 0.695), strict=True)
)
PAPER_TEST = dict(
    zip(ELEVEN, (0.601, 0.410, 0.348, 0.826, 0.636, 0.528, 0.680, 0.643, 0.626, 0.389, 0.669), strict=True)
)


def train_and_test(size_and_seed: tuple[int, int]) -> tuple[rue.UMDP, rue.UMDP]:
    size, seed = size_and_seed
    domain = rue.domains.Disaster(width=size, height=size, seed=seed)
    return rue.select(domain.sample(1000, seed=1), 15, by="coverage"), domain.sample(100, seed=2)


@pytest.mark.slow
def test_longer_options_have_much_less_regret(capsys):
    items = [(size, seed) for size in SIZES for seed in range(UMDPS)]
    eleven, ours = (measure(Task(train_and_test, names), items, WARM_UP) for names in (ELEVEN, OURS))
    methods = ELEVEN + OURS
    train = normalised([record.train for record in eleven], [record.train for record in ours])
    test = normalised([record.test for record in eleven], [record.test for record in ours])
    over_all, over_all_test = cells(train, methods), cells(test, methods)
    of_size = np.array([size for size, _ in items])
    no_regret = [max(record.train) <= NO_REGRET for record in eleven]
    seconds = mean_seconds(eleven, ELEVEN) | mean_seconds(ours, OURS)
    columns = {
        "train": over_all, "paper, train": PAPER_TRAIN, "test": over_all_test, "paper, test": PAPER_TEST,
        "seconds": {name: f"{value:.4f}" for name, value in seconds.items()},
    }  # fmt: skip
    by_size = {f"{size}×{size}": cells(train[of_size == size], methods) for size in SIZES}
    seconds_by_size = {
        f"{size}×{size}": {
            name: f"{value:.4f}"
            for records, names in ((eleven, ELEVEN), (ours, OURS))
            for name, value in mean_seconds(
                [record for record, other in zip(records, of_size, strict=True) if other == size], names
            ).items()
        }
        for size in SIZES
    }
    with capsys.disabled():
        print_table("Disaster, all sizes, normalised max regret: mean; standard deviation", columns, methods)
        print_table("Disaster by size, train", by_size, methods)
        print_table("Disaster by size, mean seconds", seconds_by_size, methods)
        print(f"\nNo regret at all in {sum(no_regret)} of {len(items)} UMDPs; they count as 0 for every method.")
        print(f"All eleven methods, {time_taken(eleven)}.\nOurs, {time_taken(ours)}.")
    assert over_all["reg-d3"].mean <= 0.6 * over_all["reg-d1"].mean
    assert over_all["reg-h3"].mean <= over_all["reg-d3"].mean
