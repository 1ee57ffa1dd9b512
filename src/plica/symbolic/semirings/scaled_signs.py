"""Scaled numbers of any sign, and complex ones: mantissas with a direction, and the bounds of `scaled.py`.

The bounds are of absolute values, so they hold for sums and products of any numbers. A sum that cancels has a small
mantissa beside the same bound, and is proven less often. A number that is 0 is never proven: its row is computed
in the exact carrier, whose derivatives are right there too.
"""

import math
from dataclasses import replace
from typing import Any

from plica.symbolic.semirings.directed import is_complex, logarithms, real_logarithms
from plica.symbolic.semirings.exponents import largest, natural, of_logs, plus, smallest_normal
from plica.symbolic.semirings.scaled import DELTA, ONE_PLUS_DELTA, SCALED, bound_holds, with_bounds
from plica.symbolic.semirings.semiring import Array, Namespace, Semiring, Value
from plica.symbolic.semirings.weights import Weight


def _from_linear(xp: Namespace, x: Array) -> Value:
    most = xp.stop_gradient(xp.max(xp.abs(x), axis=2, keepdims=True))
    return with_bounds(x, 0.0, xp.maximum(most, smallest_normal(x) / DELTA**2))


def _from_log(xp: Namespace, x: Array) -> Value:
    if not is_complex(x):
        return with_bounds(*of_logs(xp, x), 1.0)
    size, turn = xp.real(x), xp.imag(x)
    mantissa, exponent = of_logs(xp, size)
    turn = xp.where(xp.equal(size, -math.inf), 0.0, turn)  # zero has no argument
    return with_bounds(mantissa * xp.exp(xp.astype(turn, x.dtype) * 1j), exponent, 1.0)


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    most = max(weight.most, -weight.least)  # of absolute values
    if math.isfinite(most):
        return with_bounds(weight.linear, 0.0, max(most, 1.0), weight.lost)
    if weight.in_directions is not None:
        direction, size = weight.directions
        mantissa, exponent = of_logs(xp, size)
        return with_bounds(direction * mantissa, exponent, 1.0)
    return _from_linear(xp, weight.linear) if weight.in_logs is None else _from_log(xp, weight.log(xp))


def _directed(value: Value) -> tuple[Array, Any]:
    """A value as a direction times the exponential of a size."""
    return value[0], natural(value[1])


def _normalize(xp: Namespace, value: Value) -> Value:
    mantissa, scale, depth, amount, cap, rise = value
    _, divisor = xp.rescale(xp.stop_gradient(xp.abs(mantissa)))
    exponent = xp.log2(divisor)
    rise = rise * largest(xp, [cap, 1.0]) * (2.0 * ONE_PLUS_DELTA)
    amount = amount + rise * smallest_normal(mantissa)
    return mantissa / divisor, plus(scale, exponent), plus(depth, exponent), amount, 1.0, rise


def _proven(xp: Namespace, value: Value) -> Array:
    return bound_holds(xp, (xp.abs(value[0]), *value[1:]))


def _to_linear(xp: Namespace, value: Value) -> Array:
    return value[0] * xp.exp2(_as_array(xp, value[1], value[0]))


def _as_array(xp: Namespace, scale: Array | float, like: Array) -> Array:
    return xp.full((1, 1, 1), scale, dtype=xp.real(like).dtype) if isinstance(scale, float) else scale


def _scaled(name: str, *, carries_complex: bool, to_log: Any) -> Semiring:
    """The row with a name."""
    return replace(
        SCALED,
        name=name,
        negative=True,
        carries_complex=carries_complex,
        from_linear=_from_linear,
        from_log=_from_log,
        from_weight=_from_weight,
        to_log=lambda xp, value: to_log(xp, _directed(value)),
        to_linear=_to_linear,
        result=lambda xp, value: logarithms(xp, _directed(value)),
        normalize=_normalize,
        proven=_proven,
    )


SCALED_COMPLEX = _scaled("scaled-complex", carries_complex=True, to_log=logarithms)
SCALED_SIGNED = _scaled("scaled-signed", carries_complex=False, to_log=real_logarithms)
