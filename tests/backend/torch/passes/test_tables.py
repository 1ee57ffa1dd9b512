"""Lookups in a softmax become one operation: where, and that it is the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.torch.operations.private import TORCH_OPS
from plica.backend.torch.passes.tables import look_up_softmax
from plica.ir.interpret import interpret_program
from plica.ir.verify import verify_program
from plica.passes.clean import clean

TABLE, INDEX = plica.spec((2, 3, 4), "float64"), plica.spec((2, 5), "int64")

CASES: dict[str, tuple[Callable[..., Any], bool]] = {
    "a lookup": (lambda x, i: pnp.lookup(pnp.softmax(x, axis=2), i), True),
    "from the back": (lambda x, i: pnp.lookup(pnp.softmax(x, axis=-1), i), True),
    "another axis": (lambda x, i: pnp.lookup(pnp.softmax(x, axis=1), i), False),
    "looked up twice": (
        lambda x, i: (lambda y: pnp.lookup(y, i) + pnp.lookup(y, 3 - i))(pnp.softmax(x, axis=2)),
        False,
    ),
    "a result too": (lambda x, i: (lambda y: (pnp.lookup(y, i), y))(pnp.softmax(x, axis=2)), False),
    "an index of a softmax": (lambda x, i: pnp.lookup(x, i + pnp.argmax(pnp.softmax(x), axis=2)[:, :1] * 0), False),
}


@pytest.mark.parametrize("name", CASES)
def test_which_lookups_are_of_a_softmax(name: str) -> None:
    function, fires = CASES[name]
    program = clean(plica.trace(function, TABLE, INDEX))
    found = look_up_softmax(program)
    verify_program(found, TORCH_OPS)
    assert any(one.op.name == "lookup_softmax" for one in found.equations) is fires
    assert any(one.op.name == "softmax" for one in found.equations) is not fires
    x, i = np.linspace(-1.0, 2.0, 24).reshape(2, 3, 4), np.asarray([[0, 3, 3, 1, 2], [2, 2, 0, 1, 1]])
    for one, other in zip(
        interpret_program(found, TORCH_OPS, [x, i]), interpret_program(program, TORCH_OPS, [x, i]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-15)
