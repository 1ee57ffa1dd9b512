"""Shapes and the making of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.types import Value

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def _permute_dims(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    x, out = emitter.tensor(x), emitter.empty(type_.shape, type_.dtype)
    axes = list(call.params["axes"])
    text = f"linalg.transpose ins({x.text} : {x.type}) outs({out.text} : {out.type}) permutation = {axes}"
    return Value(emitter.code.op(text), type_.shape, type_.dtype)


SHAPE = {"permute_dims": Row(_permute_dims)}
