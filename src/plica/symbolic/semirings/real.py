"""Ordinary sums and products in linear space and in log space.

y = sum over h and i of W[o, h*I + i] x_h[i]
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from plica.symbolic.semirings.algebra import REAL
from plica.symbolic.semirings.bounded import BOUNDED
from plica.symbolic.semirings.directed import COMPLEX, LSE_AT_ZEROS, SIGNED
from plica.symbolic.semirings.linear import contract, einsum
from plica.symbolic.semirings.scaled import SCALED, deepest
from plica.symbolic.semirings.scaled_signs import SCALED_COMPLEX, SCALED_SIGNED
from plica.symbolic.semirings.semiring import (
    Array,
    Bound,
    Namespace,
    Semiring,
    Stage,
    Value,
    accumulate,
    outer_of,
    unchanged,
)
from plica.symbolic.semirings.weights import Weight

SUM_PRODUCT = Semiring(
    name="sum-product",
    algebra=REAL,
    logarithmic=False,
    negative=True,
    carries_complex=True,
    from_linear=lambda _, x: (x,),
    from_log=lambda xp, x: (xp.exp(x),),
    from_weight=lambda _, weight: (weight.linear,),
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    result=lambda _, value: value[0],
    product=lambda xp, a, b: (xp.multiply(a[0], b[0]),),
    outer=outer_of("multiply"),
    total=lambda xp, values: accumulate(lambda a, b: (xp.add(a[0], b[0]),), values),
    contract=contract,
    einsum=einsum,
    normalize=unchanged,
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
)


def _log_total(xp: Namespace, values: Sequence[Value]) -> Value:
    return values[0] if len(values) == 1 else (xp.logaddexp(*[value[0] for value in values]),)


def _log_contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    return (xp.log_matmul_exp([value[0] for value in values], numbers.linear, **_logs_for_fallback(numbers)),)


def _log_einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    return (xp.log_einsum_exp(equation, [value[0] for value in values], numbers.linear, **_logs_for_fallback(numbers)),)


def _logs_for_fallback(numbers: Weight) -> dict[str, Any]:
    """The logarithms of a weight, as arguments for the exact fallback of an operation."""
    if numbers.logs is None:
        return {}
    return {"logs": numbers.logs.array, "form": numbers.logs.form, "lost": numbers.lost}


def _of_rows(scaled: Semiring) -> Stage:
    return Stage(scaled, Bound.OF_ROWS, devices=("cpu",), deepest=deepest)


LSE_SUM = Semiring(
    name="lse-sum",
    algebra=REAL,
    logarithmic=True,
    negative=False,
    from_linear=lambda xp, x: (xp.safe_log(x),),
    from_log=lambda _, x: (x,),
    from_weight=lambda xp, weight: (weight.log(xp),),
    to_log=lambda _, value: value[0],
    to_linear=lambda xp, value: xp.exp(value[0]),
    result=lambda _, value: value[0],
    product=lambda xp, a, b: (xp.add(a[0], b[0]),),
    outer=outer_of("add"),
    total=_log_total,
    contract=_log_contract,
    einsum=_log_einsum,
    normalize=unchanged,
    zero=lambda xp, shape, dtype: (xp.full(shape, float("-inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    faster=(
        Stage(BOUNDED, Bound.OF_WEIGHTS, devices=("cpu",)),
        _of_rows(SCALED),
    ),
    at_zeros=LSE_AT_ZEROS,
)
COMPLEX_LSE_SUM = replace(COMPLEX, faster=(_of_rows(SCALED_COMPLEX),))
SIGNED_LSE_SUM = replace(SIGNED, faster=(_of_rows(SCALED_SIGNED),))
