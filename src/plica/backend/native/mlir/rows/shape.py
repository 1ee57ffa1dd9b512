"""Shapes, and new arrays."""

import re
from collections.abc import Sequence

from plica.backend.native.mlir.bounds import check_slice
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.reshaped import reshaped
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import apart, collapse, entry_at, entrywise, expand, indexed
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, total
from plica.ops.rules import normal_axes, normal_axis


def _reshape(emitter: Emitter, call: Call) -> Value:
    return reshaped(emitter, emitter.tensor(call.inputs[0]), call.types[0].shape)


def _permute_dims(emitter: Emitter, call: Call) -> Value:
    return permuted(emitter, emitter.tensor(call.inputs[0]), call.params["axes"])


def permuted(emitter: Emitter, x: Value, axes: Sequence[int]) -> Value:
    """A tensor with its axes in another order."""
    if list(axes) == sorted(axes):
        return x
    out = emitter.empty([x.shape[axis] for axis in axes], x.dtype)
    text = f"linalg.transpose ins({x.text} : {x.type}) outs({out.text} : {out.type}) permutation = {list(axes)}"
    return Value(emitter.code.op(text), *out.array)


def _broadcast_to(emitter: Emitter, call: Call) -> Value:
    (type_,) = call.types
    if call.inputs[0].shape == type_.shape:
        return call.inputs[0]
    if call.inputs[0].is_scalar:
        return emitter.full(type_.shape, emitter.hidden(call.inputs[0]))
    return entrywise(emitter, call.inputs, type_.shape, type_.dtype, lambda entries: entries[0])


def _expand_dims(emitter: Emitter, call: Call) -> Value:
    x, (type_,) = emitter.tensor(call.inputs[0]), call.types
    new_axis = normal_axis(call.params["axis"], len(type_.shape))
    return expand(emitter, x, type_.shape, [axis for axis in range(len(type_.shape)) if axis != new_axis])


def _squeeze(emitter: Emitter, call: Call) -> Value:
    (x,), axes = call.inputs, normal_axes(call.params["axis"], len(call.inputs[0].shape))
    return collapse(emitter, x, [axis for axis in range(len(x.shape)) if axis not in axes]) if axes else x


def join(emitter: Emitter, values: Sequence[Value], axis: int) -> Value:
    """Values concatenated along an axis.

    Those without entries are left out: their offset could lie beyond the end, which MLIR refuses.
    """
    first, *_ = values
    out = Value(
        "", (*first.shape[:axis], total(value.shape[axis] for value in values), *first.shape[axis + 1 :]), first.dtype
    )
    values = [value for value in values if 0 not in value.shape]
    if not values:
        return emitter.empty(out.shape, out.dtype)
    if len(values) == 1:
        return values[0]
    ages = [_age(value) for value in values]
    is_lost = isinstance(out.shape[axis], int) and not all(isinstance(value.shape[axis], int) for value in values)
    oldest = min(range(len(values)), key=ages.__getitem__)
    is_begun = emitter.is_begun(out, oldest, values[oldest].type)
    if ages != sorted(ages) or is_lost or is_begun:  # IREE loses a size of such a `concat`
        return _inserted(emitter, values, axis, out, is_begun=is_begun)
    typed_values = f"{', '.join(value.text for value in values)} : ({', '.join(value.type for value in values)})"
    return Value(emitter.code.op(f"tensor.concat dim({axis}) {typed_values} -> {out.type}"), *out.array)


def _inserted(emitter: Emitter, values: Sequence[Value], axis: int, out: Value, *, is_begun: bool) -> Value:
    """Values concatenated along an axis, inserted in the order in which they were defined.

    The compiler lets the operation that defines a value write it into the result. It moves all earlier insertions in
    front of that operation. If one of them inserts the value of a branch, the operands of the branch stay behind.
    The compiler then refuses the code, or the code crashes when it runs.
    """
    sizes = [value.shape[axis] for value in values]
    parts = []
    for index, tensor in enumerate(values):
        start = emitter.size_text(total(sizes[:index]))
        offsets = ", ".join(start if other == axis else "0" for other in range(len(tensor.shape)))
        extents = ", ".join(map(emitter.size_text, tensor.shape))
        strides = ", ".join("1" for _ in tensor.shape)
        parts.append((tensor, f"[{offsets}] [{extents}] [{strides}]"))
    return emitter.inserted(sorted(parts, key=lambda part: _age(part[0])), out, is_begun=is_begun)


def _age(value: Value) -> int:
    """When a value was defined, by its name: names are numbered."""
    match = re.match(r"%v(\d+)", value.text)
    return int(match[1]) if match else -1


def _concat(emitter: Emitter, call: Call) -> Value:
    return join(emitter, call.inputs, normal_axis(call.params["axis"], len(call.types[0].shape)))


def _stack(emitter: Emitter, call: Call) -> Value:
    shape = call.types[0].shape
    new_axis = normal_axis(call.params["axis"], len(shape))
    kept_axes = [axis for axis in range(len(shape)) if axis != new_axis]
    expanded = (*shape[:new_axis], 1, *shape[new_axis + 1 :])
    return join(emitter, [expand(emitter, emitter.tensor(x), expanded, kept_axes) for x in call.inputs], new_axis)


def cut(emitter: Emitter, x: Value, axis: int, start: str, shape: Sequence[Dim], step: int = 1) -> Value:
    """The part of an array that begins at `start` of one axis, and has the sizes of `shape`.

    Args:
        emitter: Where its lines go.
        x: The array.
        axis: The axis.
        start: The first index along it: a number, or a value of type `index`.
        shape: The sizes of the result; without the axis, of which then one index is read, if there is one size less.
        step: The difference of neighbouring indices.
    """
    if 0 in shape:
        return emitter.empty(shape, x.dtype)
    rank = len(x.shape)
    starts = ", ".join(start if index == axis else "0" for index in range(rank))
    full = shape if len(shape) == rank else (*shape[:axis], 1, *shape[axis:])
    sizes = ", ".join(emitter.size_text(dim) for dim in full)
    steps = ", ".join(str(step) if index == axis else "1" for index in range(rank))
    out = Value("", tuple(shape), x.dtype)
    text = f"tensor.extract_slice {x.text}[{starts}] [{sizes}] [{steps}] : {x.type} to {out.type}"
    return Value(emitter.code.op(text), *out.array)


def _unstack(emitter: Emitter, call: Call) -> list[Value]:
    (x,), axis = call.inputs, normal_axis(call.params["axis"], len(call.inputs[0].shape))
    return [cut(emitter, x, axis, str(index), type_.shape) for index, type_ in enumerate(call.types)]


def _split(emitter: Emitter, call: Call) -> list[Value]:
    (x,), axis, sizes = call.inputs, normal_axis(call.params["axis"], len(call.inputs[0].shape)), call.params["sizes"]
    starts = [emitter.size_text(total(sizes[:index])) for index in range(len(sizes))]
    return [cut(emitter, x, axis, start, type_.shape) for start, type_ in zip(starts, call.types, strict=True)]


def _slice(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    axis = normal_axis(call.params["axis"], len(x.shape))
    start, stop, step = (call.params[name] for name in ("start", "stop", "step"))
    check_slice(emitter, x, axis, (start, stop, step), call.source)
    if step == 1:
        return cut(emitter, x, axis, emitter.size_text(start), type_.shape)
    x, first, by = apart(emitter, x), emitter.size(start), emitter.size(step)
    code = emitter.code

    def body(indices: Sequence[str]) -> str:
        index = code.op(f"arith.addi {code.op(f'arith.muli {indices[axis]}, {by} : index')}, {first} : index")
        return entry_at(emitter, x, [*indices[:axis], index, *indices[axis + 1 :]])

    return indexed(emitter, type_.shape, type_.dtype, body)


def _number_fields(count: int, first: int = 0) -> list[str]:
    """Replacement fields for numbers in a message."""
    return [f"{{{index}}}" for index in range(first, first + count)]


def _flip(emitter: Emitter, call: Call) -> Value:
    (x,), code = call.inputs, emitter.code
    axes = normal_axes(call.params["axis"], len(x.shape))
    if not axes:
        return x
    x, one = apart(emitter, x), index_constant(code, 1)
    lasts = {axis: code.op(f"arith.subi {emitter.size(x.shape[axis])}, {one} : index") for axis in axes}

    def body(indices: Sequence[str]) -> str:
        read = [
            code.op(f"arith.subi {lasts[axis]}, {index} : index") if axis in lasts else index
            for axis, index in enumerate(indices)
        ]
        return entry_at(emitter, x, read)

    return indexed(emitter, x.shape, x.dtype, body)


def _arange(emitter: Emitter, call: Call) -> Value:
    (type_,) = call.types

    def body(indices: Sequence[str]) -> str:
        integer = emitter.code.op(f"arith.index_cast {indices[0]} : index to i64")
        return emitter.scalars.convert(Scalar(integer, DType.INT64), type_.dtype).text

    return indexed(emitter, type_.shape, type_.dtype, body)


def _assert_shape(emitter: Emitter, call: Call) -> Value:
    (x,), wanted = call.inputs, call.params["shape"]
    unknown = [(a, b) for a, b in zip(x.shape, wanted, strict=True) if a != b]
    holds = emitter.constant(True, DType.BOOL)
    for size, other in unknown:
        equal = emitter.checks.compare("eq", size, other)
        holds = Value(emitter.code.op(f"arith.andi {holds.text}, {equal.text} : i1"), (), DType.BOOL, is_scalar=True)
    if unknown:
        rank = len(wanted)
        actual, needed = (f"({', '.join(_number_fields(rank, first))}{',' * (rank == 1)})" for first in (0, rank))
        message = (
            f"an array has shape {actual}, but {needed} is needed: sizes that meet must be equal; "
            "give the arguments sizes that fit."
        )
        sizes = (*x.shape, *wanted)
        fault = Fault("InputError", message, lambda: [*map(emitter.size_value, sizes)], call.source)
        emitter.checks.require(holds, fault)
    return x


SHAPE = {
    "arange": Row(_arange),
    "assert_shape": Row(_assert_shape),
    "broadcast_to": Row(_broadcast_to),
    "concat": Row(_concat),
    "expand_dims": Row(_expand_dims),
    "flip": Row(_flip),
    "full": Row(_broadcast_to),
    "permute_dims": Row(_permute_dims),
    "reshape": Row(_reshape),
    "slice": Row(_slice),
    "split": Row(_split),
    "squeeze": Row(_squeeze),
    "stack": Row(_stack),
    "unstack": Row(_unstack),
}
