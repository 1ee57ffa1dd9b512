"""Packing: its decomposition, after a check that tiles fill each axis."""

from collections.abc import Sequence

from plica.backend.native.loops.arrays import Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.decomposed import decomposed
from plica.backend.native.loops.nest import Site
from plica.errors import InputError
from plica.ir.program import Equation
from plica.ir.sizes import Size, remainder
from plica.ops.packing import misfit


def pack(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """The tiles of an array."""
    for axis, tile in zip(equation.params["inner_dims_pos"], equation.params["inner_tiles"], strict=True):
        size = equation.inputs[0].type.shape[axis]
        if isinstance(left_over := remainder(size, tile), Size):

            def error(numbers: Sequence[int], axis: int = axis, tile: int = tile) -> Exception:
                return InputError(misfit(axis, numbers[0], tile))

            fits = block.writer.compare("equal", block.size(left_over), 0)
            block.writer.check(fits, Site(equation.source, error), block.size(size))
    return decomposed(block, equation, operands)


PACKING: dict[str, Row] = {"pack": pack}
