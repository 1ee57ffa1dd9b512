"""The diagonal Gaussian input layer: several real variables, independent of each other under each unit.

>>> from plica.symbolic.scope import Scope
>>> layer = DiagonalGaussianLayer(Scope([0, 3]), 4)
>>> layer.params["stddev"].shape
(4, 2)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers import closed_form
from plica.symbolic.layers.base import (
    FieldsLayer,
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.blocks import check_equal_scopes, ones, weighted
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.rows import InputRow, independent, normalized_total
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    inside,
    positive_normal,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import (
    Array,
    GaussianProductLogPartition,
    GaussianProductMean,
    GaussianProductStddev,
    IndexParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    ReduceSumParameter,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DiagonalGaussianLayer(FieldsLayer, InputLayer):
    """Products of normal densities of V real variables.

    Args:
        scope: The variables, at least one; in ascending order they are the columns of parameters.
        num_output_units: K, the number of densities.
        mean: `(K, V)` means; standard normal draws by default.
        stddev: `(K, V)` positive standard deviations; by default the softplus of normal draws, plus 1e-5.
        mean_factory: Makes the means from their shape.
        stddev_factory: Makes the standard deviations from their shape.

    Raises:
        ShapeError: No variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    mean: Parameter
    stddev: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        mean: ParameterLike | None = None,
        stddev: ParameterLike | None = None,
        mean_factory: ParameterFactory | None = None,
        stddev_factory: ParameterFactory | None = None,
    ) -> None:
        name = "DiagonalGaussianLayer"
        at_most_one(name, mean=mean, mean_factory=mean_factory)
        at_most_one(name, stddev=stddev, stddev_factory=stddev_factory)
        units, variables = positive(name, "num_output_units", num_output_units), input_scope(name, scope)
        shape = (units, positive(name, "the number of variables", len(variables)))
        assign(
            self,
            scope=variables,
            num_output_units=units,
            mean=choose_parameter(name, "mean", shape, mean, mean_factory, normal),
            stddev=choose_parameter(name, "stddev", shape, stddev, stddev_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variables are real."""
        return REALS


def _log_densities(xp: Namespace, params: Params, x: Array) -> Array:
    """The log-density of each variable, `(F, B, K, V)`."""
    mean, log_stddev = (xp.expand_dims(parameter, axis=1) for parameter in (params["mean"], params.log(xp, "stddev")))
    return xp.log_normal(xp.expand_dims(xp.astype(x, mean.dtype), axis=2), mean, log_stddev)


def _body(xp: Namespace, semiring: Semiring, layer: DiagonalGaussianLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, xp.sum(_log_densities(xp, params, x), axis=-1))


def _partial(
    xp: Namespace,
    semiring: Semiring,
    layer: DiagonalGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
    missing: Array,
) -> Value:
    known = xp.where(xp.expand_dims(missing, axis=2), 0.0, _log_densities(xp, params, x))
    return semiring.from_log(xp, xp.sum(known, axis=-1))


def _maximum(
    xp: Namespace,
    semiring: Semiring,
    layer: DiagonalGaussianLayer,
    params: Params,
) -> Value:
    peak = -xp.sum(params.log(xp, "stddev"), axis=-1) - layer.num_variables * HALF_LOG_TWO_PI
    return semiring.from_log(xp, xp.expand_dims(peak, axis=1))


def _partial_maximum(
    xp: Namespace,
    semiring: Semiring,
    layer: DiagonalGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
    missing: Array,
) -> Value:
    peaks = xp.expand_dims(-params.log(xp, "stddev") - HALF_LOG_TWO_PI, axis=1)
    largest = xp.where(xp.expand_dims(missing, axis=2), peaks, _log_densities(xp, params, x))
    return semiring.from_log(xp, xp.sum(largest, axis=-1))


def _sample(
    xp: Namespace,
    layer: DiagonalGaussianLayer,  # noqa: ARG001
    params: Params,
    units: Array,
    uniforms: Array,
) -> Array:
    mean, stddev = (chosen(xp, params[name], units) for name in ("mean", "stddev"))
    return mean + stddev * normal_scores(xp, uniforms)


def chosen(xp: Namespace, parameter: Array, units: Array) -> Array:
    """The vectors `(F, B, N)` of chosen units `(F, B)`, of a parameter `(F, K, N)`."""
    index = xp.broadcast_to(xp.expand_dims(units, axis=-1), (*units.dims, parameter.shape[-1]))
    return xp.take_along_axis(parameter, index, axis=1, nonnegative=True)


def normal_scores(xp: Namespace, uniforms: Array) -> Array:
    """Standard normal numbers from uniform ones."""
    return math.sqrt(2.0) * xp.erfinv(2.0 * inside(xp, uniforms) - 1.0)


def _centre(xp: Namespace, layer: DiagonalGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return params["mean"]


def _variance(xp: Namespace, layer: DiagonalGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.square(params["stddev"])


def _covariance(xp: Namespace, layer: DiagonalGaussianLayer, params: Params) -> Array:
    variance = xp.square(params["stddev"])
    return xp.expand_dims(variance, axis=-1) * xp.eye(layer.num_variables, dtype=variance.dtype)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: DiagonalGaussianLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    mean, log_stddev = (xp.expand_dims(parameter, axis=1) for parameter in (params["mean"], params.log(xp, "stddev")))
    most = xp.finfo(mean.dtype).max ** -0.5  # of its square
    ends = (standardized(xp, xp.expand_dims(end, axis=2), mean, log_stddev, most) for end in (low, high))
    return semiring.from_log(xp, xp.sum(symmetric_share(xp, xp.log_ndtr, *ends), axis=-1))


ROW = InputRow(
    DiagonalGaussianLayer,
    body=_body,
    marginal=normalized_total,
    partial=_partial,
    partial_maximum=_partial_maximum,
    conditional=independent,
    sample=_sample,
    mode=_centre,
    maximum=_maximum,
    mean=_centre,
    variance=_variance,
    covariance=_covariance,
    interval=_interval,
    closed_form=closed_form.normal("mean", "stddev", closed_form.moments(), axis=True),
)


def _multiply(first: DiagonalGaussianLayer, second: DiagonalGaussianLayer) -> CircuitBlock:
    """The product of each variable's densities, see `parameters/gaussians.py`."""
    check_equal_scopes(first, second)
    operands = tuple(parameter.ref() for layer in (first, second) for parameter in (layer.mean, layer.stddev))
    shapes = [operand.shape for operand in operands]
    product = DiagonalGaussianLayer(
        first.scope,
        first.num_output_units * second.num_output_units,
        mean=Parameter.from_nary(GaussianProductMean(*shapes), *operands),
        stddev=Parameter.from_nary(GaussianProductStddev(shapes[1], shapes[3]), operands[1], operands[3]),
    )
    log_partitions = Parameter.from_nary(GaussianProductLogPartition(*shapes), *operands)
    total = Parameter.from_unary(ReduceSumParameter(log_partitions.shape, axis=-1), log_partitions)
    return weighted(product, total)


def _integrate(layer: DiagonalGaussianLayer, *, scope: Scope) -> CircuitBlock:
    """The layer of the remaining variables."""
    remaining = layer.scope - scope
    if not remaining:
        return ones(layer)
    indices = [index for index, variable in enumerate(layer.scope) if variable in remaining]
    mean, stddev = (
        Parameter.from_unary(IndexParameter(parameter.shape, indices=indices, axis=-1), parameter.ref())
        for parameter in (layer.mean, layer.stddev)
    )
    return CircuitBlock.from_layer(DiagonalGaussianLayer(remaining, layer.num_output_units, mean=mean, stddev=stddev))


OPERATORS = (
    OperatorRow("multiply", (DiagonalGaussianLayer, DiagonalGaussianLayer), _multiply),
    OperatorRow("integrate", (DiagonalGaussianLayer,), _integrate),
)
