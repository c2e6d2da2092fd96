"""Tables of results: regrets and times by method and size, and which method is better than which; as text and files.

A table has the values of each cell beside the text that is shown. Text, Markdown and LaTeX show the text; CSV has one
line for each value, with all its digits.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from rue._arrays import Array
from rue._check import one_of
from rue.experiments.orders import Order, compare_orders
from rue.experiments.published import ELEVEN, PAPER, Published
from rue.experiments.results import MISSING, Group, Results, Samples
from rue.experiments.statistics import SIGNIFICANT, Comparison, Moments, compare_methods, describe
from rue.experiments.store import FAILED
from rue.solution import Status
from rue.table import FORMATS, Cell, Table, TableRow

NOTHING = "–"
LEAST_P = 1e-4
SETS: tuple[Samples, ...] = ("train", "test")
TESTS = {"t": "two-sample t-test", "wilcoxon": "Wilcoxon signed-rank test"}


def make_tables(results: Results, published: Published | None = None) -> list[Table]:
    """All tables, group by group.

    `published` has figures of others to stand beside ours. If there are none, and regrets are divided by the worst of
    the paper's eleven methods as in the paper, these are the paper's.
    """
    source = "published"
    if published is None:
        source, published = "paper", PAPER if set(results.reference) == set(ELEVEN) else {}
    tables = []
    for group in results.groups:
        # "glider, half the current" is a glider still.
        figures = published.get(group.name) or published.get(group.name.partition(",")[0], {})
        tables.append(_summary(group, results.reference, figures, source))
        tables += _orders(group, figures)
        if len(group.sizes) > 1:
            tables += _by_size(group)
        if _can_be_tested(group):
            tables += _p_values(group)
    return tables


def write_tables(tables: Sequence[Table], format: str = "text") -> str:
    """The tables as `text`, `markdown`, `latex` or `csv`."""
    return FORMATS[one_of("format", format, FORMATS)](tables)


def _can_be_tested(group: Group) -> bool:
    return len(group.methods) > 1 and len(group.problems) > 1


def _summary(
    group: Group, reference: Sequence[str], published: Mapping[str, Mapping[str, float]], source: str
) -> Table:
    columns: dict[str, list[Cell]] = {"problems": [_problems(group, name) for name in group.methods]}
    for samples in _sets(group):
        columns[f"max regret, {samples}"] = _moments(group.normalised(samples), _regret_text)
        if samples in published:
            columns[f"{source}, {samples}"] = _published(group, published, samples)
    columns["seconds"] = _moments(group.seconds, lambda moments: _seconds_text(moments.mean))
    if "seconds" in published:
        columns[f"{source}, seconds"] = _published(group, published, "seconds")
    columns["gap"] = _gaps(group)
    caption = (
        f"Mean; standard deviation of max regret, on each problem divided by the largest finite one of "
        f"{_in_words(group.reference, group.methods)}, over {_count(len(group.problems), 'problem')}"
        f"{' of ' + _count(len(group.sizes), 'size') if len(group.sizes) > 1 else ''}; mean seconds of the solver; "
        "median gap, (max regret − proved bound for every policy) / max regret, on the training samples."
    )
    return _table(group, "summary", "all problems", caption, columns, tuple(_notes(group, reference)))


def _orders(group: Group, published: Mapping[str, Mapping[str, float]]) -> list[Table]:
    """How many published differences hold here, and which do not; no table where nothing can be compared."""
    found = {samples: compare_orders(group, published, samples) for samples in _sets(group)}
    rows = tuple(TableRow(Cell(samples), _order_cells(orders)) for samples, orders in found.items() if orders)
    notes = tuple(
        f"Not so here, {samples}: {'; '.join(otherwise)}."
        for samples, orders in found.items()
        if (otherwise := [_found_instead(order) for order in orders if order.found != "same"])
    )
    caption = (
        "Pairs of methods that the published figures tell apart (one-sided t-test, p < 0.05), how many of them have "
        "the same order here, and how many of these significantly so (Wilcoxon, p < 0.05)."
    )
    columns = ("samples", "told apart", "same order here", "significantly")
    title = f"{group.name}: differences that were published"
    return [Table(title, columns, rows, caption, notes, group=group.name, kind="orders")] if rows else []


def _found_instead(order: Order) -> str:
    here = "equal" if order.found == "equal" else f"above it, p = {order.p:.2g}"
    return f"{order.better} below {order.worse} (here {here})"


def _order_cells(orders: Sequence[Order]) -> tuple[Cell, ...]:
    same = [order for order in orders if order.found == "same"]
    counts = (len(orders), len(same), sum(order.significant for order in same))
    return tuple(Cell(str(count), {"count": count}) for count in counts)


def _by_size(group: Group) -> list[Table]:
    where = {size: group.of_size(size) for size in group.sizes}
    tables = []
    for samples in _sets(group):
        figures = group.normalised(samples)
        columns = {size: _moments(figures[chosen], _regret_text) for size, chosen in where.items()}
        caption = "Mean; standard deviation of max regret, divided as in the table of all problems."
        tables.append(
            _table(group, f"{samples} by size", f"max regret by size, {samples}", caption, columns, _missing_at(group))
        )
    columns = {
        size: _moments(group.seconds[chosen], lambda moments: _seconds_text(moments.mean))
        for size, chosen in where.items()
    }
    caption = "Mean seconds of the solver."
    return [*tables, _table(group, "seconds by size", "seconds by size", caption, columns, _missing_at(group))]


def _p_values(group: Group) -> list[Table]:
    """For each set of samples both tests, as in the paper's appendix, with the means in the first row."""
    tables = []
    for samples in _sets(group):
        figures = group.normalised(samples)
        comparison = compare_methods(figures)
        means = TableRow(Cell("max regret"), tuple(_moments(figures, _regret_text)), pinned=True)
        tables += [_p_table(group, samples, test, comparison, means) for test in TESTS]
    return tables


def _p_table(group: Group, samples: Samples, test: str, comparison: Comparison, means: TableRow) -> Table:
    """The p-values of a test; as the paper does, only those of the better method of a pair are shown."""
    p, corrected = getattr(comparison, test), getattr(comparison, f"{test}_holm")
    shown = comparison.difference < 0 if test == "t" else p < 0.5
    numbers = range(len(group.methods))
    used = comparison.finite_pairs if test == "t" else comparison.pairs
    rows = [
        TableRow(
            Cell(group.methods[i]), tuple(_p_cell(p[i, j], corrected[i, j], pairs[j], shown[i, j]) for j in numbers)
        )
        for i, pairs in enumerate(used)
    ]
    caption = (
        f"p-values of the {TESTS[test]}, one-sided: the method of the row is better (lower) than that of the column. "
        f"* below {SIGNIFICANT:g} after Holm's correction for all {_comparisons(p)} comparisons. "
        f"{NOTHING} where {'its mean is not lower' if test == 't' else 'the ranks do not favour it'}."
    )
    title = f"{group.name}: {TESTS[test]}, {samples}"
    notes = tuple(_notes_of_test(group, samples, test))
    columns = ("method", *group.methods)
    return Table(title, columns, (means, *rows), caption, notes, group=group.name, kind=f"{test} {samples}")


def _notes_of_test(group: Group, samples: Samples, test: str) -> Iterator[str]:
    """What a test does with infinite figures."""
    endless = group.endless(samples)
    if endless and test == "t":
        yield f"On the problems on which both methods are finite; infinite figures are left out: {_each(endless)}."
    elif endless:
        yield f"Infinite figures rank last: {_each(endless)}."


def _comparisons(p: Array) -> int:
    return int((~np.isnan(p)).sum())


def _table(
    group: Group, kind: str, title: str, caption: str, columns: Mapping[str, Sequence[Cell]], notes: Sequence[str]
) -> Table:
    rows = tuple(
        TableRow(Cell(name), tuple(column[number] for column in columns.values()))
        for number, name in enumerate(group.methods)
    )
    title = f"{group.name}: {title}"
    return Table(title, ("method", *columns), rows, caption, tuple(notes), group=group.name, kind=kind)


def _sets(group: Group) -> tuple[Samples, ...]:
    return SETS if group.has_test else SETS[:1]


def _problems(group: Group, method: str) -> Cell:
    known = int((~np.isnan(group.train[:, group.methods.index(method)])).sum())
    total = len(group.problems)
    return Cell(f"{known}" if known == total else f"{known} of {total}", {"known": known, "all": total})


def _moments(figures: Array, shown: Callable[[Moments], str]) -> list[Cell]:
    """One cell for each method, of figures [problem, method]; the least mean is the best."""
    moments = [describe(column) for column in figures.T]
    texts = [shown(one) for one in moments]
    least = min((one.rank for one in moments if math.isfinite(one.mean)), default=None)
    # What looks equal is equally good.
    best = {_first_part(text) for one, text in zip(moments, texts, strict=True) if one.rank == least}
    return [Cell(text, _values(one), _first_part(text) in best) for one, text in zip(moments, texts, strict=True)]


def _values(moments: Moments) -> dict[str, float]:
    values = {"mean": moments.mean, "deviation": moments.deviation, "problems": moments.problems}
    return {**values, "infinite": moments.endless} if moments.endless else values


def _first_part(text: str) -> str:
    """The mean, with how many are infinite, without the deviation."""
    return text.partition(";")[0]


def _published(group: Group, published: Mapping[str, Mapping[str, float]], what: str) -> list[Cell]:
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
        cells.append(Cell(_percent_text(median), {"median": median, "problems": known.size}))
    return cells


def _p_cell(p: float, corrected: float, pairs: int, shown: bool) -> Cell:
    if math.isnan(p):
        return Cell(NOTHING)
    text = f"<{LEAST_P:.4f}" if p < LEAST_P else f"{p:#.2g}"
    star = "*" if corrected < SIGNIFICANT else ""
    values = {"p": float(p), "holm": float(corrected), "problems": int(pairs)}
    return Cell(text + star if shown else NOTHING, values)


def mean_text(moments: Moments) -> str:
    """The mean of what is finite, and how many are not: `0.207 (1 ∞)`."""
    if math.isnan(moments.mean):
        return NOTHING
    if math.isinf(moments.mean):
        return "∞"
    return f"{moments.mean:.3f}" + (f" ({moments.endless} ∞)" if moments.endless else "")


def _regret_text(moments: Moments) -> str:
    return mean_text(moments) + ("" if math.isnan(moments.deviation) else f"; {moments.deviation:.2f}")


def _seconds_text(seconds: float) -> str:
    if math.isnan(seconds):
        return NOTHING
    return f"{seconds:#.2g}" if seconds < 1e-3 else f"{seconds:#.3g}" if seconds < 100 else f"{seconds:.0f}"


def _percent_text(share: float) -> str:
    if math.isnan(share):
        return NOTHING
    if math.isinf(share):
        return "∞"
    return f"{100 * share:.1f} %" if share < 10 else f"{100 * share:.0f} %"


def _notes(group: Group, reference: Sequence[str]) -> Iterator[str]:
    """What the table does not show."""
    yield from _missing_at(group)
    yield f"Stopped by the time limit, with the best policy so far: {_each(group.count(Status.TIME_LIMIT))}."
    yield f"Objective not proved to the last digits: {_each(group.count(Status.UNPROVED))}."
    known = {Status.SOLVED, Status.TIME_LIMIT, Status.UNPROVED, FAILED, MISSING}
    for status in sorted({str(one) for one in group.status.ravel()} - known):
        yield f"Ended as {status.replace('_', ' ')}: {_each(group.count(status))}."
    absent = [name for name in reference if name not in group.reference and not _has_variant(name, group.reference)]
    if absent:
        yield f"Reference methods without any run here: {', '.join(absent)}."
    if group.reference_holes:
        yield (
            f"Divided by the largest of fewer reference methods, as some have no figure there: "
            f"{_count(group.reference_holes, 'problem')}."
        )
    for samples in _sets(group):
        yield from _notes_of_regret(group, samples)
    if len(group.methods) > 1 and not _can_be_tested(group):
        yield "No tests: one problem does not tell which method is better."
    proved = int((group.bound > 0).sum())
    yield f"A lower bound on the max regret of every policy is proved on {proved} of {len(group.problems)} problems."
    if group.contradictions:
        yield (
            f"Less regret than was proved to be possible: {_count(group.contradictions, 'run')}. "
            f"One of the figures is wrong."
        )
    yield f"Solvers took {_duration(float(np.nansum(group.seconds)))} in all{_on_what(group)}."


def _notes_of_regret(group: Group, samples: Samples) -> Iterator[str]:
    idle, only = group.idle(samples), group.idle_for_reference_only(samples)
    if idle:
        yield (
            f"No reference method has any regret ({samples}) on {idle} of {len(group.problems)} problems, where "
            f"all count 0 that are finite{f'; on {only} of them another method has some' if only else ''}."
        )
    endless = group.endless(samples)
    if endless:
        yield (
            f"Policies that may never reach the goal, with infinite regret ({samples}), which is left out of the "
            f"means and counted beside them: {_each(endless)}."
        )
    partly, undivided = group.partly_endless(samples), group.undivided(samples)
    if partly or undivided:
        yield (
            f"Infinite reference figures ({samples}): some of them on {_count(partly, 'problem')}, divided by the "
            f"largest finite one; all of them on {_count(undivided, 'problem')}, where finite ones are left out."
        )


def _missing_at(group: Group) -> tuple[str, ...]:
    """Holes, which means leave out; every comparison of two methods is on the problems that both have."""
    notes = []
    for words, status in (("Failed", FAILED), ("Not run", MISSING)):
        counts = group.count(status)
        if counts:
            notes.append(f"{words}, and left out of the means: {_each(counts)}.")
    return tuple(notes)


def _has_variant(name: str, labels: Sequence[str]) -> bool:
    return any(label.startswith((f"{name} (", f"{name} in ")) for label in labels)


def _on_what(group: Group) -> str:
    if not group.processors:
        return ""
    if len(group.processors) == 1:
        return f", on {group.processors[0]}"
    return f", on {len(group.processors)} kinds of processors ({', '.join(group.processors)}): times differ with them"


def _each(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _in_words(reference: Sequence[str], methods: Sequence[str]) -> str:
    if set(reference) == set(ELEVEN):
        return "the paper's eleven methods"
    if len(reference) == len(methods):
        return "all methods"
    return ", ".join(reference)
