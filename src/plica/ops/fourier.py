"""Discrete Fourier transforms along some axes, each first cut or padded with zeros to a size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, Sample, TypeRule, sample
from plica.ir.sizes import Dim, floor_divide
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import normal_axis, real_dtype, require_kind

NORMS = ("backward", "ortho", "forward")
COMPLEX_OF = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}


def _type_rule(kind: str, last: Callable[[Dim], Dim], dtype: Callable[[DType], DType]) -> TypeRule:
    """The rule of a transform of arrays of a kind, that makes `last(size)` elements along the last of the axes."""

    def rule(x: ArrayType, *, axes: tuple[int, ...], sizes: tuple[Dim, ...], norm: str) -> ArrayType:
        require_kind([x], (kind,))
        positions = [normal_axis(axis, len(x.shape)) for axis in axes]
        if len(set(positions)) != len(positions) or len(sizes) != len(positions) or not positions:
            raise ShapeError(f"a transform of {x} has a size for each axis, found sizes {sizes} for axes {axes}.")
        if any(isinstance(size, int) and size < 1 for size in sizes):
            raise ShapeError(f"a transform of {x} has at least one point along each axis, found sizes {sizes}.")
        if norm not in NORMS:
            raise ShapeError(f"there is no normalization {norm!r}; there are {', '.join(NORMS)}.")
        if x.dtype in (DType.FLOAT16, DType.BFLOAT16):
            raise ShapeError(f"Fourier transforms do not take {x}; convert it to float32 with astype.")
        shape = list(x.shape)
        for position, size in zip(positions, sizes, strict=True):
            shape[position] = size
        shape[positions[-1]] = last(sizes[-1])
        return array_type(shape, dtype(x.dtype))

    return rule


NO_POINTS = "{0} of no points along an axis has no result; transform at least one."


def _reference(name: str) -> Callable[..., Any]:
    def transform(x: Array, *, axes: tuple[int, ...], sizes: tuple[int, ...], norm: str) -> Any:
        if min(sizes) < 1:
            raise InputError(NO_POINTS.format(name))
        return getattr(np.fft, f"{name}n")(x, sizes, axes, norm)

    return transform


_X = np.linspace(-1.0, 2.0, 24).reshape(2, 3, 4)
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"axes": (2,), "sizes": (4,), "norm": "backward"},
    {"axes": (-2,), "sizes": (5,), "norm": "forward"},
    {"axes": (0, 2), "sizes": (2, 3), "norm": "ortho"},
)


def _samples(make: Callable[[Array, dict[str, Any]], Array]) -> Callable[[], list[Sample]]:
    def samples() -> list[Sample]:
        arrays = [make(_X, settings) for settings in _SETTINGS]
        samples = [sample(array, **settings) for array, settings in zip(arrays, _SETTINGS, strict=True)]
        return [*samples, sample(arrays[0].astype(_narrow(arrays[0])), **_SETTINGS[0])]

    return samples


def _narrow(array: Array) -> str:
    return "complex64" if array.dtype.kind == "c" else "float32"


def _complex(x: Array, _: dict[str, Any]) -> Array:
    numbers: Array = x + 1j * np.cos(3 * x)
    return numbers


def _half(x: Array, settings: dict[str, Any]) -> Array:
    """The transform of a real array, whose parts without counterpart are real."""
    transform: Array = np.fft.rfftn(x, settings["sizes"], settings["axes"])
    return transform


_WHOLE = _type_rule("complex", lambda size: size, lambda dtype: dtype)

FOURIER = (
    Op("fft", _WHOLE, _reference("fft"), _samples(_complex)),
    Op("ifft", _WHOLE, _reference("ifft"), _samples(_complex)),
    Op(
        "rfft",
        _type_rule("float", lambda size: floor_divide(size, 2) + 1, lambda dtype: COMPLEX_OF[dtype]),
        _reference("rfft"),
        _samples(lambda x, _: x),
    ),
    Op("irfft", _type_rule("complex", lambda size: size, real_dtype), _reference("irfft"), _samples(_half)),
)
