"""Reductions and the normalizations built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.structured import expand, reduction
from plica.backend.native.mlir.types import Value
from plica.ops.rules import normal_axes

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def _sum(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    axes = normal_axes(call.params["axis"], len(x.shape))
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    start = emitter.full([x.shape[axis] for axis in kept], emitter.constant(0, type_.dtype))
    add = "arith.addf" if type_.dtype.kind == "float" else "arith.addi"
    (total,) = reduction(
        emitter, x, axes, [start], lambda entry: emitter.code.op(f"{add} {entry[1]}, {entry[0]} : {start.element}")
    )
    return expand(emitter, total, type_.shape, kept) if call.params["keepdims"] and axes else total


REDUCE = {"sum": Row(_sum)}
