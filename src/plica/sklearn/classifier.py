"""`CircuitClassifier`: probabilities of classes given the known features of each row."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from plica.files.rows.batch import Array
from plica.sklearn.base import CircuitEstimator, numbers_of


class CircuitClassifier(ClassifierMixin, CircuitEstimator):
    """Classes by the joint distribution of features and class: features may be missing (NaN), in training too.

    Attributes:
        model_: The model of features and class, a `plica.tables.TableModel` whose last column is `target`.
        classes_: The classes, in order.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and their classes."""
        table = self._checked(X, reset=True)
        y = self._target(X, y)
        check_classification_targets(y)
        self.classes_, states = np.unique(y, return_inverse=True)
        kind = {"kind": "categorical", "categories": list(range(len(self.classes_)))}
        self.model_ = self._fit_table(table, {"cells": states.tolist(), "kind": kind})
        return self

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, `(N, C)`, given the features that are known."""
        table = self._checked(X)
        return numbers_of(self.model_.predict(self._target_name, table))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        predicted: Array = self.classes_[probabilities.argmax(axis=1)]
        return predicted
