"""Tables of results: regrets and times by method and size, and tests of which method is better."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from rue._arrays import Array
from rue._check import one_of
from rue._text import counted, percent_text
from rue.experiments.published_figures import ELEVEN, PAPER, Published
from rue.experiments.replication import compare_orders
from rue.experiments.results import MISSING, Group, Results, Samples
from rue.experiments.statistics import (
    SIGNIFICANT,
    Moments,
    PairwiseTests,
    compare_methods,
    moments_of,
    most_comparisons,
)
from rue.experiments.store import FAILED
from rue.solution import Status
from rue.table import FORMATS, Cell, Table, TableRow

NOTHING = "–"
LEAST_P = 1e-4
SETS: tuple[Samples, ...] = ("train", "test")
TESTS = {"t": "two-sample t-test", "wilcoxon": "Wilcoxon signed-rank test"}
SPREAD_SHOWN = {"train": ("mean", "tail 0.1"), "test": ("mean", "tail 0.1", "quantile 0.99")}
STATUS_NOTES = {
    Status.TIME_LIMIT: "Stopped by the time limit, with the best policy so far",
    Status.UNPROVED: "Objective not proved to the last digits",
}

Figures = Mapping[str, Mapping[str, float]]  # published ones of a group, by set and method


def make_tables(results: Results, published: Published | None = None) -> list[Table]:
    """Return all tables, group by group.

    `published` has figures to be shown beside ours. Unless given, these are the paper's, if regrets are divided by the
    worst of the paper's eleven methods as in the paper.
    """
    source = "published"
    if published is None:
        source, published = "paper", PAPER if set(results.reference) == set(ELEVEN) else {}
    tables = []
    for group in results.groups:
        # "glider, half the current" is compared with "glider".
        figures = published.get(group.name) or published.get(group.name.partition(",")[0], {})
        tables.append(_summary(group, results.reference, figures, source))
        tables += [*_spread(group), *_orders(group, figures)]
        if len(group.sizes) > 1:
            tables += _by_size(group)
        if group.varies_samples:
            tables += _by_samples(group)
        if len(group.methods) > 1 and len(group.problems) > 1:
            tables += _p_values(group)
    return tables


def write_tables(tables: Sequence[Table], format: str = "text") -> str:
    """Return the tables as `text`, `markdown`, `latex` or `csv`."""
    return FORMATS[one_of("format", format, FORMATS)](tables)


def _table(
    group: Group, kind: str, title: str, caption: str, columns: Mapping[str, Sequence[Cell]], notes: Sequence[str]
) -> Table:
    """Return a table with one row for each method."""
    cells = zip(*columns.values(), strict=True)
    rows = tuple(TableRow(Cell(name), row) for name, row in zip(group.methods, cells, strict=True))
    title = f"{group.name}: {title}"
    return Table(title, ("method", *columns), rows, caption, tuple(notes), group=group.name, kind=kind)


def _sets(group: Group) -> tuple[Samples, ...]:
    return SETS if group.has_test else SETS[:1]


def _summary(group: Group, reference: Sequence[str], published: Figures, source: str) -> Table:
    columns = {"problems": _problems(group)}
    for samples in _sets(group):
        columns[f"max regret, {samples}"] = _moments(group.normalised(samples), _regret_text)
        if samples in published:
            columns[f"{source}, {samples}"] = _published(group, published, samples)
    columns["seconds"] = _moments(group.seconds, _mean_seconds_text)
    if "seconds" in published:
        columns[f"{source}, seconds"] = _published(group, published, "seconds")
    columns["gap"] = _gaps(group)
    sizes = f" of {counted(len(group.sizes), 'size')}" if len(group.sizes) > 1 else ""
    caption = (
        f"Mean ± standard deviation of max regret, on each problem divided by the largest finite one of "
        f"{_reference_text(group)}, over {counted(len(group.problems), 'problem')}{sizes}; mean seconds of the solver; "
        "median gap, (max regret − proved bound for every policy) / max regret, on the training samples."
    )
    return _table(group, "summary", "all problems", caption, columns, tuple(_notes(group, reference)))


def _spread(group: Group) -> list[Table]:
    """Return what the worst sample does not tell: mean, tail and, on test samples, a quantile; none without regrets."""
    columns = {}
    for samples in _sets(group):
        for name in SPREAD_SHOWN[samples]:
            columns[f"{name}, {samples}"] = _moments(group.normalised_spread(samples, name), _regret_text)
    caption = (
        "Mean ± standard deviation, over problems, of the mean of regret over samples, by their weights; of its tail, "
        "the mean of the worst tenth; and of the regret that 99 % of the test samples do not exceed. Divided as the "
        "max regret in the table of all problems."
    )
    known = any(not np.isnan(figures).all() for figures in group.spread.values())
    notes = tuple(_notes_of_missing(group))
    return [_table(group, "spread", "mean, tail and quantile", caption, columns, notes)] if known else []


def _orders(group: Group, published: Figures) -> list[Table]:
    """Return a table of how many published differences are found here, and which are not; none without any pairs."""
    rows, notes = [], []
    for samples in _sets(group):
        orders = compare_orders(group, published, samples)
        same = [order for order in orders if order.found == "same"]
        counts = (len(orders), len(same), sum(order.significant for order in same))
        if orders:
            rows.append(TableRow(Cell(samples), tuple(Cell(str(count), {"count": count}) for count in counts)))
        otherwise = [f"{order.better} below {order.worse} (here {order.here})" for order in orders if order not in same]
        if otherwise:
            notes.append(f"Not so here, {samples}: {'; '.join(otherwise)}.")
    caption = (
        "Pairs of methods that the published figures tell apart (one-sided t-test, p < 0.05), how many of them have "
        "the same order here, and how many of these significantly so (Wilcoxon, p < 0.05)."
    )
    columns = ("samples", "told apart", "same order here", "significantly")
    title = f"{group.name}: differences that were published"
    return [Table(title, columns, tuple(rows), caption, tuple(notes), group=group.name, kind="orders")] if rows else []


def _by_size(group: Group) -> list[Table]:
    missing = tuple(_notes_of_missing(group))

    def table(kind: str, title: str, caption: str, figures: Array, text: Callable[[Moments], str]) -> Table:
        columns = {size: _moments(figures[group.of_size(size)], text) for size in group.sizes}
        return _table(group, f"{kind} by size", title, caption, columns, missing)

    divided = "Mean ± standard deviation of max regret, divided as in the table of all problems."
    regrets = [
        table(samples, f"max regret by size, {samples}", divided, group.normalised(samples), _regret_text)
        for samples in _sets(group)
    ]
    took = "Mean seconds of the solver."
    return [*regrets, table("seconds", "seconds by size", took, group.seconds, _mean_seconds_text)]


def _by_samples(group: Group) -> list[Table]:
    """Return the regrets on test samples, as they are, over what was planned with: the maximum, the mean, and 99 %."""
    figures = {
        "max regret": group.test,
        "mean regret": group.spread["test", "mean"],
        "regret of 99 %": group.spread["test", "quantile 0.99"],
    }
    caption = (
        "Mean over problems of the {} on the test samples, by the samples that were planned with; not divided. With "
        "more problems for some columns than for others, columns cannot be compared."
    )
    tables = []
    for what, numbers in figures.items():
        columns = {
            f"{size} ({int(group.of_size(size).sum())})": _moments(
                numbers[group.of_size(size)], lambda one: mean_text(one, ".3g")
            )
            for size in group.sizes
        }
        title = f"{what}, test, by training samples (problems)"
        notes = tuple(_notes_of_missing(group))
        tables.append(_table(group, f"{what} by samples", title, caption.format(what), columns, notes))
    return tables


def _p_values(group: Group) -> list[Table]:
    """Return both tests for each set of samples, as in the paper's appendix, with the means in the first row."""
    tables = []
    for samples in _sets(group):
        figures = group.normalised(samples)
        tested = compare_methods(figures)
        means = TableRow(Cell("max regret"), tuple(_moments(figures, _regret_text)), pinned=True)
        tables += [_p_table(group, samples, test, tested, means) for test in TESTS]
    return tables


def _p_table(group: Group, samples: Samples, test: str, tested: PairwiseTests, means: TableRow) -> Table:
    """Return the p-values of a test; as in the paper, only for the better method of each pair."""
    p, corrected = getattr(tested, test), getattr(tested, f"{test}_holm")
    if test == "t":
        shown, pairs, why_not = tested.difference < 0, tested.finite_pairs, "its mean is not lower"
        infinite = "On the problems on which both methods are finite; infinite figures are left out"
    else:
        shown, pairs, why_not = p < 0.5, tested.pairs, "the ranks do not favour it"
        infinite = "Infinite figures rank last"
    numbers = range(len(group.methods))
    rows = [
        TableRow(Cell(name), tuple(_p_cell(p[i, j], corrected[i, j], pairs[i, j], shown[i, j]) for j in numbers))
        for i, name in enumerate(group.methods)
    ]
    compared = int(np.count_nonzero(~np.isnan(p)))
    caption = (
        f"p-values of the {TESTS[test]}, one-sided: the method of the row is better (lower) than that of the column. "
        f"* below {SIGNIFICANT:g} after Holm's correction for all {compared} comparisons. "
        f"{NOTHING} where {why_not}."
    )
    left_out = group.infinite(samples)
    notes = [f"{infinite}: {_each(left_out)}."] if left_out else []
    if test == "wilcoxon" and compared > most_comparisons(len(group.problems)):
        least = 0.5 ** len(group.problems)
        notes.append(
            f"{counted(len(group.problems), 'problem')} are too few: the least p-value is {least:.2g}, and {compared} "
            f"times that is not below {SIGNIFICANT:g}."
        )
    title, columns = f"{group.name}: {TESTS[test]}, {samples}", ("method", *group.methods)
    return Table(title, columns, (means, *rows), caption, tuple(notes), group=group.name, kind=f"{test} {samples}")


def _p_cell(p: float, corrected: float, pairs: int, shown: bool) -> Cell:
    if math.isnan(p):
        return Cell(NOTHING)
    text = f"<{LEAST_P:.4f}" if p < LEAST_P else f"{p:#.2g}"
    star = "*" if corrected < SIGNIFICANT else ""
    values = {"p": float(p), "holm": float(corrected), "problems": int(pairs)}
    return Cell(text + star if shown else NOTHING, values)


def _problems(group: Group) -> list[Cell]:
    total = len(group.problems)
    counts = (~np.isnan(group.train)).sum(axis=0).tolist()
    return [Cell(f"{n}" if n == total else f"{n} of {total}", {"known": n, "all": total}) for n in counts]


def _moments(figures: Array, text_of: Callable[[Moments], str]) -> list[Cell]:
    """Return one cell for each method, of figures [problem, method]. Means that look like the least are best too."""
    moments = [moments_of(column) for column in figures.T]
    texts = [text_of(one) for one in moments]
    means = [text.partition(" ±")[0] for text in texts]
    least = min((one.rank for one in moments if math.isfinite(one.mean)), default=None)
    best = {mean for mean, one in zip(means, moments, strict=True) if one.rank == least}
    cells = []
    for text, mean, one in zip(texts, means, moments, strict=True):
        values = {"mean": one.mean, "deviation": one.deviation, "problems": one.problems}
        values |= {"infinite": one.infinite} if one.infinite else {}
        cells.append(Cell(text, values, mean in best))
    return cells


def _published(group: Group, published: Figures, what: str) -> list[Cell]:
    cells = []
    for name in group.methods:
        mean = published[what].get(name, math.nan)
        deviation = published.get(f"{what} deviation", {}).get(name, math.nan)
        text = _seconds_text(mean) if what == "seconds" else _regret_text(Moments(0, mean, deviation))
        cells.append(Cell(text, {} if math.isnan(mean) else {"mean": mean, "deviation": deviation}))
    return cells


def _gaps(group: Group) -> list[Cell]:
    cells = []
    for column in group.gap.T:
        known = column[~np.isnan(column)]
        median = float(np.median(known)) if known.size else math.nan
        text = NOTHING if math.isnan(median) else percent_text(median)
        cells.append(Cell(text, {"median": median, "problems": known.size}))
    return cells


def mean_text(moments: Moments, digits: str = ".3f") -> str:
    """Return the mean of the finite figures and the number of infinite ones: `0.207 (1 ∞)`."""
    if not math.isfinite(moments.mean):
        return NOTHING if math.isnan(moments.mean) else "∞"
    return f"{moments.mean:{digits}}" + (f" ({moments.infinite} ∞)" if moments.infinite else "")


def _regret_text(moments: Moments) -> str:
    return mean_text(moments) + ("" if math.isnan(moments.deviation) else f" ± {moments.deviation:.2f}")


def _mean_seconds_text(moments: Moments) -> str:
    return _seconds_text(moments.mean)


def _seconds_text(seconds: float) -> str:
    if math.isnan(seconds):
        return NOTHING
    return f"{seconds:#.2g}" if seconds < 1e-3 else f"{seconds:#.3g}" if seconds < 100 else f"{seconds:.0f}"


def _notes(group: Group, reference: Sequence[str]) -> Iterator[str]:
    """Yield what the summary does not show."""
    yield from _notes_of_missing(group)
    for status, words in STATUS_NOTES.items():
        yield f"{words}: {_each(group.count(status))}."
    known = {Status.SOLVED, *STATUS_NOTES, FAILED, MISSING}
    for other in sorted({str(one) for one in group.status.ravel()} - known):
        yield f"Ended as {other.replace('_', ' ')}: {_each(group.count(other))}."
    present = {*group.reference, *(label.partition(" ")[0] for label in group.reference)}  # also without parameters
    absent = [name for name in reference if name not in present]
    if absent:
        yield f"Reference methods without any run here: {', '.join(absent)}."
    if group.reference_holes:
        holes = counted(group.reference_holes, "problem")
        yield f"Divided by the largest of fewer reference methods, as some have no figure there: {holes}."
    for samples in _sets(group):
        yield from _notes_of_regret(group, samples)
    if len(group.methods) > 1 and len(group.problems) == 1:
        yield "No tests: one problem does not tell which method is better."
    proved = int((group.bound > 0).sum())
    yield f"A lower bound on the max regret of every policy is proved on {proved} of {len(group.problems)} problems."
    if group.contradictions:
        runs = counted(group.contradictions, "run")
        yield f"Less regret than was proved to be possible: {runs}. One of the figures is wrong."
    names, kinds = ", ".join(group.processors), len(group.processors)
    on = f", on {kinds} kinds of processors ({names}): times differ with them" if kinds > 1 else f", on {names}"
    yield f"Solvers took {_duration(float(np.nansum(group.seconds)))} in all{on if names else ''}."


def _notes_of_missing(group: Group) -> Iterator[str]:
    """Yield which runs are left out of the means; comparisons of two methods use the problems that both have."""
    for words, status in (("Failed", FAILED), ("Not run", MISSING)):
        counts = group.count(status)
        if counts:
            yield f"{words}, and left out of the means: {_each(counts)}."


def _notes_of_regret(group: Group, samples: Samples) -> Iterator[str]:
    zero, only = group.zero_reference(samples), group.zero_reference_only(samples)
    if zero:
        yield (
            f"No reference method has any regret ({samples}) on {zero} of {len(group.problems)} problems, where "
            f"all count 0 that are finite{f'; on {only} of them another method has some' if only else ''}."
        )
    infinite = group.infinite(samples)
    if infinite:
        yield (
            f"Policies that may never reach the goal, with infinite regret ({samples}), which is left out of the "
            f"means and counted beside them: {_each(infinite)}."
        )
    partly, undivided = group.partly_infinite(samples), group.undivided(samples)
    if partly or undivided:
        yield (
            f"Infinite reference figures ({samples}): some of them on {counted(partly, 'problem')}, divided by the "
            f"largest finite one; all of them on {counted(undivided, 'problem')}, where finite ones are left out."
        )


def _each(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _reference_text(group: Group) -> str:
    if set(group.reference) == set(ELEVEN):
        return "the paper's eleven methods"
    return "all methods" if len(group.reference) == len(group.methods) else ", ".join(group.reference)
