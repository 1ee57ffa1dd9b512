"""Discrete Fourier transforms, one axis after the other; these axes have known sizes."""

import math

from plica.backend.native.stablehlo.call import Call, Row
from plica.backend.native.stablehlo.types import integers
from plica.backend.native.stablehlo.values import Value, joined
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ops.rules import real_dtype

_COMPLEX = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}


def _resized(x: Value, axis: int, size: int) -> Value:
    """The tensor with one axis cut, or padded with zeros."""
    before = x.shape[axis]
    if not isinstance(before, int):
        raise UnsupportedError(
            f"axis {axis} has size {before}, but StableHLO transforms only axes of known sizes; give {before} a number."
        )
    if before >= size:
        return x.part(axis, 0, size)
    missing = (*x.shape[:axis], size - before, *x.shape[axis + 1 :])
    return joined([x, x.like(0).spread(missing)], axis)


def _along(x: Value, kind: str, axis: int, size: int) -> Value:
    """A transform of one axis; forward ones are not scaled, inverse ones by 1 / size."""
    last = [other_axis for other_axis in range(x.rank) if other_axis != axis] + [axis]
    moved = x.transpose(last)
    dtype = _COMPLEX.get(x.dtype, x.dtype) if kind != "IRFFT" else real_dtype(x.dtype)
    shape = (*moved.shape[:-1], size // 2 + 1 if kind == "RFFT" else size)
    attributes = {"fft_type": f"#stablehlo<fft_type {kind}>", "fft_length": integers([size])}
    transformed = Value(x.code, x.code.apply("fft", [moved.tensor], shape, dtype, attributes))
    return transformed.transpose([last.index(other_axis) for other_axis in range(x.rank)])


def _transform(kind: str, kind_of_others: str) -> Row:
    """The row of transforms of `kind` along the last of the axes, and of `kind_of_others` along the others."""
    back = kind in ("IFFT", "IRFFT")

    def row(call: Call) -> Value:
        (x,), sizes = call.inputs, call.params["sizes"]
        axes = [axis % x.rank for axis in call.params["axes"]]
        for size in sizes:
            if not isinstance(size, int):
                raise UnsupportedError(f"StableHLO transforms only axes of known sizes, found {size}; give a number.")
        steps = [(kind_of_others, axis, size) for axis, size in zip(axes[:-1], sizes[:-1], strict=True)]
        steps = [*steps, (kind, axes[-1], sizes[-1])] if kind == "IRFFT" else [(kind, axes[-1], sizes[-1]), *steps]
        for name, axis, size in steps:
            x = _along(_resized(x, axis, size // 2 + 1 if name == "IRFFT" else size), name, axis, size)
        count = math.prod(sizes)
        power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[call.params["norm"]]
        return x * (count**power if back else count**-power) if power else x

    return row


FOURIER: dict[str, Row] = {
    "fft": _transform("FFT", "FFT"),
    "ifft": _transform("IFFT", "IFFT"),
    "irfft": _transform("IRFFT", "IFFT"),
    "rfft": _transform("RFFT", "FFT"),
}
