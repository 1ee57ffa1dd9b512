"""Calls in whose place stands what they run: the meaning stays, and constants are folded as without calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.ir.program import Program, nested
from plica.passes.inline import inline

WEIGHT = np.arange(12, dtype="float32").reshape(4, 3) / 7


def _grown(x):
    @plica.for_loop(0, 2)
    def longer(_, carry):
        return pnp.concat([carry, x])

    return longer(x)


def _deep(call, x, w):
    @call
    def outer(a, b):
        @call
        def inner(c, d):
            return c @ pnp.softmax(d), d

        first, second = inner(a, b)
        return inner(a, second * 2)[0] + first

    return outer(x, w)


def _branch(call, x, w):
    return plica.cond(pnp.sum(x) > 0, lambda: call(lambda a: a @ pnp.exp(w))(x), lambda: call(lambda b: b)(x @ w))


def _loop(call, x, w):
    step = call(lambda a, b: pnp.tanh(a @ b @ pnp.permute_dims(b, (1, 0))))
    return plica.for_loop(0, 3, 1, lambda _, carry: step(carry, w), x)


def _scan(call, x, w):
    row = call(lambda total, one: (total + one @ pnp.softmax(w), total * 1))
    return plica.scan(row, pnp.zeros((3,), dtype="float32"), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "an argument": lambda call, x, w: call(lambda a, b: a @ pnp.softmax(b))(x, w),
    "twice": lambda call, x, w: [call(lambda a: pnp.exp(a) + 1)(one) for one in (x, w, x)],
    "one function twice": lambda call, x, w: (lambda fn: fn(fn(x)) @ w)(call(lambda a: pnp.sin(a) + 1)),
    "captured": lambda call, x, w: call(lambda a: a @ pnp.exp(WEIGHT))(x) + call(lambda a: a @ pnp.tanh(w))(x),
    "deep": _deep,
    "its argument": lambda call, x, w: call(lambda a, b: (b, a, 5.0, pnp.zeros((2,))))(x, w),
    "no argument": lambda call, x, w: x @ w + call(lambda: pnp.exp(WEIGHT)[0])(),
    "sizes that it makes": lambda call, x, w: call(_grown)(x) @ w + 1,
    "sizes of sizes": lambda call, x, w: call(lambda a: pnp.reshape(a, (-1,)))(call(_grown)(x)) * w[0, 0],
    "a size as a number": lambda call, x, w: call(lambda a: a * a.shape[0] + pnp.ones(a.shape))(x) @ w,
    "branch": _branch,
    "loop": _loop,
    "scan": _scan,
}


def _traced(name: str, call: Callable[[Any], Any]) -> Program:
    return plica.trace(lambda x, w: FUNCTIONS[name](call, x, w), plica.spec(("n", 4)), plica.spec((4, 3)))


def _operations(program: Program) -> list[str]:
    own = [equation.op.name for equation in program.equations]
    return own + [
        name for equation in program.equations for one in nested(equation.params) for name in _operations(one)
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_without_calls_means_the_same(name: str) -> None:
    program = _traced(name, plica.jit)
    inlined = inline(program)
    plica.verify(inlined)
    assert "call" in _operations(program)
    assert "call" not in _operations(inlined)
    assert inline(inlined) == inlined
    generator = np.random.default_rng(0)
    for rows in (3, 1):
        x, w = (generator.standard_normal(shape).astype("float32") for shape in ((rows, 4), (4, 3)))
        consts = [WEIGHT for _ in program.consts]
        expected = plica.interpret(program, x, w, consts=consts)
        for one, other in zip(plica.interpret(inlined, x, w, consts=consts), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_folded_is_what_would_be_without_calls(name: str) -> None:
    def folded(call: Callable[[Any], Any]) -> plica.FoldedProgram:
        program = _traced(name, call)
        known = {var.name: WEIGHT for var in program.consts}
        return plica.fold_constants(program, compile_time=known, run_time=("w",))

    with_calls, without = folded(plica.jit), folded(lambda fn: fn)
    assert (with_calls.report().work_before, with_calls.report().work_after) == (
        without.report().work_before,
        without.report().work_after,
    )
    assert sorted(_operations(with_calls.entry)) == sorted(_operations(without.entry))
    x, w = np.ones((2, 4), "float32"), WEIGHT * 2
    first, second = (one.compile()(x, w=w) for one in (with_calls, without))
    for one, other in zip(
        first if isinstance(first, tuple) else [first], second if isinstance(second, tuple) else [second], strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
