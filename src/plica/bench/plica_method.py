"""Plica's own models of tables as a method: `plica.tables.fit`, with nothing but the kinds of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from plica import tables
from plica.bench.completions import Completion, Method
from plica.bench.sets import Array, MixedTable
from plica.tables import TableModel


@final
@dataclass(frozen=True, slots=True)
class PlicaTables(Method):
    """A model that `plica.tables.fit` chooses and fits.

    Args:
        chosen: Settings that the rule must not choose, by the names of `plica.tables.Recipe`.
    """

    chosen: Mapping[str, Any] = field(default_factory=dict)

    def complete(self, table: MixedTable, seed: int) -> Completion:
        """The model's exact conditional distributions."""
        return TableCompletion(self.fit(table, seed), table)

    def fit(self, table: MixedTable, seed: int, target: str | None = None) -> TableModel:
        """The fitted model, to predict a column if one is named.

        Columns of categories are said to be, whatever their texts look like.
        """
        kinds = {
            column.name: {"kind": "categorical", "categories": list(column.categories)} if column.categories else "real"
            for position, column in enumerate(table.columns)
            if column.categories or not table.is_whole(position)
        }
        return tables.fit(frame_of(table), columns=kinds, seed=seed, target=target, **self.chosen)


@final
class TableCompletion(Completion):
    """What a `TableModel` says of the missing cells of the table that it learned."""

    def __init__(self, model: TableModel, table: MixedTable) -> None:
        self._model, self._table = model, table

    def filled(self) -> Array:
        """Conditional means, and the most probable categories."""
        values = self._table.values.copy()
        for position in range(len(self._table.columns)):
            rows = np.flatnonzero(np.isnan(values[:, position]))
            if len(rows):
                values[rows, position] = self._prediction(position, rows)
        return values

    def _prediction(self, position: int, rows: Array) -> Array:
        column = self._table.columns[position]
        answer = self._model.predict(column.name, self._frame(rows))
        if column.categories:
            best: Array = probabilities_of(answer, column.categories).argmax(axis=1)
            return best
        if "mean" in answer:
            return np.asarray(answer["mean"], dtype=np.float64)
        levels = np.array([float(name) for name in answer])  # numbers that were taken for categories
        means: Array = np.array(list(answer.values()), dtype=np.float64).T @ levels
        return means

    def log_probability(self, position: int, rows: Array, values: Array) -> Array:
        """The log-likelihood of the row with the value, less that without it."""
        completed = self._table.values[rows]
        completed[:, position] = values
        with_cells = self._model.score(frame_of(self._table.replaced(completed)))
        result: Array = with_cells - self._model.score(self._frame(rows))
        return result

    def interval(self, position: int, rows: Array, low: float, high: float) -> tuple[Array, Array] | None:
        """Exact quantiles; None for numbers that the model takes for categories."""
        name = self._table.columns[position].name
        if self._model.columns[name] in ("categorical", "boolean"):
            return None
        answer = self._model.predict(name, self._frame(rows), (low, high))
        lower, upper = (np.asarray(answer[str(level)], dtype=np.float64) for level in (low, high))
        return lower, upper

    def _frame(self, rows: Array) -> dict[str, list[Any]]:
        return frame_of(self._table.replaced(self._table.values[rows]))


def frame_of(table: MixedTable) -> dict[str, list[Any]]:
    """The table as a dict of columns: texts of categories, numbers, and None where a cell is missing."""
    frame: dict[str, list[Any]] = {}
    for position, column in enumerate(table.columns):
        whole = table.is_whole(position)
        frame[column.name] = [
            None
            if np.isnan(value)
            else column.categories[int(value)]
            if column.categories
            else int(value)
            if whole
            else float(value)
            for value in table.values[:, position]
        ]
    return frame


def probabilities_of(answer: Mapping[str, Any], categories: tuple[str, ...]) -> Array:
    """`(R, C)`: the probability of each category in an answer of `predict`, 0 for those that it lacks."""
    rows = len(next(iter(answer.values())))
    lacking = np.zeros(rows)
    return np.array([answer.get(category, lacking) for category in categories], dtype=np.float64).T
