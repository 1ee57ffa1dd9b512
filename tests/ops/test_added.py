"""Operations from outside: by name in `plica.numpy`, in Programs, in every backend."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, UnsupportedError
from plica.ir.op import Op, Unsupported
from plica.ir.types import ArrayType, array_type
from plica.ops import ADDED, OPS, add_operation
from plica.ops.elementwise import elementwise
from tests.harness.own_operations import own_operations


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with own_operations():
        yield


def of_pairs(**columns) -> Op:
    """`a / (a + b)` of two arrays, in terms of others."""
    return elementwise(
        "share_of",
        lambda a, b: a / (a + b),
        ("float",),
        "positive",
        arity=2,
        decompose=lambda xp, a, b: xp.divide(a, a + b),
        **columns,
    )


def _types(x: ArrayType, *, times: float) -> tuple[ArrayType, ...]:  # noqa: ARG001
    return (array_type(x.shape[1:], x.dtype),) * 2


# of two results, with a parameter
ENDS = Op(
    "ends_of",
    _types,
    lambda x, *, times: (times * x.min(axis=0), times * x.max(axis=0)),
    lambda: (),
    decompose=lambda xp, x, *, times: (times * xp.min(x, axis=0), times * xp.max(x, axis=0)),
)


def test_functions_of_the_namespace() -> None:
    add_operation(of_pairs())
    a, b = np.array([1.0, 2.0]), np.array([[3.0], [0.5]])
    expected = a / (a + b)
    np.testing.assert_allclose(pnp.share_of(a, b), expected)
    np.testing.assert_allclose(pnp.share_of(torch.tensor(a), torch.tensor(b)).numpy(), expected)
    assert "share_of" in dir(pnp)
    assert pnp.share_of.__name__ == "share_of"
    x, y = (torch.tensor(one, requires_grad=True) for one in (a, b))
    assert torch.autograd.gradcheck(plica.jit(lambda x, y: pnp.share_of(x, y)), (x, y))
    np.testing.assert_allclose(pnp.share_of(a, 1), a / (a + 1))  # numbers take the dtype of arrays
    with pytest.raises(DTypeError, match="found int64, expected float"):
        pnp.share_of(np.array([1, 2]), np.array([3, 4]))


def test_programs_with_several_results() -> None:
    add_operation(ENDS)
    x = np.random.default_rng(0).normal(size=(5, 3))

    def f(x):
        least, most = pnp.ends_of(x, times=2.0)
        return most - least

    program = plica.trace(f, plica.spec(("n", 3), "float64"))
    assert plica.parse(str(program)) == program
    assert pickle.loads(pickle.dumps(program)) == program
    expected = 2 * np.ptp(x, axis=0)
    np.testing.assert_allclose(plica.interpret(program, x)[0], expected)
    np.testing.assert_allclose(plica.jit(f)(torch.tensor(x)).numpy(), expected)
    np.testing.assert_allclose(plica.jit(f, backend="native")(x), expected)


def test_text_for_other_compilers_has_the_decomposition() -> None:
    add_operation(of_pairs())
    program = plica.trace(lambda x: pnp.sum(pnp.share_of(x, x * x)), plica.spec("n", "float64"))
    text, *_ = plica.native.stablehlo(program)
    assert "divide" in text
    assert "share_of" not in text


def test_a_primitive_needs_a_row_of_the_backend() -> None:
    add_operation(replace(of_pairs(), decompose=Unsupported("a primitive")))
    x = np.ones(2)
    np.testing.assert_allclose(pnp.share_of(x, x), 0.5)  # the interpreter computes the reference
    with pytest.raises(UnsupportedError, match="no row for the operation 'share_of'"):
        pnp.share_of(torch.ones(2), torch.ones(2))


def test_what_is_wrong_is_refused() -> None:
    add_operation(of_pairs())
    with pytest.raises(UnsupportedError, match="a backend has 'share_of' already; choose another name"):
        add_operation(of_pairs())
    for name in ("exp", "multiply_runs", "positive"):  # an operation, one of torch's own, and a function
        with pytest.raises(UnsupportedError, match=f"'{name}' already"):
            add_operation(replace(of_pairs(), name=name))
    wrong: Any
    for wrong in ("exp", None, replace(of_pairs(), name="share of")):
        with pytest.raises(DTypeError, match="add_operation takes an Op whose name is an identifier"):
            add_operation(wrong)
    assert [*ADDED] == ["share_of"]
    assert "exp" in OPS
