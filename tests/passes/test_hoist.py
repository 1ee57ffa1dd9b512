"""Loop-invariant code: what moves before a loop, what stays, and that no number changes."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.ir.program import Program
from plica.passes.hoist import hoist

VECTOR = plica.spec(("n",), "float64")
X, W = np.linspace(0.5, 1.5, 3), np.linspace(-1.0, 1.0, 3)


def _names(program: Program) -> list[str]:
    return [equation.op.name for equation in program.equations]


def _simple(x, w):
    return plica.for_loop(0, 3, 1, lambda i, a: a * pnp.softmax(w), x)


def _nested(x, w):
    def outer(i, a):
        return plica.for_loop(0, 2, 1, lambda j, b: b * pnp.exp(w) + i, a)

    return plica.for_loop(0, 3, 1, outer, x)


def _condition(x, w):
    return plica.while_loop(lambda a: pnp.sum(a) < pnp.sum(pnp.exp(w)), lambda a: a + pnp.exp(w), x)


def _scanned(x, w):
    return plica.scan(lambda c, row: (c + row * pnp.tanh(w), pnp.sum(c)), x, pnp.stack([x, w]))


def _called(x, w):
    weights = plica.jit(lambda b: b * pnp.softmax(w))
    return plica.for_loop(0, 3, 1, lambda i, a: weights(a), x)


def _chain(x, w):
    return plica.for_loop(0, 3, 1, lambda i, a: a + pnp.sum(pnp.exp(pnp.reshape(w, (1, -1))), axis=0), x)


MOVED = (
    (_simple, ["softmax", "for_loop"]),
    (_nested, ["exp", "for_loop"]),
    (_condition, ["exp", "sum", "exp", "while_loop"]),
    (_scanned, ["stack", "tanh", "scan"]),
    (_called, ["softmax", "for_loop"]),
    (_chain, ["reshape", "exp", "sum", "for_loop"]),
)


@pytest.mark.parametrize(("fn", "expected"), MOVED, ids=lambda one: getattr(one, "__name__", ""))
def test_invariant_equations_stand_before_the_loop(fn, expected) -> None:
    program = plica.trace(fn, VECTOR, VECTOR)
    moved = hoist(program)
    plica.verify(moved)
    assert _names(moved) == expected
    assert plica.parse(str(moved)) == moved
    for found, wanted in zip(plica.interpret(moved, X, W), plica.interpret(program, X, W), strict=True):
        np.testing.assert_array_equal(found, wanted)


def _raises(x, w):  # an index outside its axis is an error only if the loop runs
    return plica.for_loop(0, 0, 1, lambda i, a: a + w[pnp.asarray(5)], x)


def _divides(x, w):
    counts = pnp.astype(w, "int64")
    return plica.for_loop(0, 0, 1, lambda i, a: a + pnp.floor_divide(counts, counts * 0), x)


def _varies(x, w):
    return plica.for_loop(0, 3, 1, lambda i, a: a + pnp.exp(w * i) + pnp.exp(a), x)


@pytest.mark.parametrize("fn", [_raises, _varies])
def test_what_may_raise_or_differs_each_time_stays(fn) -> None:
    program = plica.trace(fn, VECTOR, VECTOR)
    assert hoist(program) == program


def test_integers_are_not_divided_before_a_loop_that_may_not_run() -> None:
    program = hoist(plica.trace(_divides, VECTOR, VECTOR))
    assert "floor_divide" not in _names(program)
    assert plica.jit(_divides)(X, W).tolist() == X.tolist()


def test_sizes_of_what_moves_are_those_outside() -> None:
    def fn(x, w):
        more = pnp.concat([x, w])
        return plica.for_loop(0, 3, 1, lambda i, a: a * pnp.exp(more), more)

    moved = hoist(plica.trace(fn, VECTOR, VECTOR))
    plica.verify(moved)
    assert str(moved.equations[-2].outputs[0].type) == "f64[2*n]"
