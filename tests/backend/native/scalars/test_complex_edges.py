"""Complex numbers at infinity, on axes and beside poles: native code has numpy's numbers, not others."""

import itertools

import numpy as np
import pytest

import plica
import plica.numpy as pnp

_NAMES = ("sqrt", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "exp", "sign")
_PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 3e-170, 1e160, -1e300, 1e308, np.inf, -np.inf)
_NUMBERS = np.array([complex(*parts) for parts in itertools.product(_PARTS, _PARTS)])


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("complex128", _NAMES[::2]),
        ("complex64", _NAMES[1::2]),
        pytest.param("complex128", _NAMES[1::2], marks=pytest.mark.full),
        pytest.param("complex64", _NAMES[::2], marks=pytest.mark.full),
    ],
)
def test_numbers_are_those_of_numpy(dtype: str, names: tuple[str, ...]) -> None:
    """Each part is numpy's, or NaN where the result is not finite: never another number."""
    with np.errstate(all="ignore"):
        z = _NUMBERS.astype(dtype)
        found = plica.jit(lambda z: tuple(getattr(pnp, name)(z) for name in names), backend="native")(z)
        for name, one in zip(names, found, strict=True):
            expected = getattr(np, name)(z)
            for part, other in ((one.real, expected.real), (one.imag, expected.imag)):
                size = np.where(np.isfinite(expected), np.abs(expected), np.abs(other))
                is_near = np.abs(part - other) <= 8 * np.finfo(z.real.dtype).eps * size
                is_same = (part == other) | is_near | (np.isnan(part) & np.isnan(other))
                is_unknown = np.isnan(part) & ~np.isfinite(expected)
                assert (is_same | is_unknown).all(), (name, z[~(is_same | is_unknown)][:5])
