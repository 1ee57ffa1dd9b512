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
_MOST_INTERVALS, _INTERVAL_COLUMNS = 100, 100_000  # each needs passes of its own, whose time grows with the columns


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
        covered: Of numbers, the share within intervals of 90 percent; of at most a hundred columns, evenly chosen, and
            of more than a thousand columns of 100,000 divided by their number.
    """

    column: str
    cells: int
    error: float | None = None
    right: float | None = None
    expected: float | None = None
    covered: float | None = None


def held_out(model: Model, train: Array, test: Array, seed: int) -> tuple[HeldOut, ...]:
    """The figures of each column that has a hidden cell; rows of probability 0 have none.

    Args:
        model: A trained model of typed columns.
        train: `(N, D)` the training rows, for the means that errors are compared with; NaN is missing.
        test: `(M, D)` rows that it has not learned, of which the first 500 are asked.
        seed: The seed of the cells that are hidden, each known one alike.
    """
    rows = test[:_MOST_ROWS].astype(np.float64)
    hidden = (np.random.default_rng(seed).random(rows.shape) < HIDDEN) & ~np.isnan(rows)
    rows, hidden = rows[hidden.any(axis=1)], hidden[hidden.any(axis=1)]
    are_possible = _are_possible(model, np.where(hidden, np.nan, rows))
    if not are_possible.any():
        return ()
    rows, hidden = rows[are_possible], hidden[are_possible]
    holed = np.where(hidden, np.nan, rows)
    variables = np.flatnonzero(hidden.any(axis=0)).tolist()
    most = max(1, min(_MOST_INTERVALS, _INTERVAL_COLUMNS // model.width))
    every = max(1, -(-len(variables) // most))
    posterior = _Posterior.of(model, holed)
    return tuple(
        _of_column(model, posterior, variable, train[:, variable], rows, hidden[:, variable], holed, not number % every)
        for number, variable in enumerate(variables)
    )


def _are_possible(model: Model, holed: Array) -> Array:
    """Whether each of some rows `(B, D)` has a probability above 0."""
    import torch

    from plica.queries import log_likelihood

    if not len(holed):
        return np.zeros(0, bool)
    with torch.no_grad():
        return np.isfinite(as_array(log_likelihood(model.circuit, model.rows(holed))))


@dataclass(frozen=True, slots=True)
class _Posterior:
    """What a model says of all hidden cells, by one pass.

    Attributes:
        probabilities: `(B, D, C)`.
        means: `(B, D)`.
    """

    probabilities: Array
    means: Array

    @staticmethod
    def of(model: Model, holed: Array) -> _Posterior:
        """That of rows `(B, D)`, none of which has probability 0."""
        import torch

        from plica.queries import posterior

        with torch.no_grad():
            conditionals = posterior(model.circuit, model.rows(holed))
            return _Posterior(as_array(conditionals.probabilities), as_array(conditionals.mean))


def _of_column(
    model: Model,
    posterior: _Posterior,
    variable: int,
    known: Array,
    rows: Array,
    hidden: Array,
    holed: Array,
    has_interval: bool,
) -> HeldOut:
    import torch

    from plica.queries import quantile

    name, values = model.names[variable], rows[hidden, variable]
    if categories_of(model, variable) is not None:
        probabilities = posterior.probabilities[hidden, variable]
        right = right_share(probabilities.argmax(axis=1), values)
        return HeldOut(name, len(values), right=right, expected=float(probabilities.max(axis=1).mean()))
    means = posterior.means[hidden, variable]
    error = relative_error(means, values, known)
    if not has_interval:
        return HeldOut(name, len(values), error=error)
    x = model.rows(holed[hidden])
    try:
        with torch.no_grad():
            ends = as_array(quantile(model.circuit, variable, (LOW, HIGH), given=x))
    except (UnsupportedError, InputError):  # no quantiles, or variances that the dtype does not hold
        return HeldOut(name, len(values), error=error)
    low, high = first_whole(model, variable, ends).T
    with np.errstate(over="ignore"):
        read = values.astype(means.dtype)  # as the model does: it knows no number between two of its dtype
    return HeldOut(name, len(values), error=error, covered=float(is_covered(read, (low, high)).mean()))
