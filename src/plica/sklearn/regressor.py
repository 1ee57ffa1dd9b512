"""`CircuitRegressor`: means and exact conditional quantiles given the known features of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import RegressorMixin

from plica.files.rows.batch import Array
from plica.sklearn.base import CircuitEstimator, numbers_of


class CircuitRegressor(RegressorMixin, CircuitEstimator):
    """A real target by the joint distribution of features and target: features may be missing (NaN).

    Attributes:
        model_: The model of features and target, a `plica.tables.TableModel` whose last column is `target`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 1))
    >>> low, high = CircuitRegressor(units=2, epochs=1).fit(X, X[:, 0]).predict([[0.5]], quantiles=[0.1, 0.9])[0]
    >>> bool(low < high)
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and their targets."""
        table = self._checked(X, reset=True)
        cells = self._target(X, y, numeric=True)
        self.model_ = self._fit_table(table, {"cells": cells, "kind": "real"})
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | Array | None = None) -> Array:
        """The mean of each target given the known features, `(N,)`; or its quantiles, `(N, Q)`.

        Args:
            X: Rows.
            quantiles: Q levels between 0 and 1.
        """
        table = self._checked(X)
        predicted = numbers_of(self.model_.predict(self._target_name, table, () if quantiles is None else quantiles))
        return predicted[:, 0] if quantiles is None else predicted[:, 1:]
