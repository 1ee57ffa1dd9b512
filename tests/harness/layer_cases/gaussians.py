"""The layers of several normal variables: diagonal and full."""

from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, DiagonalGaussianLayer, MultivariateGaussianLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
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
    rows = x[:, list(layer.scope)]
    patterns, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for number, known in enumerate(patterns):
        places = np.flatnonzero(which.ravel() == number)
        for unit, factor in enumerate(factors):
            covariance = (factor @ factor.T)[np.ix_(known, known)]
            found[places, unit] = _log_normal(covariance, (rows[places] - mean[unit])[:, known].T)
    found[np.isinf(rows).any(axis=1)] = -np.inf
    return space.from_log(found)


class Gaussian:
    """SciPy's distribution, and those of sums of its variables."""

    def __init__(self, mean: Array, covariance: Array) -> None:
        self._mean, self._covariance = mean, covariance

    def pdf(self, values: Array) -> Array:
        from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

        return np.atleast_1d(stats.multivariate_normal(self._mean, self._covariance).pdf(values))

    def box(self, low: Array, high: Array) -> Array:
        """What lies between corners `(B, V)`."""
        from scipy import stats

        return np.atleast_1d(stats.multivariate_normal(self._mean, self._covariance).cdf(high, lower_limit=low, rng=0))

    def along(self, direction: Array) -> Any:
        """The distribution of the variables, weighted and added."""
        from scipy import stats

        return stats.norm(direction @ self._mean, np.sqrt(direction @ self._covariance @ direction))


def _distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    factors = _factors(params).astype(float)
    return [Gaussian(mean, one @ one.T) for mean, one in zip(params["mean"].astype(float), factors, strict=True)]


def covariances(layer: Any, params: Params) -> Array:  # noqa: ARG001
    """The covariance matrix of each unit."""
    return np.stack([one @ one.T for one in _factors(params)])


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


def _case(name: str, layer: Any, second: str, variables: int, **settings: Any) -> InputCase:
    return InputCase(
        name,
        LAYER_ROWS[layer],
        layer,
        reference,
        _distributions,
        totals=lambda one, _: np.ones(one.num_output_units, WIDE),
        draw=lambda one, rng, rows: rng.normal(size=(rows, one.num_variables)),
        encode=lambda _, x: x,
        modes=lambda _, params: params["mean"],
        num_variables=variables,
        means=lambda _, params: params["mean"],
        variances=lambda _, params: (_factors(params) ** 2).sum(axis=-1),
        covariances=covariances,
        refused=(
            Refused(lambda: layer([], 2), ShapeError, "the number of variables must be at least 1"),
            Refused(
                lambda: layer([0, 1], 2, **{second: normal((2,)), f"{second}_factory": normal}),
                InputError,
                f"{second} and {second}_factory",
            ),
        ),
        points=lambda _: POINTS[:, :variables],
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
        shares=_shares,
        parameters={"mean": _MEANS, "stddev": _SCALES},
    ),
    _case(
        "multivariate gaussian",
        MultivariateGaussianLayer,
        "scale_tril",
        3,
        shares=_boxes,
        parameters={"mean": _MEANS, "scale_tril": _FACTORS},
    ),
)
