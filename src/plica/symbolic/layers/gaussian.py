"""The Gaussian input layer: one normal distribution per unit.

>>> from plica.symbolic.scope import Scope
>>> sorted(GaussianLayer(Scope([0]), 4).params)
['mean', 'stddev']
"""

import math
from typing import final

from plica.errors import UnsupportedError
from plica.symbolic.domains import REALS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers.blocks import check_equal_scopes, constants, ones, weighted
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.polynomial import PolynomialLayer
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST_SPREAD,
    positive_normal,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    EinsumParameter,
    FlattenParameter,
    GaussianExpectedLog,
    GaussianMoments,
    GaussianProductLogPartition,
    GaussianProductMean,
    GaussianProductStddev,
    Namespace,
    Parameter,
    ParameterFactory,
    SumParameter,
    normal,
    outer_sum,
)
from plica.symbolic.scope import Scope


@final
class GaussianLayer(UnivariateLayer, name="gaussian"):
    """Normal densities of one real variable."""

    mean: Parameter = unit_parameter(normal, "means; standard normal draws by default")
    stddev: Parameter = unit_parameter(
        positive_normal, "positive standard deviations; by default the softplus of normal draws, plus 1e-5"
    )
    log_partition: Parameter | None = unit_parameter(
        None, "logarithms of what each density integrates to; 0 where it is left out"
    )
    domain = REALS
    closed_form = forms.normal("mean", "stddev", forms.moments())

    @staticmethod
    def log_density(xp: Namespace, x: Array, mean: Array, log_stddev: Array, log_partition: Array | None) -> Array:
        density = xp.log_normal(x, mean, log_stddev)
        return density if log_partition is None else density + log_partition

    @staticmethod
    def log_maximum(log_stddev: Array, log_partition: Array | None) -> Array:
        peak = -log_stddev - HALF_LOG_TWO_PI
        return peak if log_partition is None else peak + log_partition

    log_total = staticmethod(lambda log_partition: log_partition)
    mode = staticmethod(lambda mean: mean)
    expectation = staticmethod(lambda mean: mean)
    variance = staticmethod(lambda xp, stddev: xp.square(stddev))

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, mean: Array, stddev: Array) -> Array:
        # x = m + s * sqrt(2) * erfinv(2 u - 1); u = 0, or a u that rounds to 1, is moved to the next number inside
        centred = 2.0 * uniforms - 1.0
        below_one = 1.0 - 0.5 * float(xp.finfo(centred.dtype).eps)
        return mean + stddev * (math.sqrt(2.0) * xp.erfinv(xp.clip(centred, -below_one, below_one)))

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, mean: Array, log_stddev: Array) -> Array:
        most = xp.finfo(mean.dtype).max ** -0.5  # of its square
        ends = (standardized(xp, end, mean, log_stddev, most) for end in (lower, upper))
        return symmetric_share(xp, xp.log_ndtr, *ends)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Densities spread like their column, learned in units of its spread."""
        return {
            "mean_factory": around(column.mean, column.spread),
            "stddev_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
        }


def _multiply(first: GaussianLayer, second: GaussianLayer) -> CircuitBlock:
    """N(x; m, s) N(x; n, t) = exp(log_partition) N(x; mean, stddev), see `parameters/gaussians.py`."""
    check_equal_scopes(first, second)
    means, stddevs = zip(*((layer.mean.ref(), layer.stddev.ref()) for layer in (first, second)), strict=True)
    operands = (means[0], stddevs[0], means[1], stddevs[1])
    shapes = [operand.shape for operand in operands]
    log_partition = Parameter.from_nary(GaussianProductLogPartition(*shapes), *operands)
    if first.log_partition is not None or second.log_partition is not None:
        given = outer_sum(_log_partition(first), _log_partition(second))
        log_partition = Parameter.from_binary(SumParameter(given.shape, given.shape), log_partition, given)
    product = GaussianLayer(
        first.scope,
        first.num_output_units * second.num_output_units,
        mean=Parameter.from_nary(GaussianProductMean(*shapes), *operands),
        stddev=Parameter.from_nary(GaussianProductStddev(shapes[1], shapes[3]), *stddevs),
        log_partition=log_partition,
    )
    return CircuitBlock.from_layer(product)


def _log_partition(layer: GaussianLayer) -> Parameter:
    if layer.log_partition is not None:
        return layer.log_partition.ref()
    return Parameter.from_input(ConstantParameter(layer.num_output_units, value=0.0))


def _integrate(layer: GaussianLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG001 - the variable of the layer
    return ones(layer) if layer.log_partition is None else constants(layer.log_partition.ref())


def _expected_log(first: GaussianLayer, second: GaussianLayer) -> CircuitBlock:
    """The integrals of the first densities times the logarithms of the second."""
    operands = [layer_param.ref() for layer in (first, second) for layer_param in (layer.mean, layer.stddev)]
    means = Parameter.from_nary(GaussianExpectedLog(*(operand.shape for operand in operands)), *operands)
    if second.log_partition is not None:
        zeros = Parameter.from_input(ConstantParameter(first.num_output_units, value=0.0))
        given = outer_sum(zeros, second.log_partition.ref())
        means = Parameter.from_binary(SumParameter(means.shape, given.shape), means, given)
    return _scaled(first, second.num_output_units, means)


def _expectation(first: GaussianLayer, second: PolynomialLayer) -> CircuitBlock:
    """The integrals of densities times polynomials."""
    operands = (first.mean.ref(), first.stddev.ref())
    moments = Parameter.from_nary(
        GaussianMoments(*(operand.shape for operand in operands), degree=second.degree), *operands
    )
    coeff = second.coeff.ref()
    pairs = Parameter.from_binary(EinsumParameter(moments.shape, coeff.shape, equation="kd,nd->kn"), moments, coeff)
    means = Parameter.from_unary(FlattenParameter(pairs.shape, start=0, end=1), pairs)
    return _scaled(first, second.num_output_units, means)


def _scaled(layer: GaussianLayer, others: int, means: Parameter) -> CircuitBlock:
    """Constants for all pairs of units, times the totals of a layer, which is the first of the two."""
    constant = ConstantValueLayer(means.shape[0], value=means)
    if layer.log_partition is None:
        return CircuitBlock.from_layer(constant)
    zeros = Parameter.from_input(ConstantParameter(others, value=0.0))
    return weighted(constant, outer_sum(layer.log_partition.ref(), zeros))


def _power(layer: GaussianLayer, *, exponent: int) -> CircuitBlock:
    """The support, 1 everywhere; other powers are no normal densities that could be integrated."""
    if exponent:
        raise UnsupportedError(f"its power {exponent} is no density that could be integrated.")
    ones_everywhere = ConstantParameter(layer.num_output_units, 1, value=1.0)
    return CircuitBlock.from_layer(
        PolynomialLayer(layer.scope, layer.num_output_units, degree=0, coeff=ones_everywhere)
    )


OPERATORS = (
    OperatorRow("multiply", (GaussianLayer, GaussianLayer), _multiply),
    OperatorRow("expectation", (GaussianLayer, PolynomialLayer), _expectation),
    OperatorRow("expected_log", (GaussianLayer, GaussianLayer), _expected_log),
    OperatorRow("power", (GaussianLayer,), _power),
    OperatorRow("integrate", (GaussianLayer,), _integrate),
)
