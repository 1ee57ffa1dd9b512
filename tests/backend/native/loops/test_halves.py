"""Floats of 16 bits are added up in float32, and rounded once."""

import ml_dtypes
import numpy as np
import pytest

import plica
import plica.numpy as pnp

_COUNT = 5000  # more than either dtype counts to, one by one


def _sums(x):
    return (
        pnp.sum(x),
        pnp.sum(x, axis=0),
        pnp.cumulative_sum(x, axis=0)[-1],
        pnp.matmul(pnp.matrix_transpose(x), x),
        pnp.einsum("ij,ik->jk", x, x),
        pnp.exp(pnp.logsumexp(x * 0, axis=0)),
        1 / pnp.softmax(x, axis=0)[0],
        pnp.mean(x) * _COUNT,
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_many_are_added_up(dtype: type) -> None:
    found = plica.jit(_sums, abstracted_axes={0: "n"}, backend="native")(np.ones((_COUNT, 1), dtype))
    for one in found:
        np.testing.assert_allclose(one.astype(np.float64), _COUNT, rtol=0.02 if dtype is np.float16 else 0.07)


def test_products_may_be_too_large() -> None:
    """Only their sum is rounded."""
    x, y = np.full((1, 2), 6e4, np.float16), np.array([[2.0], [-2.0]], np.float16)
    assert plica.jit(lambda x, y: x @ y, backend="native")(x, y).tolist() == [[0.0]]
