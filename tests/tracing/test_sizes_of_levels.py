"""Sizes of loops within loops: what is known at one level is known at the others, and no run-time check stays."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import plica
import plica.numpy as pnp
from plica.frontend.programs import trace, verify
from plica.ir.types import spec
from tests.harness.functions import checked, ramp

N, M = spec("n", "float64"), spec("m", "float64")
Body = Callable[[Any], Any]

SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "2*n": lambda n, m: 2 * n,  # noqa: ARG005 - every size is given both
    "n+1": lambda n, m: n + 1,  # noqa: ARG005
    "n-m": lambda n, m: n - m,
    "2*n+3*m+1": lambda n, m: 2 * n + 3 * m + 1,
    "n*m": lambda n, m: n * m,
    "n//2": lambda n, m: n // 2,  # noqa: ARG005
}

LOOPS: dict[str, Callable[[Body, Any, Any], Any]] = {
    "for": lambda body, first, times: plica.for_loop(0, times, 1, lambda _, a: body(a), first),
    "for that runs": lambda body, first, _: plica.for_loop(0, 2, 1, lambda _, a: body(a), first),
    "while": lambda body, first, _: plica.while_loop(lambda a: pnp.sum(a) < 3, body, first),
    "scan": lambda body, first, times: plica.scan(lambda a, _: (body(a), 0.0), first, None, length=times)[0],
    "cond": lambda body, first, times: plica.cond(times > 0, lambda: body(first), lambda: first),
}


def nested(loops: tuple[str, ...], size: Callable[[Any, Any], Any], *, is_used_at_each: bool) -> Callable[..., Any]:
    """A function of x (n,), y (m,) and a number: loops in each other, whose innermost body makes an array anew."""

    def function(x: Any, y: Any, times: Any) -> Any:
        n, m = x.shape[0], y.shape[0]

        def level(loops: tuple[str, ...], a: Any) -> Any:
            if is_used_at_each or not loops:
                a = a + pnp.ones([size(n, m)])
            return LOOPS[loops[0]](lambda b: level(loops[1:], b), a, times) if loops else a

        return level(loops, pnp.zeros([size(n, m)]))

    return function


@pytest.mark.parametrize("loops", list(product(LOOPS, repeat=2)), ids=" ".join)
def test_a_size_of_one_level_is_known_within_another(loops: tuple[str, ...]) -> None:
    for size, is_used_at_each in product(("2*n", "2*n+3*m+1"), (False, True)):
        program = trace(nested(loops, SIZES[size], is_used_at_each=is_used_at_each), N, M, int)
        verify(program)
        assert "assert_shape" not in str(program)


@pytest.mark.full
@pytest.mark.parametrize("loops", list(product(LOOPS, repeat=3)), ids=" ".join)
def test_a_size_of_one_level_is_known_within_two_others(loops: tuple[str, ...]) -> None:
    for size, is_used_at_each in product(SIZES.values(), (False, True)):
        assert "assert_shape" not in str(trace(nested(loops, size, is_used_at_each=is_used_at_each), N, M, int))


@pytest.mark.parametrize("loops", [("for", "for"), ("while", "scan"), ("scan", "cond", "while")], ids=" ".join)
def test_values(loops: tuple[str, ...]) -> None:
    program = checked(
        nested(loops, SIZES["2*n+3*m+1"], is_used_at_each=False),
        [N, M, int],
        *((ramp(n, dtype="float64"), ramp(m, dtype="float64"), times) for n, m, times in ((3, 2, 2), (0, 1, 1))),
    )
    assert "assert_shape" not in str(program)


def test_a_size_that_an_inner_loop_gives_back_is_the_outer_one() -> None:
    """The second loop shares the size of what the first may change, which turns out to stay."""

    def function(x: Any) -> Any:
        def body(b: Any) -> Any:
            a, _ = plica.while_loop(lambda a, _: pnp.sum(a) > 3, lambda _, b: (b * 0, b), x, b)
            c, _ = plica.for_loop(0, 2, 1, lambda _, c, d: (c * 2, d), a, x)
            return b + 10 + 0 * pnp.sum(c)

        return plica.while_loop(lambda b: pnp.sum(b) < 9, body, x)

    program = checked(function, [N], (ramp(3, dtype="float64"),), (ramp(9, dtype="float64"),))
    assert "assert_shape" not in str(program)
