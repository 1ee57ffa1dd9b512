"""Common subexpressions: equal equations become one; what differs in any way stays."""

import numpy as np
import pytest

import plica.tracing.namespace as xp
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from plica.passes.cse import share_equations

X = np.arange(6.0).reshape(2, 3) - 2


def counts(function) -> tuple[int, int]:
    """How many equations there are before and after, once the values are found to be the same."""
    program = trace(function, spec(("n", 3), "float64"))
    shared = share_equations(program)
    verify(shared)
    for before, after in zip(interpret(program, X), interpret(shared, X), strict=True):
        np.testing.assert_array_equal(after, before)
    return len(program.equations), len(shared.equations)


SHARED = [
    (lambda x: xp.exp(x) + xp.exp(x), (3, 2)),
    (lambda x: (xp.exp(x) * 2) + (xp.exp(x) * 2), (5, 3)),
    (lambda x: (xp.exp(x), xp.exp(x)), (2, 1)),
    (lambda x: xp.sum(x, axis=1) + xp.sum(x, axis=-1), (3, 2)),
    (lambda x: xp.sum(xp.reshape(x, (x.shape[0] * 3,)) + xp.reshape(x, (3 * x.shape[0],))), (4, 3)),
]
DIFFERENT = [
    lambda x: xp.exp(x) + xp.tanh(x),
    lambda x: xp.sum(x, axis=0, keepdims=True) + xp.sum(x, axis=1, keepdims=True),
    lambda x: (x * 2.0) + (x * 3.0),
    lambda x: (x + 0.0, x + -0.0),
    lambda x: (x - 1, 1 - x),
]


@pytest.mark.parametrize(("function", "expected"), SHARED)
def test_equal_equations_become_one(function, expected) -> None:
    assert counts(function) == expected


@pytest.mark.parametrize("function", DIFFERENT)
def test_different_equations_stay(function) -> None:
    before, after = counts(function)
    assert before == after


def test_literals_of_two_dtypes_differ() -> None:
    def function(x, y):
        return xp.astype(x * 2, "float64") + y * 2

    program = trace(function, spec((3,), "float32"), spec((3,), "float64"))
    assert share_equations(program) is program
