"""Binary operations of floats on zeros of both signs, infinities and NaN: every backend has numpy's results."""

from typing import Any

import numpy as np
import pytest

import plica
from plica import numpy as pnp
from plica.ops import OPS
from plica.ops.elementwise import ARITIES, KINDS

BINARY = [name for name, arity in ARITIES.items() if arity == 2 and "float" in KINDS[name]]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.5, np.inf, -np.inf, np.nan, 7.0, 1e30, -1e-30]


def all_of(x: Any, y: Any) -> tuple[Any, ...]:
    return tuple(getattr(pnp, name)(x, y) for name in BINARY)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["interpreter", "torch", "native", "eager"])
def test_zeros_have_their_signs(backend: str, dtype: str) -> None:
    x, y = (one.ravel() for one in np.meshgrid(*[np.array(SPECIAL, dtype)] * 2))
    results = all_of(x, y) if backend == "eager" else plica.jit(all_of, backend=backend)(x, y)
    for name, found in zip(BINARY, results, strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(OPS[name].reference(x, y))
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, err_msg=name)
        if expected.dtype.kind == "f":
            known = ~np.isnan(expected)
            if name in ("maximum", "minimum"):  # numpy itself takes either of two zeros, as processors do
                known &= (x != 0) | (y != 0)
            np.testing.assert_array_equal(
                np.signbit(np.asarray(found)[known]), np.signbit(expected[known]), err_msg=name
            )
