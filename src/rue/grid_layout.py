"""Where the states of a model are on a grid of cells, as `graph.layout` says.

Cells are numbered row by row from the top, which is north. With a `cell_size` places are kilometres from the south-west
corner, without one the numbers of rows and columns. The entries of a layout; all but the first may be left out:

| entry                 | value                                                                               |
|-----------------------|-------------------------------------------------------------------------------------|
| grid                  | numbers of rows and columns                                                         |
| cell                  | the cell of each state, −1 for none; otherwise state i is on cell i                 |
| axes                  | names of the axes, down and across                                                  |
| heading               | the direction of each action, in degrees clockwise from north                       |
| cell_size             | side of a cell, in metres                                                           |
| longitude, latitude   | degrees of each column and of each row                                              |
| depth, shallow        | depth of each cell (not a number on land), and of the line that is drawn, in metres |
| credit                | the source of the data, printed under the map                                       |
| domain                | `Domain.spec`, from which fresh samples are drawn                                   |
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadInput
from rue.model import Graph

LARGEST = 1e9  # the largest metre or degree that a layout may have


class CellGrid:
    """A grid of cells and the states on it, as the layout of a graph describes them."""

    def __init__(self, graph: Graph) -> None:
        layout = graph.layout
        self.rows, self.columns = layout["grid"]
        self.cell = _cells(graph, self.rows * self.columns, layout.get("cell"))  # [S], −1: on no cell
        size = layout.get("cell_size")
        if size is not None and not 1 / LARGEST <= float(size) <= LARGEST:
            raise ValueError(f"its cells have a size of {size} metres")
        self.metric = size is not None  # kilometres go up, rows go down
        self.unit = 1.0 if size is None else float(size) / 1000.0  # side of a cell, in the units of the axes
        begin = 0.5 * self.metric
        self.x = (np.arange(self.columns) + begin) * self.unit  # middles of cells
        self.y = (np.arange(self.rows)[:: -1 if self.metric else 1] + begin) * self.unit
        self.up = self.unit if self.metric else -self.unit
        self.x_edge = np.append(self.x, self.x[-1] + self.unit) - self.unit / 2
        self.y_edge = np.append(self.y, self.y[-1] - self.up) + self.up / 2
        names = ["km north", "km east"] if self.metric else layout.get("axes", ["row", "column"])
        self.axis = short_line(str(names[1])), short_line(str(names[0]))  # across and up
        self.heading = _numbers(layout, "heading")  # [actions], degrees clockwise from north
        actions = graph.action.max(initial=-1) + 1
        if self.heading is not None and self.heading.size < actions:
            raise ValueError(f"it has {self.heading.size} headings for {actions} actions")
        if self.heading is not None and not np.isfinite(self.heading).all():
            raise ValueError("some action has no heading; expected one for each, or none at all")
        longitude, latitude = _numbers(layout, "longitude", self.columns), _numbers(layout, "latitude", self.rows)
        self.degrees: tuple[Any, ...] = ()  # functions from places to degrees and back, across and up
        if self.metric and longitude is not None and latitude is not None and min(self.rows, self.columns) > 1:
            self.degrees = _linear(self.x, longitude), _linear(self.y, latitude)
        self.depth = _numbers(layout, "depth", self.rows, self.columns)  # metres, not a number on land
        self.shallow = None if layout.get("shallow") is None else float(layout["shallow"])  # metres
        self.is_shallow = False  # somewhere, but not everywhere
        if self.depth is not None and self.shallow is not None and min(self.rows, self.columns) > 1:
            self.is_shallow = bool(np.nanmin(self.depth) < self.shallow < np.nanmax(self.depth))
        self.credit = short_line(str(layout.get("credit", "")), 200)
        self.empty = np.isnan(self.field(np.ones(graph.states)))  # [rows, columns], cells without a state

    def places(self, cell: Array) -> tuple[Array, Array]:
        """Return the middles of cells."""
        row, column = np.divmod(cell, self.columns)
        return self.x[column], self.y[row]

    def field(self, values: Array) -> Array:  # [rows, columns]
        """Return the values of states on the grid; not a number where there is no state."""
        result = np.full(self.rows * self.columns, np.nan)
        result[self.cell[self.cell >= 0]] = values[self.cell >= 0]
        return result.reshape(self.rows, self.columns)


def read_grid(graph: Graph) -> CellGrid:
    """Return the grid of a graph, or raise one line that says what is missing."""
    if "grid" not in graph.layout:
        raise BadInput("the model is no grid, so there is no map of it; expected a layout with 'grid'")
    try:
        return CellGrid(graph)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"the layout of the model cannot be drawn: {error}") from None


def _cells(graph: Graph, cells: int, given: list[int] | None) -> Array:
    """Return the cell of each state; unless the layout has them, states are numbered like cells."""
    if given is None:
        number = np.arange(graph.states)
        return np.where(number < cells, number, -1)
    cell = np.asarray(given, dtype=np.int64)
    if cell.shape != (graph.states,) or (cell < -1).any() or (cell >= cells).any():
        raise ValueError(f"its cells are not {graph.states} numbers from 0 to {cells - 1}")
    states = np.bincount(cell[cell >= 0], minlength=1)
    if states.max() != 1:
        raise ValueError(f"cell {states.argmax()} has {states.max()} states; expected one at most, and one somewhere")
    return cell


def _numbers(layout: Mapping[str, Any], name: str, *shape: int) -> Array | None:
    """Return an array of a layout, or None if it has none."""
    given = layout.get(name)
    if given is None:
        return None
    values = np.array([np.nan if value is None else float(value) for value in given])
    if (np.abs(values) > LARGEST).any():
        raise ValueError(f"its {name} is {values[np.abs(values) > LARGEST][0]} somewhere")
    if shape and values.size != np.prod(shape):
        raise ValueError(f"it has {values.size} numbers of {name}; expected {np.prod(shape)}")
    return values.reshape(shape or -1)


def _linear(place: Array, degrees: Array) -> tuple[np.poly1d, np.poly1d]:
    """Return functions from places on an axis to degrees and back."""
    return np.poly1d(np.polyfit(place, degrees, 1)), np.poly1d(np.polyfit(degrees, place, 1))
