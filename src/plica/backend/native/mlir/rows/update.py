"""Updates at indices: a slice is replaced, or single entries in order.

Equal indices are updated in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from plica.backend.native.mlir.bounds import check_indices, check_slice
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.reading import clamped_index
from plica.backend.native.mlir.reshaped import reshaped
from plica.backend.native.mlir.rows.indexing import transposed
from plica.backend.native.mlir.structured import apart, collapsed, entrywise, generic
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar, write_scalar
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, floor_divide, product
from plica.ops.rules import broadcast
from plica.ops.update import AT

# The operation from the old entry and the value to the new entry; None where the new entry is the value.
_COMBINED = {"set": None, "add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of an array: its offsets, sizes and steps along each axis, as text."""

    offsets: Sequence[str]
    shape: Sequence[Dim]
    sizes: Sequence[str]
    steps: Sequence[str]

    @property
    def text(self) -> str:
        """The slice as MLIR writes it."""
        return " ".join(f"[{', '.join(texts)}]" for texts in (self.offsets, self.sizes, self.steps))


def _update(emitter: Emitter, call: Call) -> Value:
    x, values, *indices = call.inputs
    x, index = emitter.tensor(x), call.params["index"]
    emitter.overwrites = True
    arrays = iter(indices)
    at = [next(arrays) if axis_index == AT else None for axis_index in index]
    for axis, axis_index in enumerate(index):
        if isinstance(axis_index, tuple):
            check_slice(emitter, x, axis, axis_index, call.source)
        elif axis_index == AT:
            check_indices(emitter, at[axis], x.shape[axis], axis, call.source)  # type: ignore[arg-type]
    block = broadcast(*(index.shape for index in indices))
    slices = all(index is None or index.is_scalar for index in at)
    part = _part(emitter, x, index, at if slices else [None] * len(at))
    if 0 in (*(x.shape if part is None else part.shape), *block):
        return x
    if part is None:
        old = x
    else:
        target = Value("", tuple(part.shape), x.dtype)
        old = Value(
            emitter.code.op(f"tensor.extract_slice {x.text}{part.text} : {x.type} to {target.type}"),
            target.shape,
            x.dtype,
        )
    if slices:
        new = _combined(
            emitter, call.params["mode"], old, values, [axis for axis, number in enumerate(at) if number is None]
        )
    else:
        new = _scattered(emitter, call.params["mode"], old, values, at, block)
    if part is None:
        return new
    text = f"tensor.insert_slice {new.text} into {x.text}{part.text} : {new.type} into {x.type}"
    return Value(emitter.code.op(text), x.shape, x.dtype)


def _part(emitter: Emitter, x: Value, index: Sequence[object], at: Sequence[Value | None]) -> _Slice | None:
    """The part of `x` that slices and indices of the host describe; None where it is all of it."""
    if not any(isinstance(axis_index, tuple) for axis_index in index) and not any(array is not None for array in at):
        return None
    offsets, steps = list[str](), list[str]()
    shape: list[Dim] = []
    for axis, axis_index in enumerate(index):
        scalar = at[axis]
        if scalar is not None:
            size = emitter.size(x.shape[axis])
            offsets.append(clamped_index(emitter, scalar.text, scalar.dtype, size, wraps=True))
            shape.append(1)
            steps.append("1")
        elif isinstance(axis_index, tuple):
            start, stop, step = axis_index
            offsets.append(emitter.size_text(start))
            shape.append(_slice_size(start, stop, step))
            steps.append(emitter.size_text(step))
        else:
            offsets.append("0")
            shape.append(x.shape[axis])
            steps.append("1")
    return _Slice(offsets, shape, [emitter.size_text(dim) for dim in shape], steps)


def _slice_size(start: Dim, stop: Dim, step: Dim) -> Dim:
    return stop - start if step == 1 else floor_divide(stop - start + step - 1, step)


def _combined(emitter: Emitter, mode: str, old: Value, values: Value, axes: Sequence[int]) -> Value:
    """New entries of a part from the old ones and values, which broadcast to the part's `axes`, the others being 1."""
    shape = [old.shape[axis] for axis in axes]
    read, along = collapsed(emitter, values, shape)
    loops = [axes[axis] for axis in along]
    scalars, name, rank = emitter.scalars, _COMBINED[mode], len(old.shape)

    def body(names: Sequence[str]) -> str:
        value = Scalar(names[-2], old.dtype)
        if name is None:
            return value.text
        return write_scalar(scalars, name, (Scalar(names[0], old.dtype), value), old.dtype).text

    operands = [(read, loops)] if name is None else [(old, range(rank)), (read, loops)]
    start = emitter.empty(old.shape, old.dtype)
    return generic(emitter, operands, [(start, range(rank))], [False] * rank, body)[0]


def _scattered(
    emitter: Emitter, mode: str, old: Value, values: Value, at: Sequence[Value | None], block: Sequence[Dim]
) -> Value:
    """Entries of `old` combined with values, one after the other, at the indices `at`, which have the shape `block`."""
    axes = [axis for axis, number in enumerate(at) if number is not None]
    order = [*axes, *(axis for axis in range(len(at)) if axis not in axes)]
    target = old if order == sorted(order) else transposed(emitter, old, order)
    indices = [index for index in at if index is not None]
    rows = _rows_of(emitter, target, indices, block)
    shape = (*block, *target.shape[len(axes) :])
    spread = reshaped(emitter, _broadcast(emitter, values, shape), (product(block), *shape[len(block) :]))
    target = apart(emitter, target, hidden=spread.type == target.type)  # IREE would merge equal tensors
    spread, rows = (apart(emitter, tensor) for tensor in (spread, rows))
    code, scalars, element = emitter.code, emitter.scalars, old.element
    name = code.name()
    code.put(
        f"{name} = iree_linalg_ext.scatter dimension_map = {list(range(len(axes)))} unique_indices(false) "
        f"ins({spread.text}, {rows.text} : {spread.type}, {rows.type}) outs({target.text} : {target.type}) {{"
    )
    with code.block():
        new, before = code.name(), code.name()
        code.put(f"^bb0({new}: {element}, {before}: {element}):")
        combine = _COMBINED[mode]
        operands = (Scalar(before, old.dtype), Scalar(new, old.dtype))
        entry = new if combine is None else write_scalar(scalars, combine, operands, old.dtype).text
        code.put(f"iree_linalg_ext.yield {entry} : {element}")
    code.put(f"}} -> {target.type}")
    result = Value(name, target.shape, old.dtype)
    return (
        result
        if order == sorted(order)
        else transposed(emitter, result, [order.index(axis) for axis in range(len(at))])
    )


def _rows_of(emitter: Emitter, x: Value, indices: Sequence[Value], block: Sequence[Dim]) -> Value:
    """Indices of the first axes of `x` as rows (N, K), for the N entries of their common shape `block`."""
    sizes = [emitter.size(dim) for dim in x.shape[: len(indices)]]
    columns, count = [], product(block)
    for index, size in zip(indices, sizes, strict=True):

        def body(names: Sequence[str], index: Value = index, size: str = size) -> str:
            clamped = clamped_index(emitter, names[0], index.dtype, size, wraps=True)
            return emitter.code.op(f"arith.index_cast {clamped} : index to i64")

        column = emitter.tensor(entrywise(emitter, [emitter.tensor(index)], block, DType.INT64, body))
        columns.append(reshaped(emitter, column, (count,)))
    if len(columns) == 1:
        return reshaped(emitter, columns[0], (count, 1))
    out = Value("", (count, len(columns)), DType.INT64)
    slices = [f"[0, {index}] [{emitter.size_text(count)}, 1] [1, 1]" for index in range(len(columns))]
    is_begun = emitter.is_begun(out, 0, columns[0].type)
    return emitter.inserted(zip(columns, slices, strict=True), out, is_begun=is_begun)


def _broadcast(emitter: Emitter, values: Value, shape: Sequence[Dim]) -> Value:
    result = entrywise(emitter, [emitter.tensor(values)], shape, values.dtype, lambda names: names[0])
    return emitter.tensor(result)


UPDATE = {"update": Row(_update)}
