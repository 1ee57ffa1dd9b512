"""Fourier transforms: their decompositions, after a check that each axis has at least one point."""

from plica.backend.native.loops.arrays import Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.decomposed import decomposed
from plica.backend.native.loops.nest import Site
from plica.errors import InputError
from plica.ir.program import Equation
from plica.ir.sizes import Size
from plica.ops.fourier import NO_POINTS


def transform(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A transform along some axes."""
    message = NO_POINTS.format(equation.op.name)
    for size in equation.params["sizes"]:
        if isinstance(size, Size):
            is_positive = block.writer.compare("less", 0, block.size(size))
            block.writer.check(is_positive, Site(equation.source, lambda _: InputError(message)))
    return decomposed(block, equation, operands)


FOURIER: dict[str, Row] = dict.fromkeys(("fft", "ifft", "irfft", "rfft"), transform)
