"""`CircuitDensity`: log-likelihoods, draws, and outliers by a quantile of the log-likelihood."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import DensityMixin, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from plica.errors import InputError
from plica.files.rows.batch import Array
from plica.sklearn.base import CircuitEstimator, array_of


class CircuitDensity(OutlierMixin, DensityMixin, CircuitEstimator):
    """The density of rows, of which some cells may be missing (NaN).

    Args:
        contamination: The share of the training rows that are outliers: those of the lowest log-likelihood.
        units: As for `CircuitEstimator`, as are all others.
        epochs: See there.
        structure: See there.
        learning_rate: See there.
        columns: See there.
        random_state: See there.

    Attributes:
        model_: The model of the table, a `plica.tables.TableModel`.
        offset_: The log-likelihood below which a row is an outlier.

    >>> X = np.random.default_rng(0).normal(size=(60, 1))
    >>> CircuitDensity(units=2, epochs=1).fit(X).predict([[0.0], [9.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        *,
        contamination: float = 0.1,
        units: int | None = None,
        epochs: int | None = None,
        structure: str | None = None,
        learning_rate: float | None = None,
        columns: Any = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            units=units,
            epochs=epochs,
            structure=structure,
            learning_rate=learning_rate,
            columns=columns,
            random_state=random_state,
        )
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's convention
        """Fit the density to rows."""
        if not 0.0 < self.contamination <= 0.5:
            raise InputError(f"contamination={self.contamination!r}: expected a share above 0 and at most 0.5")
        table = self._checked(X, reset=True)
        self._set(self._fit_table(table), table)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from further rows; the first call is `fit`."""
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        table = self._checked(X)
        self.model_.update(table, seed=self._seed())
        self._set(self.model_, table)
        return self

    def _set(self, model: Any, table: Any) -> None:
        self.model_ = model
        self.offset_ = float(np.percentile(model.score(table), 100.0 * self.contamination))

    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of each row, `(N,)`; missing cells are summed out."""
        table = self._checked(X)
        scores: Array = self.model_.score(table)
        return scores

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - scikit-learn's convention
        """The mean log-likelihood of rows."""
        return float(np.mean(self.score_samples(X)))

    def decision_function(self, X: Any) -> Array:
        """The log-likelihood of each row less that of the threshold; negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """1 for each usual row, -1 for each outlier."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Rows drawn from the density: an array `(n_samples, D)`, or a frame after a fit to one."""
        check_is_fitted(self)
        seed = self._seed() if random_state is None else int(check_random_state(random_state).randint(2**31))
        return array_of(self.model_.sample(n_samples, seed=seed))
