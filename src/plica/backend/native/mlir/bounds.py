"""Checks that indices and slices lie within their axes."""

from collections.abc import Sequence
from typing import Any

from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.structured import apart, entrywise, generic
from plica.backend.native.mlir.types import Value
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, is_nonnegative_by_cases, product
from plica.ops.indexing import outside_message
from plica.ops.slices import beyond_message


def check_indices(emitter: Emitter, indices: Value, size: Dim, axis: int | None, source: str) -> None:
    """Refuse indices that do not lie within an axis of `size`.

    Args:
        emitter: Where its lines go.
        indices: Integers.
        size: The size.
        axis: The axis, as the message names it, if negative indices count from the end; None if they are refused.
        source: Where in the user's code.
    """
    if 0 in indices.shape or emitter.are_indices_in_bounds:
        return
    code, bound = emitter.code, emitter.size(size)
    wraps = axis is not None
    end = code.op(f"arith.addi {bound}, {bound} : index") if wraps else bound

    def shifted(entry: str) -> str:
        """The index as a number that is below `end`, read as unsigned, if and only if the index is valid."""
        index = as_index(emitter, entry, indices.dtype)
        return code.op(f"arith.addi {index}, {bound} : index") if wraps else index

    def index_of(shifted_index: str) -> Value:
        """The index as users gave it."""
        number = code.op(f"arith.subi {shifted_index}, {bound} : index") if wraps else shifted_index
        return Value(code.op(f"arith.index_cast {number} : index to i64"), (), DType.INT64, is_scalar=True)

    message = _OUTSIDE if axis is None else outside_message("{0}", axis, "{1}")
    if indices.is_scalar:
        scalar = shifted(indices.text)
        holds = Value(code.op(f"arith.cmpi ult, {scalar}, {end} : index"), (), DType.BOOL, is_scalar=True)
        emitter.checks.require(
            holds, Fault("BoundsError", message, lambda: [index_of(scalar), emitter.size_value(size)], source)
        )
        return
    most, rank = emitter.full((), emitter.constant(0, DType.INT64)), len(indices.shape)

    def largest(names: Sequence[str]) -> str:
        entry = code.op(f"arith.index_cast {shifted(names[0])} : index to i64")
        return code.op(f"arith.maxui {entry}, {names[1]} : i64")

    (most,) = generic(emitter, [(apart(emitter, indices), range(rank))], [(most, ())], [True] * rank, largest)

    some = emitter.checks.compare("ne", product(indices.shape), 0)

    def is_wrong(names: Sequence[str]) -> str:
        entry = code.op(f"arith.index_cast {names[0]} : i64 to index")
        beyond = code.op(f"arith.cmpi uge, {entry}, {end} : index")
        return code.op(f"arith.andi {some.text}, {beyond} : i1")

    def values() -> Sequence[Value]:
        return [index_of(emitter.index(most)), emitter.size_value(size)]

    wrong = entrywise(emitter, [most], (), DType.BOOL, is_wrong)
    emitter.checks.later(wrong, Fault("BoundsError", message, values, source))


_OUTSIDE = "index {0} does not lie within an axis of size {1}."


def as_index(emitter: Emitter, entry: str, dtype: DType) -> str:
    """An integer as a value of type `index`."""
    kind = "arith.index_castui" if dtype.value.startswith("u") else "arith.index_cast"
    return emitter.code.op(f"{kind} {entry} : {Value('', (), dtype, is_scalar=True).type} to index")


def check_slice(emitter: Emitter, x: Value, axis: int, bounds: tuple[Dim, Dim, Dim], source: str) -> None:
    """Refuse a slice `(start, stop, step)` that does not lie within its axis, unless it is known that it does."""
    start, stop, step = bounds
    size = x.shape[axis]
    unknown = [
        difference
        for difference in (start, stop - start, size - stop, step - 1)
        if not is_nonnegative_by_cases(difference)
    ]
    if not unknown:
        return
    checks, code = emitter.checks, emitter.code
    holds = emitter.constant(True, DType.BOOL)
    for difference in unknown:
        fits = checks.compare("sge", difference, 0)
        holds = Value(code.op(f"arith.andi {holds.text}, {fits.text} : i1"), (), DType.BOOL, is_scalar=True)
    shown: list[Any] = ["{0}", "{1}", "{2}", step if step == 1 else "{3}"]
    message = beyond_message(axis, *shown)
    numbers = (size, start, stop, step)
    checks.require(holds, Fault("BoundsError", message, lambda: [*map(emitter.size_value, numbers)], source))
