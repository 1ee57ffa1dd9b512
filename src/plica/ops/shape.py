"""Operations that change shapes, join and split arrays, or make arrays. Sizes in `shape` parameters may be symbolic.

Each function `_<name>_type` is the type rule of an operation: from operand types and parameters to the result type. It
raises a ShapeError where they do not fit. The table `SHAPE` at the end has the operations.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.dtypes import DType, require_computed
from plica.ir.op import ALWAYS, Memory, Op, Sample, View, sample
from plica.ir.ranges import as_first, either, or_zero
from plica.ir.sizes import Dim, Size, floor_divide, product, total
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import (
    given_shape,
    normal_axes,
    normal_axis,
    require_equal_sizes,
    require_operands,
    require_same_dtype,
    shape_text,
)
from plica.ops.slices import checked_slice, slice_bounds, slice_size

_X = np.arange(6.0, dtype="float32").reshape(2, 3)


def reshape_dims(dims: tuple[Dim, ...], shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """`shape` with a single -1 replaced by the size that keeps the number of elements of `dims`.

    >>> reshape_dims((2, 6), (3, -1))
    (3, 4)

    Raises:
        ShapeError: There is more than one -1, or the other sizes do not determine it.
    """
    if all(size != -1 for size in shape):
        return shape
    elements, known = product(dims), product(size for size in shape if size != -1)
    if sum(size == -1 for size in shape) > 1 or known == 0:
        raise ShapeError(
            f"{shape_text(dims)} cannot become {shape_text(shape)}: -1 stands for one size, found from the others."
        )
    if isinstance(elements, int) and isinstance(known, int) and elements % known:
        raise ShapeError(
            f"{shape_text(dims)} cannot become {shape_text(shape)}: {elements} elements are no multiple of "
            f"{known}; give -1 beside sizes whose product divides {elements}."
        )
    return tuple(floor_divide(elements, known) if size == -1 else size for size in shape)


def _reshape_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if -1 in shape:
        raise ShapeError("a reshape in a Program names every size, found -1; -1 is for plica.numpy.reshape alone.")
    elements = product(x.shape)
    message = f"{shape_text(x.shape)} has {elements} elements and cannot become {shape_text(shape)}."
    require_equal_sizes(product(shape), elements, message)
    return array_type(shape, x.dtype)


def _permute_type(x: ArrayType, *, axes: tuple[int, ...]) -> ArrayType:
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(f"axes {axes} are no permutation of the {len(x.shape)} axes of {x}.")
    return array_type([x.shape[axis] for axis in axes], x.dtype)


def _broadcast_to_type(x: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    message = f"{x} does not broadcast to {shape_text(shape)}."
    num_new_axes = len(shape) - len(x.shape)
    if num_new_axes < 0:
        raise ShapeError(message)
    for axis, (size, wanted) in enumerate(zip(x.shape, shape[num_new_axes:], strict=True)):
        if size != 1:
            require_equal_sizes(wanted, size, message, axis)
    return array_type(shape, x.dtype)


def _expand_type(x: ArrayType, *, axis: int) -> ArrayType:
    position = normal_axis(axis, len(x.shape) + 1)
    return array_type((*x.shape[:position], 1, *x.shape[position:]), x.dtype)


def _squeeze_type(x: ArrayType, *, axis: tuple[int, ...]) -> ArrayType:
    axes = normal_axes(axis, len(x.shape))
    for number in axes:
        message = f"axis {number} of {x} has size {x.shape[number]}, so it cannot be squeezed."
        require_equal_sizes(1, x.shape[number], message)
    return array_type([size for index, size in enumerate(x.shape) if index not in axes], x.dtype)


def _agreed(sizes: Sequence[Dim], message: str) -> Dim:
    """The size that equal `sizes` have: an integer if one of them is, else the first; `message` if they differ."""
    chosen = next((size for size in sizes if isinstance(size, int)), sizes[0])
    for size in sizes:
        require_equal_sizes(chosen, size, message)
    return chosen


def _sizes_by_axis(types: Sequence[ArrayType], message: str) -> list[Sequence[Dim]]:
    """For each axis, its size in each of `types`; `message` if they have different numbers of axes."""
    if any(len(type_.shape) != len(types[0].shape) for type_ in types):
        raise ShapeError(message)
    return list(zip(*(type_.shape for type_ in types), strict=True))


def _concat_type(*types: ArrayType, axis: int) -> ArrayType:
    require_operands(types, 1)
    along = normal_axis(axis, len(types[0].shape))
    message = f"{', '.join(map(str, types))} must have equal sizes outside axis {along}."
    sizes = _sizes_by_axis(types, message)
    dims = [total(size) if index == along else _agreed(size, message) for index, size in enumerate(sizes)]
    return array_type(dims, require_same_dtype(*types))


def _stack_type(*types: ArrayType, axis: int) -> ArrayType:
    require_operands(types, 1)
    message = f"{', '.join(map(str, types))} have different shapes."
    dims = [_agreed(size, message) for size in _sizes_by_axis(types, message)]
    position = normal_axis(axis, len(dims) + 1)
    return array_type((*dims[:position], len(types), *dims[position:]), require_same_dtype(*types))


def _unstack_type(x: ArrayType, *, axis: int) -> tuple[ArrayType, ...]:
    along = normal_axis(axis, len(x.shape))
    count = x.shape[along]
    if isinstance(count, Size) or count == 0:
        raise ShapeError(f"unstack along axis {along} of {x} needs a known size of at least 1, found {count}.")
    return (array_type((*x.shape[:along], *x.shape[along + 1 :]), x.dtype),) * count


def _split_type(x: ArrayType, *, axis: int, sizes: tuple[Dim, ...]) -> tuple[ArrayType, ...]:
    along = normal_axis(axis, len(x.shape))
    require_equal_sizes(total(sizes), x.shape[along], f"parts of {sizes} do not make up axis {along} of {x}.")
    return tuple(array_type((*x.shape[:along], size, *x.shape[along + 1 :]), x.dtype) for size in sizes)


def _split(x: Any, *, axis: int, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(np.split(x, np.cumsum(sizes[:-1]), axis))


def _roll_type(x: ArrayType, *, shift: tuple[Dim, ...], axis: tuple[int, ...]) -> ArrayType:
    if len(shift) != len(axis):
        raise ShapeError(f"roll was given {len(shift)} shift(s) for {len(axis)} axes.")
    for number in axis:
        normal_axis(number, len(x.shape))
    return x


def _roll(xp: Any, x: Any, *, shift: tuple[Dim, ...], axis: tuple[int, ...]) -> Any:
    for distance, along in zip(shift, axis, strict=True):
        size = x.shape[along]
        x = xp.take(x, xp.remainder(xp.arange(size) - distance, size), axis=along)
    return x


def _triangle_type(x: ArrayType, *, k: Dim) -> ArrayType:  # noqa: ARG001 - a type does not depend on the diagonal
    if len(x.shape) < 2:
        raise ShapeError(f"a triangle is part of a matrix, found {x}.")
    return x


def _triangle(lower: bool) -> Callable[..., Any]:
    """The decomposition of `tril` or `triu`: other entries than those of the triangle up to diagonal `k` become 0."""

    def triangle(xp: Any, x: Any, *, k: Dim) -> Any:
        rows, columns = (xp.arange(size) for size in x.shape[-2:])
        offsets = columns - xp.expand_dims(rows, axis=1)
        return xp.where(offsets <= k if lower else offsets >= k, x, xp.zeros_like(x))

    return triangle


def _triangle_samples() -> list[Sample]:
    stack = np.arange(1, 25).reshape(2, 3, 4)
    return [
        sample(_X + 1, k=0),
        sample(stack, k=1),
        sample(stack > 3, k=-1),
        sample(_X[:0], k=2),
        sample((_X + 1j).astype("complex64"), k=5),
    ]


def _flip_type(x: ArrayType, *, axis: tuple[int, ...]) -> ArrayType:
    normal_axes(axis, len(x.shape))
    return x


def _slice_type(x: ArrayType, *, axis: int, start: Dim, stop: Dim, step: Dim) -> ArrayType:
    along = normal_axis(axis, len(x.shape))
    size = slice_size(x, along, start, stop, step)
    return array_type((*x.shape[:along], size, *x.shape[along + 1 :]), x.dtype)


def _slice(x: Any, *, axis: int, start: int, stop: int, step: int) -> Any:
    index = [slice(None)] * x.ndim
    index[axis] = checked_slice(axis, x.shape[axis], start, stop, step)
    return x[tuple(index)]


def _full_type(fill: ArrayType, *, shape: tuple[Dim, ...]) -> ArrayType:
    if fill.shape:
        raise ShapeError(f"full takes a scalar, found {fill}.")
    return array_type(shape, fill.dtype)


def _arange_type(*, size: Dim, dtype: DType) -> ArrayType:
    require_computed(dtype)
    return array_type((size,), dtype)


_moved = partial(Op, memory=Memory.VIEW, range=as_first, view=View.MOVED)

SHAPE = (
    _moved(
        "reshape",
        _reshape_type,
        lambda x, *, shape: np.reshape(x, shape),
        lambda: [sample(_X, shape=(3, 2)), sample(_X, shape=(6,)), sample(_X[:0], shape=(3, 0))],
        never_raises=ALWAYS,
        nonnegative=given_shape,
    ),
    _moved(
        "permute_dims",
        _permute_type,
        lambda x, *, axes: np.transpose(x, axes),
        lambda: [sample(_X, axes=(1, 0)), sample(_X.reshape(1, 2, 3), axes=(2, 0, 1))],
        never_raises=ALWAYS,
    ),
    _moved(
        "broadcast_to",
        _broadcast_to_type,
        lambda x, *, shape: np.broadcast_to(x, shape),
        lambda: [sample(_X, shape=(4, 2, 3)), sample(_X[:, :1], shape=(2, 5))],
        nonnegative=given_shape,
    ),
    _moved(
        "expand_dims",
        _expand_type,
        lambda x, *, axis: np.expand_dims(x, axis),
        lambda: [sample(_X, axis=0), sample(_X, axis=-1)],
        never_raises=ALWAYS,
    ),
    _moved(
        "squeeze",
        _squeeze_type,
        lambda x, *, axis: np.squeeze(x, axis),
        lambda: [sample(_X[:1], axis=(0,)), sample(_X.reshape(1, 6, 1), axis=(0, 2))],
        never_raises=ALWAYS,
    ),
    Op(
        "concat",
        _concat_type,
        lambda *xs, axis: np.concatenate(xs, axis=axis),
        lambda: [sample(_X, _X[:1], axis=0), sample(_X, _X, _X, axis=1)],
        memory=Memory.COPY,
        range=either,
        view=View.JOINED,
    ),
    Op(
        "stack",
        _stack_type,
        lambda *xs, axis: np.stack(xs, axis=axis),
        lambda: [sample(_X, _X, axis=0), sample(_X, _X, _X, axis=-1)],
        memory=Memory.COPY,
        range=either,
        view=View.JOINED,
    ),
    _moved(
        "unstack",
        _unstack_type,
        lambda x, *, axis: tuple(np.moveaxis(x, axis, 0)),
        lambda: [sample(_X, axis=0), sample(_X, axis=-1), sample(_X[:1], axis=0), sample(_X[:0], axis=1)],
    ),
    _moved(
        "split",
        _split_type,
        _split,
        lambda: [
            sample(_X, axis=1, sizes=(1, 2)),
            sample(_X, axis=-1, sizes=(2, 0, 1)),
            sample(_X, axis=0, sizes=(2,)),
            sample(_X[:0], axis=1, sizes=(2, 1)),
        ],
    ),
    Op(
        "roll",
        _roll_type,
        lambda x, *, shift, axis: np.roll(x, shift, axis),
        lambda: [
            sample(_X, shift=(1,), axis=(1,)),
            sample(_X, shift=(-4, 1), axis=(-1, 0)),
            sample(_X, shift=(), axis=()),
            sample(_X[:0], shift=(2, 1), axis=(0, 1)),
        ],
        _roll,
        memory=Memory.EITHER,
        range=as_first,
        view=View.MOVED,
    ),
    Op("tril", _triangle_type, np.tril, _triangle_samples, _triangle(lower=True), range=or_zero),
    Op("triu", _triangle_type, np.triu, _triangle_samples, _triangle(lower=False), range=or_zero),
    Op(
        "flip",
        _flip_type,
        lambda x, *, axis: np.flip(x, axis).copy(),
        lambda: [sample(_X, axis=(0,)), sample(_X, axis=(0, 1))],
        range=as_first,
        view=View.MOVED,
    ),
    Op(
        "slice",
        _slice_type,
        _slice,
        lambda: [sample(_X, axis=1, start=0, stop=3, step=2)],
        memory=Memory.VIEW,
        range=as_first,
        view=View.SELECTED,
        nonnegative=slice_bounds,
    ),
    Op(
        "full",
        _full_type,
        lambda fill, *, shape: np.full(shape, fill),
        lambda: [sample(np.float32(0.5), shape=(2, 3)), sample(np.int64(3), shape=())],
        range=as_first,
        view=View.MOVED,
        memory=Memory.EITHER,
        nonnegative=given_shape,
    ),
    Op(
        "arange",
        _arange_type,
        lambda *, size, dtype: np.arange(size, dtype=dtype.value),
        lambda: [sample(size=4, dtype=DType.INT64), sample(size=0, dtype=DType.FLOAT32)],
        nonnegative=lambda *, size, dtype: (size,),  # noqa: ARG005 - the dtype has no size
    ),
)
