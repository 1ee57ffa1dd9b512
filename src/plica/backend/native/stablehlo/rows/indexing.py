"""Reads and writes at indices. For an index beyond an end, StableHLO reads the entry at that end and writes none."""

from collections.abc import Sequence
from typing import Any

from plica.backend.native.stablehlo.call import Call, Row, of
from plica.backend.native.stablehlo.values import Value, joined
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.ops.rules import broadcast

_MODES = {"add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}


def _from_front(x: Value, index: Value, axis: int) -> Value:
    """Indices, negative ones counted from the end, as indices from the front."""
    integers = index.astype(DType.INT64)
    return (integers < 0).where(integers + x.size(x.shape[axis]), integers)


def _vectors(indices: Sequence[Value], shape: tuple[Dim, ...]) -> Value:
    """Indices stacked along a new last axis."""
    return joined([index.astype(DType.INT64).spread(shape).expand(-1) for index in indices], -1)


def _gather(x: Value, *indices: Value, axes: tuple[int, ...]) -> Value:
    shape = broadcast(*(index.shape for index in indices))
    positions = [axis % x.rank for axis in axes]
    vectors = _vectors([_from_front(x, index, axis) for index, axis in zip(indices, positions, strict=True)], shape)
    return x.read(vectors, positions, range(len(shape), len(shape) + x.rank - len(positions)))


def _take_along_axis(x: Value, index: Value, *, axis: int) -> Value:
    position = axis % x.rank
    vectors = [index if axis == position else index.iota(axis) for axis in range(x.rank)]
    return x.read(_vectors(vectors, index.shape), range(x.rank), [])


def _lookup(table: Value, index: Value) -> Value:
    return table.read(_vectors([index.iota(0), index], index.shape), [0, 2], [2])


def _search(table: Value, rows: Value, uniforms: Value) -> Value:
    chosen = table.read(_vectors([rows.iota(0), rows], rows.shape), [0, 1], [2])
    total = chosen.part(-1, table.shape[2] - 1, table.shape[2])
    below = (chosen <= uniforms.expand(-1) * total) & (chosen < total)
    counts = below.astype(DType.INT64).sum((-1,))
    return counts.minimum(table.size(table.shape[2] - 1))


def _update(x: Value, values: Value, *indices: Value, mode: str, index: tuple[Any, ...]) -> Value:
    if not x.rank:
        return values if mode == "set" else x.map(_MODES[mode], values)
    common = broadcast(*(index.shape for index in indices))
    dims, slices = list(common), []
    for axis, part in enumerate(index):
        if part == "at":
            continue
        start, stop, step = (0, x.shape[axis], 1) if part is None else part
        length = x.part(axis, start, stop, step).shape[axis]
        slices.append((len(dims), length, start, step))
        dims.append(length)
    shape, remaining_indices, remaining_slices, vectors = tuple(dims), iter(indices), iter(slices), []
    for axis, part in enumerate(index):
        if part == "at":
            number = _from_front(x, next(remaining_indices), axis)
            vectors.append(number.reshape((*number.shape, *[1] * len(slices))))
        else:
            axis_of_values, _, start, step = next(remaining_slices)
            vectors.append(x.iota(axis_of_values, shape) * x.size(step) + x.size(start))
    return _scattered(x, values.spread(shape), _vectors(vectors, shape), mode)


def _scattered(x: Value, values: Value, vectors: Value, mode: str) -> Value:
    code, entry = x.code, ((), x.dtype)
    region = code.region(
        [entry] * 2, lambda old, new: [new if mode == "set" else code.apply(_MODES[mode], [old, new], *entry)]
    )
    axes = list(range(x.rank))
    attributes = {
        "scatter_dimension_numbers": (
            f"#stablehlo.scatter<inserted_window_dims = {axes}, scatter_dims_to_operand_dims = {axes}, "
            f"index_vector_dim = {vectors.rank - 1}>"
        )
    }
    operands = [value.tensor for value in (x, vectors, values)]
    return Value(code, code.apply("scatter", operands, x.shape, x.dtype, attributes, [region]))


def _index(call: Call) -> Value:
    x, index = call.inputs
    axis = call.params["axis"] % x.rank
    return x.take(_from_front(x, index, axis), axis)


INDEXING: dict[str, Row] = {
    "gather": of(_gather),
    "index": _index,
    "lookup": of(_lookup),
    "search_cumulative": of(_search),
    "take": of(lambda x, index, *, axis: x.take(index, axis)),
    "take_along_axis": of(_take_along_axis),
    "update": of(_update),
}
