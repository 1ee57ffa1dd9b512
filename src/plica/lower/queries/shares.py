"""Rules by which a sum shares its flow among its terms, for each number format.

A sum is `y[o] = sum over n of w[o, n] * x[n]`. Term n gets the share `w[o, n] * x[n] / y[o]` of the flow of unit o. So
unit n gets the flow `x[n] * sum over o of w[o, n] * slope[o]`, with the slope `flow[o] / y[o]`: a matrix product. The
slope of a unit is the derivative of the circuit's logarithm with respect to the unit's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plica.symbolic.semirings import Value
from plica.symbolic.semirings.exponents import largest
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


class Sums(NamedTuple):
    """The slopes and inputs of a group of sums, as logarithms or as mantissas.

    Args:
        slope: The flow of each output unit divided by its value, `(F, B, O)`.
        inputs: For each of H inputs its units, `(F, B, I)`. Mantissas are at the scale of the sum's value.
    """

    slope: Tracer
    inputs: list[Tracer]


@dataclass(frozen=True, slots=True)
class Shares:
    """The rules for one number format.

    Args:
        positive: `(value)`: which numbers of a value are above zero and finite.
        sums: `(flow, value, inputs)`: the `Sums` of a group, from its flow, its value and the values of its inputs.
        all_units: `(slope, units, log_weights)`: the flow that each input unit gets from all output units:
            `(F, B, O)`, `(F, B, N)` and `(F, O, N)` give `(F, B, N)`.
        each_unit: `(slope, units, log_weights)`: the flow that an input unit gets from one output unit, for arrays of
            such pairs.
        ratio: `(value, total)`: `value / total` as ordinary numbers; 0 where the total is 0.
    """

    positive: Callable[[Value], Tracer]
    sums: Callable[[Tracer, Value, Sequence[Value]], Sums]
    all_units: Callable[[Tracer, Tracer, Tracer], Tracer]
    each_unit: Callable[[Tracer, Tracer, Tracer], Tracer]
    ratio: Callable[[Value, Value], Tracer]


def _log_sums(flow: Tracer, value: Value, inputs: Sequence[Value]) -> Sums:
    has_flow = xp.greater(flow, 0.0)  # where it has none, the value may be 0 too, and 0 / 0 is NaN
    slope = xp.where(has_flow, xp.log(xp.where(has_flow, flow, 1.0)) - xp.where(has_flow, value[0], 0.0), -np.inf)
    return Sums(slope, [input_value[0] for input_value in inputs])


def _log_all_units(slope: Tracer, units: Tracer, log_weights: Tracer) -> Tracer:
    logs = xp.matrix_transpose(log_weights)
    flow: Tracer = xp.exp(units + xp.log_matmul_exp(slope, xp.exp(logs), logs, "log"))
    return flow


LOGARITHMS = Shares(
    positive=lambda value: xp.isfinite(value[0]),
    sums=_log_sums,
    all_units=_log_all_units,
    each_unit=lambda slope, units, log_weights: xp.exp(units + log_weights + slope),
    ratio=lambda value, total: xp.exp(value[0] - xp.where(xp.isfinite(total[0]), total[0], 0.0)),
)
"""Values as logarithms: exact for values of any size."""


def _scaled_sums(flow: Tracer, value: Value, inputs: Sequence[Value]) -> Sums:
    mantissa, scale = value[:2]
    return Sums(flow / _not_zero(mantissa), [_at_scale(input_value, scale) for input_value in inputs])


def _not_zero(mantissa: Tracer) -> Tracer:
    """Divisors without zeros: each is at least the smallest normal number. The dividend of a divisor of 0 is 0 too."""
    divisor: Tracer = xp.maximum(mantissa, float(np.finfo(mantissa.dtype.value).tiny))
    return divisor


def at_one_scale(values: Sequence[Value]) -> list[Tracer]:
    """The mantissas of scaled numbers, converted to the largest of their scales."""
    scale = largest(xp, [value[1] for value in values])
    return [_at_scale(value, scale) for value in values]


def _at_scale(value: Value, scale: Tracer | float) -> Tracer:
    """The mantissas of a scaled number, converted to another scale."""
    if isinstance(value[1], float) and isinstance(scale, float):
        mantissa: Tracer = value[0] if value[1] == scale else value[0] * 2.0 ** (value[1] - scale)
    else:
        mantissa = value[0] * xp.exp2(value[1] - scale)
    return mantissa


SCALED_NUMBERS = Shares(
    positive=lambda value: xp.logical_and(xp.greater(value[0], 0.0), xp.isfinite(value[0])),
    sums=_scaled_sums,
    all_units=lambda slope, units, log_weights: units * xp.matmul(slope, xp.exp(log_weights)),
    each_unit=lambda slope, units, log_weights: units * xp.exp(log_weights) * slope,
    ratio=lambda value, total: _at_scale(value, total[1]) / _not_zero(total[0]),
)
"""Values as mantissas with a power of two for each row. Where a value underflows, its flow is lost: the flows of input
layers then add up to less than 1."""
