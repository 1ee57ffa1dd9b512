"""Arrays read at indices that are computed: entry by entry, or row by row where whole rows are read.

An index outside its axis is clamped to the nearest one within it, so that only memory of the array is read. `bounds.py`
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
    """An entry of an array of indices, clamped to an axis of `size`, as a value of type `index`.

    Args:
        emitter: Where its lines go.
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
        wrapped = code.op(f"arith.addi {index}, {size} : index")
        index = code.op(f"arith.select {is_negative}, {wrapped}, {index} : index")
    last = code.op(f"arith.subi {size}, {one} : index")
    return code.op(f"arith.maxsi {code.op(f'arith.minsi {index}, {last} : index')}, {zero} : index")


def loop_index(emitter: Emitter, loop: int) -> str:
    """The index of a loop, within the body of a nest."""
    return emitter.code.op(f"linalg.index {loop} : index")


def read_at(
    emitter: Emitter, x: Value, shape: Sequence[Dim], operands: Operands, indices: Callable[[Sequence[str]], list[str]]
) -> Value:
    """An array of `shape` of entries of `x`.

    Args:
        emitter: Where its lines go.
        x: The tensor that is read.
        shape: The shape of the result.
        operands: Arrays that the indices depend on, each with its axes in the result.
        indices: From one entry of each operand to the index along each axis of `x`.
    """
    x, start = apart(emitter, x), emitter.empty(shape, x.dtype)  # entries of a slice could not be read
    rank = len(shape)
    (result,) = generic(
        emitter,
        operands,
        [(start, range(rank))],
        [False] * rank,
        lambda names: entry_at(emitter, x, indices(names)),
    )
    return result


def read_rows(emitter: Emitter, x: Value, rows: Value, shape: Sequence[Dim]) -> Value:
    """Rows of a matrix, (N, K), at `rows` (M,), all of them within it: (M, K) as `shape`."""
    out = emitter.empty(shape, x.dtype)
    if 0 in shape:
        return out
    # IREE gathers rows as vectors: not of a symbolic size, nor of complex numbers, nor on graphics processors
    if emitter.is_gpu or not isinstance(shape[1], int) or x.dtype.kind == "complex":

        def entry(names: Sequence[str]) -> str:
            row = emitter.code.op(f"arith.index_cast {names[0]} : i64 to index")
            return entry_at(emitter, x, [row, loop_index(emitter, 1)])

        return generic(emitter, [(rows, (0,))], [(out, (0, 1))], [False, False], entry)[0]
    # A dispatch of its own: a gather that is fused into its readers keeps IREE from distributing them
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
