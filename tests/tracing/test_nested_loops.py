"""Loops, scans, branches and while loops within each other give what plain Python over numpy gives."""

from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import InternalError, PlicaError
from plica.frontend.programs import trace, verify
from plica.ir.builder import Builder
from plica.ir.types import spec
from plica.ops import OPS
from tests.harness.nested_loops import PLAIN, SIZES, nested_loops


def _agrees(seed: int, depth: int, backend: str) -> None:
    function = nested_loops(seed, depth)
    run = plica.jit(function.load({"plica": plica, "pnp": pnp}), abstracted_axes=function.axes, backend=backend)
    for sizes in SIZES:
        arguments = function.draw(sizes, seed)
        expected = function.load(PLAIN)(*arguments)
        try:
            results = run(*arguments)
        except PlicaError as error:
            raise AssertionError(f"seed {seed} at {sizes}: {function}") from error
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed} at {sizes}")
    verify(run.program)


def test_values() -> None:
    for seed in range(40):
        _agrees(seed, 2, "interpreter")


@pytest.mark.full
@pytest.mark.parametrize(("depth", "seeds"), [(2, range(1000)), (3, range(2000, 2500)), (4, range(3000, 3100))])
def test_many_values(depth: int, seeds: range) -> None:
    for seed in seeds:
        _agrees(seed, depth, "interpreter")


@pytest.mark.full
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_values_of_backends(backend: str) -> None:
    for seed in range(100):
        _agrees(seed, 2, backend)


@pytest.mark.parametrize("loop", ["for", "scan", "while"])
def test_an_inner_loop_begins_with_a_captured_array_and_returns_an_outer_carry(loop: str) -> None:
    """The carried sizes are compared with a captured one, which is twice another: both must be known within."""

    def looped(body: Any, first: Any) -> Any:
        if loop == "for":
            return plica.for_loop(0, 2, 1, lambda _, c: body(c), first)
        if loop == "while":
            return plica.while_loop(lambda k, _: k < 2, lambda k, c: (k + 1, body(c)), 0, first)[1]
        return plica.scan(lambda c, row: (body(c), row), first, pnp.zeros(2))[0]

    def function(x: Any) -> Any:
        v = pnp.concat([x, x])
        return looped(lambda c: looped(lambda _: c * pnp.sum(x), v), v)

    program = trace(function, spec(("n",), "float64"))
    verify(program)
    assert "assert_shape" not in str(program)
    x = np.asarray([1.0, 0.5])
    np.testing.assert_allclose(plica.jit(program)(x), np.tile(x, 2) * 1.5**2)


def test_what_the_tracer_builds_and_no_program_may_be_is_an_internal_error() -> None:
    builder = Builder(OPS)
    with pytest.raises(InternalError, match=r"takes 2 operand(.|\n)*This is a fault of Plica(.|\n)*report it"):
        builder.add("add", builder.implicit("n"))
