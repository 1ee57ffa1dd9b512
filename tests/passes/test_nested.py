"""Passes reach nested Programs, and what they make of them computes the same."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.errors import InputError
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.program import Program, nested
from plica.ir.types import spec
from plica.passes.algebra import simplify
from plica.passes.clean import clean
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.hoist import hoist
from tests.harness.functions import ramp
from tests.harness.random_functions import Function, functions

N = spec("n", "float64")
PASSES = (simplify, share_equations, eliminate_dead_code, hoist, clean)


def _operations(program: Program) -> list:
    """The names of operations, with those of nested Programs in lists after them."""
    found: list = []
    for equation in program.equations:
        found.append(equation.op.name)
        found += [_operations(one) for one in nested(equation.params)]
    return found


def _loop(body, *more):
    return lambda x: plica.for_loop(0, 3, 1, body, x, *more)


CLEANED = (
    # function, its operations before, and after
    (_loop(lambda i, a: a * 1 + a * 1), ["for_loop", ["multiply", "multiply", "add"]], ["for_loop", ["add"]]),
    (
        _loop(lambda i, a: pnp.exp(a) + pnp.exp(a)),
        ["for_loop", ["exp", "exp", "add"]],
        ["for_loop", ["exp", "add"]],
    ),
    (_loop(lambda i, a: (pnp.exp(a), a + 2)[1]), ["for_loop", ["exp", "add"]], ["for_loop", ["add"]]),
    (
        lambda x: plica.cond(x.shape[0] > 2, lambda: x * 1, lambda: pnp.negative(-x)),
        ["greater", "cond", ["multiply"], ["negative", "negative"]],
        ["greater", "cond", [], []],
    ),
    (
        lambda x: plica.while_loop(lambda a: pnp.sum(a * 1) < 9, lambda a: (a + 1) * 1, x),
        ["while_loop", ["multiply", "sum", "less"], ["add", "multiply"]],
        ["while_loop", ["sum", "less"], ["add"]],
    ),
    (
        lambda x: plica.scan(lambda c, row: (c + row * 1, pnp.log(pnp.exp(row))), pnp.asarray(0.0), x),
        ["scan", ["multiply", "add", "exp", "log"]],
        ["scan", ["add"]],
    ),
    (
        lambda x: plica.jit(lambda y: pnp.exp(y) * (pnp.exp(y), y + 1)[0])(x),
        ["call", ["exp", "exp", "add", "multiply"]],
        ["call", ["exp", "multiply"]],
    ),
    (
        _loop(lambda i, a: plica.for_loop(0, i, 1, lambda j, b: (b + 1) * 1, a)),
        ["for_loop", ["for_loop", ["add", "multiply"]]],
        ["for_loop", ["for_loop", ["add"]]],
    ),
    # a loop that nothing reads is gone
    (lambda x: (_loop(lambda i, a: a + 1)(x), x * 2)[1], ["for_loop", ["add"], "multiply"], ["multiply"]),
)


@pytest.mark.parametrize(("function", "before", "after"), CLEANED, ids=range(len(CLEANED)))
def test_passes_reach_nested_programs(function, before, after) -> None:
    program = trace(function, N)
    assert _operations(program) == before
    cleaned = clean(program)
    verify(cleaned)
    assert parse(str(cleaned)) == cleaned
    assert _operations(cleaned) == after
    for size in (3, 1):
        for one, expected in zip(interpret(cleaned, ramp(size, dtype="float64")), _results(program, size), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-14)


def _results(program: Program, size: int):
    return interpret(program, ramp(size, dtype="float64"))


def test_equal_loops_are_one() -> None:
    program = trace(lambda x: _loop(lambda i, a: a + 1)(x) + _loop(lambda i, a: a + 1)(x), spec((3,)))
    assert _operations(clean(program)) == ["for_loop", ["add"], "add"]


def test_loops_that_differ_stay_two() -> None:
    different = (
        lambda x: _loop(lambda i, a: a + 1)(x) + _loop(lambda i, a: a + 2)(x),
        lambda x: _loop(lambda i, a: a + 1)(x) + plica.for_loop(0, 4, 1, lambda i, a: a + 1, x),
        lambda x: _loop(lambda i, a: a + x)(x) + _loop(lambda i, a: a + (x + 1))(x),
    )
    for function in different:
        assert _operations(clean(trace(function, spec((3,))))).count("for_loop") == 2


def test_what_regions_capture_is_needed() -> None:
    program = clean(trace(lambda x: _with(pnp.exp(x), x), N))
    assert _operations(program) == ["exp", "for_loop", ["add"]]


def _with(y, x):
    return plica.for_loop(0, 3, 1, lambda i, a: a + y, x)


def test_what_may_fail_stays_where_it_may_not_run() -> None:
    def function(x, n):
        return plica.for_loop(0, n, 1, lambda i, a: a + x[5] + pnp.exp(x)[x.shape[0] - 6], x)

    for backend in ("torch", "interpreter"):
        compiled = plica.jit(function, abstracted_axes=({0: "n"}, None), backend=backend)
        assert compiled(ramp(2), 0).tolist() == ramp(2).tolist()
        with pytest.raises(InputError, match="index"):
            compiled(ramp(2), 1)


def test_checks_of_sizes_that_are_read_stay() -> None:
    program = clean(trace(lambda x, y: x + y, N, spec("m", "float64")))
    assert _operations(program) == ["assert_shape", "add"]


@settings(max_examples=25)
@given(functions(floats=(("float64",),)))
def test_passes_keep_the_meaning_of_random_functions(function: Function) -> None:
    specs = [spec(one.shape or (), one.dtype) for one in function.arguments]
    program = trace(function.load({"plica": plica, "pnp": pnp, "jit": plica.jit}), *specs)
    dtypes = [var.type.dtype.numpy for var in program.arguments]
    for sizes in ({"n": 3, "m": 2}, {"n": 0, "m": 1}):
        arguments = [np.asarray(one, dtype) for one, dtype in zip(function.draw(sizes, 0), dtypes, strict=True)]
        expected = interpret(program, *arguments)
        for one in PASSES:
            other = one(program)
            verify(other)
            for found, wanted in zip(interpret(other, *arguments), expected, strict=True):
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
