"""Misuse of loops: each is refused with the place, the argument, and what to do."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, InputError, ShapeError, TraceError
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from tests.harness.functions import ones, run_torch

N, M = spec("n"), spec("m")


def _one():
    return pnp.ones((1,), dtype="float32")


def _for(body, *init, **settings):
    return lambda x: plica.for_loop(0, 3, 1, body, *(x if one is None else one for one in init), **settings)


def _while(condition, body=lambda a: a):
    return lambda x: plica.while_loop(condition, body, x)


def _scan(body, init=0.0, **settings):
    return lambda x: plica.scan(body, init, **{"xs": x, **settings})


MISUSES = (
    (_for(lambda i, a: None, None), TraceError, "the body of for_loop returns nothing; return the next value"),
    (
        _for(lambda i, a, b: a, None, None),
        TraceError,
        r"given 2 argument\(s\) and returns Tracer; return the next value",
    ),
    (_for(lambda i, a, b: (a, b, b), None, None), TraceError, r"given 2 argument\(s\) and returns 3"),
    (_for(lambda i, a: (a, a), None), TraceError, "return the same tuples, lists and dicts"),
    (_for(lambda i, a: {"b": a["a"]}, {"a": 1}), TraceError, "return the same tuples, lists and dicts"),
    (_for(lambda i: 1), TraceError, r"given 0 argument\(s\) and returns int"),
    (_for(lambda i, a: "a", None), TraceError, "needs an array, found str 'a'"),
    (_for(lambda i, a: a, "x"), TraceError, "an argument of for_loop needs an array, found str 'x'"),
    (
        _for(lambda i, a: a[None], None),
        ShapeError,
        r"argument 'a' is f32\[n\] and becomes f32\[1,n\]; .* number of axes",
    ),
    (
        _for(lambda i, a: pnp.astype(a, "float64"), None),
        DTypeError,
        r"'a' is f32\[n\] and becomes f64\[n\]; return it wi",
    ),
    (_for(lambda i, a: a / 2, np.ones(3, "int64")), DTypeError, r"astype\(\.\.\., 'int64'\), or start with float64"),
    (
        lambda x: plica.for_loop(0, 2.5, 1, lambda i, a: a, x),
        TraceError,
        r"the bound of a loop is a scalar int, found f64",
    ),
    (lambda x: plica.for_loop(0, x, 1, lambda i, a: a, x), TraceError, r"a scalar int, found f32\[n\]"),
    (lambda x: plica.for_loop(0, True, 1, lambda i, a: a, x), TraceError, r"a scalar int, found bool\[\]"),
    (lambda x: plica.for_loop(0, 3, 0, lambda i, a: a, x), InputError, "the step of a loop is 0; take a positive"),
    (
        _while(lambda a: a > 0),
        TraceError,
        r"the condition of a loop is a scalar bool, found bool\[n\]; .*plica.numpy.any",
    ),
    (_while(lambda a: a.shape[0]), TraceError, r"is a scalar bool, found i64\[\]; write a comparison such as x > 0"),
    (_while(lambda a: None), TraceError, "the condition of a loop is a scalar bool, found NoneType None"),
    (_while(lambda a: True, lambda a: (a, a)), TraceError, "the body of while_loop is given"),
    (_scan(lambda c, row: c), TraceError, "the body of scan returns a pair: the next carry, and what this step makes"),
    (_scan(lambda c, row: (c, row, row)), TraceError, "the body of scan returns a pair"),
    (_scan(lambda c, row: (c, row), xs=None), TraceError, "scan needs arrays to run along, or a length"),
    (lambda x: plica.scan(lambda c, r: (c, r), 0.0, x[0]), TraceError, r"runs along the first axis .* found f32\[\]"),
    (
        lambda x: plica.scan(lambda c, r: (c, r), 0.0, (x, pnp.ones([x.shape[0] + 1]))),
        ShapeError,
        r"scan has n steps, but is given f64\[n\+1\]",
    ),
    (
        lambda x: plica.scan(lambda c, r: (pnp.concat([c, c]), c), _one(), x, preserve_dimensions=False),
        ShapeError,
        "whose size may differ from step to step; carry it instead",
    ),
)


@pytest.mark.parametrize(("function", "error", "message"), MISUSES, ids=[row[2][:40] for row in MISUSES])
def test_misuse_is_refused_where_it_is(function, error, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        trace(function, N)
    assert "test_loop_errors.py:" in str(caught.value)


HINT = "use preserve_dimensions=False"
RESIZED = (
    (
        _for(lambda i, a, b: (pnp.concat([a, b]), b), None, None),
        r"axis 0 of argument 'a' has size n and becomes 2\*n .*'b'",
    ),
    (
        _for(lambda i, a, b: (a, pnp.concat([a, b])), None, None),
        r"argument 'b' has size n and becomes 2\*n .*'a'.*keeps it",
    ),
    (
        _for(lambda i, a, b: (pnp.concat([a, a, a]), pnp.concat([a, b])), None, None),
        r"'a' has size n and becomes 3\*n .*'b', which shares that size, becomes 2\*n",
    ),
    (
        _for(lambda i, a: pnp.concat([a, a]), np.ones(1)),
        "'a' has size 1 and becomes 2 .* a size that is a number stays",
    ),
    (lambda x: _for(lambda i, a: pnp.concat([a, x]), _one())(x), r"'a' has size 1 and becomes n\+1"),
    (
        lambda x: plica.while_loop(lambda a, b: True, lambda a, b: (a[1:], b), x, x),
        r"'a' has size n and becomes .* \(made at .*test_loop_errors.py:\d+\), but argument 'b'",
    ),
    (
        lambda x: plica.scan(lambda c, r: (pnp.concat([c, r]), c), x, pnp.zeros((4, x.shape[0]), dtype="float32")),
        r"'c' has size n and becomes 2\*n .* but the rows that the loop reads share it",
    ),
)


@pytest.mark.parametrize(("function", "message"), RESIZED, ids=[row[1][:40] for row in RESIZED])
def test_a_size_that_changes_and_may_not_names_the_argument(function, message: str) -> None:
    with pytest.raises(ShapeError, match=rf"test_loop_errors.py:\d+: .*{message}.*{HINT}"):
        trace(function, N)


def test_a_dynamic_step_of_zero_is_refused_when_it_runs() -> None:
    program = trace(lambda n, k: plica.for_loop(0, n, k, lambda i, a: a + i, 0), int, int)
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match="a loop from 0 to 3 has step 0; take a positive or a negative step"):
            run(program, np.asarray(3), np.asarray(0))


def test_sizes_that_meet_within_a_loop_are_checked_when_it_runs() -> None:
    program = trace(lambda x, y: plica.for_loop(0, 3, 1, lambda i, a: a + y, x), N, M)
    for run in (interpret, run_torch):
        assert run(program, ones(3), ones(3))[0].tolist() == [4.0] * 3
        with pytest.raises(InputError, match=r"test_loop_errors.py:\d+: .*shape \(2,\), but \(3,\) is needed"):
            run(program, ones(3), ones(2))
