"""Layers of several variables of which one is integrated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError
from plica.symbolic.layers import LAYER_ROWS, DiagonalGaussianLayer, MarginalLayer, MultivariateGaussianLayer, SumLayer
from tests.harness.layer_cases import gaussians
from tests.harness.layer_cases.case import InputCase, Params, Refused
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
    held = under("layer", params)
    covariances = gaussians.covariances(layer, held)[:, :2, :2].astype(float)
    means = held["mean"][:, :2].astype(float)
    return [gaussians.Gaussian(mean, one) for mean, one in zip(means, covariances, strict=True)]


def _integrated(layer: Any) -> Any:
    def build(scope: Sequence[int], units: int) -> MarginalLayer:
        return MarginalLayer(scope, layer([*scope, max(scope) + 1], units))

    return build


_HELD: Any = DiagonalGaussianLayer([0, 3], 2)
_NO_INPUT: Any = SumLayer(2, 2)
_LAYERS: tuple[Any, ...] = (DiagonalGaussianLayer, MultivariateGaussianLayer)
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
        draw=lambda one, rng, rows: rng.normal(size=(rows, one.num_variables)),
        encode=lambda _, x: x,
        num_variables=2,
        modes=lambda _, params: params["layer.mean"][:, :2],
        means=lambda _, params: params["layer.mean"][:, :2],
        variances=lambda one, params: gaussians.covariances(one, under("layer", params)).diagonal(0, 1, 2)[:, :2],
        covariances=lambda one, params: gaussians.covariances(one, under("layer", params))[:, :2, :2],
        refused=_WRONG,
        parameters={f"layer.{name}": numbers for name, numbers in case.parameters.items()},
        points=lambda _: gaussians.POINTS[:, :2],
        wrong=(),
        sampled=(),
        starts=(),
    )
    for case, layer in zip(gaussians.CASES, _LAYERS, strict=True)
)
