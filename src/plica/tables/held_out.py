"""How well a model of tables knows cells that it has not seen: known cells of test rows are hidden, and predicted.

Importing this module loads nothing; its function loads torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plica.errors import InputError, UnsupportedError
from plica.files.tables import Array
from plica.tables.answers import as_array, categories_of, first_whole
from plica.tables.measures import HIGH, LOW, is_covered, relative_error, right_share
from plica.tables.model import Model

HIDDEN = 0.15  # of the known cells
_MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a model says of the hidden cells of one column; None where the column or the model has no such figure.

    Attributes:
        column: The name of the column.
        cells: The number of hidden cells, at least one.
        error: Of numbers, the root of the mean square over that of the mean of the training rows; None where these
            cells are that mean, but for rounding.
        right: Of categories, the share whose most probable category is right.
        expected: The mean probability of these most probable categories; near `right` where probabilities are right.
        covered: Of numbers, the share within intervals of 90 percent.
    """

    column: str
    cells: int
    error: float | None = None
    right: float | None = None
    expected: float | None = None
    covered: float | None = None


def held_out(model: Model, train: Array, test: Array, seed: int) -> tuple[HeldOut, ...]:
    """The figures of each column that has a hidden cell; none where a row has probability 0.

    Args:
        model: A trained model of typed columns.
        train: `(N, D)` the training rows, for the means that errors are compared with; NaN is missing.
        test: `(M, D)` rows that it has not learned, of which the first 500 are asked.
        seed: The seed of the cells that are hidden, each known one alike.
    """
    rows = test[:_MOST_ROWS].astype(np.float64)
    hidden = (np.random.default_rng(seed).random(rows.shape) < HIDDEN) & ~np.isnan(rows)
    holed = np.where(hidden, np.nan, rows)
    try:
        return tuple(
            _of_column(model, variable, train[:, variable], rows[hidden[:, variable]], holed[hidden[:, variable]])
            for variable in range(rows.shape[1])
            if hidden[:, variable].any()
        )
    except InputError:
        return ()


def _of_column(model: Model, variable: int, known: Array, rows: Array, holed: Array) -> HeldOut:
    import torch

    from plica.queries import posterior, quantile

    name, values = model.names[variable], rows[:, variable]
    x = torch.from_numpy(holed).to(model.circuit.leaves.device)
    with torch.no_grad():
        conditionals = posterior(model.circuit, x)
        if categories_of(model, variable) is not None:
            probabilities = as_array(conditionals.probabilities[:, variable])
            right = right_share(probabilities.argmax(axis=1), values)
            return HeldOut(name, len(rows), right=right, expected=float(probabilities.max(axis=1).mean()))
        means = as_array(conditionals.mean[:, variable])
        error = relative_error(means, values, known)
        try:
            low, high = (
                first_whole(model, variable, as_array(quantile(model.circuit, variable, level, given=x)))
                for level in (LOW, HIGH)
            )
        except (UnsupportedError, InputError):  # no quantiles, or variances that the dtype does not hold
            return HeldOut(name, len(rows), error=error)
    with np.errstate(over="ignore"):
        read = values.astype(means.dtype)  # as the model does: it knows no number between two of its dtype
    return HeldOut(name, len(rows), error=error, covered=float(is_covered(read, (low, high)).mean()))
