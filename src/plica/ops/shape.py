"""Shapes and the making of arrays. Sizes in `shape` parameters may be symbolic."""

from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Op, sample
from plica.ir.sizes import Dim, floor_divide, product, same, total
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import normal_axes, normal_axis, require_operands, require_same_dtype

_X = np.arange(6.0, dtype="float32").reshape(2, 3)


def _text(shape: tuple[Dim, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def reshape_dims(found: tuple[Dim, ...], shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """`shape` with a single -1 replaced by what is left of `found`.

    Raises:
        ShapeError: The numbers of elements differ, or may differ.
    """
    elements = product(found)
    if sum(size == -1 for size in shape) == 1:
        known = product(size for size in shape if size != -1)
        shape = tuple(floor_divide(elements, known) if size == -1 else size for size in shape)
    if not same(product(shape), elements):
        raise ShapeError(f"{_text(found)} has {elements} elements and cannot become {_text(shape)}.")
    return shape


def _reshape_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if -1 in shape:
        raise ShapeError("a reshape within a program names every size; -1 belongs to the namespace function.")
    return array_type(reshape_dims(x.shape, shape), x.dtype)


def _permute_type(x: ArrayType, *, axes: tuple[int, ...]) -> ArrayType:
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(f"axes {axes} are no permutation of the {len(x.shape)} axes of {x}.")
    return array_type([x.shape[axis] for axis in axes], x.dtype)


def _broadcast_to_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    missing = len(shape) - len(x.shape)
    fits = missing >= 0 and all(a in (1, b) for a, b in zip(x.shape, shape[missing:], strict=True))
    if not fits:
        raise ShapeError(f"{x} does not broadcast to {_text(shape)}.")
    return array_type(shape, x.dtype)


def _expand_type(x: ArrayType, *, axis: int) -> ArrayType:
    place = normal_axis(axis, len(x.shape) + 1)
    return array_type((*x.shape[:place], 1, *x.shape[place:]), x.dtype)


def _squeeze_type(x: ArrayType, *, axis: tuple[int, ...]) -> ArrayType:
    axes = normal_axes(axis, len(x.shape))
    for one in axes:
        if x.shape[one] != 1:
            raise ShapeError(f"axis {one} of {x} has size {x.shape[one]}, so it cannot be squeezed.")
    return array_type([size for index, size in enumerate(x.shape) if index not in axes], x.dtype)


def _join_dims(types: tuple[ArrayType, ...], axis: int) -> tuple[tuple[Dim, ...], int]:
    require_operands(types, 1)
    first = types[0].shape
    place = normal_axis(axis, len(first))
    for type_ in types[1:]:
        others = type_.shape
        fits = len(others) == len(first) and all(
            i == place or a == b for i, (a, b) in enumerate(zip(first, others, strict=True))
        )
        if not fits:
            raise ShapeError(f"{', '.join(map(str, types))} do not fit together outside axis {place}.")
    return first, place


def _concat_type(*types: ArrayType, axis: int) -> ArrayType:
    first, place = _join_dims(types, axis)
    joined = total(type_.shape[place] for type_ in types)
    return array_type((*first[:place], joined, *first[place + 1 :]), require_same_dtype(*types))


def _stack_type(*types: ArrayType, axis: int) -> ArrayType:
    require_operands(types, 1)
    first = types[0].shape
    if any(type_.shape != first for type_ in types):
        raise ShapeError(f"{', '.join(map(str, types))} have different shapes.")
    place = normal_axis(axis, len(first) + 1)
    return array_type((*first[:place], len(types), *first[place:]), require_same_dtype(*types))


def _flip_type(x: ArrayType, *, axis: tuple[int, ...]) -> ArrayType:
    normal_axes(axis, len(x.shape))
    return x


def _slice_type(x: ArrayType, *, axis: int, start: int, stop: int, step: int) -> ArrayType:
    place = normal_axis(axis, len(x.shape))
    size = x.shape[place]
    if step < 1 or start < 0 or stop < start or (isinstance(size, int) and stop > size):
        raise ShapeError(f"slice {start}:{stop}:{step} does not lie within axis {place} of {x}.")
    return array_type((*x.shape[:place], len(range(start, stop, step)), *x.shape[place + 1 :]), x.dtype)


def _slice(x: Any, *, axis: int, start: int, stop: int, step: int) -> Any:
    index = [slice(None)] * x.ndim
    index[axis] = slice(start, stop, step)
    return x[tuple(index)]


def _full_type(fill: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if fill.shape:
        raise ShapeError(f"full takes a scalar, found {fill}.")
    return array_type(shape, fill.dtype)


def _arange_type(*, size: Dim, dtype: DType) -> ArrayType:
    return array_type((size,), dtype)


SHAPE = (
    Op(
        "reshape",
        _reshape_type,
        lambda x, *, shape: np.reshape(x, shape),
        lambda: [sample(_X, shape=(3, 2)), sample(_X, shape=(6,)), sample(_X[:0], shape=(3, 0))],
    ),
    Op(
        "permute_dims",
        _permute_type,
        lambda x, *, axes: np.transpose(x, axes),
        lambda: [sample(_X, axes=(1, 0)), sample(_X.reshape(1, 2, 3), axes=(2, 0, 1))],
    ),
    Op(
        "broadcast_to",
        _broadcast_to_type,
        lambda x, *, shape: np.broadcast_to(x, shape),
        lambda: [sample(_X, shape=(4, 2, 3)), sample(_X[:, :1], shape=(2, 5))],
    ),
    Op(
        "expand_dims",
        _expand_type,
        lambda x, *, axis: np.expand_dims(x, axis),
        lambda: [sample(_X, axis=0), sample(_X, axis=-1)],
    ),
    Op(
        "squeeze",
        _squeeze_type,
        lambda x, *, axis: np.squeeze(x, axis),
        lambda: [sample(_X[:1], axis=(0,)), sample(_X.reshape(1, 6, 1), axis=(0, 2))],
    ),
    Op(
        "concat",
        _concat_type,
        lambda *xs, axis: np.concatenate(xs, axis=axis),
        lambda: [sample(_X, _X[:1], axis=0), sample(_X, _X, _X, axis=1)],
    ),
    Op(
        "stack",
        _stack_type,
        lambda *xs, axis: np.stack(xs, axis=axis),
        lambda: [sample(_X, _X, axis=0), sample(_X, _X, _X, axis=-1)],
    ),
    Op("flip", _flip_type, np.flip, lambda: [sample(_X, axis=(0,)), sample(_X, axis=(0, 1))]),
    Op("slice", _slice_type, _slice, lambda: [sample(_X, axis=1, start=0, stop=3, step=2)]),
    Op(
        "full",
        _full_type,
        lambda fill, *, shape: np.full(shape, fill),
        lambda: [sample(np.float32(0.5), shape=(2, 3)), sample(np.int64(3), shape=())],
    ),
    Op(
        "arange",
        _arange_type,
        lambda *, size, dtype: np.arange(size, dtype=dtype.value),
        lambda: [sample(size=4, dtype=DType.INT64), sample(size=0, dtype=DType.FLOAT32)],
    ),
)
