"""The summary of a page in sentences: what was run, which method has the least regret, and what is proved.

Numbers are those of records, results and statistics. Proved numbers are rounded to the side where they stay proved.
"""

import math

import numpy as np

from rue._text import bound_text, counted, listed, number_text, percent_text
from rue.experiments.problems import ProblemRuns
from rue.experiments.results import Group, Samples
from rue.experiments.statistics import SIGNIFICANT, Moments, compare_methods, moments_of, most_comparisons
from rue.experiments.tables import mean_text
from rue.solution import Status

FIGURE = "normalised max regret"
MOST_NAMED = 4  # methods that are not significantly worse


def findings(group: Group) -> str:
    """Return which method has the least regret, whether significantly, and how near it is to the best possible."""
    sentences = [f"On train samples {_least(group, 'train')}", _distance(group)]
    if group.has_test:
        sentences.append(f"On test samples {_least(group, 'test')}")
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _ranked(group: Group, samples: Samples) -> list[tuple[int, Moments]]:
    """Return the methods that have results, the best first."""
    moments = [moments_of(column) for column in group.normalised(samples).T]
    known = [(number, one) for number, one in enumerate(moments) if not math.isnan(one.mean)]
    return sorted(known, key=lambda item: item[1].rank)


def _least(group: Group, samples: Samples) -> str:
    """Return the method with the least mean, and which others are not significantly worse."""
    ranked = _ranked(group, samples)
    if not ranked:
        return "no method has a figure"
    order, shown = [number for number, _ in ranked], [mean_text(one) for _, one in ranked]
    ties = shown.count(shown[0])
    names, others = listed([group.methods[i] for i in order[:ties]]), order[ties:]
    if not others:
        return f"the mean of {FIGURE} of {names} is {shown[0]}"
    text = f"{names} has the least mean of {FIGURE}, {shown[0]}, before {group.methods[others[0]]} with {shown[ties]}"
    text = text.replace(" has ", " have ", 1) if ties > 1 else text
    pairs = len(ranked) * (len(ranked) - 1)
    if len(group.problems) == 1:
        return text
    if pairs > most_comparisons(len(group.problems)):
        return f"{text}; {counted(len(group.problems), 'problem')} are too few for any difference to be significant"
    below = compare_methods(group.normalised(samples)).wilcoxon_holm[order[0]]
    unsure = [group.methods[i] for i in others if not below[i] < SIGNIFICANT]
    if len(unsure) == len(others):
        return f"{text}; it is significantly below none of the others"
    more = [f"{len(unsure) - MOST_NAMED} more"] if len(unsure) > MOST_NAMED else []
    rest = f"all but {listed([*unsure[:MOST_NAMED], *more])}" if unsure else "every other"
    return f"{text}; it is significantly below {rest}"


def _distance(group: Group) -> str:
    """Return the gap of the best method; of several equal ones, of that whose largest gap is smallest."""
    ranked = _ranked(group, "train")
    best = [number for number, one in ranked if mean_text(one) == mean_text(ranked[0][1])]
    if not best:
        return ""

    def farthest(number: int) -> tuple[int, float]:
        column = group.gap[:, number]
        return int(np.isinf(column).sum()), float(column[np.isfinite(column)].max(initial=0.0))

    chosen = min(best, key=farthest)
    gap, infinite = group.gap[:, chosen], np.isinf(group.train[:, chosen])
    unknown = (group.bound == 0) & (gap > 0) & ~infinite
    known = gap[np.isfinite(gap) & ~unknown]
    if not known.size:
        reason = "no bound is proved" if not infinite.all() else "all regrets are infinite"
        return f"How far that is from the best possible is not known, as {reason}"
    most, median = percent_text(float(known.max())), percent_text(float(np.median(known)))
    what = f"Of these {group.methods[chosen]} leaves" if len(best) > 1 else "That leaves"
    text = f"{what} a gap of at most {most} to the best possible (median {median})"
    left_out = {"without a bound": int(unknown.sum()), "with infinite regret": int(infinite.sum())}
    except_on = [f"{counted(number, 'problem')} {words}" for words, number in left_out.items() if number]
    return text + (f", except on {listed(except_on)}" if except_on else "")


def comparison(runs: ProblemRuns) -> list[str]:
    """Return what several methods reached on one model, the best of them first."""
    least, bound = runs.least, runs.bound
    methods, name = counted(len(runs.done), "method"), next(iter(runs.done))
    text = f"Of {methods}, {name} found the policy with the least max regret, {number_text(least)}."
    if math.isinf(least):
        text = "No method found a policy that surely reaches the goal in every sample: every max regret is ∞."
    elif bound > 0:
        gap = f"leaves a gap of {percent_text(1 - bound / least)}" if least > bound else "is the best possible"
        text += f" No policy of any kind has less than {bound_text(bound)}: this one {gap}."
    elif least > 0:
        text += " No bound is proved, so better policies may exist."
    sentences = [text]
    tests = {name: float(one["test"]["max_regret"]) for name, one in runs.done.items() if "test" in one}
    if tests:
        name = min(tests, key=lambda name: tests[name])
        sentences.append(f"On the test samples {name} has the least max regret, {number_text(tests[name])}.")
    status = {name: one["status"] for name, one in runs.done.items() if one["status"] != Status.SOLVED}
    stopped = [f"{name} ({value.replace('_', ' ')})" for name, value in status.items()]
    return [*sentences, f"Not all ended as planned: {listed(stopped)}."] if stopped else sentences
