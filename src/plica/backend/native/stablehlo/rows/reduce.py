"""Reductions, accumulations along an axis, softmax and `rescale`."""

from collections.abc import Callable

import numpy as np

from plica.backend.native.stablehlo.call import Call, Row, of
from plica.backend.native.stablehlo.values import Value, count, loop
from plica.ir.dtypes import DType
from plica.ops.rules import normal_axes

Axes = tuple[int, ...]


def _reduction(name: str, start: complex | None) -> Row:
    """A reduction in the dtype of the result; without `start` from the dtype's least or largest number."""

    def row(call: Call) -> Value:
        x = call.inputs[0].astype(call.dtype)
        first = {"maximum": x.least, "minimum": x.largest}[name] if start is None else start
        return x.reduce(name, first, call.params["axis"], keep=call.params["keepdims"])

    return row


def _mean(x: Value, *, axis: Axes, keepdims: bool) -> Value:
    return x.sum(axis, keep=keepdims) / count(x, normal_axes(axis, x.rank)).astype(x.dtype)


def log_sum_exp(x: Value, axes: Axes, *, keep: bool = False) -> Value:
    """The logarithm of a sum of exponentials."""
    largest = x.max(axes, keep=True)
    shift = largest.is_finite().where(largest, 0.0)
    total = (x - shift).exp().sum(axes, keep=True).log() + shift
    return total if keep else total.reshape(x.max(axes).shape)


def softmax(x: Value, *, axis: int) -> Value:
    """The softmax along an axis."""
    powers = (x - x.max((axis,), keep=True)).exp()
    return powers / powers.sum((axis,), keep=True)


def log_softmax(x: Value, *, axis: int) -> Value:
    """The logarithms of the softmax along an axis."""
    shifted = x - x.max((axis,), keep=True)
    return shifted - shifted.exp().sum((axis,), keep=True).log()


def rescale(x: Value) -> tuple[Value, Value]:
    """Rows divided by powers of two, and these powers."""
    largest = x.max((-1,), keep=True)
    half = power_of_two(largest)  # largest = m 2^e, 0.5 <= m < 1: 2^(e-1)
    normal = largest >= float(np.finfo(x.dtype.numpy).tiny)
    scale = normal.where(half, 0.5)
    return x / scale * 0.5, scale * 2.0


def power_of_two(x: Value) -> Value:
    """The largest power of two up to a positive normal float."""
    words = {32: DType.INT32, 64: DType.INT64}[x.dtype.bits]
    exponent = int(np.asarray(np.inf, x.dtype.numpy).view(words.numpy))  # all bits of the exponent, and no others
    return (x.bits_as(words) & exponent).bits_as(x.dtype)


def _extreme(best: Callable[..., Value]) -> Callable[..., Value]:
    def first_index(x: Value, *, axis: int, keepdims: bool) -> Value:
        # the index of the first best entry, or of the first NaN
        is_best = x.equals(best(x, (axis,), keep=True))
        if x.dtype.kind == "float":
            is_best = is_best | x.is_nan()
        indices = x.iota(axis % x.rank)
        first_best: Value = is_best.where(indices, x.size(x.shape[axis])).min((axis,), keep=keepdims)
        return first_best

    return first_index


def _accumulation(name: str, neutral: complex) -> Row:
    """An accumulation in log2(size) steps: after step k, an entry combines the 2^k entries that end at its index."""

    def row(call: Call) -> Value:
        x = call.inputs[0].astype(call.dtype)
        axis = call.params["axis"] % x.rank
        indices, size = x.iota(axis), x.size(x.shape[axis])
        along = x.iota(0, (x.shape[axis],))

        def step(reach: Value, total: Value) -> tuple[Value, Value]:
            before = total.take((along - reach).maximum(0), axis)
            return reach * 2, total.map(name, (indices >= reach).where(before, neutral))

        return loop([x.like(1, DType.INT64), x], lambda reach, _: reach < size, step)[1]

    return row


REDUCE: dict[str, Row] = {
    "all": _reduction("and", True),
    "any": _reduction("or", False),
    "argmax": of(_extreme(Value.max)),
    "argmin": of(_extreme(Value.min)),
    "cumulative_prod": _accumulation("multiply", 1),
    "cumulative_sum": _accumulation("add", 0),
    "log_softmax": of(log_softmax),
    "logsumexp": of(lambda x, *, axis, keepdims: log_sum_exp(x, axis, keep=keepdims)),
    "max": _reduction("maximum", None),
    "mean": of(_mean),
    "min": _reduction("minimum", None),
    "prod": _reduction("multiply", 1),
    "rescale": of(rescale),
    "softmax": of(softmax),
    "sum": _reduction("add", 0),
}
