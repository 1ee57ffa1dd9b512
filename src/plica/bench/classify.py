"""Classifiers of a column of categories, with whole rows and with holes.

Rows are split 70 / 30 by the seed; a share of the cells of the other columns is hidden in both parts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from plica.bench.plica_method import PlicaTables, frame_of, probabilities_of
from plica.bench.sets import Array, MixedTable
from plica.extras import require

SHARES = (0.0, 0.5)
_TRAINED = 0.7


class Classifier(ABC):
    """Predicts a column from rows with holes."""

    @abstractmethod
    def probabilities(self, train: MixedTable, test: MixedTable, target: int, seed: int) -> Array:
        """`(R, C)`: of the categories of a column in the rows of `test`, learned from `train`.

        Args:
            train: Rows with their target.
            test: Rows whose target is missing.
            target: The position of the column.
            seed: The seed.
        """


@final
@dataclass(frozen=True, slots=True)
class PlicaClassifier(Classifier):
    """The exact conditional distribution by a model of all columns."""

    method: PlicaTables = field(default_factory=PlicaTables)

    def probabilities(self, train: MixedTable, test: MixedTable, target: int, seed: int) -> Array:
        """By `TableModel.predict`, of a model fitted to predict the column."""
        column = train.columns[target]
        answer = self.method.fit(train, seed, column.name).predict(column.name, frame_of(test))
        return probabilities_of(answer, column.categories)


@final
@dataclass(frozen=True, slots=True)
class Boosting(Classifier):
    """scikit-learn's `HistGradientBoostingClassifier` by its defaults, which takes holes and categories."""

    def probabilities(self, train: MixedTable, test: MixedTable, target: int, seed: int) -> Array:
        """Of its `predict_proba`; 0 for categories that training has not seen."""
        others = [position for position in range(len(train.columns)) if position != target]
        model = require("sklearn.ensemble").HistGradientBoostingClassifier(
            categorical_features=[bool(train.columns[position].categories) for position in others], random_state=seed
        )
        known = ~np.isnan(train.values[:, target])
        model.fit(train.values[known][:, others], train.values[known, target].astype(np.int64))
        result = np.zeros((len(test.values), len(train.columns[target].categories)))
        result[:, model.classes_] = model.predict_proba(test.values[:, others])
        return result


CLASSIFIERS: Mapping[str, Classifier] = {"plica": PlicaClassifier(), "boosting": Boosting()}


@dataclass(frozen=True, slots=True)
class Classified:
    """The figures of one classifier on one table.

    Attributes:
        table: The name of the table.
        target: The column.
        share: The share of hidden cells of the other columns.
        seed: The seed.
        method: The name of the classifier.
        right: The share of right categories.
        log_loss: The mean of minus the logarithms of the probabilities of the right ones, these at least 1e-6.
        seconds: Time of learning and predicting.
    """

    table: str
    target: str
    share: float
    seed: int
    method: str
    right: float
    log_loss: float
    seconds: float


def classified(
    tables: Mapping[str, tuple[MixedTable, str]],
    classifiers: Mapping[str, Classifier],
    shares: Sequence[float],
    seeds: Sequence[int],
) -> Iterator[Classified]:
    """The figures of all classifiers on all tables, given with the names of their targets."""
    for name, (table, target_name) in tables.items():
        target = [column.name for column in table.columns].index(target_name)
        for share in shares:
            for seed in seeds:
                train, test, labels = _split(table, target, share, seed)
                for method, classifier in classifiers.items():
                    start = time.perf_counter()
                    probabilities = classifier.probabilities(train, test, target, seed)
                    seconds = time.perf_counter() - start
                    right = float((probabilities.argmax(axis=1) == labels).mean())
                    chosen = probabilities[np.arange(len(labels)), labels]
                    loss = float(-np.log(np.maximum(chosen, 1e-6)).mean())
                    yield Classified(name, target_name, share, seed, method, right, loss, seconds)


def _split(table: MixedTable, target: int, share: float, seed: int) -> tuple[MixedTable, MixedTable, Array]:
    """Rows to learn from, rows to predict without their target, and their targets."""
    rng = np.random.default_rng([seed, round(share * 1000)])
    values = np.where(rng.random(table.values.shape) < share, np.nan, table.values)
    values[:, target] = table.values[:, target]
    order = rng.permutation(np.flatnonzero(~np.isnan(values[:, target])))
    trained, tested = np.split(order, [int(_TRAINED * len(order))])
    test = values[tested].copy()
    labels = test[:, target].astype(np.int64)
    test[:, target] = np.nan
    return table.replaced(values[trained]), table.replaced(test), labels
