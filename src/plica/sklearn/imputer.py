"""`CircuitImputer`: missing cells filled in by means, by the most probable completion, or by draws."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from plica.sklearn.base import CircuitEstimator, array_of


class CircuitImputer(OneToOneFeatureMixin, TransformerMixin, CircuitEstimator):
    """Missing cells (NaN) filled in given the other cells of their row.

    Args:
        method: `mean`, `mpe` (the most probable completion) or `sample` (draws), as of `TableModel.complete`.
        units: As for `CircuitEstimator`, as are all others.
        epochs: See there.
        structure: See there.
        learning_rate: See there.
        columns: See there.
        random_state: See there.

    Attributes:
        model_: The model of the table, a `plica.tables.TableModel`.
    """

    def __init__(
        self,
        *,
        method: str = "mean",
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
        self.method = method

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's convention
        """Fit the model of the rows."""
        self.model_ = self._fit_table(self._checked(X, reset=True))
        return self

    def transform(self, X: Any) -> Any:
        """The rows with their missing cells filled in: an array, or a frame where a frame has other cells too."""
        table = self._checked(X)
        return array_of(self.model_.complete(table, self.method, seed=self._seed()))  # type: ignore[arg-type]

    def transform_many(self, X: Any, m: int = 5) -> list[Any]:
        """`m` completions of the rows, each of draws: multiple imputation."""
        table = self._checked(X)
        seeds = np.random.SeedSequence(self._seed()).generate_state(m)
        return [array_of(self.model_.complete(table, "sample", seed=int(seed))) for seed in seeds]
