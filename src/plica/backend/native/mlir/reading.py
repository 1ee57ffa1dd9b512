"""Arrays read at places that are computed: entry by entry, or row by row where whole rows are read.

A place outside its axis is moved to the nearest one within it, so that no memory is read that is not the array's; what
is wrong with it is told by `bounds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plica.backend.native.mlir.bounds import as_index
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import entry_at, generic
from plica.backend.native.mlir.types import Value, tensor_type
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, product

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

Operands = Sequence[tuple[Value, Sequence[int]]]


def place_of(emitter: Emitter, entry: str, dtype: DType, size: str, *, wraps: bool) -> str:
    """An entry of an array of indices as a place within an axis of `size`.

    Args:
        emitter: Where its lines go.
        entry: The entry.
        dtype: Its dtype.
        size: The size, of type `index`.
        wraps: Whether places below 0 count from the end.
    """
    code = emitter.code
    zero, one = index_constant(code, 0), index_constant(code, 1)
    place = as_index(emitter, entry, dtype)
    if wraps:
        behind = code.op(f"arith.cmpi slt, {place}, {zero} : index")
        moved = code.op(f"arith.addi {place}, {size} : index")
        place = code.op(f"arith.select {behind}, {moved}, {place} : index")
    last = code.op(f"arith.subi {size}, {one} : index")
    return code.op(f"arith.maxsi {code.op(f'arith.minsi {place}, {last} : index')}, {zero} : index")


def loop_index(emitter: Emitter, loop: int) -> str:
    """The place along a loop, within the body of a nest."""
    return emitter.code.op(f"linalg.index {loop} : index")


def read_at(
    emitter: Emitter, x: Value, shape: Sequence[Dim], operands: Operands, places: Callable[[Sequence[str]], list[str]]
) -> Value:
    """An array of `shape` of entries of `x`.

    Args:
        emitter: Where its lines go.
        x: What is read, a tensor.
        shape: The shape of the result.
        operands: Arrays of which the places depend, each with the axes of the result that it has.
        places: From one entry of each operand to the place of the entry, along each axis of `x`.
    """
    start = emitter.empty(shape, x.dtype)
    rank = len(shape)
    (result,) = generic(
        emitter,
        operands,
        [(start, range(rank))],
        [False] * rank,
        lambda names: entry_at(emitter, x, places(names)),
    )
    return result


def read_rows(emitter: Emitter, x: Value, rows: Value, shape: Sequence[Dim]) -> Value:
    """Rows of a matrix, (N, K), at `rows` (M,), all of them within it: (M, K) as `shape`."""
    out = emitter.empty(shape, x.dtype)
    text = emitter.code.op(
        f"iree_linalg_ext.gather dimension_map = [0] ins({x.text}, {rows.text} : {x.type}, {rows.type}) "
        f"outs({out.text} : {out.type}) -> {out.type}"
    )
    return Value(text, tuple(shape), x.dtype)


def flattened(emitter: Emitter, x: Value, start: int, stop: int) -> Value:
    """A tensor with the axes from `start` to before `stop` joined to one."""
    if stop - start == 1:
        return x
    shape = (*x.shape[:start], product(x.shape[start:stop]), *x.shape[stop:])
    groups = [[axis] for axis in range(start)] + [list(range(start, stop))]
    groups += [[axis] for axis in range(stop, len(x.shape))]
    text = emitter.code.op(
        f"tensor.collapse_shape {x.text} {groups} : {x.type} into {tensor_type(shape, x.dtype)}"
    )
    return Value(text, shape, x.dtype)


def split_axis(emitter: Emitter, x: Value, axis: int, dims: Sequence[Dim]) -> Value:
    """A tensor with one axis made several of sizes `dims`, one or more."""
    if len(dims) == 1:
        return x
    shape = (*x.shape[:axis], *dims, *x.shape[axis + 1 :])
    groups = [[one] for one in range(axis)] + [list(range(axis, axis + len(dims)))]
    groups += [[one + len(dims) - 1] for one in range(axis + 1, len(x.shape))]
    sizes = ", ".join(emitter.size_text(dim) for dim in shape)
    text = emitter.code.op(
        f"tensor.expand_shape {x.text} {groups} output_shape [{sizes}] : "
        f"{x.type} into {tensor_type(shape, x.dtype)}"
    )
    return Value(text, shape, x.dtype)
