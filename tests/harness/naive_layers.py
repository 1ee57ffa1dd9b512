"""Layers of a user's own that are right in ordinary numbers and wrong in derivatives somewhere, and one that is right.

for case, message in NAIVE:
    ...  # the conformance checks say `message` of it
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plica.ir.op import unsupported
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import ExpParameter, Parameter, normal
from plica.symbolic.scope import Scope
from tests.harness.layer_cases import numbers
from tests.harness.layer_cases.case import InputCase, Params
from tests.harness.spaces import WIDE, Space

Array = Any


@dataclass(frozen=True, eq=False)
class LocationLayer(FieldsLayer, InputLayer):
    """Densities of one real variable with a place and a scale: `loc (K,)`, `scale (K,)`."""

    scope: Scope
    num_output_units: int
    loc: Parameter
    scale: Parameter

    @property
    def domain(self) -> Domain:
        return REALS


def _marginal(xp: Any, semiring: Any, layer: Any, params: Any) -> Any:
    return semiring.one(xp, (params["loc"].shape[0], 1, layer.num_output_units), params["loc"].dtype)


def _scores(xp: Any, params: Any, x: Array) -> tuple[Array, Array]:
    loc, scale = (xp.expand_dims(params[name], axis=1) for name in ("loc", "scale"))
    return (xp.astype(x, loc.dtype) - loc) / scale, scale


def _gumbel(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    z, scale = _scores(xp, params, x)
    return semiring.from_log(xp, -(z + xp.exp(-z)) - xp.log(scale))


def _careful_gumbel(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    z, scale = _scores(xp, params, x)
    usual = xp.greater(z, -0.25 * math.log(xp.finfo(z.dtype).max))
    z = xp.where(usual, z, 0.0)
    return semiring.from_log(xp, xp.where(usual, -(z + xp.exp(-z)) - xp.log(scale), float("-inf")))


def _logistic(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    z, scale = _scores(xp, params, x)
    return semiring.from_log(xp, -z - xp.log(scale) - 2.0 * xp.log1p(xp.exp(-z)))


def _root_of_square(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    z, scale = _scores(xp, params, x)
    return semiring.from_log(xp, -xp.sqrt(xp.square(z)) - xp.log(scale) - math.log(2.0))


def _without_slope(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    """Right in value and in most derivatives: what the scale divides by is held."""
    z, scale = _scores(xp, params, x)
    return semiring.from_log(xp, -xp.abs(z) - xp.log(xp.stop_gradient(scale)) - math.log(2.0))


def _without_curvature(xp: Any, semiring: Any, layer: Any, params: Any, x: Array) -> Any:  # noqa: ARG001
    """Right in value and in first derivatives: the logarithm of the scale is its tangent."""
    z, scale = _scores(xp, params, x)
    held = xp.stop_gradient(scale)
    return semiring.from_log(xp, -xp.abs(z) - xp.log(held) - (scale - held) / held - math.log(2.0))


def _log_gumbel(z: Array) -> Array:
    return -(z + np.exp(-z))


def _log_logistic(z: Array) -> Array:
    return -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z)))


def _log_laplace(z: Array) -> Array:
    return -np.abs(z) - np.log(WIDE(2))


def _positive(shape: tuple[int, ...]) -> Parameter:
    return Parameter.from_unary(ExpParameter(shape), normal(shape))


def _case(
    name: str, body: Any, log_density: Callable[[Array], Array], of_scipy: str, points: tuple[float, ...]
) -> InputCase:
    """A case of two units at some points."""

    def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
        (variable,) = layer.scope
        value = x[:, variable, None]
        density = log_density((value - params["loc"]) / params["scale"]) - np.log(params["scale"])
        return space.from_log(np.where(np.isnan(value), WIDE(0), density))

    def distributions(_: Any, params: Params) -> list[Any]:
        from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

        pairs = zip(params["loc"].astype(float), params["scale"].astype(float), strict=True)
        return [getattr(stats, of_scipy)(*pair) for pair in pairs]

    def build(scope: Sequence[int], units: int) -> LocationLayer:
        return LocationLayer(Scope(scope), units, normal((units,)), _positive((units,)))

    return InputCase(
        name,
        InputRow(LocationLayer, body, _marginal, unsupported("no test draws from it")),
        build,
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.normal(size=(rows, 1)),
        parameters={
            "loc": numbers.Numbers((0.0, 1.0), numbers.PLACE.draw),
            "scale": numbers.Numbers((1.0,), numbers.SCALE.draw),
        },
        points=numbers.column(points),
        wrong=(),
        sampled=(),
        starts=(),
    )


def _everywhere(case: InputCase) -> InputCase:
    return replace(
        case,
        parameters={"loc": numbers.PLACE, "scale": numbers.SCALE},
        points=numbers.column(tuple(x for x in numbers.REALS if abs(x) <= 1e6)),
    )


_NAIVE_GUMBEL = _case("naive gumbel", _gumbel, _log_gumbel, "gumbel_r", (0.0, -200.0))
WELL = (_case("careful gumbel", _careful_gumbel, _log_gumbel, "gumbel_r", (0.0, -200.0, 30.0, -1e30)),)
NAIVE = (
    (_NAIVE_GUMBEL, "no finite first derivative"),
    (replace(_everywhere(_NAIVE_GUMBEL), name="naive gumbel everywhere"), "no finite"),
    (_case("naive softplus", _logistic, _log_logistic, "logistic", (0.0, -200.0)), "no finite|another"),
    (_case("root of a square", _root_of_square, _log_laplace, "laplace", (0.0, 0.5)), "no finite first derivative"),
    (_case("no slope", _without_slope, _log_laplace, "laplace", (0.5, 2.0)), "another first derivative along .'scale"),
    (_case("no curvature", _without_curvature, _log_laplace, "laplace", (0.5, 2.0)), "another second derivative"),
)
