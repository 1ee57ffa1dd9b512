"""Random averages of mixtures of normal vectors of both scales, and what they answer, by numpy and SciPy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer, MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.templates.averages import average_of

Array = Any
EDGES = (0.0, -0.0, -1.5, 1e-300, 5e-324, 1e-30, 1e30, 1e300, -1e300, np.inf, -np.inf)


class Component(NamedTuple):
    """A share of an average: the normal vector of a row, of which some entries are logarithms."""

    log_weight: float
    mean: Array
    covariance: Array
    logs: Array

    def vector(self, x: Array) -> Array | None:
        """The normal vector of a row with NaN where it is missing; None if the density is 0."""
        known = ~np.isnan(x)
        if np.isinf(x[known]).any() or (x[known & self.logs] <= 0).any():
            return None
        z = x.copy()
        z[known & self.logs] = np.log(x[known & self.logs])
        return z

    def log_density(self, x: Array) -> float:
        """The logarithm of the weight times the density of the known entries."""
        z, known = self.vector(x), ~np.isnan(x)
        if z is None or not known.any():
            return -np.inf if z is None else self.log_weight
        root = np.linalg.cholesky(self.covariance[np.ix_(known, known)])
        white = np.linalg.solve(root, z[known] - self.mean[known])
        volume = np.log(np.diag(root)).sum() + 0.5 * known.sum() * np.log(2 * np.pi)
        return float(self.log_weight - 0.5 * white @ white - volume - z[known & self.logs].sum())

    def given(self, x: Array, log_weight: float) -> Component:
        """The component of the missing entries, given the known ones."""
        z, known = self.vector(x), ~np.isnan(x)
        assert z is not None, "the row has a density"
        hidden, s = ~known, self.covariance
        slope = np.linalg.solve(s[np.ix_(known, known)], s[np.ix_(known, hidden)]).T
        mean = self.mean[hidden] + slope @ (z[known] - self.mean[known])
        return Component(
            log_weight, mean, s[np.ix_(hidden, hidden)] - slope @ s[np.ix_(known, hidden)], self.logs[hidden]
        )

    def moments(self) -> tuple[Array, Array]:
        """The means of the variables, and the means of their products."""
        s, spread = self.covariance, np.diag(self.covariance)
        mean = np.where(self.logs, np.exp(np.where(self.logs, self.mean + spread / 2, 0)), self.mean)
        first, second = np.meshgrid(self.logs, self.logs, indexing="ij")
        scale = np.where(self.logs, mean, 1.0)
        within = np.outer(scale, scale) * np.where(first & second, np.expm1(np.where(first & second, s, 0)), s)
        return mean, within + np.outer(mean, mean)

    def mode(self) -> Array:
        """The row of the largest density."""
        z = self.mean - self.covariance @ self.logs
        return np.where(self.logs, np.exp(np.where(self.logs, z, 0)), z)


@dataclass(frozen=True, slots=True)
class Average:
    """The average of mixtures."""

    components: tuple[Component, ...]

    def log_densities(self, x: Array) -> Array:
        """Of each component, with its weight."""
        return np.array([component.log_density(x) for component in self.components])

    def given(self, x: Array) -> Average:
        """The distribution of the missing entries of a row that has a density."""
        logs = self.log_densities(x)
        logs -= special.logsumexp(logs)
        return Average(
            tuple(one.given(x, log) for one, log in zip(self.components, logs, strict=True) if np.isfinite(log))
        )

    def moments(self) -> tuple[Array, Array]:
        """The means and the covariances of the variables."""
        weights = np.exp([one.log_weight for one in self.components])
        means, products = zip(*(one.moments() for one in self.components), strict=True)
        mean = np.tensordot(weights, means, 1)
        return mean, np.tensordot(weights, products, 1) - np.outer(mean, mean)

    def share(self, variable: int, x: Array) -> Array:
        """The probability of a variable up to x."""
        total = np.zeros(np.shape(x))
        for one in self.components:
            z = np.log(np.where(x > 0, x, 1)) if one.logs[variable] else x
            share = stats.norm.cdf(z, one.mean[variable], one.covariance[variable, variable] ** 0.5)
            total = total + np.exp(one.log_weight) * np.where(one.logs[variable] & (np.asarray(x) <= 0), 0, share)
        return total

    def explained(self, x: Array) -> tuple[float, Array]:
        """The largest weight times density of a component at a completion of a row, and the completion."""
        completions = []
        for one in self.components:
            if one.vector(x) is not None:
                completed = x.copy()
                completed[np.isnan(x)] = one.given(x, 0.0).mode()
                completions.append((one.log_density(completed), completed))
        return max(completions, key=lambda pair: pair[0])


def random_average(rng: np.random.Generator) -> tuple[Circuit, Average]:
    """The average of 1 to 3 mixtures of 1 to 3 vectors of 1 to 5 variables, as a circuit and for numpy."""
    size, count = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    layers: dict[Layer, list[Layer]] = {}
    terms, components = [], []
    for _ in range(count):
        units, logs = int(rng.integers(1, 4)), rng.random(size) < 0.6
        mean = rng.normal(size=(units, size)) * rng.choice([0.5, 2.0])
        factor = 0.4 * np.tril(rng.normal(size=(units, size, size)))
        diagonal = rng.choice([0.3, 1.0]) * (0.5 + rng.random((units, size)))
        factor[:, np.arange(size), np.arange(size)] = diagonal * rng.choice([-1, 1, 1, 1], (units, size))
        weight = rng.dirichlet(np.ones(units))
        vectors = MultivariateGaussianLayer(
            range(size), units, mean=_constant(mean), scale_tril=_constant(factor), logs=logs.tolist()
        )
        mixture = SumLayer(units, 1, weight=_constant(weight[None]))
        layers |= {vectors: [], mixture: [vectors]}
        terms.append(mixture)
        components += [
            Component(float(np.log(weight[k] / count)), mean[k], factor[k] @ factor[k].T, logs) for k in range(units)
        ]
    return average_of(layers, terms), Average(tuple(components))


def _constant(value: Array) -> Parameter:
    return Parameter.from_input(ConstantParameter(*np.shape(value), value=np.asarray(value)))


def random_rows(average: Average, number: int, rng: np.random.Generator) -> Iterator[Array]:
    """Draws with holes; some have an entry that is 0, negative, tiny, huge or infinite."""
    for _ in range(number):
        one = average.components[rng.integers(len(average.components))]
        z = rng.multivariate_normal(one.mean, one.covariance)
        x = np.where(one.logs, np.exp(np.where(one.logs, z, 0)), z)
        if rng.random() < 0.2:
            x[rng.integers(len(x))] = rng.choice(EDGES)
        x[rng.random(len(x)) < rng.choice([0.0, 0.3, 0.6, 1.0])] = np.nan
        yield x
