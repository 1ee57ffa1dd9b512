"""Sizes that a nested Program shares or that determine each other: known without a run-time check, at every size."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import InputError, ShapeError
from plica.frontend.programs import interpret, trace
from plica.ir.program import Program, nested
from plica.ir.sizes import Size
from plica.ir.types import spec
from tests.harness.functions import checked, ones, ramp, run_torch

N, M, B = spec("n"), spec("m"), spec((), "bool")
ONE = ((ramp(3),), (ramp(1),), (ramp(0),))
TWO = ((ramp(3), ramp(2)), (ramp(0), ramp(1)), (ramp(2), ramp(2)), (ramp(0), ramp(0)))
CHOICE = tuple((ramp(size), np.asarray(held)) for size in (3, 1, 0) for held in (True, False))
RELATED: list[Any] = []


def related(specs, calls, *, eager: bool = True):
    """A function in which no size is left to be checked when it runs."""

    def decorate(fn):
        RELATED.append(pytest.param(fn, specs, calls, eager, id=fn.__name__))
        return fn

    return decorate


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("function", "specs", "calls", "eager"), RELATED)
def test_no_check_stays(function, specs, calls, eager: bool) -> None:
    program = checked(function, specs, *calls, eager=eager)
    assert "assert_shape" not in str(program)


def _zeros(*shape):
    return pnp.zeros(shape, dtype="float32")


# A size of one level at another


@related([N], ONE)
def twice_a_size_within(x):
    n, y = x.shape[0], pnp.concat([x, x])

    @plica.for_loop(0, 2)
    def outer(i, a):
        m = 2 * n

        @plica.for_loop(0, 2)
        def inner(j, b):
            return _zeros(m) + b + y

        return inner(a)

    return outer(y)


@related([N], ONE)
def one_more_than_a_size_within(x):
    @plica.for_loop(0, 2)
    def outer(i, a):
        size = a.shape[0] + 1

        @plica.for_loop(0, 2)
        def inner(j, b):
            return b + pnp.concat([a, _zeros(1) + 1]) + _zeros(size)

        return a + inner(_zeros(size))[1:]

    return outer(x)


@related([N], ONE)
def two_sizes_at_two_levels(x):
    n = x.shape[0]

    @plica.for_loop(0, 2)
    def outer(i, a):
        @plica.for_loop(0, 2)
        def inner(j, b, c):
            return b + a + _zeros(2 * n), c + _zeros(n + 1) + pnp.concat([x, _zeros(1)])

        b, c = inner(a, _zeros(n + 1))
        return b + pnp.sum(c)

    return outer(_zeros(2 * n) + 1)


@related([N], ((ramp(3),), (ramp(1),)))
def a_size_of_three_levels(x):
    n = x.shape[0]

    def level(depth, a):
        if not depth:
            return a + _zeros(3 * n) + pnp.concat([x, x, x])
        return plica.for_loop(0, 1, 1, lambda i, b: level(depth - 1, b), a)

    return level(3, pnp.concat([x, x, x]))


# Carries that become one size


@related([N, M], TWO)
def two_carries_that_become_the_sum(x, y):
    @plica.for_loop(0, 2)
    def loop(i, a, b):
        return pnp.concat([x, y]) + b, pnp.concat([y, x]) + a

    a, b = loop(pnp.concat([x, y]), pnp.concat([y, x]))
    return a + b + pnp.concat([x, y])


@related([N, M], TWO)
def two_carries_of_two_sizes_that_become_the_sum(x, y):
    """There is a step for sure."""

    @plica.for_loop(0, 2)
    def loop(i, a, b):
        return pnp.concat([x, y]) * i, pnp.concat([y, x]) - i

    a, b = loop(x, y)
    return a + b + pnp.concat([x, y])


@related([N, M], TWO)
def two_carries_that_become_the_sum_of_both(x, y):
    @plica.for_loop(2, 0, -1)
    def loop(i, a, b):
        return pnp.concat([a, b]) * i, pnp.concat([b, a]) - i

    a, b = loop(x, y)
    return a + b


@related([N, M], TWO)
def two_carries_of_a_scan_that_become_the_sum(x, y):
    def body(carry, _):
        return (pnp.concat([x, y]), pnp.concat([y, x])), 0.0

    (a, b), _ = plica.scan(body, (x, y), None, length=2)
    return a + b


@related([N, M], TWO)
def two_carries_that_grow_by_the_same(x, y):
    @plica.for_loop(0, 2)
    def loop(i, a, b):
        return pnp.concat([a, y]), pnp.concat([b, y]) + pnp.concat([y, a])

    a, b = loop(x, x)
    return a + b


# Scans that meet what is carried


@related([N], ONE)
def a_scan_that_starts_with_an_outer_carry(x):
    table = pnp.stack([x, x * 2])

    @plica.for_loop(0, 2)
    def outer(i, a):
        return plica.scan(lambda c, row: (c + row, c), a, table)[0]

    return outer(x) + x


@related([N], ONE)
def a_scan_whose_rows_meet_an_outer_carry(x):
    table = pnp.stack([x, x * 2])

    @plica.for_loop(0, 2)
    def outer(i, a):
        last, rows = plica.scan(lambda c, row: (c + row * a, c * a), _zeros(x.shape[0]), table)
        return a + last + rows[0] + x

    return outer(x)


@related([N], ONE)
def a_scan_along_an_outer_carry(x):
    @plica.for_loop(0, 2)
    def outer(i, a):
        _, rows = plica.scan(lambda c, row: (c + row[0], c * row[1]), 0.0, (a, x))
        return a + rows + x

    return outer(x)


# Some sizes of a carry stay while others grow: what stays is known within, where a body needs it


ROWS = ((ramp(2), ramp(3, 2)), (ramp(0), ramp(2, 0)), (ramp(1), ramp(1, 1)), (ramp(2), ramp(0, 2)))


@related([N, spec(("m", "n"))], ROWS)
def rows_of_a_carry_that_grows(x, y):
    """The inner carries share the size of a row, and grow by it and by the captured one."""

    def step(grown, row):
        @plica.while_loop(lambda i, a, b: i < 2)
        def inner(i, a, b):
            return i + 1, pnp.concat([a, x]), pnp.concat([b, _zeros(row.shape[0])])

        _, a, b = inner(0, row, row)
        return pnp.concat([grown, _zeros(1, x.shape[0])]), pnp.sum(a + b)

    return plica.scan(step, y, y)


@related([N, spec(("m", "n"))], ROWS)
def a_carry_that_grows_beside_sizes_that_an_inner_loop_keeps(x, y):
    """The inner loop gives back the captured size, which its argument turns out to have had."""

    @plica.for_loop(0, 3)
    def outer(i, a, b, grown):
        @plica.for_loop(0, 2)
        def inner(j, c):
            return pnp.sum(c[:0]) + x

        return inner(a), b, pnp.concat([grown, _zeros(1, a.shape[0])])

    a, b, grown = outer(x, x + 1, y)
    return a + b + pnp.sum(grown, axis=0)


@related([N, spec(("m", "n"))], ROWS)
def a_carry_that_grows_in_a_loop_within_loops(x, y):
    """The sizes of two levels have to be known at a third."""

    @plica.for_loop(0, 2)
    def outer(i, grown):
        @plica.for_loop(0, 2)
        def middle(j, taller):
            total = pnp.sum(taller, axis=0)

            @plica.for_loop(0, 2)
            def inner(k, a, b):
                return pnp.concat([a, x]), pnp.concat([b, total])

            a, b = inner(total, total)
            return pnp.concat([taller, _zeros(1, x.shape[0]) + pnp.sum(a - b)])

        return middle(grown)

    return outer(y)


@related([N, spec(("m", "n"))], ROWS)
def a_carry_that_grows_beside_a_loop_that_may_not_share_its_size(x, y):
    """One inner loop needs that the rows keep their size; another would share the number of rows if that stayed."""
    first = pnp.sum(y, axis=1)

    @plica.for_loop(0, 2)
    def outer(i, grown):
        total, column = pnp.sum(grown, axis=0), pnp.sum(grown, axis=1)

        @plica.for_loop(0, 2)
        def rows(k, a, b):
            return pnp.concat([a, x]), pnp.concat([b, total])

        @plica.for_loop(0, 2)
        def columns(k, c, d):
            return pnp.concat([c, _zeros(1)]), d

        a, b = rows(total, total)
        c, d = columns(column, first)
        return pnp.concat([grown, _zeros(1, x.shape[0]) + pnp.sum(a - b) + pnp.sum(c) + pnp.sum(d)])

    return outer(y)


# Branches and calls that mix an argument and a captured array


@related([N, B], CHOICE)
def a_branch_in_a_loop(x, held):
    return plica.for_loop(0, 2, 1, lambda i, a: plica.cond(held, lambda: a * 2, lambda: x), x) + x


@related([N, B], CHOICE, eager=False)
def a_call(x, held):
    @plica.jit
    def chosen(y):
        return plica.cond(held, lambda: y, lambda: x)

    return chosen(x * 2) + x


@related([N, B], CHOICE, eager=False)
def a_call_in_a_loop(x, held):
    @plica.jit
    def chosen(y):
        return plica.cond(held, lambda: y + x, lambda: x * y)

    return plica.for_loop(0, 2, 1, lambda i, a: chosen(a) + x, x) + x


@related([N, B], CHOICE)
def a_branch_at_two_levels(x, held):
    def inner(a):
        return plica.for_loop(0, 2, 1, lambda j, b: plica.cond(held, lambda: b + a, lambda: x), a)

    return plica.for_loop(0, 2, 1, lambda i, a: inner(a) + x, x)


# One size is always determined by another


@related([N], ONE)
def always_twice_as_long(x):
    @plica.for_loop(0, 2)
    def loop(i, a, b):
        return pnp.concat([a, a]), pnp.concat([b, b]) + pnp.concat([a, a, a, a])

    a, b = loop(x, pnp.concat([x, x]))
    return b + pnp.concat([a, a]) + _zeros(2 * a.shape[0])


@related([N], ONE)
def always_twice_as_long_whatever_comes(x):
    @plica.for_loop(0, 3)
    def loop(i, a, b):
        a = pnp.concat([a, _zeros(i)])
        return a, pnp.concat([a, a])

    a, b = loop(x, pnp.concat([x, x]))
    return b + pnp.concat([a, a])


@related([N], ONE)
def always_one_longer(x):
    @plica.for_loop(0, 2)
    def loop(i, b, a):
        return pnp.concat([b, _zeros(1)]) + pnp.concat([a, _zeros(2)]), pnp.concat([a, _zeros(1)])

    b, a = loop(pnp.concat([x, _zeros(1)]), x)
    return b[: a.shape[0]] + a, b + _zeros(a.shape[0] + 1)


@related([N, M], TWO)
def always_as_long_as_two_others(x, y):
    @plica.for_loop(0, 2)
    def loop(i, a, b, c):
        return (
            pnp.concat([a, x]),
            pnp.concat([b, _zeros(1)]),
            pnp.concat([c, x, _zeros(1)]) + pnp.concat([a, _zeros(1), b, x]),
        )

    a, b, c = loop(x, y, pnp.concat([x, y]))
    return c + pnp.concat([a, b])


@related([N], ONE)
def a_condition_knows_it_too(x):
    @plica.while_loop(lambda a, b: pnp.sum(b + pnp.concat([a, a])) + b.shape[0] < 9)
    def loop(a, b):
        return pnp.concat([a, _zeros(1) + 1]), pnp.concat([b, _zeros(2) + 1])

    a, b = loop(x, pnp.concat([x, x]))
    return b + pnp.concat([a, a])


@related([N, int], ((ramp(3), 2), (ramp(0), 0)))
def within_a_loop_that_grows(x, times):
    @plica.for_loop(0, times)
    def outer(i, a):
        @plica.for_loop(0, 2)
        def inner(j, b, c):
            return pnp.concat([b, a]), pnp.concat([c, a, a]) + pnp.concat([b, b, a, a])

        b, c = inner(a, pnp.concat([a, a]))
        return pnp.concat([b, b]) + c

    return outer(x)


def _body(program: Program) -> Program:
    (body,) = [one for equation in program.equations for one in nested(equation.params)]
    return body


def test_what_determines_the_others_is_the_one_size_that_is_carried() -> None:
    program = trace(always_twice_as_long, N)
    (loop,) = [one for one in program.equations if one.op.name == "for_loop"]
    size, first, second = loop.outputs
    assert (first.type.shape, second.type.shape) == ((Size.of(size),), (2 * Size.of(size),))
    assert (_body(program).num_implicit_inputs, loop.params["num_implicit_outputs"]) == (1, 1)


# Where sizes do not agree, or need not


def _refused(program: Program, fits, fails) -> None:
    for run in (interpret, run_torch):
        run(program, *fits)
        with pytest.raises(InputError, match=r"test_relations.py:\d+: .*is needed: paired sizes must be equal"):
            run(program, *fails)


def test_a_relation_that_holds_at_first_alone_is_checked() -> None:
    """b grows by one more than twice as much as a."""

    def function(x, times):
        def body(i, a, b):
            return pnp.concat([a, _zeros(1)]), pnp.concat([b, _zeros(3)])

        a, b = plica.for_loop(0, times, 1, body, x, pnp.concat([x, x]))
        return b + pnp.concat([a, a])

    _refused(checked(function, [N, int], (ramp(3), 0)), (ramp(3), np.asarray(0)), (ramp(3), np.asarray(1)))


def test_a_relation_that_steps_alone_make_is_checked() -> None:
    """Both become n+m, but a loop of no steps gives n and m."""

    def function(x, y, times):
        a, b = plica.for_loop(0, times, 1, lambda i, a, b: (pnp.concat([x, y]), pnp.concat([y, x])), x, y)
        return a + b

    program = checked(function, [N, M, int], (ramp(3), ramp(2), 1), (ramp(2), ramp(2), 0), (ramp(3), ramp(2), 4))
    numbers = [np.asarray(times) for times in (1, 0)]
    _refused(program, (ramp(3), ramp(2), numbers[0]), (ramp(3), ramp(2), numbers[1]))


def test_a_relation_that_a_later_step_breaks_is_checked() -> None:
    """Both keep the size for a step, since it comes to b through c."""

    def function(x, times):
        def body(i, a, b, c):
            return a, pnp.concat([c[:0], c]), pnp.concat([c, _zeros(1)])

        a, b, _ = plica.for_loop(0, times, 1, body, x, x * 2, x * 3, preserve_dimensions=False)
        return a + b

    program = checked(function, [N, int], (ramp(3), 0), (ramp(3), 1))
    _refused(program, (ramp(3), np.asarray(1)), (ramp(3), np.asarray(2)))


def test_sizes_of_two_names_are_checked_within_a_loop_within_a_loop() -> None:
    def function(x, y):
        n = x.shape[0]
        return plica.for_loop(
            0, 2, 1, lambda i, a: plica.for_loop(0, 2, 1, lambda j, b: b + _zeros(2 * n) + y, a), pnp.concat([x, x])
        )

    program = checked(function, [N, M], (ramp(2), ramp(4)), (ramp(0), ramp(0)))
    _refused(program, (ones(2), ones(4)), (ones(2), ones(2)))


def test_a_branch_of_another_size_is_checked() -> None:
    def function(x, y, held):
        return plica.for_loop(0, 2, 1, lambda i, a: plica.cond(held, lambda: a, lambda: y), x) + x

    held = [np.asarray(one) for one in (True, False)]
    program = checked(function, [N, M, B], (ramp(3), ramp(2), held[0]), (ramp(3), ramp(3), held[1]))
    _refused(program, (ones(3), ones(2), held[0]), (ones(3), ones(2), held[1]))


def test_a_scan_whose_rows_are_of_another_size_is_checked() -> None:
    def function(x, table):
        return plica.for_loop(0, 2, 1, lambda i, a: plica.scan(lambda c, row: (c + row, c), a, table)[0], x)

    program = checked(function, [N, spec(("k", "m"))], (ramp(3), ramp(2, 3)), (ramp(1), ramp(0, 1)))
    _refused(program, (ones(3), ones(2, 3)), (ones(3), ones(2, 2)))


def test_sizes_of_their_own_are_not_related() -> None:
    """With `preserve_dimensions=False` that two sizes are equal, or one twice the other, counts as chance."""

    def function(x):
        def body(i, a, b):
            return pnp.concat([a, a]), pnp.concat([b, b])

        a, b = plica.for_loop(0, 2, 1, body, x, pnp.concat([x, x]), preserve_dimensions=False)
        return b + pnp.concat([a, a])

    program = checked(function, [N], *ONE)
    assert str(program).count("assert_shape") == 1
    assert _body(program).num_implicit_inputs == 2


def test_sizes_that_can_never_be_equal_are_refused_while_tracing() -> None:
    with pytest.raises(ShapeError, match=r"test_relations.py:\d+"):
        trace(lambda x: plica.for_loop(0, 2, 1, lambda i, a: a + _zeros(x.shape[0] + 1) + x, x), N)


def test_a_size_that_a_function_determines_is_captured_before_arrays_that_have_it() -> None:
    def function(a: Any, b: Any) -> Any:
        def outer(_: Any, x: Any, y: Any) -> Any:
            def middle(_: Any, u: Any, v: Any) -> Any:
                inner = plica.for_loop(0, 1, 1, lambda k, p, q, r: (r, b, r), y, u, y, preserve_dimensions=False)
                return inner[0], b

            return b, plica.for_loop(0, 3, 1, middle, y, a, preserve_dimensions=False)[1]

        return plica.for_loop(0, 3, 1, outer, a, b[1:])[0]

    run = plica.jit(function, abstracted_axes=({0: "n"}, {0: "m"}))
    b = np.arange(2.0)
    assert run(np.arange(4.0), b).tolist() == b.tolist()
