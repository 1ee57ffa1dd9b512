"""The Laplace input layer: densities that fall off exponentially on both sides.

>>> from plica.symbolic.scope import Scope
>>> sorted(LaplaceLayer(Scope([0]), 4).params)
['loc', 'scale']
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
    LEAST_SPREAD,
    UnivariateLayer,
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


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class LaplaceLayer(UnivariateLayer):
    """Densities exp(-abs(x - loc) / scale) / (2 scale) of one real variable.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        loc: `(K,)` centres; standard normal draws by default.
        scale: `(K,)` positive scales; by default the softplus of normal draws, plus 1e-5.
        loc_factory: Makes the centres from their shape.
        scale_factory: Makes the scales from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    loc: Parameter
    scale: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("loc", "scale")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        loc: ParameterLike | None = None,
        scale: ParameterLike | None = None,
        loc_factory: ParameterFactory | None = None,
        scale_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            loc=(loc, loc_factory, normal),
            scale=(scale, scale_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is real."""
        return REALS


def _body(xp: Namespace, semiring: Semiring, layer: LaplaceLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))
    distance = xp.abs(standardized(xp, x, loc, log_scale))
    # beyond, second derivatives are no numbers of the dtype, and the density is 0
    largest = float(xp.finfo(loc.dtype).max)
    far = xp.logical_or(
        xp.isinf(x), xp.greater_equal(distance, 0.2 * largest * xp.clip(xp.exp(2.0 * log_scale), largest**-0.25, 1.0))
    )
    return semiring.from_log(xp, xp.where(far, float("-inf"), -distance - log_scale - math.log(2.0)))


def _maximum(xp: Namespace, semiring: Semiring, layer: LaplaceLayer, params: Params) -> Value:  # noqa: ARG001
    (log_scale,) = rows(xp, params.log(xp, "scale"))
    return semiring.from_log(xp, -log_scale - math.log(2.0))


def _sample(xp: Namespace, layer: LaplaceLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    loc, scale = of_units(xp, params, units, "loc", "scale")
    centred = 2.0 * inside(xp, uniforms) - 1.0
    return loc - scale * xp.sign(centred) * xp.log1p(-xp.abs(centred))


def _centre(xp: Namespace, layer: LaplaceLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["loc"], axis=-1)  # (F, K, 1)


def _variance(xp: Namespace, layer: LaplaceLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(2.0 * xp.square(params["scale"]), axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: LaplaceLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))

    def log_left(standard: Array) -> Array:
        left = xp.less(standard, 0.0)
        beyond_half = xp.log1p(-0.5 * xp.exp(-xp.where(left, 0.0, standard)))
        return xp.where(left, standard - math.log(2.0), beyond_half)

    most = xp.finfo(loc.dtype).max ** -0.25
    ends = (standardized(xp, end, loc, log_scale, most) for end in (low, high))
    return semiring.from_log(xp, symmetric_share(xp, log_left, *ends))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    return {
        "loc_factory": around(column.mean, column.spread),
        "scale_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
    }


ROW = InputRow(
    LaplaceLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_centre,
    maximum=_maximum,
    mean=_centre,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("laplace", LaplaceLayer, ("loc", "scale"), fitted=_fitted),
)
