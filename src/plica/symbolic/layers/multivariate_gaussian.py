"""The multivariate Gaussian input layer: several real variables and all their covariances.

Of variables that are marked, the logarithm is in the normal vector. Below, x is a row as the data has it and z is the
normal vector: log x of marked variables, x of others. The density of x is N(z) exp(-sum of marked z).

>>> from plica.symbolic.scope import Scope
>>> layer = MultivariateGaussianLayer(Scope([0, 3]), 4)
>>> layer.params["scale_tril"].shape
(4, 2, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from plica.arguments import elements, flag, number
from plica.errors import InputError, ShapeError, UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.op import unsupported
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.base import (
    FieldsLayer,
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.blocks import check_equal_scopes, weighted
from plica.symbolic.layers.closed_form import ClosedForm, Statistics, normal_moments
from plica.symbolic.layers.diagonal_gaussian import chosen, normal_scores
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.rows import InputRow, Normal, normalized_total
from plica.symbolic.layers.univariate import HALF_LOG_TWO_PI, MIN_STDDEV, finite, positive_exp, standardized
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    HadamardParameter,
    MultivariateProductFactor,
    MultivariateProductLogPartition,
    MultivariateProductMean,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    Shape,
    SoftplusParameter,
    SumParameter,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class MultivariateGaussianLayer(FieldsLayer, InputLayer):
    """Normal densities of V real variables, or of their logarithms, of covariances `scale_tril @ scale_tril.T`.

    A row may lack any of the variables: the marginal density of the others is exact. For independent variables there is
    `DiagonalGaussianLayer`, which costs V instead of V^3.

    Args:
        scope: The variables, at least one; in ascending order they are the axes of parameters.
        num_output_units: K, the number of densities.
        mean: `(K, V)` means; standard normal draws by default.
        scale_tril: `(K, V, V)` lower triangular factors of the covariances, without zeros in the diagonal; entries
            above the diagonal are not read. By default normal draws below it, and in it their softplus + 1e-5.
        mean_factory: Makes the means from their shape.
        scale_tril_factory: Makes the factors from their shape.
        steps: The distance of the values that each variable has, such as 1 for whole numbers and 0 for real ones; None
            if all are real. Expectation maximization with a pseudocount keeps standard deviations above 0.3 of it, so
            that the density of a value is about the mass of its step. Steps of variables on a logarithmic scale are
            distances of logarithms.
        logs: Whether each variable is on a logarithmic scale; None if none is. Parameters are those of its logarithm,
            and so the variable is log-normal: densities, samples, modes and moments are of the variable itself. Numbers
            of 0 and below have density 0.

    Raises:
        ShapeError: No variable, a parameter of another shape, another number of steps or logs than of variables.
        DTypeError: Steps are no sequence of numbers, or logs none of truth values.
        InputError: Two ways to give one parameter, or a step that is no finite number of at least 0.
    """

    scope: Scope
    num_output_units: int
    mean: Parameter
    scale_tril: Parameter
    steps: tuple[float, ...] | None
    logs: tuple[bool, ...] | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        mean: ParameterLike | None = None,
        scale_tril: ParameterLike | None = None,
        mean_factory: ParameterFactory | None = None,
        scale_tril_factory: ParameterFactory | None = None,
        steps: Iterable[float] | None = None,
        logs: Iterable[bool] | None = None,
    ) -> None:
        name = "MultivariateGaussianLayer"
        at_most_one(name, mean=mean, mean_factory=mean_factory)
        at_most_one(name, scale_tril=scale_tril, scale_tril_factory=scale_tril_factory)
        units, variables = positive(name, "num_output_units", num_output_units), input_scope(name, scope)
        count = positive(name, "the number of variables", len(variables))
        factor = choose_parameter(
            name, "scale_tril", (units, count, count), scale_tril, scale_tril_factory, triangular_normal
        )
        assign(
            self,
            scope=variables,
            num_output_units=units,
            mean=choose_parameter(name, "mean", (units, count), mean, mean_factory, normal),
            scale_tril=factor,
            steps=_checked_steps(name, steps, count),
            logs=_checked_logs(name, logs, count),
        )

    @property
    def domain(self) -> Domain:
        """The variables are real."""
        return REALS


def _checked_steps(name: str, steps: Iterable[float] | None, count: int) -> tuple[float, ...] | None:
    if steps is None:
        return None
    checked = tuple(number(name, "a step", step) for step in elements(name, "steps", steps))
    if len(checked) != count:
        raise ShapeError(f"{name}: steps has {len(checked)} entries, expected one for each of {count} variables")
    if not all(0.0 <= step < float("inf") for step in checked):
        raise InputError(f"{name}: steps must be finite numbers of at least 0, found {checked}")
    return checked if any(checked) else None


def _checked_logs(name: str, logs: Iterable[bool] | None, count: int) -> tuple[bool, ...] | None:
    if logs is None:
        return None
    checked = tuple(flag(name, "an entry of logs", entry) for entry in elements(name, "logs", logs))
    if len(checked) != count:
        raise ShapeError(f"{name}: logs has {len(checked)} entries, expected one for each of {count} variables")
    return checked if any(checked) else None


def triangular_normal(shape: Shape) -> Parameter:
    """Lower triangular matrices: normal draws below the diagonal, softplus(normal draws) + MIN_STDDEV in it."""
    draws = normal(shape)
    below = _masked(draws, np.tril(np.ones(shape[-2:]), -1))
    diagonal = _masked(Parameter.from_unary(SoftplusParameter(shape), draws), np.eye(shape[-1]))
    floor = ConstantParameter(*shape, value=np.broadcast_to(MIN_STDDEV * np.eye(shape[-1]), shape))
    factors = Parameter.from_binary(SumParameter(shape, shape), below, diagonal)
    return Parameter.from_binary(SumParameter(shape, shape), factors, floor)


def _masked(parameter: Parameter, mask: Any) -> Parameter:
    shape = parameter.shape
    constant = ConstantParameter(*shape, value=np.broadcast_to(mask, shape))
    return Parameter.from_binary(HadamardParameter(shape, shape), parameter, constant)


def _factor(xp: Namespace, params: Params) -> tuple[Array, Array]:
    """Factors of correlation matrices, `(F, K, V, V)`, and logarithms of standard deviations, `(F, K, V)`.

    Each row of a factor is divided by its length, so that variables of very different scales lose no digits.
    """
    factor = xp.tril(params["scale_tril"])
    largest = xp.stop_gradient(xp.max(xp.abs(factor), axis=-1, keepdims=True))
    largest = xp.where(xp.greater(largest, 0.0), largest, 1.0)
    scaled = factor / largest
    length = xp.sqrt(xp.sum(xp.square(scaled), axis=-1, keepdims=True))
    return scaled / length, xp.squeeze(xp.log(length) + xp.log(largest), axis=-1)


def _distances(xp: Namespace, params: Params, log_stddev: Array, x: Array, power: float = 0.4) -> Array:
    """The distance of each variable from its mean in standard deviations, `(F, B, K, V)`.

    It is clipped at a power of the largest number, so that its square is finite.
    """
    most = float(xp.finfo(params["mean"].dtype).max) ** (power - 1.0)
    mean, log_stddev = (xp.expand_dims(array, axis=1) for array in (params["mean"], log_stddev))
    return standardized(xp, xp.expand_dims(x, axis=2), mean, log_stddev, most)


def _scores(xp: Namespace, params: Params, log_stddev: Array, x: Array) -> Array:
    """The distances, clipped so that sums of their squares are finite."""
    return _distances(xp, params, log_stddev, x, 0.25)


def _log_density(xp: Namespace, factor: Array, distances: Array, *missing: Array) -> Array:
    """`log_multivariate_normal` of distances of any size; -inf, with derivatives of 0, below -5e28 in float32.

    There, at 3e14 standard deviations, derivatives of factors that are nearly singular might overflow.
    """
    density = xp.log_multivariate_normal(distances, factor, *missing)
    least = -0.5 * float(xp.finfo(distances.dtype).max) ** 0.75
    return xp.where(xp.less(density, least), float("-inf"), density)


class _Rows(NamedTuple):
    """Rows of data, as the normal vector of each.

    Args:
        z: `(F, B, V)`; 0 where a marked variable is missing, or no positive finite number.
        is_outside: The rows of density 0, `(F, B, 1)`.
        log_jacobian: The sum of the logarithms of known marked variables, `(F, B, 1)`; None if none is marked.
    """

    z: Array
    is_outside: Array
    log_jacobian: Array | None

    @staticmethod
    def of(xp: Namespace, layer: MultivariateGaussianLayer, x: Array, missing: Array | None = None) -> _Rows:
        """The normal vectors of x `(F, B, V)`, of which entries may be missing."""
        is_outside = xp.isinf(x if missing is None else xp.where(missing, 0.0, x))
        if layer.logs is None:
            return _Rows(x, xp.any(is_outside, axis=2, keepdims=True), None)
        is_marked = _is_marked(xp, layer, x)
        is_wrong = xp.logical_or(is_outside, xp.less_equal(x, 0.0))
        is_read = is_marked if missing is None else xp.logical_and(is_marked, xp.logical_not(missing))
        # the derivative of `safe_log` is 0 where it would overflow
        logs = xp.safe_log(xp.where(xp.logical_and(is_read, xp.logical_not(is_wrong)), x, 1.0))
        is_outside = xp.where(is_read, is_wrong, is_outside)
        return _Rows(
            xp.where(is_marked, logs, x),
            xp.any(is_outside, axis=2, keepdims=True),
            xp.sum(logs, axis=2, keepdims=True),
        )

    def values(self, xp: Namespace, semiring: Semiring, density: Array) -> Value:
        """The densities of x, from the logarithms of those of z `(F, B, K)`."""
        density = density if self.log_jacobian is None else density - xp.astype(self.log_jacobian, density.dtype)
        return semiring.from_log(xp, xp.where(self.is_outside, float("-inf"), density))


def _vectors(xp: Namespace, layer: MultivariateGaussianLayer, x: Array, missing: Array) -> Array:
    """The normal vectors of rows alone."""
    return x if layer.logs is None else _Rows.of(xp, layer, x, missing).z


def _is_marked(xp: Namespace, layer: MultivariateGaussianLayer, like: Array) -> Array:
    """Which variables are marked, `(V,)`, on the device of an array."""
    return xp.asarray(list(_are_logs(layer)), dtype=DType.BOOL, device=like.device)


def _body(xp: Namespace, semiring: Semiring, layer: MultivariateGaussianLayer, params: Params, x: Array) -> Value:
    factor, log_stddev = _factor(xp, params)
    rows = _Rows.of(xp, layer, x)
    density = _log_density(xp, factor, _distances(xp, params, log_stddev, rows.z))
    return rows.values(xp, semiring, density - xp.expand_dims(xp.sum(log_stddev, axis=-1), axis=1))


def _partial(
    xp: Namespace, semiring: Semiring, layer: MultivariateGaussianLayer, params: Params, x: Array, missing: Array
) -> Value:
    factor, log_stddev = _factor(xp, params)
    rows = _Rows.of(xp, layer, x, missing)
    distances = xp.where(xp.expand_dims(missing, axis=2), 0.0, _distances(xp, params, log_stddev, rows.z))
    density = _log_density(xp, factor, distances, missing)
    known = xp.astype(xp.logical_not(missing), log_stddev.dtype)
    return rows.values(xp, semiring, density - xp.matmul(known, xp.matrix_transpose(log_stddev)))


class _Tilt(NamedTuple):
    """The density of x = N(z) exp(-c^T z), where c `(..., V)` is 1 at marked variables: N(z; m - S c, S) exp(gain).

    Args:
        mode: m - S c, `(..., V)`.
        gain: c^T S c / 2 - c^T m, `(...)`.
    """

    mode: Array
    gain: Array

    @staticmethod
    def of(xp: Namespace, mean: Array, factor: Array, is_marked: Array) -> _Tilt:
        """The tilt of m `(..., V)` and of a factor of S `(..., V, V)`."""
        marked = xp.where(is_marked, xp.ones_like(mean), 0.0)
        half = xp.matmul(xp.matrix_transpose(factor), xp.expand_dims(marked, axis=-1))
        square = finite(xp, 0.5 * xp.sum(xp.square(half), axis=(-2, -1)))
        mode = finite(xp, mean - xp.squeeze(xp.matmul(factor, half), axis=-1))
        return _Tilt(mode, finite(xp, square - xp.sum(marked * mean, axis=-1)))


def _whole_tilt(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> _Tilt:
    """The tilt of each unit, `(F, K, ...)`."""
    return _Tilt.of(xp, params["mean"], xp.tril(params["scale_tril"]), _is_marked(xp, layer, params["mean"]))


def _mode(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:
    if layer.logs is None:
        return params["mean"]
    return _exponential(xp, layer, _whole_tilt(xp, layer, params).mode)


def _exponential(xp: Namespace, layer: MultivariateGaussianLayer, z: Array) -> Array:
    """Rows x `(..., V)` of normal vectors z: those of marked variables are positive and finite."""
    return z if layer.logs is None else xp.where(_is_marked(xp, layer, z), positive_exp(xp, z), z)


def _maximum(xp: Namespace, semiring: Semiring, layer: MultivariateGaussianLayer, params: Params) -> Value:
    volume = xp.sum(xp.log(xp.abs(xp.linalg.diagonal(params["scale_tril"]))), axis=-1)
    log_maximum = -volume - layer.num_variables * HALF_LOG_TWO_PI
    if layer.logs is not None:
        log_maximum = log_maximum + _whole_tilt(xp, layer, params).gain
    return semiring.from_log(xp, xp.expand_dims(log_maximum, axis=1))


def _wide(xp: Namespace, params: Params) -> Params:
    """Parameters in float64: expected vectors are sums of large numbers that may cancel."""
    return Params.of(xp, {name: xp.astype(params[name], DType.FLOAT64) for name in ("mean", "scale_tril")})


def _wide_x(xp: Namespace, layer: MultivariateGaussianLayer, x: Array) -> Array:
    """Rows in float64, if logarithms are taken of them."""
    return x if layer.logs is None else xp.astype(x, DType.FLOAT64)


def _completed(xp: Namespace, params: Params, x: Array, missing: Array) -> Array:
    """The distances of `_scores`, with the expected distances of missing variables: `(F, B, K, V)`."""
    factor, log_stddev = _factor(xp, params)
    scores = xp.where(xp.expand_dims(missing, axis=2), 0.0, _scores(xp, params, log_stddev, x))
    return xp.squeeze(xp.matmul(xp.regression_matrix(factor, missing), xp.expand_dims(scores, axis=-1)), axis=-1)


def _partial_maximum(
    xp: Namespace, semiring: Semiring, layer: MultivariateGaussianLayer, params: Params, x: Array, missing: Array
) -> Value:
    wide, dtype = _wide(xp, params), params["mean"].dtype
    factor, log_stddev = _factor(xp, wide)
    rows = _Rows.of(xp, layer, _wide_x(xp, layer, x), missing)
    completed = _completed(xp, wide, rows.z, missing)
    density = xp.log_multivariate_normal(completed, factor)
    density = density - xp.expand_dims(xp.sum(log_stddev, axis=-1), axis=1)
    if layer.logs is not None:
        stddev = xp.expand_dims(xp.exp(log_stddev), axis=1)  # (F, 1, K, V)
        mean = xp.expand_dims(wide["mean"], axis=1) + stddev * completed
        left = xp.expand_dims(stddev, axis=-1) * xp.conditional_factor(factor, missing)
        is_marked = xp.expand_dims(xp.logical_and(_is_marked(xp, layer, x), missing), axis=2)
        density = density + _Tilt.of(xp, mean, left, is_marked).gain
    largest = float(xp.finfo(dtype).max)
    density = xp.astype(density if layer.logs is None else xp.clip(density, -largest, largest), dtype)
    return rows.values(xp, semiring, density)


def _conditional(xp: Namespace, layer: MultivariateGaussianLayer, params: Params, x: Array, missing: Array) -> Params:
    wide, dtype = _wide(xp, params), params["mean"].dtype
    factor, log_stddev = _factor(xp, wide)
    stddev = xp.exp(_by_row(xp, log_stddev, x))
    z = _vectors(xp, layer, _wide_x(xp, layer, x), missing)
    completed = xp.reshape(_completed(xp, wide, z, missing), stddev.dims)
    largest = float(xp.finfo(dtype).max)  # larger means would be infinite, and make others NaN
    mean = xp.clip(_by_row(xp, wide["mean"], x) + stddev * completed, -largest, largest)
    left = xp.reshape(xp.conditional_factor(factor, missing), (*stddev.dims, layer.num_variables))
    factor = xp.expand_dims(stddev, axis=-1) * left
    return Params.of(xp, {"mean": xp.astype(mean, dtype), "scale_tril": xp.astype(factor, dtype)})


def _by_row(xp: Namespace, parameter: Array, x: Array) -> Array:
    """A parameter `(F, K, *shape)` for each row of data `(F, B, V)`: `(F*B, K, *shape)`."""
    folds, *shape = parameter.dims
    repeated = xp.broadcast_to(xp.expand_dims(parameter, axis=1), (folds, x.dims[1], *shape))
    return xp.reshape(repeated, (folds * x.dims[1], *shape))


def _sample(xp: Namespace, layer: MultivariateGaussianLayer, params: Params, units: Array, uniforms: Array) -> Array:
    size = layer.num_variables
    factor = xp.tril(params["scale_tril"])
    flat = chosen(xp, xp.reshape(factor, (*factor.shape[:2], size * size)), units)
    moved = xp.reshape(flat, (*units.dims, size, size))
    z = chosen(xp, params["mean"], units) + xp.einsum("fbij,fbj->fbi", moved, normal_scores(xp, uniforms))
    return _exponential(xp, layer, z)


def _centre(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    """The mean of z."""
    return params["mean"]


def _spread(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    """The variance of z."""
    return xp.sum(xp.square(xp.tril(params["scale_tril"])), axis=-1)


def _are_logs(layer: MultivariateGaussianLayer) -> tuple[bool, ...]:
    return layer.logs or (False,) * layer.num_variables


def _mean(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:
    """exp(m + s^2 / 2) of marked variables."""
    if layer.logs is None:
        return params["mean"]
    is_marked = _is_marked(xp, layer, params["mean"])
    half = xp.where(is_marked, 0.5 * _spread(xp, layer, params), 0.0)
    return _exponential(xp, layer, params["mean"] + half)


def _variance(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:
    variance = _spread(xp, layer, params)
    if layer.logs is None:
        return variance
    square = _product_excess(xp, 2.0 * params["mean"] + variance, variance)
    return xp.where(_is_marked(xp, layer, variance), square, variance)


def _covariance(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:
    """E_i E_j (exp(S_ij) - 1) of two marked variables of means E; E_i S_ij of one of them and another variable."""
    factor = xp.tril(params["scale_tril"])
    covariance = xp.matmul(factor, xp.matrix_transpose(factor))
    if layer.logs is None:
        return covariance
    is_marked = _is_marked(xp, layer, covariance)
    log_mean = params["mean"] + 0.5 * _spread(xp, layer, params)
    scale = xp.where(is_marked, positive_exp(xp, log_mean), 1.0)
    first, second = ([xp.expand_dims(array, axis=axis) for array in (is_marked, scale, log_mean)] for axis in (-1, -2))
    across = finite(xp, covariance * xp.where(first[0], first[1], second[1]))
    both = _product_excess(xp, first[2] + second[2], covariance)
    return xp.where(xp.logical_and(first[0], second[0]), both, across)


def _product_excess(xp: Namespace, log_product: Array, covariance: Array) -> Array:
    """exp(log_product) (exp(covariance) - 1): no factor overflows before the product does, which is finite."""
    is_positive = xp.greater(covariance, 0.0)
    power = positive_exp(xp, log_product + xp.where(is_positive, covariance, 0.0))
    share = -xp.expm1(-xp.abs(covariance))
    return power * xp.where(is_positive, share, -share)


def _expected(
    xp: Namespace,
    layer: MultivariateGaussianLayer,
    params: Params,
    x: Array,
    missing: Array,
    flows: Array,
) -> Statistics:
    """Counts `(F, K)`, sums `(F, K, V)` and products `(F, K, V, V)` of z, of rows that have a variable at least.

    What a row lacks is expected given the rest of it, with its covariances.

    Source: Ghahramani and Jordan, "Supervised learning from incomplete data via an EM approach", 1994.
    """
    units = xp.where(xp.all(missing, axis=2, keepdims=True), 0.0, flows)  # (F, B, K)
    known = xp.where(missing, 0.0, _vectors(xp, layer, x, missing))
    count = xp.sum(units, axis=1)
    if not bool(xp.any(missing)):
        weighted_rows = xp.expand_dims(xp.matrix_transpose(units), axis=-1) * xp.expand_dims(known, axis=1)
        products = xp.matmul(xp.matrix_transpose(weighted_rows), xp.expand_dims(known, axis=1))
        return {"count": count, "sum": xp.sum(weighted_rows, axis=2), "products": products}
    factor, log_stddev = _factor(xp, params)
    stddev = xp.exp(log_stddev)
    completed, covariances = xp.conditional_moments(_scores(xp, params, log_stddev, known), factor, missing, units)
    mean = xp.expand_dims(params["mean"], axis=1) + xp.expand_dims(stddev, axis=1) * completed  # (F, B, K, V)
    mean = xp.where(xp.expand_dims(missing, axis=2), mean, xp.expand_dims(known, axis=2))
    mean = xp.permute_dims(mean, (0, 2, 1, 3))
    weighted_rows = xp.expand_dims(xp.matrix_transpose(units), axis=-1) * mean
    spread = xp.expand_dims(stddev, axis=-1) * xp.expand_dims(stddev, axis=-2)
    products = xp.matmul(xp.matrix_transpose(weighted_rows), mean) + spread * covariances
    return {"count": count, "sum": xp.sum(weighted_rows, axis=2), "products": products}


def _own(xp: Namespace, params: Params) -> Statistics:
    mean, factor = params["mean"], xp.tril(params["scale_tril"])
    products = xp.matmul(factor, xp.matrix_transpose(factor)) + xp.expand_dims(mean, axis=-1) * xp.expand_dims(
        mean, axis=-2
    )
    return {"count": xp.ones_like(mean[..., 0]), "sum": mean, "products": products}


_LEAST_EIGENVALUE = 1e-8  # of a correlation matrix: a density has a spread of 1e-4 or more in every direction


_LEAST_VARIANCE = 1e-3  # in variances of a variable
_ROUNDING = 1e-7  # of a mean: smaller spreads are those of sums of squares in float64
_LEAST_OF_STEP, _MOST_OF_VARIANCE = 0.3, 0.2  # standard deviation in steps, and its square in variances at most


def _maximizer(
    xp: Namespace,
    layer: MultivariateGaussianLayer,
    statistics: Statistics,
    pseudocount: float,
) -> Statistics:
    """Means and factors of covariances; with a pseudocount those of `_shrunk`."""
    count, total, products = (statistics[name] for name in ("count", "sum", "products"))
    count = count[..., None]
    if pseudocount:
        mean, covariance, least = _shrunk(xp, layer, count, total, products, pseudocount)
        variance = xp.linalg.diagonal(covariance)
        stddev = xp.sqrt(xp.where(variance > least, variance, least))
    else:
        squares = xp.linalg.diagonal(products)
        mean, variance = normal_moments(xp, {"count": count, "sum": total, "squares": squares}, 0.0)
        number = xp.where(count > 0, count, xp.ones_like(count))[..., None]
        covariance = (products - count[..., None] * _outer(mean, mean)) / number
        stddev = xp.sqrt(variance)
    unit = _unit(xp, total)
    correlation = covariance / _outer(stddev, stddev) * (1.0 - unit) + unit
    least = xp.linalg.eigvalsh(correlation)[..., :1, None]
    shift = xp.clip(_LEAST_EIGENVALUE - least, 0.0, None)
    factor = xp.linalg.cholesky((correlation + shift * unit) / (1.0 + shift))
    return {"mean": mean, "scale_tril": stddev[..., :, None] * factor}


def _unit(xp: Namespace, vectors: Array) -> Array:
    """The unit matrix `(V, V)` for vectors `(..., V)`, on their device."""
    return xp.eye(vectors.shape[-1], dtype=vectors.dtype, device=vectors.device)


def _outer(first: Array, second: Array) -> Array:
    return first[..., :, None] * second[..., None, :]


def _trust(xp: Namespace, covariance: Array, rows: Array, pairs: Array) -> Array:
    """By what to multiply covariances that were estimated from some rows, `(F, 1, 1)`: less where they are noise.

    `pairs (F, 1, 1)` says how many of them vary, from both sides; those of constant variables are 0.

    With correlations r the expected square of their errors is (1 - r^2)^2 / rows, and the best factor is one less the
    sum of these errors over that of r^2.

    Source: Schaefer and Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", 2005.
    """
    variance = xp.linalg.diagonal(covariance)
    scale = xp.sqrt(xp.where(variance > 0, variance, xp.ones_like(variance)))
    unit = _unit(xp, variance)
    squares = xp.square(covariance / _outer(scale, scale)) * (1.0 - unit)
    total = xp.sum(squares, axis=(-2, -1))[..., None]
    errors = (pairs - 2.0 * total + xp.sum(xp.square(squares), axis=(-2, -1))[..., None]) / rows
    return xp.clip(1.0 - errors / xp.where(total > 0, total, xp.ones_like(total)), 0.0, 1.0)


def _shrunk(
    xp: Namespace, layer: MultivariateGaussianLayer, count: Array, total: Array, products: Array, pseudocount: float
) -> tuple[Array, Array, Array]:
    """Means `(F, K, V)`, covariances `(F, K, V, V)` and least variances `(F, 1, V)`, with a prior of the layer's rows.

    Each unit has `pseudocount` imaginary rows at the layer's mean. Its covariance has `pseudocount * strength * V` rows
    of the covariance within units, averaged over the layer: V numbers need about as many rows. The strength is K / 5,
    from 1/2 to 2, as units among many have few rows. The common covariances are first made smaller by `_trust`.
    Variances are at least 1e-3 of those of the layer, and (0.3 step)^2, about that of the error of rounding to a step;
    the latter is at most 0.2 of the layer's. That of a constant variable is the square of `MIN_STDDEV`, and
    its covariances, which are roundings, are 0.

    Source: Friedman, "Regularized discriminant analysis", 1989, for covariances shrunk to a common one.
    """
    units, size = total.shape[-2:]
    rows = xp.sum(count, axis=-2, keepdims=True)  # (F, 1, 1)
    known = xp.where(rows > 0, rows, xp.ones_like(rows))
    middle = xp.sum(total, axis=-2, keepdims=True) / known  # (F, 1, V)
    number = count[..., None]
    centred = total - count * middle
    products = products - _outer(total, middle) - _outer(middle, total) + number * _outer(middle, middle)
    distance = centred / (count + pseudocount)
    scatter = products - (number + pseudocount) * _outer(distance, distance)  # of the rows and the imaginary ones
    spread = xp.linalg.diagonal(xp.sum(products, axis=-3, keepdims=True)) / known  # (F, 1, V)
    is_constant = spread <= xp.square(_ROUNDING * middle)
    varies = xp.where(is_constant, xp.zeros_like(spread), xp.ones_like(spread))
    unit = _unit(xp, total)
    scatter = scatter * (unit + (1.0 - unit) * _outer(varies, varies))
    within = xp.sum(scatter, axis=-3, keepdims=True) / known[..., None]
    varying = xp.sum(varies, axis=-1, keepdims=True)
    within = within * (unit + (1.0 - unit) * _trust(xp, within, known, varying * (varying - 1.0))[..., None])
    weight = pseudocount * min(max(units / 5.0, 0.5), 2.0) * size
    covariance = (scatter + weight * within) / (number + weight) if units > 1 else within
    least = _LEAST_VARIANCE * spread
    if layer.steps is not None:
        of_step = xp.stack([xp.full_like(spread[..., 0], (_LEAST_OF_STEP * step) ** 2) for step in layer.steps], -1)
        most = _MOST_OF_VARIANCE * spread
        of_step = xp.where(of_step < most, of_step, most)
        least = xp.where(of_step > least, of_step, least)
    least = xp.where(is_constant, xp.full_like(least, MIN_STDDEV**2), least)
    return middle + distance, covariance + least[..., None] * unit, least


ROW = InputRow(
    MultivariateGaussianLayer,
    body=_body,
    marginal=normalized_total,
    partial=_partial,
    partial_maximum=_partial_maximum,
    conditional=_conditional,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    covariance=_covariance,
    interval=unsupported(
        "what a box of correlated normal variables holds has no closed form; take a DiagonalGaussianLayer, or count "
        "samples"
    ),
    normal=Normal(_centre, _spread, _are_logs),
    closed_form=ClosedForm(_maximizer, _expected, ("mean", "scale_tril"), _own),
)


def _multiply(first: MultivariateGaussianLayer, second: MultivariateGaussianLayer) -> CircuitBlock:
    """The product of normal densities, see `parameters/multivariate.py`."""
    check_equal_scopes(first, second)
    if first.logs is not None or second.logs is not None:
        raise UnsupportedError(
            f"multiply: {first!r} times {second!r}: a variable is on a logarithmic scale, and products of such layers "
            "are not implemented; take layers without logs, or add a rule by `add_operator_rule`"
        )
    operands = tuple(parameter.ref() for layer in (first, second) for parameter in (layer.mean, layer.scale_tril))
    shapes = [operand.shape for operand in operands]
    product = MultivariateGaussianLayer(
        first.scope,
        first.num_output_units * second.num_output_units,
        mean=Parameter.from_nary(MultivariateProductMean(*shapes), *operands),
        scale_tril=Parameter.from_nary(MultivariateProductFactor(*shapes), *operands),
    )
    return weighted(product, Parameter.from_nary(MultivariateProductLogPartition(*shapes), *operands))


OPERATORS = (OperatorRow("multiply", (MultivariateGaussianLayer, MultivariateGaussianLayer), _multiply),)
