"""What nothing reads goes, but for what it finds out about sizes: other sizes are computed from those."""
# ruff: noqa: ARG005 - bodies are given what they need not use

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import BoundsError, InputError, PlicaError
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.types import spec
from plica.passes.clean import clean
from plica.passes.dead_code import eliminate_dead_code
from tests.harness.functions import checked, ones

N, M = spec("n"), spec("m")
Sizes = tuple[int, int]


def _counted(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function of which the array that is made is read for its size alone."""
    return lambda x, y: pnp.zeros(make(x, y).shape[0] + 4)


def _branch(x: Any, y: Any) -> Any:
    return plica.cond(x.shape[0] < 9, lambda: x[: y.shape[0]], lambda: y)


def _drawn(x: Any, y: Any) -> Any:
    return pnp.random.uniform(pnp.random.key(0), (x.shape[0] - y.shape[0],))


# the function, sizes for which it runs, sizes for which it fails, and how
CHECKS: dict[str, tuple[Callable[..., Any], Sizes, Sizes, type[PlicaError]]] = {
    "a slice": (_counted(lambda x, y: x[: y.shape[0]]), (5, 2), (2, 5), BoundsError),
    "a slice of a slice": (_counted(lambda x, y: pnp.exp(x)[: y.shape[0]][:1]), (5, 2), (2, 5), BoundsError),
    "a slice that starts late": (_counted(lambda x, y: x[y.shape[0] :]), (5, 2), (2, 5), BoundsError),
    "a sum of two sizes": (_counted(lambda x, y: x + y), (3, 3), (2, 3), InputError),
    "a size that is computed": (_counted(lambda x, y: pnp.zeros(x.shape[0] - y.shape[0])), (3, 3), (2, 3), InputError),
    "a shape": (
        _counted(lambda x, y: pnp.broadcast_to(x[:1], (x.shape[0] - y.shape[0], 1))),
        (3, 1),
        (2, 3),
        InputError,
    ),
    "random numbers": (_counted(_drawn), (3, 1), (2, 3), InputError),
    "a branch": (_counted(_branch), (5, 2), (2, 5), BoundsError),
    "a loop": (
        _counted(lambda x, y: plica.for_loop(0, 2, 1, lambda i, a: a + y, x)),
        (3, 3),
        (2, 3),
        InputError,
    ),
    "a carry of a loop": (
        lambda x, y: plica.for_loop(0, 2, 1, lambda i, a, b: (a + y, b + a.shape[0]), x, 0)[1],
        (3, 3),
        (2, 3),
        InputError,
    ),
    "a loop that asks": (
        _counted(lambda x, y: plica.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + y), 0, x)[1]),
        (3, 3),
        (2, 3),
        InputError,
    ),
    "rows": (
        lambda x, y: plica.scan(lambda c, row: (c + 1, ()), pnp.asarray(0), x[: y.shape[0]])[0],
        (5, 2),
        (2, 5),
        BoundsError,
    ),
    "a scan": (
        _counted(lambda x, y: plica.scan(lambda c, row: (c + y, row), x, pnp.ones(2))[0]),
        (3, 3),
        (2, 3),
        InputError,
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_stays_where_its_array_goes(name: str) -> None:
    function, fitting, failing, error = CHECKS[name]
    program = checked(function, [N, M], tuple(map(ones, fitting)), eager=False)
    arrays = tuple(map(ones, failing))
    for one in (program, clean(program), parse(str(clean(program)))):
        with pytest.raises(error):
            interpret(one, *arrays)
    for backend in ("torch", "interpreter"):
        run = plica.jit(function, abstracted_axes=(("n",), ("m",)), backend=backend)
        run(*map(ones, fitting))
        with pytest.raises(error):
            run(*arrays)


def _ops(function: Callable[..., Any], specs: Sequence[Any]) -> list[str]:
    program = eliminate_dead_code(trace(function, *specs))
    verify(program)
    return [equation.op.name for equation in program.equations]


def test_what_holds_whatever_the_sizes_are_is_no_check() -> None:
    def unread(x: Any, y: Any) -> Any:
        size = x.shape[0]
        pnp.zeros(size + 3)
        pnp.reshape(x, (1, size))
        pnp.concat([x, y])[size:]
        x[1:] + x[:-1]
        plica.for_loop(0, size, 1, lambda i, a: pnp.concat([a, x])[size:], x)
        return y * 2

    assert _ops(unread, [N, M]) == ["multiply"]


def test_what_only_a_check_reads_is_not_computed_without_it() -> None:
    def unread(x: Any, y: Any) -> Any:
        pnp.exp(x)
        pnp.exp(y)[: x.shape[0]]
        return y * 2

    assert _ops(unread, [N, M]) == ["exp", "slice", "multiply"]
    assert np.array_equal(interpret(clean(trace(unread, N, M)), ones(2), ones(3))[0], 2 * ones(3))
