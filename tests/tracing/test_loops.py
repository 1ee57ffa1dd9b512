"""Loops: what they carry, which sizes stay, and that every way to run them gives the same."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.frontend.programs import trace
from plica.ir.program import Program, nested
from plica.ir.types import spec
from tests.harness.functions import Cases, checked, ramp

N, M, NM, X3 = spec("n"), spec("m"), spec(("n", "m")), spec((3,))
SOME = ((ramp(3),), (ramp(1),), (ramp(0),))
cases = Cases()


@dataclass
class Pair:
    first: Any
    second: Any


class Named(NamedTuple):
    left: Any
    right: Any


def _one():
    return pnp.ones((1,), dtype="float32")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", cases)
def test_every_way_gives_the_same(case) -> None:
    case()


# What is carried


@cases.add([N], *SOME)
def several_arrays(x):
    return plica.for_loop(0, 4, 1, lambda i, a, b: (b, a * 0.5 + i), x, x + 1)


@cases.add([spec(("n", "m")), spec(("n", 2)), int], (ramp(2, 3), ramp(2, 2), 2), (ramp(0, 1), ramp(0, 2), 1))
def sizes_that_change_by_one_size_seen_from_inside_and_outside(x, y, times):
    @plica.for_loop(0, times)
    def loop(_i, a, b):
        rows = pnp.zeros((a.shape[1], a.shape[1]), dtype="float32"), pnp.zeros((x.shape[1], 2), dtype="float32")
        return pnp.concat([a, rows[0]]), pnp.concat([b, rows[1]])

    return loop(x, y)


@cases.add([N], *SOME)
def trees(x):
    @plica.for_loop(0, 3)
    def loop(i, table, pair, nested):
        (first,), second = nested
        return (
            {"a": table["a"] + pair.second, "b": [table["b"][0] * 2, None]},
            Pair(pair.first + i, pair.second),
            ((first - 1,), Named(second.right + first, second.left)),
        )

    return loop({"a": x, "b": [x + 1, None]}, Pair(0, x * 3), ((x,), Named(x, x * 2)))


@cases.add([N], *SOME)
def nothing(x):
    @plica.for_loop(0, 3)
    def loop(i):
        x + i

    assert loop() is None
    return x


@cases.add([X3], (ramp(3),))
def python_numbers_meet_arrays(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b, c: (a + x[0], b * 2 + i, c + 1), 0, 0.0, 0)


@cases.add([N], *SOME)
def python_numbers_take_the_kind_of_the_result(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b, c: (a + 0.5, pnp.sum(x) + b, pnp.any(x > 0)), 0, False, False)


@cases.add([N], *SOME)
def results_of_python_numbers_stay_weak(x):
    return x * plica.for_loop(0, 3, 1, lambda i, a: a * 0.5, 1.0)


@cases.add([int], (0,), (1,), (50,))
def counters(n):
    return plica.for_loop(0, n, 1, lambda i, a, b: (b, a + b), 0, 1)


@cases.add([X3], (ramp(3),))
def a_truth(x):
    return plica.while_loop(lambda go, a: go, lambda go, a: (a[0] < 3.0, a + 1.0), True, x)


@cases.add([N], *SOME)
def one_result_twice(x):
    return plica.for_loop(0, 2, 1, lambda i, a, b: (b, b), x, x + 1)


@cases.add([N], *SOME)
def arguments_handed_through(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b: (a, b), x, x + 1)


@cases.add([N], *SOME)
def a_size_is_computed_before_and_read_by_the_body(x):
    return plica.for_loop(0, 2, 1, lambda i, a: a + a.shape[0], x[: x.shape[0] // 2])


@cases.add([N], *SOME)
def some_results_are_not_used(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b, c: (a + 1, b * 2, c + b), x, x * 2, x * 3)[0]


@cases.add([N], *SOME)
def only_the_size_of_a_result_is_used(x):
    return plica.for_loop(0, 3, 1, lambda i, a: pnp.concat([a, a]), x).shape[0]


# Bounds and steps


@cases.add(
    [N, int, int, int],
    *((ramp(3), *bounds) for bounds in ((0, 5, 2), (5, 0, -1), (5, 0, 1), (0, 5, -2), (3, 3, 1), (-5, 5, 3))),
    (ramp(0), 10, -10, -7),
)
def dynamic_bounds_and_steps(x, lower, upper, step):
    return plica.for_loop(lower, upper, step, lambda i, a: a * 0.5 + i, x)


@cases.add([N], *SOME)
def bounds_are_sizes(x):
    return plica.for_loop(x.shape[0], 2 * x.shape[0] + 1, 1, lambda i, a: a + i, x)


@cases.add([spec((2,), "int32")], (np.asarray([3, -2], "int32"),), (np.asarray([0, 0], "int32"),))
def bounds_are_elements(x):
    return plica.for_loop(x[1], x[0], 1, lambda i, a: a + i, 0)


@cases.add([N], *SOME)
def no_steps(x):
    return plica.for_loop(0, 0, 1, lambda i, a: pnp.concat([a, a]), x)


@cases.add([N], *SOME)
def static_negative_steps(x):
    return plica.for_loop(7, -1, -3, lambda i, a: a * 2 + i, x)


# Captured values


@cases.add([N, int], (ramp(3), 2), (ramp(0), 0), (ramp(1), 3))
def four_levels_that_capture_from_all(x, k):
    @plica.for_loop(0, 2)
    def first(i, a):
        b = a * 2 + x

        @plica.for_loop(0, k)
        def second(j, c):
            @plica.for_loop(j, 3)
            def third(l, d):  # noqa: E741
                @plica.for_loop(3, 0, -1)
                def fourth(m, e):
                    return e + x * i + b * j - l * c + m * a + d * 0.5 + k

                return fourth(d) * 0.01

            return third(c)

        return second(a) + b

    return first(x)


@cases.add([N, int], (ramp(3), 2), (ramp(0), 3), (ramp(2), 0))
def captured_arrays_of_own_sizes_at_depth(x, k):
    y = pnp.concat([x, _one()])

    @plica.for_loop(0, k)
    def first(i, a):
        z = pnp.concat([y, y])

        @plica.for_loop(0, 2)
        def second(j, b):
            return pnp.concat([b, z[:1]]) + pnp.sum(z) * j + pnp.sum(y) + i

        return second(a)

    return first(x)


@cases.add([N, int], (ramp(3), 4), (ramp(1), 3), (ramp(2), 0))
def loops_in_branches_in_loops(x, n):
    def inner(i, a):
        return plica.for_loop(
            i,
            0,
            -1,
            lambda j, b: plica.while_loop(lambda c: c.shape[0] < i + j, lambda c: pnp.concat([c, x[:1]]), b),
            a,
        )

    return plica.for_loop(0, n, 1, lambda i, a: plica.cond(i > 0, lambda: inner(i, a), lambda: a), x)


@cases.add([N], *SOME)
def sizes_at_the_index(x):
    return plica.for_loop(0, x.shape[0], 1, lambda i, a: a + pnp.sum(x[:i]) + pnp.sum(pnp.arange(i)) + x[i], x)


# Sizes


@cases.add([N], *SOME)
def a_size_that_stays_meets_the_outer_one(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b, c: (a + c, b + x, c * 2), x, x, x)


@cases.add([N, int], (ramp(3), 2), (ramp(0), 0), (ramp(2), 2))
def one_size_stays_and_one_changes(x, m):
    first = pnp.zeros([m], dtype="float32")
    return plica.for_loop(0, 3, 1, lambda i, a, b: (a + x, pnp.concat([b, x])), x, first)


@cases.add([N], *SOME)
def a_shared_size_changes_alike(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b: (pnp.concat([a, b]), pnp.concat([b, a])), x, x * 2)


@cases.add([N], *SOME)
def a_shared_size_becomes_another_known_one(x):
    n = x.shape[0]
    a, b = plica.for_loop(
        0, 3, 1, lambda i, a, b: (pnp.ones([n + 1]), pnp.zeros([1 + n])), pnp.ones([n]), pnp.ones([n])
    )
    return a + b


@cases.add([N], *SOME)
def related_sizes(x):
    @plica.for_loop(0, 3)
    def loop(i, a, b):
        return pnp.concat([a, _one()]), pnp.concat([b, _one()]) + pnp.concat([a, _one(), _one()])

    return loop(x, pnp.concat([x, _one()]))


@cases.add([N, M], (ramp(3), ramp(2)), (ramp(0), ramp(1)), (ramp(2), ramp(2)))
def sizes_that_swap(x, y):
    return plica.for_loop(0, 3, 1, lambda i, a, b: (b, a), x, y)


@cases.add([NM], (ramp(3, 2),), (ramp(0, 1),), (ramp(2, 2),))
def axes_that_swap(x):
    return plica.for_loop(0, 3, 1, lambda i, a: a.T, x)


@cases.add([N], *SOME)
def results_of_a_size_of_their_own(x):
    return plica.for_loop(0, 3, 1, lambda i, a, b: (pnp.concat([a, b]), b), x, x * 2, preserve_dimensions=False)


@cases.add([N], *SOME)
def a_number_that_grows(x):
    return plica.for_loop(0, 3, 1, lambda i, a: pnp.concat([a, x]), _one(), preserve_dimensions=False)


@cases.add([N], *SOME)
def numbers_of_which_one_grows(x):
    return plica.for_loop(
        0, 3, 1, lambda i, a, b: (pnp.concat([a, b]), b * 2), _one(), _one(), preserve_dimensions=False
    )


@cases.add([spec((2, 3))], (ramp(2, 3),))
def numbers_that_swap(x):
    return plica.for_loop(0, 3, 1, lambda i, a: a.T, x, preserve_dimensions=False)


@cases.add([N], *SOME)
def a_size_that_the_body_computes_of_numbers_alone(x):
    first = pnp.zeros((3,), dtype=x.dtype)

    def body(i, a, b):
        return pnp.full((pnp.minimum(40, 3),), 2.0, dtype=a.dtype), first[: pnp.maximum(1, 2)]

    return plica.for_loop(0, 3, 1, body, x, x, preserve_dimensions=False)


@cases.add([N, int], (ramp(3), 50), (ramp(1), 1), (ramp(2), 2))
def doubling(x, n):
    return plica.while_loop(lambda a: a.shape[0] < n, lambda a: pnp.concat([a, a * 2.0]), x)


@cases.add([N], (ramp(9),), (ramp(8),), (ramp(1),), (ramp(0),))
def halving(x):
    return plica.while_loop(lambda a: a.shape[0] > 1, lambda a: a[: a.shape[0] // 2], x)


@cases.add([N], *SOME)
def shrinking_to_nothing(x):
    return plica.while_loop(lambda a: a.shape[0] > 0, lambda a: a[1:], x)


@cases.add([N], (ramp(20),), *SOME)
def a_size_that_data_decide(x):
    def body(a):
        b = a - 0.5
        return b[b > -1]

    return plica.while_loop(lambda a: pnp.any(a > 0), body, x)


@cases.add([N, int], (ramp(3), 10), (ramp(0), 3), (ramp(4), 2))
def a_branch_decides_how_to_grow(x, n):
    def grown(a):
        return plica.cond(
            pnp.sum(a) > 0,
            lambda: pnp.concat([a, a]),
            lambda: pnp.concat([a, _one()]),
        )

    return plica.while_loop(lambda a: a.shape[0] < n, grown, x)


@cases.add([N], *SOME)
def growing_within_growing(x):
    return plica.for_loop(0, 3, 1, lambda i, a: plica.for_loop(0, i, 1, lambda j, b: pnp.concat([b, x]), a), x)


@cases.add([N], *SOME)
def a_size_that_is_carried_as_a_number(x):
    return plica.for_loop(0, 4, 1, lambda i, n, a: (n + 1, a + pnp.sum(pnp.ones([n]))), x.shape[0], 0.0)


@cases.add([int], (0,), (1,), (4,))
def a_size_that_a_loop_counts(n):
    return pnp.ones([plica.for_loop(0, n, 1, lambda i, s: s + i, 0)])


@cases.add([N], *SOME)
def a_carried_size_that_data_decide(x):
    def body(i, n, a):
        return pnp.astype(pnp.sum(a), "int64") % 5, pnp.ones([n])

    return plica.for_loop(0, 4, 1, body, 2, pnp.ones([3]), preserve_dimensions=False)


# Types of what is carried


def _loop(program: Program) -> Any:
    (loop,) = [one for one in program.equations if list(nested(one.params))]
    return loop


RESULTS = (
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + x, x), "f32[n]", 0),
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.concat([a, a]), x), "f32[b]", 1),
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.ones([2]), pnp.ones([2])), "f64[2]", 0),
    (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a, x, preserve_dimensions=False), "f32[n]", 0),
    (lambda x: plica.while_loop(lambda a: a.shape[0] < 9, lambda a: pnp.concat([a, a]), x), "f32[b]", 1),
)


@pytest.mark.parametrize(("function", "type_", "implicit"), RESULTS)
def test_a_size_that_stays_is_the_outer_one(function, type_: str, implicit: int) -> None:
    loop = _loop(trace(function, N))
    shown = str(loop.outputs[-1].type).replace(loop.outputs[0].name, "b")
    assert (shown, sum(str(one.type) == "i64[]" for one in loop.outputs) >= implicit) == (type_, True)


WEAK = (
    # first value, what it meets in the body, what it is in the end
    (0, lambda a, x: a + x[0], "f32[]"),
    (0.0, lambda a, x: a + x[0], "f32[]"),
    (0, lambda a, x: a + 1, "i64[]"),
    (0, lambda a, x: a + 0.5, "f64[]"),
    (1j, lambda a, x: a * x[0], "c64[]"),
    (False, lambda a, x: x[0] > 0, "bool[]"),
    (False, lambda a, x: a + x[0], "f32[]"),
    (0, lambda a, x: pnp.sum(x > 0), "i64[]"),
)


@pytest.mark.parametrize(("first", "body", "type_"), WEAK)
def test_a_python_number_takes_the_dtype_that_it_meets(first, body, type_: str) -> None:
    program = checked(lambda x: plica.for_loop(0, 2, 1, lambda i, a: body(a, x), first), [X3], (ramp(3),))
    assert str(program.results[0].type) == type_


def test_the_body_is_traced_once_for_its_types() -> None:
    calls = []
    trace(lambda x: plica.for_loop(0, 3, 1, lambda i, a: calls.append(a.aval) or a * 2, x), N)
    assert [str(one) for one in calls] == ["f32[n]"]
