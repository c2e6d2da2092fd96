"""What the page says in sentences: what was run, who has the least regret, and what is proved.

Each sentence is made of records, results and statistics alone; what is proved is rounded to the side where it is still
proved.
"""

import math
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN

import numpy as np
from markupsafe import Markup, escape

from rue._arrays import Array
from rue.experiments.results import Group, Results, Samples
from rue.experiments.statistics import SIGNIFICANT, Moments, compare_methods, describe
from rue.experiments.tables import mean_text
from rue.report.cases import FAILED, SAME, SOLVED, Case, Record, Row, runs_of
from rue.report.style import number_text
from rue.report.words import at_least, count, listed, percent, status_text, time_text

NORMALISED = (
    "The regret of a policy in a sample is its cost above the least that is possible there, and its max regret the "
    "largest of these. On each problem it is divided by the largest finite one of the reference methods: 1 is as bad "
    "as that, 0 is no regret at all, or that none of these methods has any. A policy that may miss the goal has "
    "infinite regret, and keeps it: means are of the finite ones, and “(1 ∞)” behind a mean tells how many are not. "
    "“Train” is on the samples that were planned with, “test” on others."
)
TESTED = (
    "Regrets are max regrets, divided on each problem by the largest finite one of the reference methods. Methods with "
    "the fewest infinite ones come first, then those with the least mean of the finite ones. Significant means "
    f"p < {SIGNIFICANT:g} in Wilcoxon’s one-sided signed-rank test, after Holm’s correction for all pairs of methods."
)
SETS: tuple[Samples, ...] = ("train", "test")
MOST_NAMED = 4  # methods that are not significantly worse


def byline(cases: Sequence[Case], results: Results) -> str:
    """How much was run, and when."""
    runs = runs_of(cases)
    days = sorted(record["finished"][:10] for _, _, record in runs if "finished" in record)
    parts = [
        count(len(results.groups), "domain"),
        count(len(cases), "problem"),
        count(_methods(results), "method"),
        count(len(runs), "run"),
    ]
    if days:
        parts.append(" to ".join(dict.fromkeys([days[0], days[-1]])))
    return " · ".join(parts)


def what_ran(cases: Sequence[Case], results: Results) -> list[str]:
    """What was run and how it ended."""
    records = [record for _, _, record in runs_of(cases)]
    solver = math.fsum(float(record.get("seconds", 0.0)) for record in records)
    wall = math.fsum(float(record.get("wall_seconds", 0.0)) for record in records)
    return [
        f"{count(_methods(results), 'method')} met {count(len(cases), 'problem')}: "
        f"{listed([_problems(group) for group in results.groups])}. The solvers took {time_text(solver)} in all, and "
        f"{time_text(wall)} with compilation, sampling and judging.",
        _how_it_ended(records, results),
    ]


def _methods(results: Results) -> int:
    return len({name for group in results.groups for name in group.methods})


def _problems(group: Group) -> str:
    """`5 of disaster in 2 sizes, 4×4 to 6×6`."""
    sizes = [size for size in group.sizes if size]
    kinds = f" in {count(len(sizes), 'size')}, {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else ""
    return f"{len(group.problems)} of {group.name}{kinds or ''.join(f' ({size})' for size in sizes)}"


def _how_it_ended(records: Sequence[Record], results: Results) -> Markup:
    """Runs by status, what is missing, and what must not be."""
    status = Counter(str(record["status"]) for record in records)
    missing = sum(int((group.status == "").sum()) for group in results.groups)
    solved, failed = status.pop(SOLVED, 0), status.pop(FAILED, 0)
    stopped = [f"{number} ended with “{status_text(name)}”" for name, number in sorted(status.items())]
    failed_words = [f"{failed} failed"] if failed else []
    text = f"Of {count(len(records), 'run')}, {listed([f'{solved} ended as planned', *stopped, *failed_words])}."
    text += " None failed." if not failed else ""
    if missing:
        text += f" {count(missing, 'run')} of the full table {'is' if missing == 1 else 'are'} missing."
    text += _endless(results)
    wrong = sum(group.contradictions for group in results.groups)
    if wrong:
        text += f" Beware: {count(wrong, 'run')} had less regret than was proved to be possible; something is wrong."
    link = Markup(' <a href="#stopped">See which.</a>') if solved < len(records) else Markup()
    return escape(text) + link


def _endless(results: Results) -> str:
    """How many policies may miss the goal in samples of either kind."""
    train, test = (sum(sum(group.endless(samples).values()) for group in results.groups) for samples in SETS)
    where = [f"{count(train, 'policy', 'policies')} may miss the goal in some train sample"] * (train > 0)
    where += [f"{count(test, 'policy', 'policies')} may miss the goal in some test sample"] * (test > 0)
    return f" {listed(where)}: the regret there is ∞." if where else ""


def findings(results: Results) -> list[Markup]:
    """For each group: who has the least regret, whether that is more than chance, and how near to the best possible."""
    items = []
    for group in results.groups:
        sentences = [f"On train samples {_least(group, 'train')}", _distance(group)]
        if group.has_test:
            sentences.append(f"On test samples {_least(group, 'test')}")
        start = Markup("<strong>{}</strong> ({}). ").format(group.name, count(len(group.problems), "problem"))
        items.append(start + " ".join(f"{sentence}." for sentence in sentences if sentence))
    return items


def _ranked(group: Group, samples: Samples) -> list[tuple[int, Moments]]:
    """The methods that have figures, the best first."""
    moments = [describe(column) for column in group.normalised(samples).T]
    known = [(number, one) for number, one in enumerate(moments) if not math.isnan(one.mean)]
    return sorted(known, key=lambda item: item[1].rank)


def _best(group: Group, samples: Samples) -> list[int]:
    """The best method, with those whose mean looks the same."""
    ranked = _ranked(group, samples)
    return [number for number, one in ranked if mean_text(one) == mean_text(ranked[0][1])]


def _least(group: Group, samples: Samples) -> str:
    """The method with the least mean, and from which others it can be told at the level of five in a hundred."""
    ranked = _ranked(group, samples)
    if not ranked:
        return "no method has a figure"
    order, shown = [number for number, _ in ranked], [mean_text(one) for _, one in ranked]
    ties = shown.count(shown[0])
    names, others = listed([group.methods[i] for i in order[:ties]]), order[ties:]
    if not others:
        return f"the mean regret of {names} is {shown[0]}"
    text = f"the least mean regret is that of {names}, {shown[0]}, before {group.methods[others[0]]} with {shown[ties]}"
    if len(group.problems) == 1:
        return text
    below = compare_methods(group.normalised(samples)).wilcoxon_holm[order[0]]
    unsure = [group.methods[i] for i in others if not below[i] < SIGNIFICANT]
    return f"{text}; it is significantly below {_all_but(unsure, len(others))}"


def _all_but(unsure: Sequence[str], others: int) -> str:
    """Of so many others, all but those that are unsure."""
    if not unsure:
        return "every other"
    if len(unsure) == others:
        return "none of the others"
    more = [f"{len(unsure) - MOST_NAMED} more"] if len(unsure) > MOST_NAMED else []
    return f"all but {listed([*unsure[:MOST_NAMED], *more])}"


def _distance(group: Group) -> str:
    """The gap of the best method; of several, of the one whose largest gap is smallest."""
    best = _best(group, "train")
    if not best:
        return ""
    chosen = min(best, key=lambda number: _farthest(group.gap[:, number]))
    gap, endless = group.gap[:, chosen], np.isinf(group.train[:, chosen])
    unknown = (group.bound == 0) & (gap > 0) & ~endless
    known = gap[np.isfinite(gap) & ~unknown]
    if not known.size:
        reason = "no bound is proved" if not endless.all() else "all regrets are infinite"
        return f"How far that is from the best possible is not known, as {reason}"
    most, middle = percent(float(known.max())), percent(float(np.median(known)), ROUND_HALF_EVEN)
    what = f"Of these {group.methods[chosen]} leaves" if len(best) > 1 else "That leaves"
    except_on = [f"{count(int(unknown.sum()), 'problem')} without a bound"] * bool(unknown.any())
    except_on += [f"{count(int(endless.sum()), 'problem')} with infinite regret"] * bool(endless.any())
    text = f"{what} a gap of at most {most} to the best possible (median {middle})"
    return text + (f", except on {listed(except_on)}" if except_on else "")


def _farthest(gap: Array) -> tuple[int, float]:
    """On how many problems a method is at no known distance from the bound, and the largest that is known."""
    return int(np.isinf(gap).sum()), float(gap[np.isfinite(gap)].max(initial=0.0))


def comparison(rows: Sequence[Row], bound: float) -> list[str]:
    """What several methods reached on one model, the best of them first."""
    best = rows[0]
    text = "No method found a policy that surely reaches the goal in every sample: every max regret is ∞."
    if math.isfinite(best.train):
        text = _best_policy(rows, bound)
    words = [text]
    tests = [row for row in rows if not math.isnan(row.test)]
    if tests:
        least = min(tests, key=lambda row: row.test)
        words.append(f"On the test samples {least.method} has the least max regret, {number_text(least.test)}.")
    stopped = [f"{row.method} ({status_text(row.status)})" for row in rows if row.status != SOLVED]
    if stopped:
        words.append(f"Not all ended as planned: {listed(stopped)}.")
    return words


def _best_policy(rows: Sequence[Row], bound: float) -> str:
    """The policy with the least max regret, and how far that is from the least that is possible."""
    best = rows[0]
    text = (
        f"Of {count(len(rows), 'method')}, {best.method} found the policy with the least max regret, "
        f"{number_text(best.train)}."
    )
    if bound > 0:
        gap = f"leaves a gap of {percent(1 - bound / best.train)}" if best.train > bound else "is the best possible"
        text += f" No policy of any kind has less than {at_least(bound)}: this one {gap}."
    elif best.train > 0:
        text += " No bound is proved, so better policies may exist."
    return text


def problem_summary(case: Case) -> str:
    """Who has the least max regret on a problem, and what is proved about it."""
    if not case.done:
        return "every method failed"
    best = case.rows[0]
    equal = sum(row.train <= best.train + SAME * abs(best.train) for row in case.rows) - 1
    others = f" and {count(equal, 'other')}" if equal > 0 else ""
    bound = f", bound {at_least(case.bound)}" if case.bound > 0 else ""
    return f"least max regret {number_text(best.train)} by {best.method}{others}{bound}"


def what_is_shown(shown: int, problems: int, *, all_kept: bool) -> str:
    """What there is to open, when so many problems also have policies."""
    text = (
        f"Each problem can be opened: what every method reached there, how it ended and what it took. "
        f"{count(shown, 'problem')} of {problems} also {'has' if shown == 1 else 'have'} the regret in each sample "
        f"and policies, of those that were kept."
    )
    if all_kept:
        return text
    return f"{text} More were kept than are shown here, so that the page does not grow too large."
