"""Loops and branches outside a trace: Python's own, on values of any kind, and refused where a trace refuses them."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import re
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.frontend.control
import plica.numpy as pnp
from plica.errors import InputError, ShapeError, TraceError
from tests.harness.together import grouped

KINDS = (lambda *numbers: np.asarray(numbers), lambda *numbers: torch.tensor(numbers))


@pytest.mark.parametrize("make", KINDS, ids=["numpy", "torch"])
def test_loops_run_on_arrays_of_any_library(make) -> None:
    found = plica.for_loop(0, 3, 1, lambda i, a, b: (a * 2 + i, b + pnp.sum(a)), make(1.0, 2.0), 0.0)
    assert [np.asarray(one).tolist() for one in found] == [[12.0, 20.0], 23.0]
    assert type(found[0]) is type(make(1.0))
    grown = plica.while_loop(lambda a: a.shape[0] < 4, lambda a: pnp.concat([a, a]), make(1.0))
    assert grown.tolist() == [1.0] * 4


def test_loops_run_on_anything() -> None:
    assert plica.for_loop(0, 4, 1, lambda i, a: [*a, i], []) == [0, 1, 2, 3]
    assert plica.for_loop(3, 0, -2, lambda i, a: a + str(i), "") == "31"
    assert plica.while_loop(lambda a, b: len(a) < 3, lambda a, b: (a + b, b), "", "ab") == ("abab", "ab")
    assert plica.for_loop(0, 3, 1, lambda i: None) is None
    assert plica.for_loop(0, 0, 1, lambda i, a: 1 / 0, "kept") == "kept"


@pytest.mark.parametrize("bound", [3, np.int64(3), np.asarray(3, "uint8"), torch.tensor(3)], ids=repr)
def test_bounds_are_integers_of_any_library(bound) -> None:
    assert plica.for_loop(0, bound, 1, lambda i, a: a + i, 0) == 3


def test_decorators_make_functions_that_keep_their_name() -> None:
    @plica.for_loop(0, 3)
    def total(i, a):
        """Adds."""
        return a + i

    assert (total.__name__, total.__doc__, total(1), total(10)) == ("total", "Adds.", 4, 13)


@pytest.mark.parametrize("make", KINDS, ids=["numpy", "torch"])
def test_scan(make) -> None:
    carry, (before, rows) = plica.scan(lambda c, row: (c + row, (c, row * 2)), make(0.0)[0], make(1.0, 2.0, 4.0))
    assert (float(carry), before.tolist(), rows.tolist()) == (7.0, [0.0, 1.0, 3.0], [2.0, 4.0, 8.0])
    carry, rows = plica.scan(lambda c, row: (c + row, {"c": c}), make(0.0)[0], make(1.0, 2.0, 4.0), reverse=True)
    assert (float(carry), rows["c"].tolist()) == (7.0, [6.0, 4.0, 0.0])
    carry, rows = plica.scan(lambda c, row: (c + row, c * 2), make(5.0)[0], make(1.0)[:0])
    assert (float(carry), rows.tolist(), type(rows)) == (5.0, [], type(make(1.0)))


def test_scan_without_rows_to_read() -> None:
    carry, rows = plica.scan(lambda c, row: (c + 1, c * 2), 0, None, length=3)
    assert (carry, np.asarray(rows).tolist()) == (3, [0, 2, 4])


def test_one_branch_runs() -> None:
    assert plica.cond(np.bool_(True), lambda: "a", lambda: 1 / 0) == "a"
    assert plica.cond(torch.tensor(False), lambda: 1 / 0, lambda: "b") == "b"
    assert plica.cond(np.asarray(1.0) > 2, lambda a: a, lambda a: -a, 3) == -3
    assert plica.cond(False)(lambda: 1 / 0)() is None
    assert plica.cond(False, lambda: 1 / 0) is None
    chosen = (
        plica.cond(False)(lambda: 1 / 0).else_if(True)(lambda: "b").else_if(True)(lambda: "c").otherwise(lambda: "d")
    )
    assert chosen() == "b"


def test_a_branch_is_a_function() -> None:
    x: Any
    for x in (np.ones(3), 1.0):
        with pytest.raises(TraceError, match=r"test_control.py:\d+: a branch of cond is a function, found .*lambda: x"):
            plica.cond(True, lambda: 1.0, x)
    with pytest.raises(TraceError, match=r"test_control.py:\d+: a branch of cond is a function, found Tracer"):
        plica.trace(lambda a: plica.cond(a[0] > 0, a), plica.spec(3))


def test_nothing_comes_after_otherwise() -> None:
    branch = plica.cond(True)(lambda: 1).otherwise(lambda: 2)
    with pytest.raises(TraceError, match=r"test_control.py:\d+: `otherwise` is the last branch of a cond"):
        branch.else_if(False)(lambda: 3)
    with pytest.raises(TraceError, match="`otherwise` is the last branch of a cond"):
        branch.otherwise(lambda: 3)


X = np.ones(2)
REFUSED = (
    (
        lambda: plica.for_loop(0, 3, 0, lambda i, a: a, 0),
        InputError,
        "from 0 to 3 has step 0; take a positive or a negat",
    ),
    (
        lambda: plica.for_loop(0, 2.5, 1, lambda i, a: a, 0),
        TraceError,
        "the bound of a loop is a scalar int, found 2.5",
    ),
    (
        lambda: plica.for_loop(0, X, 1, lambda i, a: a, 0),
        TraceError,
        "the bound of a loop is a scalar int, found array",
    ),
    (lambda: plica.for_loop(0, 3, 1, lambda i, a: None, 0), TraceError, "the body of for_loop returns nothing"),
    (lambda: plica.for_loop(0, 3, 1, lambda i, a, b: a, 0, 1), TraceError, r"given 2 argument\(s\) and returns int"),
    (
        lambda: plica.for_loop(0, 3, 1, lambda i, a, b: (a, b, b), 0, 1),
        TraceError,
        r"given 2 argument\(s\) and returns 3",
    ),
    (
        lambda: plica.while_loop(lambda a: X > 0, lambda a: a, 0),
        TraceError,
        r"condition of a loop is a scalar bool, found bool\[2\]",
    ),
    (lambda: plica.while_loop(lambda a, b: True, lambda a, b: a, 0, 1), TraceError, "the body of while_loop is given"),
    (
        lambda: plica.cond(X > 0, lambda: 1, lambda: 2),
        TraceError,
        r"the predicate of cond is a scalar bool, found bool\[2\]",
    ),
    (lambda: plica.scan(lambda c, r: c, 0, X), TraceError, "the body of scan returns a pair"),
    (lambda: plica.scan(lambda c, r: (c, r), 0), TraceError, "scan needs arrays to run along, or a length"),
    (
        lambda: plica.scan(lambda c, r: (c, r), 0, X[0]),
        TraceError,
        "scan runs along the first axis of its arrays, found",
    ),
    (lambda: plica.scan(lambda c, r: (c, r), 0, (X, X[:1])), ShapeError, r"has 2 steps, .* an array of shape \(1,\)"),
    (lambda: plica.scan(lambda c, r: (c, r), 0, X, length=3), ShapeError, r"has 3 steps, .* an array of shape \(2,\)"),
    (lambda: plica.scan(lambda c, r: (c, r), 0, X, length=2.5), TraceError, "the length of scan is a scalar int"),
    (
        lambda: plica.scan(lambda c, r: (c, c), 0, None, length=-1),
        InputError,
        "the length of scan is -1; take 0 or more",
    ),
    (lambda: plica.scan(lambda c, r: (c + 1, pnp.ones(c)), 0, X), ShapeError, "stack"),
)


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[row[2][:40] for row in REFUSED])
def test_misuse_is_refused(call, error, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# Sizes that arguments share: an array that is passed twice shares them, at once as in a trace


def _wider(a):
    return pnp.concat([a, a[:1]])


SHARING = (
    # a loop over an array that is passed twice, what is said of it; empty where nothing is
    (lambda a, **own: plica.for_loop(0, 2, 1, lambda i, a, a_: (a, a_ * 2), a, a, **own), ""),
    (lambda a, **own: plica.for_loop(0, 2, 1, lambda i, a, a_: (_wider(a), _wider(a_)), a, a, **own), ""),
    (
        lambda a, **own: plica.for_loop(0, 2, 1, lambda i, a, a_: (a, _wider(a_)), a, a, **own),
        "axis 0 of argument 'a_' .*but argument 'a', which shares that size, keeps it",
    ),
    (
        lambda a, **own: plica.for_loop(0, 2, 1, lambda i, a, a_: (_wider(a), a_), a, a, **own),
        "axis 0 of argument 'a' .*but argument 'a_', which shares that size, keeps it",
    ),
    (
        lambda a, **own: plica.while_loop(
            lambda t: t[0].shape[0] < 4, lambda t: (_wider(_wider(t[0])), _wider(t[1])), (a, a), **own
        ),
        "axis 0 of argument .*which shares that size, becomes",
    ),
    (
        lambda a, **own: plica.scan(lambda c, row: ((c[0], _wider(c[1])), row), (a, a), pnp.ones([3]), **own)[0],
        "axis 0 of argument .*which shares that size, keeps it",
    ),
)


@pytest.mark.parametrize(("loop", "message"), SHARING, ids=range(len(SHARING)))
def test_an_array_that_is_passed_twice_shares_its_sizes(loop, message: str) -> None:
    one = np.arange(3.0)
    at_once = plica.jit(loop, abstracted_axes={0: "n"})
    for run in (loop, at_once):
        if message:
            with pytest.raises(ShapeError, match=rf"test_control.py:\d+: {message}.*use preserve_dimensions=False"):
                run(one)
        else:
            assert [tuple(found.shape) for found in run(one)] == [tuple(found.shape) for found in loop(one)]
    alone = plica.jit(lambda a: loop(a, preserve_dimensions=False), abstracted_axes={0: "n"})
    assert [found.tolist() for found in loop(one, preserve_dimensions=False)] == [f.tolist() for f in alone(one)]


def _grow_first(a, b):
    return plica.for_loop(0, 2, 1, lambda i, a, b: (_wider(a), b), a, b)[0]


BY_CHANCE = (
    # of two arrays of sizes n and m: what has a size of its own in a trace
    lambda x, y: _grow_first(x, y),
    lambda x, y: _grow_first(plica.cond(pnp.sum(x) >= 0, lambda: x, lambda: y), x),
    lambda x, y: _grow_first(plica.for_loop(0, x.shape[0] - 2, 1, lambda i, a: _wider(a), x), x),
    lambda x, y: _grow_first(plica.for_loop(0, 1, 1, lambda i, a: plica.cond(True, lambda: x, lambda: y), y), x),
    lambda x, y: _grow_first(plica.while_loop(lambda a: a.shape[0] < 2, _wider, x), x),
    lambda x, y: plica.for_loop(0, 2, 1, lambda i, a: _grow_first(a, x), x, preserve_dimensions=False),
    lambda x, y: plica.scan(lambda c, row: (_grow_first(c, x), row), x, pnp.ones([2]), preserve_dimensions=False)[0],
)


@pytest.mark.parametrize("make", KINDS, ids=["numpy", "torch"])
@pytest.mark.parametrize("function", BY_CHANCE, ids=range(len(BY_CHANCE)))
def test_arrays_that_are_alike_by_chance_share_nothing(function, make) -> None:
    one, other = make(1.0, 2.0), make(3.0, 4.0)
    compiled = plica.jit(function, abstracted_axes=({0: "n"}, {0: "m"}))
    assert function(one, other).tolist() == compiled(one, other).tolist()


def test_arrays_of_one_named_size_share_it_where_names_are_known() -> None:
    compiled = plica.jit(_grow_first, abstracted_axes=({0: "n"}, {0: "n"}))
    with pytest.raises(ShapeError, match=r"'a' has size n and becomes .*'b', which shares that size, keeps it"):
        compiled(np.arange(3.0), np.ones(3))
    assert _grow_first(np.arange(3.0), np.ones(3)).shape == (5,)


# Conditions and arguments: the same is refused, with the same words, whether a function is traced or not

NO_TRUTHS = (
    # what is given, how the message shows it
    (1, "i64[]"),
    (0.0, "f64[]"),
    (1j, "c128[]"),
    (None, "NoneType None"),
    ("yes", "str 'yes'"),
    ([True], "list [True]"),
    (np.asarray([True]), "bool[1]"),
    (torch.tensor([True, False]), "bool[2]"),
    (np.int8(1), "i8[]"),
    (torch.tensor(1.0), "f32[]"),
)
LOOPS = (
    lambda held: plica.cond(held, lambda: 1.0, lambda: 2.0),
    lambda held: plica.cond(False)(lambda: 1.0).else_if(held)(lambda: 2.0).otherwise(lambda: 3.0)(),
    lambda held: plica.while_loop(lambda a: held, lambda a: a, 1.0),
)


def _refusals(function) -> list[str]:
    """What is said at once and while a function is traced, without the line."""
    found = []
    for run in (function, lambda: plica.trace(lambda x: function(), plica.spec((), "float32"))):
        with pytest.raises(TraceError) as caught:
            run()
        assert "test_control.py:" in str(caught.value)
        found.append(str(caught.value).split(": ", 1)[1])
    return found


@grouped("loop", LOOPS, ids=["cond", "else_if", "while_loop"])
@grouped(("held", "shown"), NO_TRUTHS, ids=[row[1] for row in NO_TRUTHS])
def test_what_is_no_truth_is_refused(loop, held, shown: str) -> None:
    at_once, traced = _refusals(lambda: loop(held))
    assert at_once == traced
    assert f"is a scalar bool, found {shown}; write a comparison such as x > 0" in at_once


@pytest.mark.parametrize(
    "held", [True, np.bool_(True), np.asarray(True), torch.tensor(True)], ids=["bool", "bool_", "numpy", "torch"]
)
def test_truths_of_every_library_are_taken(held) -> None:
    assert plica.cond(held, lambda: 1, lambda: 2) == 1
    program = plica.trace(lambda x: plica.cond(held, lambda: x, lambda: -x), plica.spec((), "float32"))
    assert [str(one.type) for one in program.results] == ["f32[]"]


OTHER_ARITIES = (
    (
        lambda: plica.cond(True, lambda a: a, lambda a, b: b, 1.0),
        r"the 1 argument\(s\) that every branch of its cond is given, .* missing a required argument: 'b'",
    ),
    (lambda: plica.cond(True, lambda a: a, lambda: 1.0, 1.0), "does not take: too many positional arguments"),
    (lambda: plica.cond(False, lambda a, b: a, lambda a: a, 1.0), "missing a required argument: 'b'"),
    (lambda: plica.while_loop(lambda: False, lambda a: a, 1.0), r"called with 1 carried value\(s\), .* too many"),
    (lambda: plica.while_loop(lambda a: False, lambda a, b: a, 1.0), "missing a required argument: 'b'"),
    (lambda: plica.for_loop(0, 2, 1, lambda a: a, 1.0), r"called with the index and 1 carried value\(s\)"),
)


@pytest.mark.parametrize(("function", "message"), OTHER_ARITIES, ids=range(len(OTHER_ARITIES)))
def test_functions_that_do_not_take_their_arguments_are_refused(function, message: str) -> None:
    at_once, traced = _refusals(function)
    assert at_once == traced
    assert re.search(message, at_once)


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_rows_of_a_negative_size_are_refused_without_a_turn(backend: str) -> None:
    function = plica.jit(
        lambda x, n: plica.scan(lambda a, row: (a, pnp.zeros((n - 5,)) + row), pnp.asarray(0.0), x)[1], backend=backend
    )
    nothing = np.zeros(0, "float32")
    assert function(nothing, 7).shape == (0, 2)
    with pytest.raises(InputError, match=r"-2 .*is negative; take 0 or more"):
        function(nothing, 3)


def test_the_public_names() -> None:
    assert plica.frontend.control.__all__ == ["Cond", "cond", "for_loop", "scan", "while_loop"]
    for name in ("cond", "for_loop", "scan", "while_loop"):
        assert getattr(plica, name) is getattr(plica.frontend.control, name)
