"""Elementwise operations: one writer for all, over the scalar code of each (`scalars/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plica.backend.native.mlir.rows.row import Call, Row, Write
from plica.backend.native.mlir.structured import entrywise
from plica.backend.native.mlir.types import Value

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

# until `scalars/` has them
_FEW = {"add": ("arith.addf", "arith.addi"), "multiply": ("arith.mulf", "arith.muli")}


def _written(name: str) -> Write:
    def write(emitter: Emitter, call: Call) -> Value:
        (type_,) = call.types
        line = _FEW[name][type_.dtype.kind == "int"]

        def body(entry: object) -> str:
            return emitter.code.op(f"{line} {entry[0]}, {entry[1]} : {call.inputs[0].element}")  # type: ignore[index]

        return entrywise(emitter, call.inputs, type_.shape, type_.dtype, body)

    return write


ELEMENTWISE = {name: Row(_written(name)) for name in _FEW}
