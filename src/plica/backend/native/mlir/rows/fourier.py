"""Fourier transforms by their decompositions, with a check that each axis has at least one point."""

from collections.abc import Sequence

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Size
from plica.ops.fourier import NO_POINTS


def _transform(name: str) -> Row:
    write = decomposed(name)
    assert write is not None, "there is a decomposition"

    def checked(emitter: Emitter, call: Call) -> Value | Sequence[Value]:
        for size in call.params["sizes"]:
            if isinstance(size, Size):
                fault = Fault("InputError", NO_POINTS.format(name), source=call.source)
                emitter.checks.require(emitter.checks.compare("sge", size, 1), fault)
        return write(emitter, call)

    return Row(checked)


FOURIER = {name: _transform(name) for name in ("fft", "ifft", "irfft", "rfft")}
