"""MLIR of the operations that read an array at indices; `plica.ops.indexing` says what each of them returns.

A check reports an index outside its axis, possibly only when the function returns (`checks.py`). Until then such an
index is moved to the nearest one of its axis, so that no memory outside the array is read. `index` and `gather` count
negative indices from the end of the axis (`wraps=True`); the other operations refuse them.
"""

from collections.abc import Sequence

from plica.backend.native.mlir.bounds import check_indices
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.reading import (
    clamped_index,
    loop_index,
    read_at,
    read_rows,
)
from plica.backend.native.mlir.reshaped import reshaped
from plica.backend.native.mlir.structured import collapsed, entrywise
from plica.backend.native.mlir.types import Value, tensor_type
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, product
from plica.ops.rules import broadcast, normal_axis


def _index(emitter: Emitter, call: Call) -> Value:
    """Reads one index of an axis: a slice, which copies nothing, where the index is a scalar of the host."""
    (x, position), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    size = emitter.size(x.shape[axis])
    check_indices(emitter, position, x.shape[axis], call.params["axis"], call.source)
    if 0 in x.shape:
        return emitter.empty(type_.shape, type_.dtype)
    if not position.is_scalar:
        rank = len(type_.shape)

        def indices_of(entries: Sequence[str]) -> list[str]:
            indices = [loop_index(emitter, loop) for loop in range(rank)]
            indices.insert(axis, clamped_index(emitter, entries[0], position.dtype, size, wraps=True))
            return indices

        return read_at(emitter, x, type_.shape, [(position, ())], indices_of)
    offset = clamped_index(emitter, position.text, position.dtype, size, wraps=True)
    offsets = ["0"] * len(x.shape)
    sizes = [emitter.size_text(dim) for dim in x.shape]
    offsets[axis], sizes[axis] = offset, "1"
    text = emitter.code.op(
        f"tensor.extract_slice {x.text}[{', '.join(offsets)}] [{', '.join(sizes)}] [{', '.join('1' * len(sizes))}] : "
        f"{x.type} to {tensor_type(type_.shape, type_.dtype)}"
    )
    return Value(text, type_.shape, type_.dtype)


def _gather(emitter: Emitter, call: Call) -> Value:
    (x, *indices), (type_,) = call.inputs, call.types
    axes = [normal_axis(axis, len(x.shape)) for axis in call.params["axes"]]
    for index, axis in zip(indices, call.params["axes"], strict=True):
        check_indices(emitter, index, x.shape[axis], axis, call.source)
    return _gathered(emitter, x, indices, axes, type_.shape, wraps=True)


def _gathered(
    emitter: Emitter, x: Value, indices: Sequence[Value], axes: Sequence[int], shape: Sequence[Dim], *, wraps: bool
) -> Value:
    """Reads `x` at `indices` of some of its axes.

    Args:
        emitter: Where the lines go.
        x: The array.
        indices: Integers of shapes that broadcast to one another, for each of `axes`.
        axes: The axes of `x` that are indexed, counted from the front.
        shape: The shape of the result: that of the indices, then the other axes of `x` in order.
        wraps: Whether negative indices count from the end.
    """
    block = broadcast(*(index.shape for index in indices))
    if list(axes) == list(range(len(axes))) and len(axes) < len(x.shape) and block:
        return _gathered_rows(emitter, x, indices, block, wraps=wraps)
    sizes = [emitter.size(x.shape[axis]) for axis in axes]
    operands = [collapsed(emitter, index, block) for index in indices]

    def indices_of(entries: Sequence[str]) -> list[str]:
        clamped = [
            clamped_index(emitter, entry, index.dtype, size, wraps=wraps)
            for entry, index, size in zip(entries, indices, sizes, strict=False)  # the last entry is the result's
        ]
        index_of = dict(zip(axes, clamped, strict=True))
        other_loops = iter(range(len(block), len(shape)))
        return [
            index_of[axis] if axis in index_of else loop_index(emitter, next(other_loops))
            for axis in range(len(x.shape))
        ]

    return read_at(emitter, x, shape, operands, indices_of)


def _gathered_rows(emitter: Emitter, x: Value, indices: Sequence[Value], block: Sequence[Dim], *, wraps: bool) -> Value:
    """Reads `x` at indices of its first axes, row by row.

    `x` becomes a matrix with a row for each index of the first axes, and indices of several axes one row number. For
    example, indices `(i, j)` of an array `(2, 3, 5)` read row `3 * i + j` of the matrix `(6, 5)`.
    """
    count = len(indices)
    sizes = [emitter.size(dim) for dim in x.shape[:count]]

    def number(entries: Sequence[str]) -> str:
        return row_number(
            emitter,
            [
                clamped_index(emitter, entry, index.dtype, size, wraps=wraps)
                for entry, index, size in zip(entries, indices, sizes, strict=True)
            ],
            sizes,
        )

    rows = entrywise(emitter, [emitter.tensor(index) for index in indices], tuple(block), DType.INT64, number)
    row_numbers = reshaped(emitter, rows, (product(block),))
    matrix = reshaped(emitter, x, (product(x.shape[:count]), product(x.shape[count:])))
    result = read_rows(emitter, matrix, row_numbers, (row_numbers.shape[0], matrix.shape[1]))
    return reshaped(emitter, result, (*block, *x.shape[count:]))


def row_number(emitter: Emitter, indices: Sequence[str], sizes: Sequence[str]) -> str:
    """The number of a row among all rows, as a 64-bit integer: its `indices` along the first axes, of these `sizes`."""
    code, number = emitter.code, indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        number = code.op(f"arith.addi {code.op(f'arith.muli {number}, {size} : index')}, {index} : index")
    return code.op(f"arith.index_cast {number} : index to i64")


def _take(emitter: Emitter, call: Call) -> Value:
    (x, indices), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    size = emitter.size(x.shape[axis])
    check_indices(emitter, indices, x.shape[axis], None, call.source)
    if axis == 0 and len(x.shape) > 1:
        return _gathered_rows(emitter, x, [indices], indices.shape, wraps=False)

    def indices_of(entries: Sequence[str]) -> list[str]:
        loops = [loop_index(emitter, loop) for loop in range(len(type_.shape))]
        loops[axis] = clamped_index(emitter, entries[0], indices.dtype, size, wraps=False)
        return loops

    return read_at(emitter, x, type_.shape, [(indices, (axis,))], indices_of)


def _take_along_axis(emitter: Emitter, call: Call) -> Value:
    (x, indices), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    size = emitter.size(x.shape[axis])
    check_indices(emitter, indices, x.shape[axis], None, call.source)
    rank = len(type_.shape)

    def indices_of(entries: Sequence[str]) -> list[str]:
        loops = [loop_index(emitter, loop) for loop in range(rank)]
        loops[axis] = clamped_index(emitter, entries[0], indices.dtype, size, wraps=False)
        return loops

    return read_at(emitter, x, type_.shape, [(indices, range(rank))], indices_of)


def _lookup(emitter: Emitter, call: Call) -> Value:
    """Reads a table `(F, K, C)` at categories `(F, B)`, as rows of K units of the table `(F, C, K)`.

    IREE transposes a constant table while it compiles.
    """
    (table, indices), (type_,) = call.inputs, call.types
    folds, units, categories = table.shape
    check_indices(emitter, indices, categories, None, call.source)
    by_category = transposed(emitter, table, (0, 2, 1))
    sizes = [emitter.size(folds), emitter.size(categories)]

    def number(entries: Sequence[str]) -> str:
        category = clamped_index(emitter, entries[0], indices.dtype, sizes[1], wraps=False)
        return row_number(emitter, [loop_index(emitter, 0), category], sizes)

    rows = entrywise(emitter, [indices], indices.shape, DType.INT64, number)
    row_numbers = reshaped(emitter, rows, (product(indices.shape),))
    matrix = reshaped(emitter, by_category, (folds * categories, units))
    result = read_rows(emitter, matrix, row_numbers, (row_numbers.shape[0], units))
    return reshaped(emitter, result, type_.shape)


def transposed(emitter: Emitter, x: Value, axes: Sequence[int]) -> Value:
    """A tensor whose axis number i is axis `axes[i]` of `x`."""
    out = emitter.empty([x.shape[axis] for axis in axes], x.dtype)
    text = emitter.code.op(
        f"linalg.transpose ins({x.text} : {x.type}) outs({out.text} : {out.type}) permutation = {list(axes)}"
    )
    return Value(text, out.shape, x.dtype)


INDEXING = {
    "index": Row(_index),
    "gather": Row(_gather),
    "take": Row(_take),
    "take_along_axis": Row(_take_along_axis),
    "lookup": Row(_lookup),
}
