"""Weights of samples from a CSV file with a header: `sample,weight`, one line for each sample."""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rue._arrays import Array
from rue._check import in_all, text_path
from rue.errors import BadInput, unknown_name
from rue.formats.csv_text import bounded, cell_number, check_columns, find_header, first_filled, guess_encoding, opened
from rue.model import UMDP, check_model

SAMPLE, WEIGHT = "sample", "weight"
MOST_DIGITS = 18  # of the number of a sample


def read_weights(path: str | Path, model: UMDP) -> Array:  # [K]
    """Return the weight of each sample of a model, from a CSV file with the columns `sample` and `weight`.

    A sample is called by its name, or by its number, which begins at 0. Each one has a line; their order, further
    columns and the sum of the weights do not matter. `model.with_weight(...)` takes the result.
    """
    source, number = text_path(path), _sample_numbers(check_model(model))
    weight, problems = np.full(model.samples, np.nan), []
    for line, sample, text, value in _lines(source):
        k = number.get(sample, int(sample) if _is_index(sample, model.samples) else -1)
        if k < 0:
            problems.append(f"line {line}: {unknown_name('sample', sample, number)}")
        elif not math.isnan(weight[k]):
            problems.append(f"line {line}: sample {sample!r} has a weight already; expected one line for it")
        elif not 0 <= value < math.inf:
            problems.append(f"line {line}: the weight of sample {sample!r} is {text!r}; expected a number, 0 or more")
        else:
            weight[k] = value
    if problems:
        raise BadInput(f"{source}, {problems[0]}; {in_all(len(problems), 'line')}")
    missing = np.flatnonzero(np.isnan(weight))
    if missing.size:
        raise BadInput(
            f"{source}: sample {model.sample_name(int(missing[0]))!r} has no weight; expected a line for each of "
            f"{model.samples} samples; {in_all(missing.size, 'sample', 'missing')}"
        )
    if not weight.any():
        raise BadInput(f"{source}: every weight is 0; expected a positive one at least")
    return weight


def _lines(path: Path) -> Iterator[tuple[int, str, str, float]]:
    """Yield the number of each line that is not blank, its sample, and its weight as text and as a number."""
    encoding = guess_encoding(path)
    delimiter, columns = find_header(path, encoding, (SAMPLE, WEIGHT))
    check_columns(path, columns, (SAMPLE, WEIGHT))
    with opened(path, encoding) as stream:
        lines = csv.reader(bounded(stream), delimiter=delimiter, skipinitialspace=True)
        first_filled(lines)
        for cells in lines:
            if any(cell.strip() for cell in cells):
                sample, text = _cell(cells, columns.index(SAMPLE)), _cell(cells, columns.index(WEIGHT))
                yield lines.line_num, sample, text, cell_number(text, delimiter)


def _cell(cells: Sequence[str], place: int) -> str:
    return cells[place].strip() if place < len(cells) else ""


def _sample_numbers(model: UMDP) -> dict[str, int]:
    return {model.sample_name(k): k for k in range(model.samples)}


def _is_index(text: str, size: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and int(text) < size
