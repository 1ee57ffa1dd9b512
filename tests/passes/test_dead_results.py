"""Dead results: what nothing reads goes out of loops, branches and calls, and the rest computes what it did."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.errors import InputError, ShapeError
from plica.frontend.programs import interpret, trace, verify
from plica.ir.program import Equation, Program, nested
from plica.passes.clean import clean
from plica.passes.dead_code import eliminate_dead_code
from plica.tracing.trees import flatten
from tests.harness import function_runs as runs
from tests.harness.random_functions import Function, functions

N = plica.spec(("n",), "float64")


def _control(program: Program) -> Iterator[Equation]:
    for equation in program.equations:
        if any(nested(equation.params)):
            yield equation
            for one in nested(equation.params):
                yield from _control(one)


def _counts(program: Program) -> list[tuple[str, int, int]]:
    """Each loop, branch and call: its operation, how many operands and how many results it has."""
    return [(one.op.name, len(one.inputs), len(one.outputs)) for one in _control(program)]


def _loop(body: Any, *more: Any, shared: bool = True) -> Any:
    return lambda x, y: plica.for_loop(0, 3, 1, body, x, y, *more, preserve_dimensions=shared)


def _scan(x: Any, y: Any) -> Any:
    return plica.scan(lambda c, row: (c + row[0], (c * 2, row[1])), pnp.asarray(0.0), (x, y))


def _while(condition: Any, body: Any) -> Any:
    return lambda x, y: plica.while_loop(condition, body, x, y)


def _two_loops(x: Any, y: Any) -> Any:
    def body(i: Any, a: Any, b: Any, c: Any) -> Any:
        b, c = plica.for_loop(0, 2, 1, lambda j, u, v: (u + v, v * 2), b, c)
        return a + 1, b, c

    return plica.for_loop(0, 3, 1, body, x, y, y * 2)


def _inner_result(x: Any, y: Any) -> Any:
    """The inner loop carries what the outer one does not need once the second result is dead."""

    def body(i: Any, a: Any, b: Any) -> Any:
        return plica.for_loop(0, 2, 1, lambda j, u, v: (u + 1, v * u), a, b)

    return plica.for_loop(0, 3, 1, body, x, y)


def _growing(x: Any, y: Any) -> Any:
    def body(i: Any, a: Any, b: Any) -> Any:
        return pnp.concat([a, a]), b + 1

    return plica.for_loop(0, 2, 1, body, x, y, preserve_dimensions=False)


def _branches(x: Any, y: Any) -> Any:
    return plica.cond(x[0] > 0, lambda: (x + 1, y * 2, pnp.concat([x, x])), lambda: (x * 2, pnp.exp(y), x))


def _call(x: Any, y: Any) -> Any:
    return plica.jit(lambda a, b: (a + 1, pnp.nonzero(b)[0]))(x, y)


KEPT: Any = {
    # function, the results that are kept, then (operation, operands, results) of each loop, branch and call
    "one of two that do not meet": (_loop(lambda i, a, b: (a * 2, b + 1)), [0], [("for_loop", 5, 2)]),
    "one that the other reads": (_loop(lambda i, a, b: (a + b, b + 1)), [0], [("for_loop", 6, 3)]),
    "one that reads the other": (_loop(lambda i, a, b: (a * 2, a + b)), [0], [("for_loop", 5, 2)]),
    "two that read each other": (_loop(lambda i, a, b: (b, a)), [0], [("for_loop", 6, 3)]),
    "both": (_loop(lambda i, a, b: (a * 2, b + 1)), [0, 1], [("for_loop", 6, 3)]),
    "none": (_loop(lambda i, a, b: (a * 2, b + 1)), [], []),
    "with a captured array": (
        lambda x, y: plica.for_loop(0, 3, 1, lambda i, a, b: (a * 2, b + y), x, x),
        [0],
        [("for_loop", 5, 1)],  # the size of y, captured, is that of x
    ),
    "sizes of their own": (_loop(lambda i, a, b: (a * 2, b + 1), shared=False), [1], [("for_loop", 5, 2)]),
    "what a condition reads": (
        _while(lambda a, b: pnp.sum(b) < 9, lambda a, b: (a + 1, b + 1)),
        [0],
        [("while_loop", 3, 3)],
    ),
    "what a condition does not read": (
        _while(lambda a, b: pnp.sum(a) < 9, lambda a, b: (a + 1, b + a)),
        [0],
        [("while_loop", 2, 2)],
    ),
    "the carry of a scan": (_scan, [0], [("scan", 2, 1)]),
    "a stack that needs the carry": (_scan, [1], [("scan", 2, 2)]),
    "a stack that needs a row alone": (_scan, [2], [("scan", 1, 1)]),
    "loops in a loop": (_two_loops, [0], [("for_loop", 5, 2)]),
    "loops in a loop that stay": (_two_loops, [1], [("for_loop", 6, 3), ("for_loop", 6, 3)]),
    "what an inner loop alone reads": (_inner_result, [0], [("for_loop", 5, 2), ("for_loop", 5, 2)]),
    "beside one that grows": (_growing, [1], [("for_loop", 5, 2)]),
    "one that grows": (_growing, [0], [("for_loop", 5, 2)]),
    "a result of branches": (_branches, [1], [("cond", 5, 1)]),
    "a result of branches with a size of its own": (_branches, [2], [("cond", 5, 2)]),
    "a result of a call": (_call, [0], [("call", 3, 1)]),
    "a result of a call with a size of its own": (_call, [1], [("call", 3, 2)]),
}


def _with_results(program: Program, kept: list[int]) -> Program:
    """The Program with some of its results, and no sizes among them."""
    return replace(program, outputs=tuple(program.results[place] for place in kept), num_implicit_outputs=0)


@pytest.mark.parametrize(("function", "kept", "counts"), KEPT.values(), ids=KEPT)
def test_what_nothing_reads_goes(function: Any, kept: list[int], counts: list[tuple[str, int, int]]) -> None:
    program = _with_results(trace(function, N, N), kept)
    cleaned = eliminate_dead_code(program)
    verify(cleaned)
    assert _counts(cleaned) == counts
    assert eliminate_dead_code(cleaned) == cleaned
    arrays = np.asarray([1.0, 2.0, 0.5]), np.asarray([0.25, 0.0, 1.0])
    run = plica.jit(plica.parse(str(cleaned)))
    found = run(*arrays)
    for one, other, expected in zip(
        found if isinstance(found, tuple) else (found,),
        interpret(cleaned, *arrays),
        interpret(program, *arrays),
        strict=True,
    ):
        np.testing.assert_array_equal(other, expected)
        np.testing.assert_allclose(one, expected, rtol=1e-12)


def test_a_size_that_is_read_keeps_an_array_that_has_it() -> None:
    def function(x: Any) -> Any:
        a, _ = plica.for_loop(0, 3, 1, lambda i, a, b: (pnp.concat([a, a]), b + 1), x, x, preserve_dimensions=False)
        return a.shape[0] * 2

    program = clean(trace(function, N))
    assert _counts(program) == [("for_loop", 5, 2)]
    assert plica.jit(function, abstracted_axes={0: "n"})(np.ones(3)) == 48


@settings(max_examples=40)
@given(functions(), st.integers(0, 2**8), st.integers(0, 2**16))
def test_fewer_results_of_random_functions_stay_the_same(function: Function, kept: int, seed: int) -> None:
    sizes = {"n": 3, "m": 2}
    traced = runs.compiled(function)
    traced(*function.draw(sizes, seed))
    program = traced.program
    places = [place for place in range(len(program.results)) if kept >> place & 1] or [0]
    cleaned = clean(_with_results(program, places))
    verify(cleaned)
    consts = traced.bound.leaves
    run = plica.jit(plica.parse(str(cleaned)), consts=consts)
    tolerance = max(runs.TOLERANCE[one] for one in function.floats)
    for drawn in (sizes, {"n": 0, "m": 1}, {"n": 1, "m": 4}):
        given_ = function.draw(drawn, seed)
        arrays = [np.asarray(one, var.type.dtype.numpy) for one, var in zip(given_, program.arguments, strict=True)]
        everything = interpret(program, *arrays, consts=[np.asarray(one) for one in consts])
        found = flatten(run(*given_))[0]
        runs.assert_same(tuple(found), tuple(everything[place] for place in places), tolerance, f"at {drawn}")


def test_rows_that_nobody_reads_still_have_the_length_that_a_scan_takes() -> None:
    def rows(x: Any, y: Any) -> Any:
        return plica.scan(lambda c, row: (c + 1, row), pnp.asarray(0), x[: y.shape[0]])[0]

    def sums(x: Any, y: Any) -> Any:
        return plica.scan(lambda c, row: (c + 1, row), pnp.asarray(0), x + y)[0]

    for function in (rows, sums):
        run = plica.jit(function, abstracted_axes=({0: "n"}, {0: "m"}))
        assert run(np.ones(3), np.ones(3)) == 3
        with pytest.raises((ShapeError, InputError)):
            run(np.ones(2), np.ones(3))


def test_a_size_that_is_read_without_its_array_leaves_the_others_theirs() -> None:
    def function(x: Any, y: Any, k: int) -> Any:
        first, second = plica.cond(k > 1, lambda: (x, pnp.ones(k + 1)), lambda: (y, y[1:]), preserve_dimensions=False)
        return second * 2, first.shape[0]

    program = trace(function, plica.spec(("n",), "float64"), plica.spec(("m",), "float64"), int)
    cleaned = eliminate_dead_code(program)
    verify(cleaned)
    assert [len(one.outputs) for one in cleaned.equations if one.op.name == "cond"] == [3]  # two sizes, one array
    for arguments in ((np.ones(2), np.ones(3), 0), (np.ones(2), np.ones(3), 2)):
        given_ = [np.asarray(one, var.type.dtype.numpy) for one, var in zip(arguments, program.arguments, strict=True)]
        for one, other in zip(interpret(cleaned, *given_), interpret(program, *given_), strict=True):
            np.testing.assert_array_equal(one, other)
