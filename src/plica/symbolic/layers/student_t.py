"""The input layer of Student's t distributions: densities with heavy tails.

>>> from plica.symbolic.scope import Scope
>>> sorted(StudentTLayer(Scope([0]), 4).params)
['df', 'loc', 'scale']
"""

import math
from typing import final

from plica.symbolic.domains import REALS
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST_SPREAD,
    finite,
    inside,
    positive_normal,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal

_NEARLY_NORMAL = 1e7  # degrees of freedom: beyond, 1 - ratio would lose its digits


@final
class StudentTLayer(UnivariateLayer, name="student-t"):
    """Densities of loc + scale * t, t of Student's distribution, of one real variable.

    The mean is NaN for at most 1 degree of freedom. The variance is infinite for at most 2, and NaN where the mean is.
    """

    df: Parameter = unit_parameter(
        beyond(1.0, 1.0), "positive degrees of freedom; by default the softplus of normal draws, plus 1"
    )
    loc: Parameter = unit_parameter(normal, "centres; standard normal draws by default")
    scale: Parameter = unit_parameter(
        positive_normal, "positive scales; by default the softplus of normal draws, plus 1e-5"
    )
    domain = REALS

    @staticmethod
    def log_density(xp: Namespace, x: Array, df: Array, loc: Array, log_df: Array, log_scale: Array) -> Array:
        standard, root = standardized(xp, x, loc, log_scale), xp.sqrt(df)
        far = xp.greater(xp.abs(standard), 1e4 * root)  # its square may not be a number of the dtype
        near = xp.where(far, 0.0, standard) / root
        # log(1 + far^2) = 2 log far + log(1 + far^-2), of logarithms whose second derivatives do not overflow
        log_far = xp.log(xp.where(far, xp.abs(finite(xp, x) - loc), root)) - log_scale - xp.log(root)
        inverse = xp.where(far, xp.exp(-xp.where(far, log_far, 0.0)), 0.0)
        growth = xp.where(far, 2.0 * log_far + xp.log1p(inverse * inverse), xp.log1p(near * near))
        density = _log_peak(xp, df, log_df, log_scale) - (0.5 * df + 0.5) * growth
        return xp.where(xp.isinf(x), float("-inf"), density)

    @staticmethod
    def log_maximum(xp: Namespace, df: Array, log_df: Array, log_scale: Array) -> Array:
        return _log_peak(xp, df, log_df, log_scale)

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, df: Array, loc: Array, scale: Array) -> Array:
        # df / (df + t^2) has a beta distribution; in float64, which resolves its numbers near 0 and near 1
        all_df, share = xp.astype(df, xp.float64), xp.astype(inside(xp, uniforms), xp.float64)
        wide = xp.minimum(all_df, _NEARLY_NORMAL)
        ratio = xp.betaincinv(0.5 * wide, xp.full_like(wide, 0.5), 2.0 * xp.minimum(share, 1.0 - share))
        size = xp.sqrt(wide * (1.0 - ratio) / xp.maximum(ratio, 1e-300))
        z = math.sqrt(2.0) * xp.erfinv(2.0 * share - 1.0)
        z = z + z * (z * z + 1.0) / (4.0 * all_df)  # by Cornish and Fisher, with an error of the order of 1 / df^2
        standard = xp.where(xp.less(all_df, _NEARLY_NORMAL), xp.where(xp.less(share, 0.5), -size, size), z)
        return finite(xp, xp.astype(finite(xp, xp.astype(loc, xp.float64) + scale * standard), loc.dtype))

    mode = staticmethod(lambda loc: loc)
    expectation = staticmethod(lambda xp, df, loc: xp.where(xp.greater(df, 1.0), loc, float("nan")))

    @staticmethod
    def variance(xp: Namespace, df: Array, scale: Array) -> Array:
        square = xp.square(scale)
        has = xp.logical_and(xp.greater(df, 2.0), xp.not_equal(square, float("inf")))
        least = xp.where(has, df, 3.0)
        none = xp.where(xp.greater(df, 1.0), float("inf"), float("nan"))
        return xp.where(has, xp.where(has, square, 0.0) * (least / (least - 2.0)), none)

    @staticmethod
    def log_interval(
        xp: Namespace, lower: Array, upper: Array, df: Array, loc: Array, log_df: Array, log_scale: Array
    ) -> Array:
        half = xp.astype(0.5 * df, xp.float64)  # squares of float32 would underflow, where heavy tails are long
        middle, root = xp.full_like(half, 0.5), xp.sqrt(2.0 * half)
        # of log_left at the centre, where distances have none
        slope = 2.0 * xp.exp(_log_peak(xp, df, log_df, log_scale) + log_scale)
        largest = 0.25 * float(xp.finfo(loc.dtype).max)  # replaces infinity: there is no mass beyond

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
            log_tail = finite(xp, xp.safe_log(xp.where(xp.less(standard, 0.0), tail, 1.0 - tail)))
            return xp.where(centre, slope * xp.where(centre, score, 0.0) - math.log(2.0), log_tail)

        def score(end: Array) -> Array:
            end = xp.astype(end, loc.dtype)
            return xp.where(xp.isinf(end), largest * xp.sign(end), standardized(xp, end, loc, log_scale))

        return symmetric_share(xp, log_left, score(lower), score(upper))

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        return {
            "df_factory": beyond(1.0, 5.0),  # most of them with a variance, so that a model has one
            "loc_factory": around(column.mean, column.spread),
            "scale_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
        }


def _log_peak(xp: Namespace, df: Array, log_df: Array, log_scale: Array) -> Array:
    """The logarithm of the density at its centre."""
    half = 0.5 * df
    # log Gamma(y + 1/2) / Gamma(y) - log(2 pi y) / 2 by Stirling, y = df / 2, so that nothing cancels
    small = xp.less(half, 1e-3)  # 1 / half^2, of a derivative, may not be a number of the dtype
    large = xp.where(small, 1.0, half)
    log_half = log_df - math.log(2.0)
    grown = xp.where(small, half * (xp.log(half + 0.5) - log_half), large * xp.log1p(0.5 / large))
    peak = grown - 0.5 - HALF_LOG_TWO_PI - log_scale
    return peak + xp.stirling_error(half + 0.5) - xp.stirling_error(half)
