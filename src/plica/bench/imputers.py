"""Imputers of scikit-learn and marginal distributions as methods: what Plica is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from plica.bench.completions import Completion, Filled, Method
from plica.bench.sets import Array, MixedTable
from plica.extras import require


@final
class _Marginals(Completion):
    """A normal density of each column of numbers, and the shares of categories."""

    def __init__(self, table: MixedTable) -> None:
        self._table = table
        self._mean, self._stddev = _moments(table)

    def filled(self) -> Array:
        """The mean of the known numbers, and the most frequent category."""
        values = self._table.values.copy()
        for position, column in enumerate(self._table.columns):
            typical = float(np.argmax(self._shares(position))) if column.categories else self._mean[position]
            values[np.isnan(values[:, position]), position] = typical
        return values

    def log_probability(self, position: int, rows: Array, values: Array) -> Array:  # noqa: ARG002
        """By the normal density, or the shares of categories with one imaginary row for each."""
        if self._table.columns[position].categories:
            logarithms: Array = np.log(self._shares(position))[values.astype(np.int64)]
            return logarithms
        return log_normal(values, self._mean[position], self._stddev[position])

    def interval(self, position: int, rows: Array, low: float, high: float) -> tuple[Array, Array]:
        """Quantiles of the known numbers."""
        column = self._table.values[:, position]
        bounds = np.nanquantile(column, (low, high))
        return np.full(len(rows), bounds[0]), np.full(len(rows), bounds[1])

    def _shares(self, position: int) -> Array:
        column = self._table.values[:, position]
        codes = column[~np.isnan(column)].astype(np.int64)
        counts = np.bincount(codes, minlength=len(self._table.columns[position].categories)) + 1.0
        shares: Array = counts / counts.sum()
        return shares


@final
@dataclass(frozen=True, slots=True)
class MeanMode(Method):
    """The mean of each column of numbers, the most frequent category of each other."""

    def complete(self, table: MixedTable, seed: int) -> Completion:  # noqa: ARG002
        """The marginal distributions of the known cells."""
        return _Marginals(table)


@final
@dataclass(frozen=True, slots=True)
class Imputer(Method):
    """An imputer of scikit-learn, over standardized columns; categories become columns of zeros and ones.

    A column of C categories becomes C - 1: with all C an iterative imputer learns that each is one minus the others,
    which are missing with it.

    Args:
        make: Makes the imputer from a seed.
    """

    make: Callable[[int], Any]

    def complete(self, table: MixedTable, seed: int) -> Completion:
        """The filled cells; the category with the largest column."""
        matrix, parts = _dummies(table)
        mean, stddev = np.nanmean(matrix, axis=0), np.nanstd(matrix, axis=0)
        stddev = np.where(stddev > 0, stddev, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            filled = self.make(seed).fit_transform((matrix - mean) / stddev) * stddev + mean
        values = table.values.copy()
        for position, (column, part) in enumerate(zip(table.columns, parts, strict=True)):
            block, lost = filled[:, part], np.isnan(values[:, position])
            if column.categories:
                shares = np.concatenate([1.0 - block.sum(axis=1, keepdims=True), block], axis=1)
                values[lost, position] = shares.argmax(axis=1)[lost]
            else:
                values[lost, position] = block[lost, 0]
        return Filled(values)


def log_normal(values: Array, mean: Any, stddev: Any) -> Array:
    """The logarithms of normal densities."""
    result: Array = -0.5 * ((values - mean) / stddev) ** 2 - np.log(stddev * np.sqrt(2 * np.pi))
    return result


def _moments(table: MixedTable) -> tuple[Array, Array]:
    mean, stddev = np.nanmean(table.values, axis=0), np.nanstd(table.values, axis=0)
    return mean, np.where(stddev > 0, stddev, 1.0)


def _dummies(table: MixedTable) -> tuple[Array, list[slice]]:
    """The matrix of numbers, and the columns of the matrix that each column of the table became."""
    blocks: list[Array] = []
    parts, width = [], 0
    for position, column in enumerate(table.columns):
        values = table.values[:, position, None]
        if column.categories:
            hits = (values == np.arange(1, len(column.categories))).astype(np.float64)
            values = np.where(np.isnan(values), np.nan, hits)
        blocks.append(values)
        parts.append(slice(width, width + values.shape[1]))
        width += values.shape[1]
    return np.concatenate(blocks, axis=1), parts


def nearest(seed: int) -> Any:  # noqa: ARG001
    """scikit-learn's `KNNImputer` by its defaults, of 5 neighbours."""
    return require("sklearn.impute").KNNImputer()


def iterative(seed: int) -> Any:
    """scikit-learn's `IterativeImputer` by its defaults: Bayesian ridge regressions, ten rounds."""
    require("sklearn.experimental.enable_iterative_imputer")
    return require("sklearn.impute").IterativeImputer(random_state=seed)


def forest(seed: int) -> Any:
    """`IterativeImputer` with random forests, as in MissForest.

    Source: Stekhoven and Buehlmann, "MissForest: non-parametric missing value imputation for mixed-type data",
        Bioinformatics 2012. It has 100 trees and square roots of columns; here 30, for time, and four rounds.
    """
    require("sklearn.experimental.enable_iterative_imputer")
    trees = require("sklearn.ensemble").RandomForestRegressor(30, max_features="sqrt", random_state=seed)
    return require("sklearn.impute").IterativeImputer(trees, max_iter=4, random_state=seed)
