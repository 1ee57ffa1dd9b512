"""Fourier transforms of any length, symbolic ones too, computed in complex128.

A known length whose prime factors are small is split by its factors. A transform of any other length becomes a
convolution whose length is a power of two. The angles of roots of unity are reduced as integers, so that roots are
right to the last place. The error of a transform of n points is at most 2^-53 (4 + log2 n) times the result's norm.

Sources: T. G. Stockham, High-speed convolution and correlation, 1966 (stages that keep numbers in order);
L. Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970; M. C. Pease, An
adaptation of the fast Fourier transform for parallel processing, 1968 (steps that are all alike).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from plica.backend.native.decompositions.loops import countdown, repeat, while_
from plica.backend.native.decompositions.matrices import lesser
from plica.ir.dtypes import DType
from plica.ops.rules import normal_axis, real_dtype

_COMPLEX = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}
_LARGEST = 61  # the largest factor for which a stage multiplies by the matrix of roots
_STAGE = 16  # small factors are joined to stages up to this radix
_TERMS = 9  # of series: further terms are below 1e-17
_POWERS = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
Sizes = tuple[Any, ...]
Axes = tuple[int, ...]


def fft(xp: Any, x: Any, *, axes: Axes, sizes: Sizes, norm: str) -> Any:
    """The transform along some axes, each first cut or padded with zeros to a size."""
    return xp.astype(_scaled(xp, _along(xp, _forward, _wide(xp, x), axes, sizes), sizes, _POWERS[norm]), x.dtype)


def ifft(xp: Any, x: Any, *, axes: Axes, sizes: Sizes, norm: str) -> Any:
    """The inverse of `fft`."""
    scaled = _scaled(xp, _along(xp, _back, _wide(xp, x), axes, sizes), sizes, 1 - _POWERS[norm])
    return xp.astype(scaled, x.dtype)


def rfft(xp: Any, x: Any, *, axes: Axes, sizes: Sizes, norm: str) -> Any:
    """The first half, along the last axis, of the transform of real numbers."""
    half = _along(xp, _first_half, _wide(xp, x), axes[-1:], sizes[-1:])
    half_transform = _along(xp, _forward, half, axes[:-1], sizes[:-1])
    return xp.astype(_scaled(xp, half_transform, sizes, _POWERS[norm]), _COMPLEX[x.dtype])


def irfft(xp: Any, x: Any, *, axes: Axes, sizes: Sizes, norm: str) -> Any:
    """The inverse of `rfft`: real numbers."""
    outer = _along(xp, _back, _wide(xp, x), axes[:-1], sizes[:-1])
    half_inverse = _along(xp, _from_half, outer, axes[-1:], [sizes[-1] // 2 + 1], sizes[-1:])
    return xp.astype(_scaled(xp, xp.real(half_inverse), sizes, 1 - _POWERS[norm]), real_dtype(x.dtype))


def _wide(xp: Any, x: Any) -> Any:
    return xp.astype(x, DType.COMPLEX128)


def _scaled(xp: Any, x: Any, sizes: Sizes, power: float) -> Any:
    """Numbers divided by a power of the product of sizes."""
    if not power:
        return x
    factor = xp.pow(xp.astype(xp.asarray(math.prod(sizes)), DType.FLOAT64), -power)
    return x * xp.astype(factor, x.dtype)


def _along(xp: Any, transform: Callable[..., Any], x: Any, axes: Axes, sizes: Any, lengths: Any = None) -> Any:
    """Transforms along some axes, one after the other; `transform` takes rows (B, size) to rows of another length."""
    for axis, size, length in zip(axes, sizes, sizes if lengths is None else lengths, strict=True):
        position = normal_axis(axis, x.ndim)
        last = xp.moveaxis(x, position, -1)
        rows = xp.reshape(_resized(xp, last, size), (math.prod(last.shape[:-1]), size))
        transformed = transform(xp, rows, length)
        x = xp.moveaxis(xp.reshape(transformed, (*last.shape[:-1], transformed.shape[-1])), -1, position)
    return x


def _resized(xp: Any, x: Any, size: Any) -> Any:
    """The array with its last axis cut, or padded with zeros."""
    if x.shape[-1] is size:
        return x
    length = lesser(xp, x.shape[-1], size)
    return xp.concat([x[..., :length], xp.zeros((*x.shape[:-1], size - length), dtype=x.dtype)], axis=-1)


def _back(xp: Any, x: Any, size: Any) -> Any:
    return xp.conj(_forward(xp, xp.conj(x), size))


def _first_half(xp: Any, x: Any, size: Any) -> Any:
    return _forward(xp, x, size)[:, : size // 2 + 1]


def _from_half(xp: Any, x: Any, size: Any) -> Any:
    """The inverse from the first half: the second half is its conjugates. Self-conjugate entries are made real."""
    frequencies = xp.arange(size // 2 + 1)
    x = xp.where((frequencies == 0) | (2 * frequencies == size), xp.astype(xp.real(x), x.dtype), x)
    return _back(xp, xp.concat([x, xp.conj(xp.flip(x[:, 1 : (size + 1) // 2], axis=1))], axis=1), size)


def _forward(xp: Any, x: Any, size: Any) -> Any:
    """The transforms of rows, (B, size)."""
    stages = _stages_of(size) if isinstance(size, int) else None
    return _convolved(xp, x, size) if stages is None else _staged(xp, x, size, stages)


def roots(xp: Any, number: Any, count: Any) -> Any:
    """exp(-2 pi i number / count), for integers from 0 up to less than `count`.

    The integer nearest to 4 number / count is the quarter of the circle; the remaining angle is at most pi / 4.
    """
    full, part = (xp.astype(xp.asarray(integer), DType.FLOAT64) for integer in (count, 4 * number))
    quarter = xp.round(part / full)
    angle = (part - quarter * full) / full * (math.pi / 2)  # the difference is exact
    square = angle * angle
    cosine, sine = _series(square, 0), angle * _series(square, 1)
    is_turned = (quarter == 1) | (quarter == 3)
    real, imag = xp.where(is_turned, sine, cosine), xp.where(is_turned, cosine, sine)
    real = xp.where((quarter == 1) | (quarter == 2), -real, real)
    imag = xp.where((quarter == 2) | (quarter == 3), imag, -imag)
    return real + 1j * imag


def _series(square: Any, first: int) -> Any:
    """The series of the cosine (`first` is 0), or of the sine divided by the angle (1), whose square is up to 0.62."""
    total = 0.0
    for power in range(_TERMS - 1, -1, -1):
        total = total * square + (-1) ** power / math.factorial(2 * power + first)
    return total


# Lengths that are known


def _stages_of(size: int) -> list[int] | None:
    """Factors of a length, small ones joined; None if a prime factor is too large."""
    factors, remainder = [], size
    for factor in (4, *range(2, _LARGEST + 1)):
        while remainder % factor == 0:
            factors.append(factor)
            remainder //= factor
    if remainder > 1:
        return None
    stages = [1]
    for factor in factors:
        if stages[-1] * factor <= _STAGE:
            stages[-1] *= factor
        else:
            stages.append(factor)
    return stages


def _staged(xp: Any, x: Any, size: int, stages: list[int]) -> Any:
    """The transforms in stages, the last of which leaves them in order.

    A stage transforms `radix` numbers that lie `blocks * step` apart, and turns the results.
    """
    rows, step = x.shape[0], 1
    for radix in stages:
        blocks = size // (step * radix)
        line = xp.arange(radix)
        matrix = roots(xp, line[:, None] * line % radix, radix)
        turns = roots(xp, xp.arange(blocks)[:, None] * line, radix * blocks)
        transformed = xp.einsum("ar,brms->bmas", matrix, xp.reshape(x, (rows, radix, blocks, step)))
        x = xp.reshape(transformed * turns[:, :, None], (rows, size))
        step *= radix
    return x


# Any length


def _convolved(xp: Any, x: Any, size: Any) -> Any:
    """The transforms by a convolution with a chirp, which also turns the numbers before and the results after it.

    This is since 2 j k = j^2 + k^2 - (k - j)^2.
    """
    count, steps = while_(lambda count, _: count < 2 * size - 1, lambda count, steps: (2 * count, steps + 1), 1, 0)
    positions = xp.arange(size)
    chirp = roots(xp, positions * positions % (2 * size), 2 * size)
    modulated, conjugate = x * chirp, xp.conj(chirp)
    padded = xp.concat([modulated, xp.zeros((x.shape[0], count - size), dtype=x.dtype)], axis=1)
    kernel = xp.concat([conjugate, xp.zeros((count - 2 * size + 1,), dtype=x.dtype), xp.flip(conjugate[1:])])
    transforms = _to_powers(xp, xp.concat([padded, kernel[None]], axis=0), count, steps)
    convolution = _from_powers(xp, transforms[:-1] * transforms[-1], count, steps)
    return convolution[:, :size] * chirp


def _to_powers(xp: Any, x: Any, count: Any, steps: Any) -> Any:
    """The transforms of rows whose length is a power of two, in the order of reversed bits."""
    turn = _turns(xp, count)

    def step(index: Any, x: Any) -> Any:
        first, second = x[:, : count // 2], x[:, count // 2 :]
        return xp.reshape(xp.stack([first + second, (first - second) * turn(index)], axis=2), x.shape)

    return repeat(steps, step, x)


def _from_powers(xp: Any, x: Any, count: Any, steps: Any) -> Any:
    """The inverse of `_to_powers`, which undoes its steps from the last to the first."""
    turn = _turns(xp, count)

    def step(index: Any, x: Any) -> Any:
        pairs = xp.reshape(x, (x.shape[0], count // 2, 2))
        first, second = pairs[:, :, 0] * 0.5, pairs[:, :, 1] * 0.5 * xp.conj(turn(index))
        return xp.concat([first + second, first - second], axis=1)

    return countdown(steps, step, x)


def _turns(xp: Any, count: Any) -> Callable[[Any], Any]:
    """A function from a step s to the roots that the step turns differences by.

    For difference j it is the root of j with its last s bits set to 0.
    """
    positions = xp.arange(count // 2)
    table = roots(xp, positions, count)
    return lambda step: xp.take(table, (positions >> step) << step, nonnegative=True)
