"""Random numbers from explicit keys: no state anywhere, the same key gives the same numbers on every backend.

    key = random.key(0)
    noise = random.normal(key, x.shape)
    for i in range(3):
        step = random.fold_in(key, i)  # a key of its own for each step; i may be a loop's index

A key is an int64 array of two words of 32 bits. Draw from each key once: two draws of one shape from one key are the
same numbers. `split` and `fold_in` make new keys, independent of each other and of what is drawn from the old one.

The numbers are Threefry-2x32 with 20 rounds (Salmon et al. 2011) of the key and the element's index: element i, in
row-major order, depends on the key, on i, and on whether it takes up to 32 bits or 64. So a short draw is the beginning
of a longer one of the same dtype. Bits, integers, uniform numbers, permutations and truth values are the same bit for
bit in the interpreter and in torch. `normal`, `exponential` and `gumbel` are functions of them that two libraries round
differently: they agree to 2 (float64: 4) units in the last place, or 4 epsilon, and so does `categorical` but for ties.
"""

from __future__ import annotations

import operator
from typing import Any

from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.sizes import Dim, Size, product
from plica.ops.random import DIGITS
from plica.ops.rules import broadcast, normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.elementwise import astype, where
from plica.tracing.namespace.indexing import index, take
from plica.tracing.namespace.operands import (
    Array,
    as_dim,
    as_dims,
    as_tracer,
    cast,
    elementwise,
    is_number,
    public_functions,
    unary,
)
from plica.tracing.namespace.reductions import argmax
from plica.tracing.namespace.shapes import broadcast_to, moveaxis, reshape
from plica.tracing.scope import record, scope_of
from plica.tracing.tracer import Tracer, literal

# --- keys ------------------------------------------------------------------------------------------------------------


def _number(what: str, value: Any) -> Any:
    """A scalar integer as an operand of int64; Python integers are taken modulo 2**64."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(1 << 63) <= value < 1 << 64:
            raise InputError(f"{user_line()}: {what} has 64 bits, and {value} does not fit; take it modulo 2**64.")
        return literal(value - (1 << 64) if value >= 1 << 63 else value, DType.INT64)
    scalar = as_tracer(what, value)
    if scalar.ndim or scalar.dtype.kind != "int":
        raise DTypeError(f"{user_line()}: {what} is a scalar integer, found {scalar.aval}.")
    return cast(scalar, DType.INT64)


def key(seed: Any) -> Tracer:
    """The key of an integer, which may be a scalar of the program.

    Shapes: seed (), result (2,) in int64.
    """
    return record("random_key", _number("a seed", seed))


def split(key: Any, num: Any = 2) -> Tracer:
    """`num` keys, independent of each other and of what is drawn from `key`; the first ones do not depend on `num`.

    Shapes: key (2,), result (num, 2).
    """
    return record("random_split", as_tracer("split", key), num=as_dim(num))


def fold_in(key: Any, data: Array) -> Tracer:
    """A key for each integer `data`, such as the index of a loop.

    Shapes: key (2,), data (), result (2,).
    """
    return record("random_fold_in", as_tracer("fold_in", key), _number("what is folded into a key", data))


# --- bits and uniform numbers ----------------------------------------------------------------------------------------


def bits(key: Any, shape: Any = (), *, width: int = 32) -> Tracer:
    """Random bits: integers from 0 to `2 ** width - 1` in int64 (of width 64, all of its values).

    Shapes: key (2,), result `shape`.
    """
    return record("random_bits", as_tracer("bits", key), shape=as_dims(shape), width=operator.index(width))


def _floats(key: Any, shape: Any, dtype: object, interval: str) -> Tracer:
    wanted = as_dtype(dtype)
    if wanted not in DIGITS:
        known = ", ".join(float_dtype.value for float_dtype in DIGITS)
        raise DTypeError(f"{user_line()}: random floats have one of the dtypes {known}, found {wanted.value}.")
    params = {"shape": as_dims(shape), "digits": DIGITS[wanted], "interval": interval, "dtype": wanted}
    return record("random_uniform", as_tracer("random", key), **params)


def _require_order(minval: Any, maxval: Any) -> None:
    if is_number(minval) and is_number(maxval) and not minval < maxval:
        raise InputError(f"{user_line()}: minval is {minval} and maxval {maxval}; minval must be below maxval.")


def uniform(key: Any, shape: Any = (), *, dtype: object = "float32", minval: Array = 0, maxval: Array = 1) -> Tracer:
    """Numbers from `minval` up to `maxval`, which is left out, evenly spread.

    Between 0 and 1 they are multiples of `2 ** -24` in float32 (`2 ** -53` in float64, `2 ** -11` in float16), each as
    likely as the others. The few that rounding puts on `maxval` in another interval become `minval`.
    """
    _require_order(minval, maxval)
    unit = _floats(key, shape, dtype, "[0,1)")
    if is_number(minval) and is_number(maxval) and (minval, maxval) == (0, 1):
        return unit
    low, high = (_as_bound(bound, unit) for bound in (minval, maxval))
    span = high - low if is_number(low) and is_number(high) else elementwise("subtract", high, low)
    scaled = elementwise("multiply", unit, span)
    if is_number(low) and low == 0:
        return scaled  # type: ignore[no-any-return]
    moved = elementwise("add", scaled, low)
    return where(elementwise("less", moved, high), moved, low)


def _as_bound(value: Any, like: Tracer) -> Any:
    """A Python number, or an array of the dtype of `like`, which must broadcast to its shape."""
    return value if is_number(value) else broadcast_to(astype(as_tracer("random", value), like.dtype), like.dims)


def normal(key: Any, shape: Any = (), *, dtype: object = "float32") -> Tracer:
    """Standard normal numbers, by the inverse of the error function; the largest are 5.4 in float32, 8.3 in float64."""
    inverse = elementwise("erfinv", _floats(key, shape, dtype, "(-1,1)"))
    return elementwise("multiply", inverse, 1.4142135623730951)  # type: ignore[no-any-return]


def exponential(key: Any, shape: Any = (), *, dtype: object = "float32") -> Tracer:
    """Numbers of the exponential distribution of mean 1, `-log` of uniform ones; from 0 (left out) to 43.7."""
    return elementwise("negative", elementwise("log", _floats(key, shape, dtype, "(0,1)")))  # type: ignore[no-any-return]


def gumbel(key: Any, shape: Any = (), *, dtype: object = "float32") -> Tracer:
    """Numbers of the standard Gumbel distribution, `-log(-log(1 - u))`; the upper tail reaches to 43.7."""
    waiting = elementwise(
        "negative", elementwise("log1p", elementwise("negative", _floats(key, shape, dtype, "(0,1)")))
    )
    return elementwise("negative", elementwise("log", waiting))  # type: ignore[no-any-return]


# --- choices ---------------------------------------------------------------------------------------------------------


def randint(key: Any, shape: Any, minval: Array, maxval: Array, *, dtype: object = "int64") -> Tracer:
    """Integers from `minval` up to `maxval`, which is left out.

    An integer is likelier than another by a factor of at most `1 + (maxval - minval) / 2 ** 63`. Where `maxval` is not
    above `minval` when the program runs, the result is `minval`.
    """
    _require_order(minval, maxval)
    wanted = as_dtype(dtype)
    if wanted.kind != "int":
        raise DTypeError(f"{user_line()}: random integers have a dtype of integers, found {wanted.value}.")
    if all(isinstance(bound, int) for bound in (minval, maxval)) and maxval - minval >= 1 << 63:
        raise InputError(f"{user_line()}: {maxval} - {minval} is 2**63 or more; draw bits(key, shape, width=64).")
    words = bits(key, shape, width=63)
    low, high = (_as_integers(bound, words) for bound in (minval, maxval))
    span = high - low if is_number(low) and is_number(high) else elementwise("subtract", high, low)
    span = span if is_number(span) else elementwise("maximum", span, 1)
    drawn = elementwise("remainder", words, span)
    return astype(drawn if is_number(low) and low == 0 else elementwise("add", drawn, low), wanted)


def _as_integers(value: Any, like: Tracer) -> Any:
    if isinstance(value, int):
        return value
    bound = as_tracer("randint", value)
    if bound.dtype.kind != "int":
        raise DTypeError(f"{user_line()}: the bounds of randint are integers, found {bound.aval}; convert with astype.")
    return cast(bound, DType.INT64) if bound.ndim == 0 else broadcast_to(cast(bound, DType.INT64), like.dims)


def bernoulli(key: Any, p: Array = 0.5, shape: Any = None) -> Tracer:
    """True with probability `p`, in the shape of `p` or in `shape`, to which `p` broadcasts.

    A uniform number is compared with `p`, in the dtype of `p` (of a Python number: float32): probabilities are rounded
    up to the next multiple of `2 ** -24` there.
    """
    if is_number(p):
        if not 0 <= p <= 1:
            raise InputError(f"{user_line()}: a probability lies between 0 and 1, found {p}.")
        return elementwise("less", _floats(key, () if shape is None else shape, DType.FLOAT32, "[0,1)"), float(p))  # type: ignore[no-any-return]
    chances = as_tracer("bernoulli", p)
    if chances.dtype not in DIGITS:
        raise DTypeError(f"{user_line()}: probabilities are floats, found {chances.aval}; convert with astype.")
    dims = chances.dims if shape is None else as_dims(shape)
    unit = _floats(key, dims, chances.dtype, "[0,1)")
    return elementwise("less", unit, broadcast_to(chances, dims))  # type: ignore[no-any-return]


def categorical(key: Any, logits: Array, *, axis: int = -1, shape: Any = None) -> Tracer:
    """Indices along `axis`, likely in proportion to `exp(logits)`: the largest of `logits` and Gumbel numbers.

    `shape` is that of the result, by default that of `logits` without `axis`, which broadcasts to it. Indices of -inf
    are never drawn where another is finite.
    """
    scores = as_tracer("categorical", logits)
    if scores.dtype not in DIGITS or scores.ndim == 0:
        wrong = ShapeError if scores.ndim == 0 else DTypeError
        raise wrong(f"{user_line()}: logits are an array of floats with at least one axis, found {scores.aval}.")
    last = moveaxis(scores, normal_axis(axis, scores.ndim), -1)
    dims = last.dims[:-1] if shape is None else as_dims(shape)
    noise = gumbel(key, (*dims, last.dims[-1]), dtype=scores.dtype)
    broadcast_to(last, noise.dims)  # says so if it does not
    return argmax(elementwise("add", noise, last), axis=-1)


def permutation(key: Any, x: Array, *, axis: int = 0) -> Tracer:
    """The numbers from 0 up to a scalar `x`, or the array `x` along `axis`, in random order."""
    if is_number(x) or isinstance(x, Size) or as_tracer("permutation", x).ndim == 0:
        return record("random_permutation", as_tracer("permutation", key), size=as_dim(x))
    array = as_tracer("permutation", x)
    along = normal_axis(axis, array.ndim)
    order = record("random_permutation", as_tracer("permutation", key), size=array.dims[along])
    return take(array, order, axis=along, nonnegative=True)


def choice(key: Any, x: Array, shape: Any = (), *, replace: bool = True, p: Array = None) -> Tracer:
    """Numbers below a scalar `x`, or elements of an array `x` of one axis; each at most once unless `replace`.

    Args:
        key: The key.
        x: How many numbers, or what to choose from.
        shape: The shape of the result.
        replace: Whether an element may be chosen again.
        p: Probabilities of the elements, which need not sum to 1; with `replace` only.
    """
    elements = None if is_number(x) or isinstance(x, Size) else as_tracer("choice", x)
    if elements is not None and elements.ndim > 1:
        raise ShapeError(f"{user_line()}: choice takes a number or an array of one axis, found {elements.aval}.")
    scalar = elements is None or elements.ndim == 0
    count = as_dim(x) if scalar else elements.dims[0]  # type: ignore[union-attr]
    dims = as_dims(shape)
    indices = _chosen(key, count, dims, replace, p)
    return indices if scalar else reshape(take(elements, reshape(indices, (-1,)), axis=0, nonnegative=True), dims)


def _scalar(size: Dim) -> Any:
    return Tracer(size, scope_of(), weak=True) if isinstance(size, Size) else size


def _chosen(key: Any, count: Dim, dims: tuple[Dim, ...], replace: bool, p: Any) -> Tracer:
    if p is not None:
        if not replace:
            raise InputError(
                f"{user_line()}: choice with probabilities p draws with replacement; leave out p or replace=False."
            )
        chances = as_tracer("choice", p)
        broadcast(chances.dims, (count,))
        return categorical(key, elementwise("log", chances), shape=dims)
    if replace:
        return randint(key, dims, 0, _scalar(count))
    wanted = product(dims)
    if isinstance(wanted, int) and isinstance(count, int) and wanted > count:
        raise InputError(f"{user_line()}: {wanted} elements of {count} cannot be chosen without replacement.")
    order = record("random_permutation", as_tracer("choice", key), size=count)
    if isinstance(wanted, int) and isinstance(count, int):
        return reshape(unary("slice", order, axis=0, start=0, stop=wanted, step=1), dims)
    return reshape(index(order, slice(0, _scalar(wanted))), dims)


__all__ = public_functions(globals())
