"""Imputers of scikit-learn and marginal distributions as methods: what Plica is compared with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.stats import norm

from plica.bench.completions import Completion, Filled, Method
from plica.bench.sets import Array, MixedTable
from plica.extras import require

_LEAST_STDDEV = 1e-6  # of draws that are all equal


@final
class _Marginals(Completion):
    """A normal density of each column of numbers, and the shares of categories."""

    def __init__(self, table: MixedTable) -> None:
        self._table = table
        self._mean, self._stddev = _moments(table.values)

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
        return _log_number(self._table, position, values, self._mean[position], self._stddev[position])

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
        return Filled(_completed(table, [self.make(seed)])[0])


@final
@dataclass(frozen=True, slots=True)
class MultipleImputer(Method):
    """An imputer that draws missing cells, several times: a distribution of each.

    Args:
        make: Makes the imputer from a seed.
        draws: How often it draws.
    """

    make: Callable[[int], Any]
    draws: int = 20

    def complete(self, table: MixedTable, seed: int) -> Completion:
        """Normal distributions of the drawn numbers; shares of the drawn categories, with those of the column."""
        return _Drawn(table, _completed(table, [self.make(seed * self.draws + draw) for draw in range(self.draws)]))


def _completed(table: MixedTable, imputers: Sequence[Any]) -> Array:
    """`(M, N, D)`: the table as each of M imputers fills it in."""
    matrix, parts = _dummies(table)
    mean, stddev = _moments(matrix)
    results = np.repeat(table.values[None], len(imputers), axis=0)
    for values, imputer in zip(results, imputers, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            filled = imputer.fit_transform((matrix - mean) / stddev) * stddev + mean
        for position, (column, part) in enumerate(zip(table.columns, parts, strict=True)):
            block, lost = filled[:, part], np.isnan(values[:, position])
            if column.categories:
                shares = np.concatenate([1.0 - block.sum(axis=1, keepdims=True), block], axis=1)
                values[lost, position] = shares.argmax(axis=1)[lost]
            else:
                values[lost, position] = block[lost, 0]
    return results


@final
class _Drawn(Completion):
    """Several completions of a table, `(M, N, D)`, as draws of a distribution of each cell."""

    def __init__(self, table: MixedTable, draws: Array) -> None:
        self._table, self._draws, self._marginals = table, draws, _Marginals(table)
        self._mean, self._stddev = draws.mean(axis=0), np.maximum(draws.std(axis=0, ddof=1), _LEAST_STDDEV)

    def filled(self) -> Array:
        """The means of drawn numbers, and the most frequent categories."""
        values: Array = self._mean.copy()
        for position, column in enumerate(self._table.columns):
            if column.categories:
                every = np.arange(len(values))
                codes = range(len(column.categories))
                shares = [self._share(position, every, np.full(len(values), code)) for code in codes]
                values[:, position] = np.argmax(shares, axis=0)
        return values

    def log_probability(self, position: int, rows: Array, values: Array) -> Array:
        """By the normal density, or the share of draws and one imaginary draw of the column."""
        if self._table.columns[position].categories:
            logarithms: Array = np.log(self._share(position, rows, values))
            return logarithms
        return _log_number(self._table, position, values, self._mean[rows, position], self._stddev[rows, position])

    def interval(self, position: int, rows: Array, low: float, high: float) -> tuple[Array, Array]:
        """Quantiles of the normal distribution."""
        mean, stddev = self._mean[rows, position], self._stddev[rows, position]
        lower, upper = (mean + stddev * float(norm.ppf(level)) for level in (low, high))
        return lower, upper

    def _share(self, position: int, rows: Array, values: Array) -> Array:
        hits = (self._draws[:, rows, position] == values).sum(axis=0)
        shares: Array = (hits + np.exp(self._marginals.log_probability(position, rows, values))) / (
            len(self._draws) + 1
        )
        return shares


def _log_number(table: MixedTable, position: int, values: Array, mean: Any, stddev: Any) -> Array:
    """The logarithms of normal densities; for a column of whole numbers those of the half steps around each."""
    standardized = (values - mean) / stddev
    if not table.is_whole(position):
        densities: Array = norm.logpdf(standardized) - np.log(stddev)
        return densities
    distance, half = np.abs(standardized), 0.5 / stddev
    upper, lower = norm.logsf(distance - half), norm.logsf(distance + half)
    masses: Array = upper + np.log1p(-np.exp(lower - upper))
    return masses


def _moments(values: Array) -> tuple[Array, Array]:
    """The mean and the standard deviation of each column, this 1 of columns of equal values."""
    mean, stddev = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
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


def iterative(seed: int, **settings: Any) -> Any:
    """scikit-learn's `IterativeImputer`; by its defaults of Bayesian ridge regressions, ten rounds."""
    require("sklearn.experimental.enable_iterative_imputer")
    return require("sklearn.impute").IterativeImputer(random_state=seed, **settings)


def drawn(seed: int) -> Any:
    """`IterativeImputer` that draws from its regressions, for multiple imputation.

    Source: van Buuren and Groothuis-Oudshoorn, "mice: Multivariate Imputation by Chained Equations in R", 2011.
    """
    return iterative(seed, sample_posterior=True)


def forest(seed: int) -> Any:
    """`IterativeImputer` with random forests, as in MissForest.

    Source: Stekhoven and Buehlmann, "MissForest: non-parametric missing value imputation for mixed-type data",
        Bioinformatics 2012. It has 100 trees and square roots of columns; here 30, for time, and four rounds.
    """
    trees = require("sklearn.ensemble").RandomForestRegressor(30, max_features="sqrt", random_state=seed)
    return iterative(seed, estimator=trees, max_iter=4)
