"""The layers of several normal variables: diagonal and full, and full with variables on a logarithmic scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, DiagonalGaussianLayer, MultivariateGaussianLayer
from plica.symbolic.layers.multivariate_gaussian import triangular_normal
from plica.symbolic.parameters import ConstantParameter, HadamardParameter, Parameter, normal
from tests.harness.layer_cases.case import Given, InputCase, Params, Refused
from tests.harness.layer_cases.numbers import PLACE, SCALE, Numbers
from tests.harness.spaces import WIDE, Space

Array = Any


def _factors(params: Params) -> Array:
    """The lower triangular factor of each unit, `(K, V, V)`."""
    if "stddev" in params:
        return params["stddev"][:, :, None] * np.eye(params["stddev"].shape[1], dtype=WIDE)
    return np.tril(params["scale_tril"])


def _log_normal(covariance: Array, distances: Array) -> Array:
    """The log-densities of vectors `(V, B)`, by Gaussian elimination in extended precision."""
    matrix, vectors, result = covariance.copy(), distances.copy(), np.zeros(distances.shape[1], WIDE)
    for place in range(len(vectors)):
        pivot = matrix[place, place]
        result -= (np.log(2 * WIDE(np.pi) * pivot) + vectors[place] ** 2 / pivot) / 2
        ratio = matrix[place + 1 :, place] / pivot
        vectors[place + 1 :] -= ratio[:, None] * vectors[place]
        matrix[place + 1 :, place + 1 :] -= ratio[:, None] * matrix[place, place + 1 :]
    return result


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The density of what is known of each row."""
    factors, mean = _factors(params), params["mean"]
    found = np.zeros((len(x), layer.num_output_units), WIDE)
    rows, marked = x[:, list(layer.scope)], logs_of(layer)
    is_outside = (np.isinf(rows) | (marked & (rows <= 0))).any(axis=1)
    rows = encoded(layer, np.where(is_outside[:, None] & ~np.isnan(rows), WIDE(1), rows))
    patterns, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for number, known in enumerate(patterns):
        places = np.flatnonzero(which.ravel() == number)
        for unit, factor in enumerate(factors):
            covariance = (factor @ factor.T)[np.ix_(known, known)]
            found[places, unit] = _log_normal(covariance, (rows[places] - mean[unit])[:, known].T)
    found -= np.where(marked & ~np.isnan(rows), rows, 0).sum(axis=1)[:, None]
    found[is_outside] = -np.inf
    return space.from_log(found)


def logs_of(layer: Any) -> Array:
    """Which variables are on a logarithmic scale, `(V,)`."""
    marked = getattr(layer, "logs", None)
    return np.zeros(layer.num_variables, bool) if marked is None else np.array(marked)


def encoded(layer: Any, x: Array) -> Array:
    """Rows `(B, V)` with the logarithms of variables on a logarithmic scale."""
    marked = logs_of(layer)
    return np.where(marked, np.log(np.where(marked, x, 1)), x)


class Gaussian:
    """SciPy's distribution of the normal vector, and those of sums of its variables.

    Densities are of rows, some of whose logarithms are in the vector.
    """

    def __init__(self, mean: Array, covariance: Array, marked: Array) -> None:
        self._mean, self._covariance, self._marked = mean, covariance, marked

    def pdf(self, values: Array) -> Array:
        from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

        density = np.atleast_1d(stats.multivariate_normal(self._mean, self._covariance).pdf(values))
        return density * np.exp(-values[:, self._marked].sum(axis=1))

    def box(self, low: Array, high: Array) -> Array:
        """What lies between corners `(B, V)` of rows."""
        from scipy import stats

        with np.errstate(divide="ignore"):
            low, high = (
                np.where(self._marked, np.log(np.where(self._marked, np.maximum(end, 0), 1)), end)
                for end in (low, high)
            )
        return np.atleast_1d(stats.multivariate_normal(self._mean, self._covariance).cdf(high, lower_limit=low, rng=0))

    def along(self, direction: Array) -> Any:
        """The distribution of the variables, weighted and added."""
        from scipy import stats

        return stats.norm(direction @ self._mean, np.sqrt(direction @ self._covariance @ direction))


def _distributions(layer: Any, params: Params) -> list[Any]:
    factors, marked = _factors(params).astype(float), logs_of(layer)
    means = params["mean"].astype(float)
    return [Gaussian(mean, one @ one.T, marked) for mean, one in zip(means, factors, strict=True)]


def of_vectors(layer: Any, params: Params) -> tuple[Array, Array]:  # noqa: ARG001
    """The mean and the covariance matrix of the normal vector of each unit."""
    return params["mean"], np.stack([one @ one.T for one in _factors(params)])


def of_rows(mean: Array, covariance: Array, marked: Array) -> Given:
    """Mean, mode and covariance of rows with the exponentials of some entries of a normal vector.

    E exp(a^T z) = exp(a^T m + a^T S a / 2) and E z_i exp(z_j) = (m_i + S_ij) E exp(z_j), by which the mean of a product
    of two entries follows.
    """
    size = len(mean)
    means = np.where(marked, np.exp(np.where(marked, mean + np.diag(covariance) / 2, 0)), mean)
    products = np.empty((size, size), mean.dtype)
    for i, j in np.ndindex(size, size):
        if marked[i] and marked[j]:
            products[i, j] = means[i] * means[j] * np.exp(covariance[i, j])
        elif marked[i] or marked[j]:
            one, other = (i, j) if marked[j] else (j, i)
            products[i, j] = (mean[one] + covariance[one, other]) * means[other]
        else:
            products[i, j] = mean[i] * mean[j] + covariance[i, j]
    away = mean - covariance @ marked.astype(mean.dtype)
    modes = np.where(marked, np.exp(np.where(marked, away, 0)), away)
    return Given(means, modes, products - np.outer(means, means))


def _units(layer: Any, params: Params) -> list[Given]:
    return [of_rows(mean, one, logs_of(layer)) for mean, one in zip(*of_vectors(layer, params), strict=True)]


def means(layer: Any, params: Params) -> Array:
    """The mean of each unit, `(K, V)`."""
    return np.stack([unit.mean for unit in _units(layer, params)])


def modes(layer: Any, params: Params) -> Array:
    """Where each unit is largest, `(K, V)`."""
    return np.stack([unit.mode for unit in _units(layer, params)])


def covariances(layer: Any, params: Params) -> Array:
    """The covariance matrix of each unit."""
    return np.stack([unit.covariance for unit in _units(layer, params)])


def given(layer: Any, params: Params, row: Array, missing: Array) -> list[Given]:
    """What a row lacks, given the rest, under each unit."""
    result, marked, z = [], logs_of(layer), encoded(layer, row[None])[0]
    for mean, covariance in zip(*(np.asarray(one, float) for one in of_vectors(layer, params)), strict=True):
        among, across = covariance[np.ix_(~missing, ~missing)], covariance[np.ix_(~missing, missing)]
        slopes = np.linalg.solve(among, across).T
        expected = mean[missing] + slopes @ (z - mean)[~missing]
        within = covariance[np.ix_(missing, missing)] - slopes @ across
        result.append(of_rows(expected, within, marked[missing]))
    return result


def _shares(layer: Any, params: Params, low: Array, high: Array) -> Array:  # noqa: ARG001
    from scipy import stats

    one = stats.norm(params["mean"].astype(float), params["stddev"].astype(float))
    share = one.cdf(high[:, None]) - one.cdf(low[:, None])
    return np.maximum(share, 0).prod(axis=-1)


def _boxes(layer: Any, params: Params, low: Array, high: Array) -> Array:
    """What SciPy finds by quasi-random numbers: queries that need boxes refuse the layer, which is what is compared."""
    kinds = _distributions(layer, params)
    return np.stack([one.box(low, high) for one in kinds], axis=1)


def _factor(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """Lower triangles with what is never read above them."""
    draws = np.tril(rng.normal(size=shape), -1) + np.triu(rng.normal(size=shape), 1)
    return draws + np.eye(shape[-1]) * SCALE.draw(rng, (*shape[:-1], 1), spread)


_MEANS = Numbers(((0.0, 0.0, 0.0), (-1e6, 3.0, 1e6)), PLACE.draw)
_SCALES = Numbers(((1.0, 1.0, 1.0), (1e-6, 1.0, 1e6), (1e-3, 1e3, 2.0)), SCALE.draw)
_FACTORS = Numbers(
    (
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        ((1e-3, 0.0, 0.0), (0.5, 1.0, 0.0), (-2.0, 1e3, 1e3)),
        ((2.0, 1.0, 0.0), (1.0, 0.25, 3.0), (0.0, -1.0, 1.0)),
    ),
    _factor,
)
POINTS = np.array(
    [[0.0, 1.0, -2.0], [0.0, 0.0, 0.0], [-1e6, 3.0, 1e6], [30.0, -1e3, 1e-30], [1e30, 0.0, 0.0], [np.inf, 0.0, 1.0]]
)


POSITIVE_POINTS = np.array(
    [
        [1.5, 1.0, 0.25],
        [1.0, 0.0, 1.0],
        [1e-6, 3.0, 1e6],
        [30.0, -1e3, 1e-30],
        [1e30, 0.0, 1.0],
        [0.0, 1.0, 2.0],
        [1.0, 1.0, -2.0],
        [np.inf, 0.0, 1.0],
    ]
)
_LOG_MEANS = Numbers(((0.0, 0.0, 0.0), (-8.0, 3.0, 8.0)), PLACE.draw)
_LOG_FACTORS = Numbers(
    (
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        ((1e-3, 0.0, 0.0), (0.5, 1.0, 0.0), (-0.2, 0.1, 0.5)),
        ((1.0, 1.0, 0.0), (1.0, 0.25, 3.0), (0.0, -1.0, 1.0)),
    ),
    _factor,
)


def of_logarithms(scope: Sequence[int], units: int) -> MultivariateGaussianLayer:
    """A layer whose first variable, and each other one after it, is on a logarithmic scale."""
    marks = [number % 2 == 0 for number in range(len(scope))]
    return MultivariateGaussianLayer(scope, units, logs=marks, scale_tril_factory=_narrow)


def _narrow(shape: tuple[int, ...]) -> Parameter:
    """Factors of moderate spreads: moments of wide ones are not those of samples."""
    factor = triangular_normal(shape)
    return Parameter.from_binary(HadamardParameter(shape, shape), factor, ConstantParameter(*shape, value=0.4))


def _draw(layer: Any, rng: np.random.Generator, rows: int) -> Array:
    z = rng.normal(size=(rows, layer.num_variables))
    return np.where(logs_of(layer), np.exp(z), z)


def _case(name: str, layer: Any, second: str, variables: int, points: Array, **settings: Any) -> InputCase:
    return InputCase(
        name,
        LAYER_ROWS[layer],
        settings.pop("build", layer),
        reference,
        _distributions,
        totals=lambda one, _: np.ones(one.num_output_units, WIDE),
        draw=_draw,
        encode=encoded,
        modes=modes,
        num_variables=variables,
        means=means,
        variances=lambda one, params: covariances(one, params).diagonal(0, 1, 2),
        covariances=covariances,
        given=given,
        refused=(
            Refused(lambda: layer([], 2), ShapeError, "the number of variables must be at least 1"),
            Refused(
                lambda: layer([0, 1], 2, **{second: normal((2,)), f"{second}_factory": normal}),
                InputError,
                f"{second} and {second}_factory",
            ),
        ),
        points=lambda _: points[:, :variables],
        wrong=(),
        sampled=(),
        starts=(),
        **settings,
    )


CASES = (
    _case(
        "diagonal gaussian",
        DiagonalGaussianLayer,
        "stddev",
        3,
        POINTS,
        shares=_shares,
        parameters={"mean": _MEANS, "stddev": _SCALES},
    ),
    _case(
        "multivariate gaussian",
        MultivariateGaussianLayer,
        "scale_tril",
        3,
        POINTS,
        shares=_boxes,
        parameters={"mean": _MEANS, "scale_tril": _FACTORS},
    ),
    _case(
        "multivariate gaussian of logarithms",
        MultivariateGaussianLayer,
        "scale_tril",
        3,
        POSITIVE_POINTS,
        build=of_logarithms,
        shares=_boxes,
        parameters={"mean": _LOG_MEANS, "scale_tril": _LOG_FACTORS},
    ),
)
