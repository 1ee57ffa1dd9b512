"""Sorting and searching in what is sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plica.backend.native.mlir.entries import Entry
from plica.backend.native.mlir.order import before, bisected, ordered
from plica.backend.native.mlir.reading import read_at
from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.structured import entry_at, entrywise
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar
from plica.ops.rules import normal_axis

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def _argsort(emitter: Emitter, call: Call) -> Value:
    (x,), params = call.inputs, call.params
    return ordered(emitter, x, normal_axis(params["axis"], len(x.shape)), descending=params["descending"])


def _sort(emitter: Emitter, call: Call) -> Value:
    (x,), order = call.inputs, _argsort(emitter, call)
    axis, rank = normal_axis(call.params["axis"], len(x.shape)), len(x.shape)

    def places(names: Sequence[str]) -> list[str]:
        found = [emitter.code.op(f"linalg.index {loop} : index") for loop in range(rank)]
        found[axis] = emitter.code.op(f"arith.index_cast {names[0]} : i64 to index")
        return found

    return read_at(emitter, x, x.shape, [(order, range(rank))], places)


def _searchsorted(emitter: Emitter, call: Call) -> Value:
    (table, values), (type_,) = call.inputs, call.types
    size, is_left, code = emitter.size(table.shape[0]), call.params["side"] == "left", emitter.code

    def body(names: Sequence[str]) -> str:
        wanted = Entry(emitter.scalars, Scalar(names[0], values.dtype))

        def is_after(place: str) -> str:
            entry = Entry(emitter.scalars, Scalar(entry_at(emitter, table, [place]), table.dtype))
            if is_left:
                return before(entry, wanted, descending=False).scalar.text
            return (~before(wanted, entry, descending=False)).scalar.text

        found = bisected(emitter, code.op("arith.constant 0 : index"), size, is_after)
        return code.op(f"arith.index_cast {found} : index to i64")

    return entrywise(emitter, [emitter.tensor(values)], type_.shape, type_.dtype, body)


SORTING = {"argsort": Row(_argsort), "searchsorted": Row(_searchsorted), "sort": Row(_sort)}
