"""Reductions and the normalizations built on them. float16 and bfloat16 are added up in float32 and rounded once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.entries import Entry, function, on_entries
from plica.backend.native.mlir.structured import entrywise, expand, reduction
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars.values import is_half
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, Size, product
from plica.ops.reduce import NO_ENTRIES
from plica.ops.rules import normal_axes, normal_axis

exp, log = function("exp"), function("log")
_WIDER = {DType.FLOAT32: DType.FLOAT64, DType.COMPLEX64: DType.COMPLEX128}
_SHORT = 512  # entries, of which a sum in float32 is off by some units in the last place


def _least(dtype: DType) -> float:
    return -math.inf if dtype.kind == "float" else dtype.limits[0]


def _most(dtype: DType) -> float:
    return math.inf if dtype.kind == "float" else dtype.limits[1]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction to one array.

    Args:
        start: The number that it starts from, for a dtype.
        step: From an entry, in the dtype of the reduction, and the result so far to the next result.
        is_empty: Whether no entries have a result.
    """

    start: Callable[[DType], complex]
    step: Callable[[Entry, Entry], Entry]
    is_empty: bool = True


SUM = Reduced(lambda _: 0, lambda x, result: result + x)
PROD = Reduced(lambda _: 1, lambda x, result: result * x)
MAX = Reduced(_least, lambda x, result: result.maximum(x), is_empty=False)
MIN = Reduced(_most, lambda x, result: result.minimum(x), is_empty=False)
ANY = Reduced(lambda _: False, lambda x, result: result | x)
ALL = Reduced(lambda _: True, lambda x, result: result & x)


def wide(dtype: DType) -> DType:
    """The dtype in which numbers of a dtype are added up."""
    return DType.FLOAT32 if is_half(dtype) else dtype


def added(dtype: DType, sizes: Sequence[Dim]) -> DType:
    """The dtype in which numbers are added up along axes of these sizes.

    The error of a sum in order grows with the number of entries. In float32 it would lose digits that numpy keeps,
    which adds in pairs.
    """
    number = product(sizes)
    is_short = isinstance(number, int) and number <= _SHORT
    return dtype if is_short else _WIDER.get(dtype, dtype)


def reduced(
    emitter: Emitter,
    x: Value,
    axes: Sequence[int],
    how: Reduced,
    dtype: DType,
    of: Callable[..., Entry] = lambda x: x,
    further: Sequence[Value] = (),
) -> Value:
    """A reduction of an array along `axes`, without them in the result.

    Args:
        emitter: Where its lines go.
        x: The array.
        axes: The axes, counted from the front.
        how: The reduction.
        dtype: The dtype in which entries are computed; sums along long axes are wider.
        of: From an entry of the array, and an entry of each of `further`, to the entry that is reduced.
        further: Arrays of the other axes.
    """
    x = emitter.tensor(x)
    kept_axes = _others(x, axes)
    into = added(dtype, [x.shape[axis] for axis in axes]) if how is SUM else dtype
    start = emitter.full([x.shape[axis] for axis in kept_axes], emitter.constant(how.start(into), into))
    dtypes = [x.dtype, *(value.dtype for value in further), into]

    def step(*entries: Entry) -> Entry:
        *read, before = entries
        return how.step(of(*(entry.astype(dtype) for entry in read)).astype(into), before)

    body = on_entries(emitter, dtypes, step)
    return reduction(emitter, x, axes, [start], body, [(value, kept_axes) for value in further])[0]


def _others(x: Value, axes: Sequence[int]) -> list[int]:
    return [axis for axis in range(len(x.shape)) if axis not in axes]


def converted(emitter: Emitter, x: Value, dtype: DType) -> Value:
    """The numbers of an array in another dtype."""
    if x.dtype == dtype:
        return x
    return entrywise(emitter, [x], x.shape, dtype, on_entries(emitter, [x.dtype], lambda entry: entry.astype(dtype)))


def _kept_dims(emitter: Emitter, result: Value, axes: Sequence[int], call: Call) -> Value:
    """A result with its reduced axes as axes of size 1 if the call has `keepdims`."""
    if not call.params["keepdims"] or not axes:
        return result
    shape = call.types[0].shape
    return expand(emitter, result, shape, [axis for axis in range(len(shape)) if axis not in axes])


def _row(how: Reduced) -> Row:
    def write(emitter: Emitter, call: Call) -> Value:
        (x,), (type_,) = call.inputs, call.types
        axes = normal_axes(call.params["axis"], len(x.shape))
        if not how.is_empty:
            _check_some(emitter, call, [x.shape[axis] for axis in axes])
        result = reduced(emitter, x, axes, how, wide(type_.dtype))
        return _kept_dims(emitter, converted(emitter, result, type_.dtype), axes, call)

    return Row(write, reads_memory=True)


def _check_some(emitter: Emitter, call: Call, sizes: Sequence[Dim]) -> None:
    """Fail if a reduction has no entries; the type rule checks sizes that are numbers."""
    number = product(sizes)
    if isinstance(number, Size):
        emitter.checks.require(
            emitter.checks.compare("sgt", number, 0), Fault("InputError", NO_ENTRIES, source=call.source)
        )


def _mean(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    axes = normal_axes(call.params["axis"], len(x.shape))
    dtype = wide(type_.dtype)
    total = reduced(emitter, x, axes, SUM, dtype)
    into = total.dtype
    count = emitter.size_value(product(x.shape[axis] for axis in axes))
    body = on_entries(
        emitter, [into, DType.INT64], lambda summed, many: (summed / many.astype(into)).astype(type_.dtype)
    )
    return _kept_dims(emitter, entrywise(emitter, [total, count], total.shape, type_.dtype, body), axes, call)


def _logsumexp(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    axes = normal_axes(call.params["axis"], len(x.shape))
    dtype = wide(type_.dtype)
    largest = reduced(emitter, x, axes, MAX, dtype)
    body = on_entries(emitter, [dtype], lambda entry: (abs(entry) < math.inf).where(entry, 0.0))
    shift = entrywise(emitter, [largest], largest.shape, dtype, body)
    total = reduced(emitter, x, axes, SUM, dtype, lambda entry, by: exp(entry - by), [shift])
    body = on_entries(
        emitter, [total.dtype, dtype], lambda entry, by: (log(entry.astype(dtype)) + by).astype(type_.dtype)
    )
    return _kept_dims(emitter, entrywise(emitter, [total, shift], total.shape, type_.dtype, body), axes, call)


def _normalized(is_log: bool) -> Row:
    def write(emitter: Emitter, call: Call) -> Value:
        (x,), (type_,) = call.inputs, call.types
        axis, dtype = normal_axis(call.params["axis"], len(x.shape)), wide(type_.dtype)
        largest = reduced(emitter, x, [axis], MAX, dtype)
        keepdims_shape = [1 if index == axis else dim for index, dim in enumerate(x.shape)]
        kept_axes = _others(x, [axis])

        def shifted(entry: Entry, by: Entry) -> Entry:
            difference = entry.astype(dtype) - by
            return difference if is_log else exp(difference)

        body = on_entries(emitter, [x.dtype, dtype], shifted)
        parts = entrywise(emitter, [x, expand(emitter, largest, keepdims_shape, kept_axes)], x.shape, dtype, body)
        total = reduced(emitter, parts, [axis], SUM, dtype, exp if is_log else lambda entry: entry)

        def divided(entry: Entry, by: Entry) -> Entry:
            by = by.astype(dtype)
            return (entry - log(by) if is_log else entry / by).astype(type_.dtype)

        body = on_entries(emitter, [dtype, total.dtype], divided)
        totals = expand(emitter, total, keepdims_shape, kept_axes)
        return entrywise(emitter, [parts, totals], x.shape, type_.dtype, body)

    return Row(write, reads_memory=True)


def _arg(is_better: Callable[[Entry, Entry], Entry], worst: Callable[[DType], complex]) -> Row:
    """The first index of the best entry; NaN is better than any number."""

    def write(emitter: Emitter, call: Call) -> Value:
        x = emitter.tensor(call.inputs[0])
        axis = normal_axis(call.params["axis"], len(x.shape))
        _check_some(emitter, call, [x.shape[axis]])
        shape = [x.shape[other] for other in _others(x, [axis])]
        starts = [
            emitter.full(shape, emitter.constant(worst(x.dtype), x.dtype)),
            emitter.full(shape, emitter.constant(DType.INT64.limits[1], DType.INT64)),
        ]

        def body(entries: Sequence[str]) -> Sequence[str]:
            loop_index = emitter.code.op(f"linalg.index {axis} : index")
            index = emitter.code.op(f"arith.index_cast {loop_index} : index to i64")
            dtypes = [x.dtype, x.dtype, DType.INT64, DType.INT64]
            return on_entries(emitter, dtypes, better)([*entries, index])

        def better(entry: Entry, best: Entry, best_index: Entry, index: Entry) -> tuple[Entry, Entry]:
            # the first of equal entries, in whatever order entries are reduced
            entry_nan, best_nan = entry != entry, best != best
            equal = (entry == best) | (entry_nan & best_nan)
            wins = ((is_better(entry, best) | entry_nan) & ~best_nan) | (equal & (index < best_index))
            return wins.where(entry, best), wins.where(index, best_index)

        indices = reduction(emitter, x, [axis], starts, body)[1]
        return _kept_dims(emitter, indices, [axis], call)

    return Row(write, reads_memory=True)


REDUCE = {
    "all": _row(ALL),
    "any": _row(ANY),
    "argmax": _arg(lambda entry, best: entry > best, _least),
    "argmin": _arg(lambda entry, best: entry < best, _most),
    "log_softmax": _normalized(is_log=True),
    "logsumexp": Row(_logsumexp, reads_memory=True),
    "max": _row(MAX),
    "mean": Row(_mean, reads_memory=True),
    "min": _row(MIN),
    "prod": _row(PROD),
    "softmax": _normalized(is_log=False),
    "sum": _row(SUM),
}
