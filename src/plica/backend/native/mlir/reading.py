"""Reads arrays at computed indices: entry by entry, or row by row where whole rows are read.

An index outside its axis is moved to the nearest one within it, so that only memory of the array is read. `bounds.py`
reports such indices.
"""

from collections.abc import Callable, Sequence

from plica.backend.native.mlir.bounds import as_index
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import apart, entry_at, generic
from plica.backend.native.mlir.types import Value
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim

Operands = Sequence[tuple[Value, Sequence[int]]]


def clamped_index(emitter: Emitter, entry: str, dtype: DType, size: str, *, wraps: bool) -> str:
    """An entry of an array of indices as an index that surely lies within an axis of `size`.

    Args:
        emitter: Where the lines go.
        entry: The entry.
        dtype: Its dtype.
        size: The size, of type `index`.
        wraps: Whether indices below 0 count from the end.
    """
    code = emitter.code
    zero, one = index_constant(code, 0), index_constant(code, 1)
    index = as_index(emitter, entry, dtype)
    if wraps:
        is_negative = code.op(f"arith.cmpi slt, {index}, {zero} : index")
        from_front = code.op(f"arith.addi {index}, {size} : index")
        index = code.op(f"arith.select {is_negative}, {from_front}, {index} : index")
    last = code.op(f"arith.subi {size}, {one} : index")
    return code.op(f"arith.maxsi {code.op(f'arith.minsi {index}, {last} : index')}, {zero} : index")


def loop_index(emitter: Emitter, loop: int) -> str:
    """The index of a loop, counted from the outermost, within the body of a nest."""
    return emitter.code.op(f"linalg.index {loop} : index")


def read_at(
    emitter: Emitter,
    x: Value,
    shape: Sequence[Dim],
    operands: Operands,
    indices_of: Callable[[Sequence[str]], list[str]],
) -> Value:
    """An array of `shape`, each entry of which is an entry of `x` at computed indices.

    Args:
        emitter: Where its lines go.
        x: The tensor that is read.
        shape: The shape of the result.
        operands: Arrays from which the indices are computed, each with the axes of the result that it has.
        indices_of: From one entry of each operand to the index along each axis of `x`.
    """
    x, start = apart(emitter, x), emitter.empty(shape, x.dtype)  # entries of a slice could not be read
    rank = len(shape)
    (result,) = generic(
        emitter,
        operands,
        [(start, range(rank))],
        [False] * rank,
        lambda names: entry_at(emitter, x, indices_of(names)),
    )
    return result


def read_rows(emitter: Emitter, x: Value, rows: Value, shape: Sequence[Dim]) -> Value:
    """Rows of a matrix, (N, K), at `rows` (M,), all of them within it: (M, K) as `shape`."""
    out = emitter.empty(shape, x.dtype)
    if 0 in shape:
        return out
    # IREE gathers rows of symbolic size as vectors of unbounded length. It has no vectors of complex numbers, and no
    # gather on graphics processors.
    if emitter.is_gpu or not isinstance(shape[1], int) or x.dtype.kind == "complex":

        def entry(names: Sequence[str]) -> str:
            row = emitter.code.op(f"arith.index_cast {names[0]} : i64 to index")
            return entry_at(emitter, x, [row, loop_index(emitter, 1)])

        return generic(emitter, [(rows, (0,))], [(out, (0, 1))], [False, False], entry)[0]
    # A dispatch of its own: operations that read a gather, fused with it, would not be distributed
    size = "" if isinstance(shape[0], int) else f"{{{emitter.size(shape[0])}}}"
    text = emitter.code.name()
    emitter.code.put(f"{text} = flow.dispatch.region -> ({out.type}{size}) {{")
    with emitter.code.block():
        rows_read = emitter.code.op(
            f"iree_linalg_ext.gather dimension_map = [0] ins({x.text}, {rows.text} : {x.type}, {rows.type}) "
            f"outs({out.text} : {out.type}) -> {out.type}"
        )
        emitter.code.put(f"flow.return {rows_read} : {out.type}")
    emitter.code.put("}")
    return Value(text, tuple(shape), x.dtype)
