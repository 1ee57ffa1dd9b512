"""Operations without a row: their decompositions are traced and written in place of the equation."""

from collections.abc import Sequence

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Write
from plica.backend.native.mlir.types import Value
from plica.ir.op import Unsupported
from plica.ir.signature import size_sources
from plica.ir.types import array_type
from plica.ops import OPS
from plica.tracing.decomposition import sizes_within, traced_decomposition


def decomposed(name: str) -> Write | None:
    """Writes an operation by its decomposition; None where it has none."""
    decompose = DECOMPOSITIONS.get(name, OPS[name].decompose)
    if isinstance(decompose, Unsupported):
        return None

    def write(emitter: Emitter, call: Call) -> Sequence[Value]:
        sizes = sizes_within(call.params)
        types = [array_type(value.shape, value.dtype) for value in call.inputs]
        program = traced_decomposition(decompose, types, call.params, sizes, call.source)
        inputs = [*call.inputs, *map(emitter.size_value, sizes)]
        implicit = [emitter.size_value(inputs[index].shape[axis]) for index, axis in size_sources(program).values()]
        return emitter.inline(program, [], [*implicit, *inputs])[program.num_implicit_outputs :]

    return write
