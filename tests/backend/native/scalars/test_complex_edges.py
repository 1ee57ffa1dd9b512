"""Complex numbers at infinity, on axes and beside poles: native code has numpy's numbers, not others."""

import itertools

import numpy as np
import pytest

import plica
import plica.numpy as pnp

_NAMES = ("sqrt", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "exp", "sign")
_PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 3e-170, 1e160, -1e300, 1e308, np.inf, -np.inf)
_NUMBERS = np.array([complex(*parts) for parts in itertools.product(_PARTS, _PARTS)])


def _all(z):
    return tuple(getattr(pnp, name)(z) for name in _NAMES)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_numbers_are_those_of_numpy(dtype: str) -> None:
    """Each part is numpy's, or NaN where the result is not finite: never another number."""
    with np.errstate(all="ignore"):
        z = _NUMBERS.astype(dtype)
        found = plica.jit(_all, backend="native")(z)
        for name, one in zip(_NAMES, found, strict=True):
            expected = getattr(np, name)(z)
            for part, other in ((one.real, expected.real), (one.imag, expected.imag)):
                size = np.where(np.isfinite(expected), np.abs(expected), np.abs(other))
                is_near = np.abs(part - other) <= 8 * np.finfo(z.real.dtype).eps * size
                is_same = (part == other) | is_near | (np.isnan(part) & np.isnan(other))
                is_unknown = np.isnan(part) & ~np.isfinite(expected)
                assert (is_same | is_unknown).all(), (name, z[~(is_same | is_unknown)][:5])
