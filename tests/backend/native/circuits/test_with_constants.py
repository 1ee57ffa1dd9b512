"""Constants are folded by the interpreter when a file is made."""

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.circuits.with_constants import _FOLDING_OPS, with_constants
from plica.ops import OPS


@pytest.mark.parametrize("number", range(len(list(OPS["log_matmul_exp"].samples()))))
def test_contractions_in_log_space(number: int) -> None:
    """Matrix products give what the terms one by one give, where numbers underflow too."""
    one = list(OPS["log_matmul_exp"].samples())[number]
    wide = [x.astype("float64") for x in one.inputs]
    with np.errstate(all="ignore"):
        found = _FOLDING_OPS["log_matmul_exp"].reference(*wide, **one.params)
        expected = OPS["log_matmul_exp"].reference(*wide, **one.params)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_closed() -> None:
    """What captured arrays alone tell is computed, in float64, and rounded once."""
    w = np.linspace(0.0, 1.0, 6, dtype="float32").reshape(2, 3)
    compiled = plica.jit(lambda x: x @ pnp.exp(pnp.log(w) * 0.5), backend="interpreter")
    x = np.ones((4, 2), "float32")
    expected = compiled(x)
    bound = compiled.bound
    made = with_constants(bound.program, bound.leaves)
    assert [one.op.name for one in made.program.equations] == ["matmul"]
    (kept,) = made.constants.values()
    np.testing.assert_array_equal(kept, np.sqrt(w.astype("float64")).astype("float32"))
    np.testing.assert_allclose(made(x)[0], expected, rtol=1e-6)
