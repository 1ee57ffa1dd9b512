"""Products of stacks of matrices become one operation with what is done to them: where, and that it is the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.frontend.programs import interpret, verify
from plica.passes.clean import clean
from plica.passes.products import join_products
from plica.tracing import namespace as xp

X, A, B = (plica.spec(shape, "float64") for shape in ((3, 2, 5), (3, 2, 4), (3, 4, 5)))
INDEX = plica.spec((3,), "int64")


def _taken(one: Any, index: Any) -> Any:
    return xp.take(one, index, axis=0, nonnegative=True)


def _twice(x: Any, a: Any, b: Any) -> Any:
    product = pnp.matmul(a, b)
    return x * product, product


CASES: dict[str, tuple[Callable[..., Any], str | None]] = {
    "both taken": (lambda x, a, b, i: pnp.matmul(_taken(a, i), _taken(b, i)) + x, "matmul_taken"),
    "one taken": (lambda x, a, b, i: pnp.matmul(_taken(a, i), b) + x, None),
    "taken otherwise": (lambda x, a, b, i: pnp.matmul(_taken(a, i), _taken(b, 2 - i)) + x, None),
    "along another axis": (
        lambda x, a, b, i: (
            pnp.matmul(xp.take(a, i, axis=2, nonnegative=True), xp.take(b, i, axis=1, nonnegative=True)) + x
        ),
        None,
    ),
    "read twice": (lambda _, a, b, i: (lambda t: pnp.matmul(t, _taken(b, i)) + pnp.sum(t))(_taken(a, i)), None),
    "multiplied": (lambda x, a, b, _: x * pnp.matmul(a, b), "multiply_matmul"),
    "multiplied from the right": (lambda x, a, b, _: pnp.matmul(a, b) * x, "multiply_matmul"),
    "broadcast": (lambda x, a, b, _: x[:, :, :1] * pnp.matmul(a, b), None),
    "another result": (lambda x, a, b, _: _twice(x, a, b), None),
    "of one matrix": (lambda x, a, b, _: x * pnp.matmul(a, b[0]), None),
}


@pytest.mark.parametrize("name", CASES)
def test_which_products_are_joined(name: str) -> None:
    function, joined = CASES[name]
    program = clean(plica.trace(function, X, A, B, INDEX))
    found = join_products(program)
    verify(found)
    names = {one.op.name for one in found.equations}
    assert names & {"matmul_taken", "multiply_matmul"} == ({joined} if joined else set())
    assert ("matmul" in names) is (joined is None)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape) for shape in ((3, 2, 5), (3, 2, 4), (3, 4, 5))]
    for one, other in zip(
        interpret(found, *arrays, np.asarray([2, 0, 0])),
        interpret(program, *arrays, np.asarray([2, 0, 0])),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_integers_are_multiplied_apart() -> None:
    program = plica.trace(lambda a, b: a * pnp.matmul(a, b), *(plica.spec((2, 3, 3), "int64"),) * 2)
    assert join_products(program) == program


CHANGE, CORE = plica.spec((3, 2, 2), "float64"), plica.spec((3, 2, 4, 5), "float64")
Y = plica.spec((3, 2, 4), "float64")
TUCKER: dict[str, tuple[Callable[..., Any], bool]] = {
    "both": (lambda d, c, x, y: (_to_x(d, c, y), _to_y(d, c, x)), True),
    "the other first": (lambda d, c, x, y: (_to_y(d, c, x), _to_x(d, c, y)), True),
    "one": (lambda d, c, x, y: (_to_x(d, c, y), x), False),
    "of two changes": (lambda d, c, x, y: (_to_x(d, c, y), _to_y(2 * d, c, x)), False),
    "one from the other": (
        lambda d, c, _, y: (lambda one: (one, _to_y(d, c, one)))(_to_x(d, c, y)),
        False,
    ),
}


def _to_x(change: Any, core: Any, y: Any) -> Any:
    return pnp.einsum("fbo,fioj,fbj->fbi", change, pnp.permute_dims(core, (0, 2, 1, 3)), y)


def _to_y(change: Any, core: Any, x: Any) -> Any:
    return pnp.einsum("abc,adce,abe->abd", change, pnp.permute_dims(core, (0, 3, 1, 2)), x)


@pytest.mark.parametrize("name", TUCKER)
def test_which_sums_over_a_core_are_joined(name: str) -> None:
    function, is_joined = TUCKER[name]
    program = clean(plica.trace(function, CHANGE, CORE, Y, X))
    found = join_products(program)
    verify(found)
    assert any(one.op.name == "tucker_derivatives" for one in found.equations) is is_joined
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape) for shape in ((3, 2, 2), (3, 2, 4, 5), (3, 2, 4), (3, 2, 5))]
    for one, other in zip(interpret(found, *arrays), interpret(program, *arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
