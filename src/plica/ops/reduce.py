"""Reductions, scans and the normalizations built on them. `axis` is a tuple of axes counted from the front."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import ALWAYS, Array, Derivative, Op, Sample, sample
from plica.ir.ranges import as_first, combined
from plica.ir.types import ArrayType, array_type
from plica.ops.elementwise import NUMERIC, REAL
from plica.ops.rules import normal_axes, normal_axis, require_kind

NO_ENTRIES = "an axis of size 0 has no largest or smallest element; give it entries."

_X = np.asarray([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]])


def reduced_shape(type_: ArrayType, axis: tuple[int, ...], keepdims: bool) -> tuple[Any, ...]:
    """The shape after reducing `axis`."""
    axes = normal_axes(axis, len(type_.shape))
    if keepdims:
        return tuple(1 if index in axes else size for index, size in enumerate(type_.shape))
    return tuple(size for index, size in enumerate(type_.shape) if index not in axes)


def _rule(kinds: tuple[str, ...], result: Callable[[DType], DType], empty: bool) -> Callable[..., ArrayType]:
    def rule(x: ArrayType, *, axis: tuple[int, ...], keepdims: bool) -> ArrayType:
        require_kind([x], kinds)
        if not empty and any(x.shape[index] == 0 for index in normal_axes(axis, len(x.shape))):
            raise ShapeError(f"{x}: {NO_ENTRIES}")
        return array_type(reduced_shape(x, axis, keepdims), result(x.dtype))

    return rule


def _accumulator(dtype: DType) -> DType:
    """Sums and products of small integers are 64 bits wide, as in the standard."""
    if dtype.kind == "bool" or (dtype.kind == "int" and dtype.value.startswith("int")):
        return DType.INT64
    return DType.UINT64 if dtype.kind == "int" else dtype


def _own(dtype: DType) -> DType:
    return dtype


def _bool(_: DType) -> DType:
    return DType.BOOL


def _samples(kind: str) -> Callable[[], list[Sample]]:
    def make() -> list[Sample]:
        dtypes = {"bool": ["bool"], "number": ["float32", "float64", "int32"], "float": ["float32", "float64"]}[kind]
        samples = []
        for dtype in dtypes:
            x = (_X > 0) if dtype == "bool" else _X.astype(dtype)
            samples += [sample(x, axis=(0,), keepdims=False), sample(x, axis=(1,), keepdims=True)]
            samples.append(sample(x, axis=(0, 1), keepdims=False))
        return samples

    return make


def _of_entries(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction without identity, which refuses an axis that turns out to have no entries."""

    def reduce(x: Array, *, axis: int | tuple[int, ...], keepdims: bool) -> Any:
        if any(x.shape[index] == 0 for index in normal_axes(axis if isinstance(axis, tuple) else (axis,), x.ndim)):
            raise InputError(NO_ENTRIES)
        return function(x, axis=axis, keepdims=keepdims)

    return reduce


def _logsumexp(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    result = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return result if keepdims else np.squeeze(result, axis=axis)


def softmax(x: Array, *, axis: int) -> Any:
    """Exponentials along `axis`, scaled to sum to 1."""
    exps = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return exps / np.sum(exps, axis=axis, keepdims=True)


def log_softmax(x: Array, *, axis: int) -> Any:
    """The logarithms of `softmax`."""
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _one_axis(kinds: tuple[str, ...], result: Callable[[DType], DType] = _own) -> Callable[..., ArrayType]:
    def rule(x: ArrayType, *, axis: int) -> ArrayType:
        require_kind([x], kinds)
        normal_axis(axis, len(x.shape))
        return array_type(x.shape, result(x.dtype))

    return rule


def _arg_type(x: ArrayType, *, axis: int, keepdims: bool) -> ArrayType:
    require_kind([x], ("int", "float"))
    if x.shape[normal_axis(axis, len(x.shape))] == 0:
        raise ShapeError(f"{x}: {NO_ENTRIES}")
    return array_type(reduced_shape(x, (axis,), keepdims), DType.INT64)


def _arg_samples() -> list[Sample]:
    return [sample(_X, axis=1, keepdims=False), sample(_X.astype("float32"), axis=0, keepdims=True)]


def _axis_samples() -> list[Sample]:
    extreme = np.asarray([[1e4, -1e4, 0.0]], dtype="float32")
    return [sample(_X, axis=1), sample(_X.astype("float32"), axis=0), sample(extreme, axis=-1)]


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axis: function(x, axis=axis)


def _cumulative_samples() -> list[Sample]:
    return [
        sample(_X, axis=1),
        sample((_X * 4).astype("int32"), axis=0),
        sample((_X + 2j).astype("complex64"), axis=1),
        sample(_X > 0, axis=-1),
    ]


def _lse_samples() -> list[Sample]:
    zero = np.asarray([[-np.inf, -np.inf], [-np.inf, 2.0]])
    return [*_samples("float")(), sample(zero, axis=(1,), keepdims=False)]


def _rescale_type(x: ArrayType) -> tuple[ArrayType, ArrayType]:
    require_kind([x], ("float",))
    if not x.shape or x.shape[-1] == 0:
        raise ShapeError(f"rescale needs a last axis with elements, found {x}.")
    return x, array_type((*x.shape[:-1], 1), x.dtype)


def _rescale(x: Array) -> tuple[Any, Any]:
    """Rows divided by a power of two, so that the largest number lies in [0.5, 1); and that power, 1 for tiny rows."""
    largest = np.max(x, axis=-1, keepdims=True, initial=0)
    exponent = np.where(largest >= np.finfo(x.dtype).tiny, np.frexp(largest)[1], 0)
    return np.ldexp(x, -exponent), np.ldexp(np.ones_like(largest), exponent)


def _rescale_samples() -> list[Sample]:
    rows = np.asarray([[0.5, 1e-30, 2e-30], [1e-30, 4e-30, 0.0], [0.0, 0.0, 0.0]])
    return [sample(rows), sample(rows.astype("float32"))]


REDUCE = (
    Op(
        "sum",
        _rule(("bool", *NUMERIC), _accumulator, True),
        np.sum,
        _samples("number"),
        range=combined,
        never_raises=ALWAYS,
    ),
    Op(
        "prod",
        _rule(("bool", *NUMERIC), _accumulator, True),
        np.prod,
        _samples("number"),
        range=combined,
        never_raises=ALWAYS,
    ),
    Op("max", _rule(REAL, _own, False), _of_entries(np.max), _samples("number"), range=as_first),
    Op("min", _rule(REAL, _own, False), _of_entries(np.min), _samples("number"), range=as_first),
    Op("any", _rule(("bool",), _bool, True), np.any, _samples("bool")),
    Op("all", _rule(("bool",), _bool, True), np.all, _samples("bool")),
    Op(
        "mean", _rule(("float", "complex"), _own, True), np.mean, _samples("float"), range=combined, never_raises=ALWAYS
    ),
    Op("logsumexp", _rule(("float",), _own, True), _logsumexp, _lse_samples, never_raises=ALWAYS),
    Op("rescale", _rescale_type, _rescale, _rescale_samples, derivative=Derivative.ITS_OWN),
    Op("argmax", _arg_type, _of_entries(np.argmax), _arg_samples, derivative=Derivative.NONE),
    Op("argmin", _arg_type, _of_entries(np.argmin), _arg_samples, derivative=Derivative.NONE),
    Op("softmax", _one_axis(("float",)), softmax, _axis_samples, range=(0.0, 1.0), never_raises=ALWAYS),
    Op("log_softmax", _one_axis(("float",)), log_softmax, _axis_samples, range=(-math.inf, 0.0), never_raises=ALWAYS),
    Op(
        "cumulative_sum",
        _one_axis(("bool", *NUMERIC), _accumulator),
        _cumulative(np.cumsum),
        _cumulative_samples,
        range=combined,
    ),
    Op(
        "cumulative_prod",
        _one_axis(("bool", *NUMERIC), _accumulator),
        _cumulative(np.cumprod),
        _cumulative_samples,
        range=combined,
    ),
)
