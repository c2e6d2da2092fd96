"""The tables of docs/logs.md: which samples to plan with, what other logs of the same truth come to, which support.

    python docs/data/study.py selection
    python docs/data/study.py logs
    python docs/data/study.py support

Takes some minutes each; run from the root of the repository.
"""

import sys
from collections import defaultdict

import make_log
import numpy as np

import rue

SOLVERS = {
    "average": rue.Average(),
    "robust": rue.WorstCase(),
    "reg": rue.Regret(),
    "reg, 3 steps": rue.Regret(3, "history"),
    "mixture": rue.Mixture(),
    "adaptive": rue.Adaptive(),
}
LOGS = range(100, 120)  # seeds of the other logs


def counted(seed: int) -> rue.Counts:
    """The log with this seed, counted."""
    rows = [row[2:] for row in make_log.tickets(seed=seed)]
    return rue.count_transitions(rows, initial=make_log.REPORTED, goals=[make_log.DONE])


def drawn(counts: rue.Counts, seed: int, **options: object) -> rue.UMDP:
    """A thousand samples, as on the page unless the options say otherwise."""
    return rue.from_counts(counts, samples=1000, seed=seed, **{"prior": 0.5, "cost_noise": 1.0, **options})


def spread(values: object) -> str:
    """The mean and its standard error."""
    numbers = np.asarray(values)
    return f"{numbers.mean():.0f} ± {numbers.std(ddof=1) / np.sqrt(numbers.size):.0f}"


def selection() -> None:
    """Largest regret, 95 % quantile and mean on fresh samples; the median of three pools."""
    counts = counted(make_log.SEED)
    fresh = drawn(counts, 99)
    ways = [(15, "coverage"), (15, "random"), (15, "regret"), (40, "coverage"), (40, "random"), (100, "random")]
    names = [name for name in SOLVERS if name != "robust"]
    print("| planned with |", " | ".join(names), "|")
    for count, by in ways:
        found = defaultdict(list)
        for seed in (11, 12, 13):
            few = rue.select(drawn(counts, seed), count, by=by, seed=seed)
            for name in names:
                regret = rue.evaluate(fresh, rue.solve(few, SOLVERS[name], bound=False).policy).regret
                found[name].append((regret.max(), np.quantile(regret, 0.95), regret.mean()))
        cells = [", ".join(f"{value:.0f}" for value in np.median(found[name], axis=0)) for name in names]
        print(f"| {count} by {by} |", " | ".join(cells), "|", flush=True)


def logs() -> None:
    """The regret in the truth after each of 20 logs: mean and largest."""
    regret, above = defaultdict(list), []
    for seed in LOGS:
        pool = drawn(counted(seed), 1)
        truth, few = make_log.truth(pool.graph), rue.select(pool, 15)
        for name, solver in SOLVERS.items():
            policy = rue.solve(pool if name == "average" else few, solver, bound=False).policy
            verdict = rue.evaluate(truth, policy)
            regret[name].append(verdict.regret[0])
        above.append((rue.evaluate(pool, policy).optimal > verdict.optimal[0]).mean())
    for name, values in regret.items():
        print(f"{name:14}{spread(values)}, largest {np.max(values):.0f}", end="; ")
        print(f"more than average by {spread(np.subtract(values, regret['average']))}")
    print(f"{np.mean(above):.0%} of the samples have a higher least cost than the truth")


def support() -> None:
    """The regret in the truth after each of 20 logs by support and prior, for policies that look at the state alone.

    All are judged on the outcomes that were seen to follow a state, whether or not the choice was seen to have them.
    """
    for prior in (0.1, 0.5, 1.0):
        before: dict[str, list[float]] = {}
        for way in ("observed", "state"):
            regret, above = defaultdict(list), []
            for seed in LOGS:
                counts = counted(seed)
                pool = drawn(counts, 1, support=way, prior=prior)
                truth = make_log.truth(drawn(counts, 1).graph)
                for name, model in (("average", pool), ("reg", rue.select(pool, 15))):
                    policy = rue.solve(model, SOLVERS[name], bound=False).policy
                    weight = np.zeros(truth.graph.choices)
                    weight[policy.choice] = policy.weight
                    verdict = rue.evaluate(truth, rue.Policy.from_weights(truth.graph, weight))
                    regret[name].append(verdict.regret[0])
                above.append((rue.evaluate(pool, policy).optimal > verdict.optimal[0]).mean())
            print(f"{way}, prior {prior}: {np.mean(above):.0%} above the truth", end="")
            for name, values in regret.items():
                print(f"; {name} {spread(values)}, largest {np.max(values):.0f}", end="")
                if before:
                    print(f", more than observed by {spread(np.subtract(values, before[name]))}", end="")
            print(flush=True)
            before = regret


if __name__ == "__main__":
    {"selection": selection, "logs": logs, "support": support}[sys.argv[1]]()
