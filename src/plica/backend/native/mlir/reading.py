"""Arrays read at places that are computed: entry by entry, or row by row where whole rows are read.

A place outside its axis is moved to the nearest one within it, so that only memory of the array is read. `bounds.py`
reports such places.
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
        x: The tensor that is read.
        shape: The shape of the result.
        operands: Arrays of which the places depend, each with the axes of the result that it has.
        places: From one entry of each operand to the place of the entry, along each axis of `x`.
    """
    x, start = apart(emitter, x), emitter.empty(shape, x.dtype)  # entries of a slice could not be read
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
    if 0 in shape:
        return out
    # Rows of a size that is not known are gathered as vectors without end, and there are no vectors of complex numbers;
    # graphics processors have no such operation
    if emitter.is_gpu or not isinstance(shape[1], int) or x.dtype.kind == "complex":

        def entry(names: Sequence[str]) -> str:
            row = emitter.code.op(f"arith.index_cast {names[0]} : i64 to index")
            return entry_at(emitter, x, [row, loop_index(emitter, 1)])

        return generic(emitter, [(rows, (0,))], [(out, (0, 1))], [False, False], entry)[0]
    # A dispatch of its own: fused into its readers a gather keeps them from being distributed
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
