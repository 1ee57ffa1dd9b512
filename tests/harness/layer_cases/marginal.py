"""Layers of several variables of which one is integrated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError
from plica.symbolic.layers import LAYER_ROWS, DiagonalGaussianLayer, MarginalLayer, MultivariateGaussianLayer, SumLayer
from tests.harness.layer_cases import gaussians
from tests.harness.layer_cases.case import Given, InputCase, Params, Refused
from tests.harness.layer_cases.holding import reference_of, under
from tests.harness.spaces import WIDE, Space

Array = Any
ROW = LAYER_ROWS[MarginalLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The reference of the layer, with the variable that is integrated missing."""
    whole = np.full((len(x), max(layer.layer.scope) + 1), np.nan, WIDE)
    whole[:, list(layer.scope)] = x[:, list(layer.scope)]
    return reference_of(layer.layer)(space, layer.layer, under("layer", params), whole)


def _distributions(layer: Any, params: Params) -> list[Any]:
    means, covariances = (one.astype(float) for one in gaussians.of_vectors(layer.layer, under("layer", params)))
    marked = gaussians.logs_of(layer.layer)[:2]
    return [gaussians.Gaussian(mean[:2], one[:2, :2], marked) for mean, one in zip(means, covariances, strict=True)]


def _units(layer: Any, params: Params) -> list[Given]:
    """Mean, mode and covariance of the first two variables under each unit."""
    means, covariances = gaussians.of_vectors(layer.layer, under("layer", params))
    marked = gaussians.logs_of(layer.layer)[:2]
    return [gaussians.of_rows(mean[:2], one[:2, :2], marked) for mean, one in zip(means, covariances, strict=True)]


def _draw(layer: Any, rng: np.random.Generator, rows: int) -> Array:
    z = rng.normal(size=(rows, layer.num_variables))
    return np.where(gaussians.logs_of(layer.layer)[: layer.num_variables], np.exp(z), z)


def _encoded(layer: Any, x: Array) -> Array:
    whole = np.concatenate([x, np.ones_like(x[:, :1])], axis=1)
    return gaussians.encoded(layer.layer, whole)[:, :2]


def _integrated(layer: Any) -> Any:
    def build(scope: Sequence[int], units: int) -> MarginalLayer:
        return MarginalLayer(scope, layer([*scope, max(scope) + 1], units))

    return build


def _points(case: InputCase) -> Any:
    return lambda layer: case.points(layer)[:, :2]


_HELD: Any = DiagonalGaussianLayer([0, 3], 2)
_NO_INPUT: Any = SumLayer(2, 2)
_LAYERS: tuple[Any, ...] = (DiagonalGaussianLayer, MultivariateGaussianLayer, gaussians.of_logarithms)
_WRONG = (
    Refused(lambda: MarginalLayer([0], _NO_INPUT), DTypeError, "expected an input layer, found SumLayer"),
    Refused(lambda: MarginalLayer([], _HELD), InputError, "expected some of the variables"),
    Refused(lambda: MarginalLayer([0, 3], _HELD), InputError, "expected some of the variables"),
    Refused(lambda: MarginalLayer([1], _HELD), InputError, r"found \{1\}"),
)

CASES = tuple(
    InputCase(
        f"marginal of {case.name}",
        ROW,
        _integrated(layer),
        reference,
        _distributions,
        totals=lambda one, _: np.ones(one.num_output_units, WIDE),
        draw=_draw,
        encode=_encoded,
        num_variables=2,
        modes=lambda one, params: np.stack([unit.mode for unit in _units(one, params)]),
        means=lambda one, params: np.stack([unit.mean for unit in _units(one, params)]),
        variances=lambda one, params: np.stack([unit.covariance.diagonal() for unit in _units(one, params)]),
        covariances=lambda one, params: np.stack([unit.covariance for unit in _units(one, params)]),
        refused=_WRONG,
        parameters={f"layer.{name}": numbers for name, numbers in case.parameters.items()},
        points=_points(case),
        wrong=(),
        sampled=(),
        starts=(),
    )
    for case, layer in zip(gaussians.CASES, _LAYERS, strict=True)
)
