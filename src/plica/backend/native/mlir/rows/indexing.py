"""Reading arrays at indices. Each index is checked; wrong indices are clamped, so that only the array is read."""

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
    """A slice of size 1 without its axis, which copies nothing, if the host knows the index; else entry by entry."""
    (x, index), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    size = emitter.size(x.shape[axis])
    check_indices(emitter, index, x.shape[axis], call.params["axis"], call.source)
    if 0 in x.shape:
        return emitter.empty(type_.shape, type_.dtype)
    if not index.is_scalar:
        rank = len(type_.shape)

        def indices_of(names: Sequence[str]) -> list[str]:
            indices = [loop_index(emitter, loop) for loop in range(rank)]
            indices.insert(axis, clamped_index(emitter, names[0], index.dtype, size, wraps=True))
            return indices

        return read_at(emitter, x, type_.shape, [(index, ())], indices_of)
    clamped = clamped_index(emitter, index.text, index.dtype, size, wraps=True)
    offsets = ["0"] * len(x.shape)
    sizes = [emitter.size_text(dim) for dim in x.shape]
    offsets[axis], sizes[axis] = clamped, "1"
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
    """The axes of the indices first, then those of `x` that are not read."""
    block = broadcast(*(index.shape for index in indices))
    if list(axes) == list(range(len(axes))) and len(axes) < len(x.shape) and block:
        return _gathered_rows(emitter, x, indices, block, wraps=wraps)
    sizes = [emitter.size(x.shape[axis]) for axis in axes]
    operands = [collapsed(emitter, index, block) for index in indices]

    def indices_of(names: Sequence[str]) -> list[str]:
        triples = zip(names, indices, sizes, strict=False)
        read = [clamped_index(emitter, name, value.dtype, size, wraps=wraps) for name, value, size in triples]
        index_of = dict(zip(axes, read, strict=True))
        other_loops = iter(range(len(block), len(shape)))
        return [
            index_of[axis] if axis in index_of else loop_index(emitter, next(other_loops))
            for axis in range(len(x.shape))
        ]

    return read_at(emitter, x, shape, operands, indices_of)


def _gathered_rows(emitter: Emitter, x: Value, indices: Sequence[Value], block: Sequence[Dim], *, wraps: bool) -> Value:
    """Rows along the last axes, by their numbers in the flattened array."""
    count = len(indices)
    sizes = [emitter.size(dim) for dim in x.shape[:count]]

    def number(names: Sequence[str]) -> str:
        return row_number(
            emitter,
            [
                clamped_index(emitter, name, index.dtype, size, wraps=wraps)
                for name, index, size in zip(names, indices, sizes, strict=True)
            ],
            sizes,
        )

    rows = entrywise(emitter, [emitter.tensor(index) for index in indices], tuple(block), DType.INT64, number)
    flat = reshaped(emitter, rows, (product(block),))
    table = reshaped(emitter, x, (product(x.shape[:count]), product(x.shape[count:])))
    entries = read_rows(emitter, table, flat, (flat.shape[0], table.shape[1]))
    return reshaped(emitter, entries, (*block, *x.shape[count:]))


def row_number(emitter: Emitter, indices: Sequence[str], sizes: Sequence[str]) -> str:
    """The number of a row in an array whose first axes have these `sizes`, as a 64-bit integer."""
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

    def indices_of(names: Sequence[str]) -> list[str]:
        numbers = [loop_index(emitter, loop) for loop in range(len(type_.shape))]
        numbers[axis] = clamped_index(emitter, names[0], indices.dtype, size, wraps=False)
        return numbers

    return read_at(emitter, x, type_.shape, [(indices, (axis,))], indices_of)


def _take_along_axis(emitter: Emitter, call: Call) -> Value:
    (x, indices), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    size = emitter.size(x.shape[axis])
    check_indices(emitter, indices, x.shape[axis], None, call.source)
    rank = len(type_.shape)

    def indices_of(names: Sequence[str]) -> list[str]:
        numbers = [loop_index(emitter, loop) for loop in range(rank)]
        numbers[axis] = clamped_index(emitter, names[0], indices.dtype, size, wraps=False)
        return numbers

    return read_at(emitter, x, type_.shape, [(indices, range(rank))], indices_of)


def _lookup(emitter: Emitter, call: Call) -> Value:
    """Rows of the table with its last two axes exchanged; the compiler moves a constant table while it compiles."""
    (table, indices), (type_,) = call.inputs, call.types
    folds, units, categories = table.shape
    check_indices(emitter, indices, categories, None, call.source)
    transposed_table = transposed(emitter, table, (0, 2, 1))
    size, sizes = emitter.size(categories), [emitter.size(folds), emitter.size(categories)]

    def number(names: Sequence[str]) -> str:
        category = clamped_index(emitter, names[0], indices.dtype, size, wraps=False)
        return row_number(emitter, [loop_index(emitter, 0), category], sizes)

    rows = entrywise(emitter, [indices], indices.shape, DType.INT64, number)
    flat = reshaped(emitter, rows, (product(indices.shape),))
    rows_of_table = reshaped(emitter, transposed_table, (folds * categories, units))
    entries = read_rows(emitter, rows_of_table, flat, (flat.shape[0], units))
    return reshaped(emitter, entries, type_.shape)


def transposed(emitter: Emitter, x: Value, axes: Sequence[int]) -> Value:
    """A tensor with its axes in another order."""
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
