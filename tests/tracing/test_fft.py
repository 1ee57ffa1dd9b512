"""Fourier transforms: numpy's values at any size and normalization, sizes known only at run time, gradients."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, ShapeError

X = np.random.default_rng(0).normal(size=(4, 5))
Z = X + 1j * X[::-1]
NORMS = ("backward", "ortho", "forward")
REAL = ("rfft", "ihfft", "rfftn")


def _same(found: Any, expected: np.ndarray) -> None:
    found = np.asarray(found)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_along_one_axis(name: str, norm: str) -> None:
    x = X if name in REAL else Z
    for n in (None, 3, 6, 7):
        for axis in (0, -1):
            settings: Any = {"n": n, "axis": axis, "norm": norm}
            expected = getattr(np.fft, name)(x, **settings)
            _same(getattr(pnp.fft, name)(x, **settings), expected)
            _same(getattr(pnp.fft, name)(torch.from_numpy(x.copy()), **settings), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn"])
def test_transforms_along_several_axes(name: str, norm: str) -> None:
    x = X if name in REAL else Z
    for settings in ({}, {"axes": (1, 0)}, {"s": (3, 6), "axes": (0, 1)}, {"axes": (0,)}):
        _same(getattr(pnp.fft, name)(x, norm=norm, **settings), getattr(np.fft, name)(x, norm=norm, **settings))
    _same(pnp.fft.irfftn(pnp.fft.rfftn(X, norm=norm), s=X.shape, axes=(0, 1), norm=norm), X)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_arrays_of_no_rows(name: str) -> None:
    x = np.zeros((0, 4, 0), "float64" if name in REAL else "complex128")
    function = plica.jit(lambda x: getattr(pnp.fft, name)(x, n=3, axis=1), abstracted_axes={0: "n"})
    given = torch.from_numpy(x).requires_grad_()
    found = function(given)
    _same(found.detach(), getattr(np.fft, name)(x, n=3, axis=1))
    found.sum().abs().backward()
    assert given.grad is not None
    assert given.grad.shape == x.shape


def test_real_numbers_have_complex_transforms() -> None:
    _same(pnp.fft.fft(X), np.fft.fft(X))
    assert pnp.fft.fft(X.astype("float32")).dtype == np.complex64


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_and_shifts(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        _same(getattr(pnp.fft, name)(n, d=0.5), getattr(np.fft, name)(n, d=0.5))
    x = np.arange(2.0 * n).reshape(2, n)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 1, (0, 1)):
            _same(getattr(pnp.fft, name)(x, axes=axes), getattr(np.fft, name)(x, axes=axes))


def test_sizes_that_are_known_at_run_time_need_one_compilation() -> None:
    def function(x: Any, n: Any) -> Any:
        half = pnp.fft.rfft(x)
        back = pnp.fft.irfft(half, n=x.shape[0])
        return (
            back,
            pnp.fft.fftfreq(x.shape[0]),
            pnp.fft.rfftfreq(n),
            pnp.fft.fftshift(pnp.fft.fft(x, n=n)),
            half.shape[0],
        )

    run = plica.jit(function, abstracted_axes=({0: "n"}, None))
    for size, n in ((5, 4), (8, 9), (1, 1)):
        x = np.arange(1.0, size + 1)
        back, frequencies, half, shifted, count = run(x, n)
        _same(back, x)
        _same(frequencies, np.fft.fftfreq(size))
        _same(half, np.fft.rfftfreq(n))
        _same(shifted, np.fft.fftshift(np.fft.fft(x, n=n)))
        assert count == size // 2 + 1
    assert run.num_compilations == 1


def test_gradients_are_those_of_torch() -> None:
    run = plica.jit(lambda x: pnp.sum(pnp.abs(pnp.fft.rfft(x)) ** 2))
    x, y = (torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    run(x).backward()
    (torch.fft.rfft(y).abs() ** 2).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


REFUSED: Any = (
    (lambda: pnp.fft.fft(X, norm="both"), ShapeError, "no normalization 'both'; there are backward, ortho, forward"),
    (lambda: pnp.fft.fft(X, n=0), ShapeError, "at least one point"),
    (lambda: pnp.fft.fft(X, axis=2), ShapeError, "axis 2 does not exist"),
    (lambda: pnp.fft.fftn(X, s=(2,), axes=(0, 1)), ShapeError, "a size for each axis, found 1 for 2"),
    (lambda: pnp.fft.fftn(X, axes=(0, 0)), ShapeError, "a size for each axis"),
    (lambda: pnp.fft.rfft(Z), DTypeError, "found complex128, expected float"),
    (lambda: pnp.fft.fft(X.astype("int64")), DTypeError, "found int64, expected complex"),
)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_has_no_transform_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
