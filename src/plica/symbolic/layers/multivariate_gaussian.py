"""The multivariate Gaussian input layer: several real variables and all their covariances.

>>> from plica.symbolic.scope import Scope
>>> layer = MultivariateGaussianLayer(Scope([0, 3]), 4)
>>> layer.params["scale_tril"].shape
(4, 2, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from plica.arguments import elements, number
from plica.errors import InputError, ShapeError
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
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.univariate import HALF_LOG_TWO_PI, MIN_STDDEV, standardized
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
    """Normal densities of V real variables, of covariances `scale_tril @ scale_tril.T`.

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
            that the density of a value is about the mass of its step.

    Raises:
        ShapeError: No variable, a parameter of another shape, another number of steps than of variables.
        DTypeError: Steps are no sequence of numbers.
        InputError: Two ways to give one parameter, or a step that is no finite number of at least 0.
    """

    scope: Scope
    num_output_units: int
    mean: Parameter
    scale_tril: Parameter
    steps: tuple[float, ...] | None

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


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: MultivariateGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
) -> Value:
    factor, log_stddev = _factor(xp, params)
    density = _log_density(xp, factor, _distances(xp, params, log_stddev, x))
    density = density - xp.expand_dims(xp.sum(log_stddev, axis=-1), axis=1)
    return semiring.from_log(xp, xp.where(_is_infinite(xp, x), float("-inf"), density))


def _partial(
    xp: Namespace,
    semiring: Semiring,
    layer: MultivariateGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
    missing: Array,
) -> Value:
    factor, log_stddev = _factor(xp, params)
    distances = xp.where(xp.expand_dims(missing, axis=2), 0.0, _distances(xp, params, log_stddev, x))
    density = _log_density(xp, factor, distances, missing)
    known = xp.astype(xp.logical_not(missing), log_stddev.dtype)
    density = density - xp.matmul(known, xp.matrix_transpose(log_stddev))
    is_infinite = _is_infinite(xp, xp.where(missing, 0.0, x))
    return semiring.from_log(xp, xp.where(is_infinite, float("-inf"), density))


def _is_infinite(xp: Namespace, x: Array) -> Array:
    """Rows of density 0, `(F, B, 1)`."""
    return xp.any(xp.isinf(x), axis=2, keepdims=True)


def _maximum(xp: Namespace, semiring: Semiring, layer: MultivariateGaussianLayer, params: Params) -> Value:
    volume = xp.sum(xp.log(xp.abs(xp.linalg.diagonal(params["scale_tril"]))), axis=-1)
    return semiring.from_log(xp, xp.expand_dims(-volume - layer.num_variables * HALF_LOG_TWO_PI, axis=1))


def _wide(xp: Namespace, params: Params) -> Params:
    """Parameters in float64: expected vectors are sums of large numbers that may cancel."""
    return Params.of(xp, {name: xp.astype(params[name], DType.FLOAT64) for name in ("mean", "scale_tril")})


def _completed(xp: Namespace, params: Params, x: Array, missing: Array) -> Array:
    """The distances of `_scores`, with the expected distances of missing variables: `(F, B, K, V)`."""
    factor, log_stddev = _factor(xp, params)
    scores = xp.where(xp.expand_dims(missing, axis=2), 0.0, _scores(xp, params, log_stddev, x))
    return xp.squeeze(xp.matmul(xp.regression_matrix(factor, missing), xp.expand_dims(scores, axis=-1)), axis=-1)


def _partial_maximum(
    xp: Namespace,
    semiring: Semiring,
    layer: MultivariateGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
    missing: Array,
) -> Value:
    wide = _wide(xp, params)
    factor, log_stddev = _factor(xp, wide)
    density = xp.log_multivariate_normal(_completed(xp, wide, x, missing), factor)
    density = density - xp.expand_dims(xp.sum(log_stddev, axis=-1), axis=1)
    is_infinite = _is_infinite(xp, xp.where(missing, 0.0, x))
    density = xp.astype(xp.where(is_infinite, float("-inf"), density), params["mean"].dtype)
    return semiring.from_log(xp, density)


def _conditional(xp: Namespace, layer: MultivariateGaussianLayer, params: Params, x: Array, missing: Array) -> Params:
    wide, dtype = _wide(xp, params), params["mean"].dtype
    factor, log_stddev = _factor(xp, wide)
    stddev = xp.exp(_by_row(xp, log_stddev, x))
    completed = xp.reshape(_completed(xp, wide, x, missing), stddev.dims)
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
    return chosen(xp, params["mean"], units) + xp.einsum("fbij,fbj->fbi", moved, normal_scores(xp, uniforms))


def _centre(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return params["mean"]


def _variance(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.sum(xp.square(xp.tril(params["scale_tril"])), axis=-1)


def _covariance(xp: Namespace, layer: MultivariateGaussianLayer, params: Params) -> Array:  # noqa: ARG001
    factor = xp.tril(params["scale_tril"])
    return xp.matmul(factor, xp.matrix_transpose(factor))


def _expected(
    xp: Namespace,
    layer: MultivariateGaussianLayer,  # noqa: ARG001
    params: Params,
    x: Array,
    missing: Array,
    flows: Array,
) -> Statistics:
    """Counts `(F, K)`, sums `(F, K, V)` and products `(F, K, V, V)` of rows that have a variable at least.

    What a row lacks is expected given the rest of it, with its covariances.

    Source: Ghahramani and Jordan, "Supervised learning from incomplete data via an EM approach", 1994.
    """
    units = xp.where(xp.all(missing, axis=2, keepdims=True), 0.0, flows)  # (F, B, K)
    known = xp.where(missing, 0.0, x)
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
    mode=_centre,
    maximum=_maximum,
    mean=_centre,
    variance=_variance,
    covariance=_covariance,
    interval=unsupported(
        "what a box of correlated normal variables holds has no closed form; take a DiagonalGaussianLayer, or count "
        "samples"
    ),
    is_normal=True,
    closed_form=ClosedForm(_maximizer, _expected, ("mean", "scale_tril"), _own),
)


def _multiply(first: MultivariateGaussianLayer, second: MultivariateGaussianLayer) -> CircuitBlock:
    """The product of normal densities, see `parameters/multivariate.py`."""
    check_equal_scopes(first, second)
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
