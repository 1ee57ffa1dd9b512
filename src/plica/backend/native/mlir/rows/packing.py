"""Packing by its decomposition, with a check that tiles fill the axes."""

from collections.abc import Sequence
from functools import partial

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim, Size, remainder
from plica.ops.packing import misfit


def _pack(emitter: Emitter, call: Call) -> Value | Sequence[Value]:
    write = decomposed(call.name)
    assert write is not None, "there is a decomposition"
    for axis, tile in zip(call.params["inner_dims_pos"], call.params["inner_tiles"], strict=True):
        size = call.inputs[0].shape[axis]
        if isinstance(left_over := remainder(size, tile), Size):
            text = misfit(axis, "{0}", tile)
            fault = Fault("InputError", text, partial(_sizes, emitter, size), call.source)
            emitter.checks.require(emitter.checks.compare("eq", left_over, 0), fault)
    return write(emitter, call)


def _sizes(emitter: Emitter, size: Dim) -> list[Value]:
    return [emitter.size_value(size)]


PACKING = {"pack": Row(_pack)}
