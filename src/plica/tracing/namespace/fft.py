"""The Fourier transforms of the Array API standard, of floats and complex numbers; sizes may be scalar tracers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.errors import ShapeError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.sizes import Dim, floor_divide
from plica.ops.fourier import COMPLEX_OF
from plica.ops.rules import normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.creation import arange
from plica.tracing.namespace.elementwise import astype, where
from plica.tracing.namespace.operands import Array, as_dim, as_tracer, elementwise, public_functions, unary
from plica.tracing.tracer import Tracer

_OTHER_WAY = {"backward": "forward", "forward": "backward"}


def fft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The transform along one axis, cut or filled up with zeros to `n` points; 1/n stands where `norm` says."""
    return _whole("fft", x, _one(n), (axis,), norm)


def ifft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The inverse of `fft`."""
    return _whole("ifft", x, _one(n), (axis,), norm)


def fftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tracer:
    """The transform along `axes`, by default all or the last `len(s)`, with sizes `s`."""
    return _whole("fft", x, s, axes, norm)


def ifftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tracer:
    """The inverse of `fftn`."""
    return _whole("ifft", x, s, axes, norm)


def rfft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The first half of `fft` of real numbers, n//2 + 1 of them: the others are their conjugates."""
    return _half("rfft", x, _one(n), (axis,), norm)


def rfftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tracer:
    """`rfft` along the last of `axes`, and `fft` along the others."""
    return _half("rfft", x, s, axes, norm)


def irfft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The inverse of `rfft`: `n` real numbers, by default 2*(size - 1)."""
    return _back(x, _one(n), (axis,), norm)


def irfftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tracer:
    """The inverse of `rfftn`."""
    return _back(x, s, axes, norm)


def hfft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The transform of numbers whose second half are the conjugates of the first, which `x` is: `n` real ones."""
    return irfft(unary("conj", _as_complex("hfft", x)), n=n, axis=axis, norm=_OTHER_WAY.get(norm, norm))


def ihfft(x: Array, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tracer:
    """The inverse of `hfft`."""
    return unary("conj", rfft(x, n=n, axis=axis, norm=_OTHER_WAY.get(norm, norm)))


def fftfreq(n: Any, /, *, d: float = 1.0, dtype: object = None, device: object = None) -> Tracer:
    """The frequencies of `fft` of `n` points at distance `d`: those from 0 up, then the negative ones."""
    indices = arange(n, device=device)
    folded = where(elementwise("less", indices, (n + 1) // 2), indices, elementwise("subtract", indices, n))
    return _frequencies(folded, n, d, dtype)


def rfftfreq(n: Any, /, *, d: float = 1.0, dtype: object = None, device: object = None) -> Tracer:
    """The frequencies of `rfft` of `n` points at distance `d`."""
    return _frequencies(arange(n // 2 + 1, device=device), n, d, dtype)


def fftshift(x: Array, /, *, axes: Any = None) -> Tracer:
    """The entry of frequency 0 moved to the middle of `axes`, by default of all."""
    return _shifted(x, axes, 1)


def ifftshift(x: Array, /, *, axes: Any = None) -> Tracer:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, -1)


# Pieces


def _one(n: Any) -> Any:
    return None if n is None else (n,)


def _as_complex(name: str, x: Array) -> Tracer:
    value = as_tracer(f"fft.{name}", x)
    return astype(value, COMPLEX_OF[value.dtype]) if value.dtype in COMPLEX_OF else value


def _axes_of(x: Tracer, sizes: Sequence[Any] | None, axes: Sequence[int] | None) -> tuple[int, ...]:
    if axes is None:
        first = 0 if sizes is None else x.ndim - len(sizes)
        return tuple(range(first, x.ndim))
    return tuple(normal_axis(axis, x.ndim) for axis in axes)


def _dims(x: Tracer, sizes: Sequence[Any] | None, axes: Sequence[int]) -> tuple[Dim, ...]:
    """The sizes that are asked for, else those of the array."""
    given = [None] * len(axes) if sizes is None else list(sizes)
    if len(given) != len(axes):
        raise ShapeError(f"{user_line()}: a transform has a size for each axis, found {len(given)} for {len(axes)}.")
    return tuple(x.dims[axis] if size is None else as_dim(size) for size, axis in zip(given, axes, strict=True))


def _whole(op: str, x: Array, sizes: Any, axes: Any, norm: str) -> Tracer:
    value = _as_complex(op, x)
    along = _axes_of(value, sizes, axes)
    return unary(op, value, axes=along, sizes=_dims(value, sizes, along), norm=norm) if along else value


def _half(op: str, x: Array, sizes: Any, axes: Any, norm: str) -> Tracer:
    value = as_tracer(f"fft.{op}", x)
    along = _axes_of(value, sizes, axes)
    return unary(op, value, axes=along, sizes=_dims(value, sizes, along), norm=norm)


def _back(x: Array, sizes: Any, axes: Any, norm: str) -> Tracer:
    value = _as_complex("irfft", x)
    along = _axes_of(value, sizes, axes)
    dims = _dims(value, sizes, along)
    if sizes is None and along:
        dims = (*dims[:-1], 2 * (dims[-1] - 1))
    return unary("irfft", value, axes=along, sizes=dims, norm=norm)


def _frequencies(indices: Tracer, n: Any, d: float, dtype: object) -> Tracer:
    wanted = DType.FLOAT64 if dtype is None else as_dtype(dtype)
    length = elementwise("multiply", astype(as_tracer("fft", n), wanted), d)
    frequencies: Tracer = elementwise("divide", astype(indices, wanted), length)
    return frequencies


def _shifted(x: Array, axes: Any, sign: int) -> Tracer:
    value = as_tracer("fft.fftshift", x)
    listed = range(value.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    along = tuple(normal_axis(axis, value.ndim) for axis in listed)
    return unary("roll", value, shift=tuple(sign * floor_divide(value.dims[axis], 2) for axis in along), axis=along)


__all__ = public_functions(globals())
