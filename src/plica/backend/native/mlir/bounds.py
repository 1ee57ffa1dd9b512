"""Checks of indices: what is refused where one does not lie within its axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import entrywise, generic
from plica.backend.native.mlir.types import Value
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.ops.indexing import outside_message

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def check_places(emitter: Emitter, indices: Value, size: Dim, axis: int | None, source: str) -> None:
    """Refuse indices that do not lie within an axis of `size`.

    Args:
        emitter: Where its lines go.
        indices: Integers.
        size: The size.
        axis: The axis, as the message names it, where indices below 0 count from the end; None where none may be below.
        source: Where in the user's code.
    """
    if 0 in indices.shape:
        return
    code, bound = emitter.code, emitter.size(size)
    least = index_constant(code, 0)
    if axis is not None:
        least = code.op(f"arith.subi {least}, {bound} : index")

    def is_outside(entry: str) -> str:
        place = as_index(emitter, entry, indices.dtype if indices.is_scalar else DType.INT64)
        below = code.op(f"arith.cmpi slt, {place}, {least} : index")
        beyond = code.op(f"arith.cmpi sge, {place}, {bound} : index")
        return code.op(f"arith.ori {below}, {beyond} : i1")

    message = outside_message("{0}", axis, "{1}") if axis is not None else _OUTSIDE
    if indices.is_scalar:
        fault = Fault("BoundsError", message, lambda: [_wide(emitter, indices), emitter.size_value(size)], source)
        wrong = Value(is_outside(indices.text), (), DType.BOOL, is_scalar=True)
        emitter.checks.require(emitter.checks.negated(wrong), fault)
        return
    extremes = _extremes(emitter, indices)
    wrong = entrywise(emitter, extremes, (), DType.BOOL, lambda names: _either(emitter, map(is_outside, names)))

    def values() -> Sequence[Value]:
        found = [emitter.scalar(one) for one in extremes]
        below = is_outside(found[0].text)
        text = code.op(f"arith.select {below}, {found[0].text}, {found[1].text} : i64")
        return [Value(text, (), DType.INT64, is_scalar=True), emitter.size_value(size)]

    emitter.checks.later(wrong, Fault("BoundsError", message, values, source))


_OUTSIDE = "index {0} does not lie within an axis of size {1}."


def as_index(emitter: Emitter, entry: str, dtype: DType) -> str:
    """An integer as a value of type `index`."""
    kind = "arith.index_castui" if dtype.value.startswith("u") else "arith.index_cast"
    return emitter.code.op(f"{kind} {entry} : {Value('', (), dtype, is_scalar=True).type} to index")


def _wide(emitter: Emitter, value: Value) -> Value:
    """An integer of the host in 64 bits."""
    place = as_index(emitter, value.text, value.dtype)
    return Value(emitter.code.op(f"arith.index_cast {place} : index to i64"), (), DType.INT64, is_scalar=True)


def _either(emitter: Emitter, truths: Iterable[str]) -> str:
    first, second = truths
    return emitter.code.op(f"arith.ori {first}, {second} : i1")


def _extremes(emitter: Emitter, indices: Value) -> list[Value]:
    """The least and the largest of the indices; 0 where there is none."""
    code, rank = emitter.code, len(indices.shape)
    start = emitter.full((), emitter.constant(0, DType.INT64))

    def body(names: Sequence[str]) -> list[str]:
        entry, *found = names
        wide = code.op(f"arith.index_cast {as_index(emitter, entry, indices.dtype)} : index to i64")
        kinds = zip(("minsi", "maxsi"), found, strict=True)
        return [code.op(f"arith.{kind} {wide}, {old} : i64") for kind, old in kinds]

    return generic(emitter, [(indices, range(rank))], [(start, ())] * 2, [True] * rank, body)
