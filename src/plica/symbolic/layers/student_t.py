"""The input layer of Student's t distributions: densities with heavy tails.

>>> from plica.symbolic.scope import Scope
>>> sorted(StudentTLayer(Scope([0]), 4).params)
['df', 'loc', 'scale']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST_SPREAD,
    UnivariateLayer,
    finite,
    inside,
    of_units,
    positive_normal,
    rows,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

_NEARLY_NORMAL = 1e7  # degrees of freedom: beyond, 1 - ratio would lose its digits


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class StudentTLayer(UnivariateLayer):
    """Densities of loc + scale * t, t of Student's distribution, of one real variable.

    The mean is NaN where there are no more than 1 degrees of freedom; the variance is infinite where there are no more
    than 2, and NaN where the mean is.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        df: `(K,)` positive degrees of freedom; by default the softplus of normal draws, plus 1.
        loc: `(K,)` centres; standard normal draws by default.
        scale: `(K,)` positive scales; by default the softplus of normal draws, plus 1e-5.
        df_factory: Makes the degrees of freedom from their shape.
        loc_factory: Makes the centres from their shape.
        scale_factory: Makes the scales from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    df: Parameter
    loc: Parameter
    scale: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("df", "loc", "scale")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        df: ParameterLike | None = None,
        loc: ParameterLike | None = None,
        scale: ParameterLike | None = None,
        df_factory: ParameterFactory | None = None,
        loc_factory: ParameterFactory | None = None,
        scale_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            df=(df, df_factory, beyond(1.0, 1.0)),
            loc=(loc, loc_factory, normal),
            scale=(scale, scale_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is real."""
        return REALS


def _log_peak(xp: Namespace, params: Params) -> Array:
    """The logarithm of the density at its centre, `(F, 1, K)`."""
    df, log_scale = rows(xp, params["df"], params.log(xp, "scale"))
    half = 0.5 * df
    # log Gamma(y + 1/2) / Gamma(y) - log(2 pi y) / 2 by Stirling, y = df / 2, so that nothing cancels
    small = xp.less(half, 1e-3)  # 1 / half^2, of a derivative, may not be a number of the dtype
    large = xp.where(small, 1.0, half)
    log_half = rows(xp, params.log(xp, "df"))[0] - math.log(2.0)
    grown = xp.where(small, half * (xp.log(half + 0.5) - log_half), large * xp.log1p(0.5 / large))
    peak = grown - 0.5 - HALF_LOG_TWO_PI - log_scale
    return peak + xp.stirling_error(half + 0.5) - xp.stirling_error(half)


def _body(xp: Namespace, semiring: Semiring, layer: StudentTLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    df, loc, log_scale = rows(xp, params["df"], params["loc"], params.log(xp, "scale"))
    x = xp.astype(x, loc.dtype)
    standard, root = standardized(xp, x, loc, log_scale), xp.sqrt(df)
    far = xp.greater(xp.abs(standard), 1e4 * root)  # its square may not be a number of the dtype
    near = xp.where(far, 0.0, standard) / root
    # log(1 + far^2) = 2 log far + log(1 + far^-2), of logarithms whose second derivatives do not overflow
    log_far = xp.log(xp.where(far, xp.abs(finite(xp, x) - loc), root)) - log_scale - xp.log(root)
    inverse = xp.where(far, xp.exp(-xp.where(far, log_far, 0.0)), 0.0)
    growth = xp.where(far, 2.0 * log_far + xp.log1p(inverse * inverse), xp.log1p(near * near))
    density = _log_peak(xp, params) - (0.5 * df + 0.5) * growth
    return semiring.from_log(xp, xp.where(xp.isinf(x), float("-inf"), density))


def _maximum(xp: Namespace, semiring: Semiring, layer: StudentTLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_peak(xp, params))


def _sample(xp: Namespace, layer: StudentTLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    df, loc, scale = of_units(xp, params, units, "df", "loc", "scale")
    # df / (df + t^2) has a beta distribution; in float64, which tells its numbers near 0 and near 1 apart
    all_df, share = xp.astype(df, xp.float64), xp.astype(inside(xp, uniforms), xp.float64)
    wide = xp.minimum(all_df, _NEARLY_NORMAL)
    ratio = xp.betaincinv(0.5 * wide, xp.full_like(wide, 0.5), 2.0 * xp.minimum(share, 1.0 - share))
    size = xp.sqrt(wide * (1.0 - ratio) / xp.maximum(ratio, 1e-300))
    z = math.sqrt(2.0) * xp.erfinv(2.0 * share - 1.0)
    z = z + z * (z * z + 1.0) / (4.0 * all_df)  # by Cornish and Fisher; what is left is of the order of 1 / df^2
    standard = xp.where(xp.less(all_df, _NEARLY_NORMAL), xp.where(xp.less(share, 0.5), -size, size), z)
    return finite(xp, xp.astype(finite(xp, xp.astype(loc, xp.float64) + scale * standard), loc.dtype))


def _centre(xp: Namespace, layer: StudentTLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["loc"], axis=-1)


def _mean(xp: Namespace, layer: StudentTLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.where(xp.greater(params["df"], 1.0), params["loc"], float("nan")), axis=-1)


def _variance(xp: Namespace, layer: StudentTLayer, params: Params) -> Array:  # noqa: ARG001
    df, square = params["df"], xp.square(params["scale"])
    has = xp.logical_and(xp.greater(df, 2.0), xp.not_equal(square, float("inf")))
    least = xp.where(has, df, 3.0)
    none = xp.where(xp.greater(df, 1.0), float("inf"), float("nan"))
    return xp.expand_dims(xp.where(has, xp.where(has, square, 0.0) * (least / (least - 2.0)), none), axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: StudentTLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    df, loc, log_scale = rows(xp, params["df"], params["loc"], params.log(xp, "scale"))
    half = xp.astype(0.5 * df, xp.float64)  # squares of float32 would underflow, where heavy tails are long
    middle, root = xp.full_like(half, 0.5), xp.sqrt(2.0 * half)
    slope = 2.0 * xp.exp(_log_peak(xp, params) + log_scale)  # of log_left at the centre, where distances have none
    largest = 0.25 * float(xp.finfo(loc.dtype).max)  # stands for infinity, beyond which there is nothing

    def log_left(score: Array) -> Array:
        centre = xp.equal(score, 0.0)
        standard = xp.where(centre, 1.0, score)
        distance = xp.minimum(xp.abs(xp.astype(standard, xp.float64)), 1e150) / root
        far = xp.greater(distance, 1.0)
        inverse, near = 1.0 / xp.where(far, distance, 1.0), xp.where(far, 0.0, distance)
        square, other = inverse * inverse, near * near
        # both tails beyond the distance, by the one of two ratios that is below 1 / 2
        beyond_far = xp.betainc(half, middle, square / (1.0 + square))
        tails = xp.where(far, beyond_far, xp.betaincc(middle, half, other / (1.0 + other)))
        tail = xp.astype(0.5 * xp.where(xp.greater_equal(xp.abs(standard), largest), 0.0, tails), standard.dtype)
        found = finite(xp, xp.safe_log(xp.where(xp.less(standard, 0.0), tail, 1.0 - tail)))
        return xp.where(centre, slope * xp.where(centre, score, 0.0) - math.log(2.0), found)

    def score(end: Array) -> Array:
        end = xp.astype(end, loc.dtype)
        return xp.where(xp.isinf(end), largest * xp.sign(end), standardized(xp, end, loc, log_scale))

    return semiring.from_log(xp, symmetric_share(xp, log_left, score(low), score(high)))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    return {
        "df_factory": beyond(1.0, 5.0),  # most of them with a variance, so that a model has one
        "loc_factory": around(column.mean, column.spread),
        "scale_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
    }


ROW = InputRow(
    StudentTLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_centre,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("student-t", StudentTLayer, ("df", "loc", "scale"), fitted=_fitted),
)
