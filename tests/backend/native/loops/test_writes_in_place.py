"""Updates of arrays that others read: of captures, views, joins, what branches and loops hand on, and of themselves."""

# ruff: noqa: ARG001, ARG005 - all functions take the same arguments

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from tests.harness.libraries import LibraryPrograms, assert_interpreted


def captured_loop(x, y, k):
    a = x * 2.0

    def step(i, p):
        return p + a.at[0].add(p[1])

    return plica.for_loop(0, k, 1, step, x + 1.0)


def captured_branch(x, y, k):
    a = x * 2.0
    u = plica.cond(k > 1, lambda: a.at[0].set(0.0), lambda: a.at[1].set(1.0))
    return u, pnp.concat([a, y], axis=0)


def captured_join(x, y, k):
    j = pnp.concat([y * 2.0, y * 3.0], axis=0)
    u = plica.cond(k > 1, lambda: j.at[0].set(x[0]), lambda: j)
    return u * 1.0, j + x, j * x


def two_views(x, y, k):
    z = x * 2.0
    return pnp.reshape(z, (2, -1)).at[0].set(0.0), z.at[1].set(1.0)


def view_and_join(x, y, k):
    z = x * 2.0
    u = pnp.reshape(z, (-1, 4)).at[0].set(0.0)
    return u, pnp.concat([z, y], axis=0)


def view_returned(x, y, k):
    z = x * 2.0
    return pnp.reshape(z, (-1, 4)), z.at[0].set(5.0) + 1.0


def slice_of_join(x, y, k):
    j = pnp.concat([y * 2.0, y * 3.0], axis=0)
    u = j[0:1].at[:, :, 0].set(7.0)
    return u * 1.0, j + x, j[1:2] * y


def scatter_view(x, y, k):
    z = x * 2.0
    u = pnp.reshape(z, (-1, 4)).at[pnp.arange(2)].add(1.0)
    return u, pnp.concat([z, z], axis=0), z * 3.0


def chosen(x, y, k):
    a, b = x * 2.0, x * 3.0
    c = plica.cond(k > 1, lambda: a, lambda: b)
    return c.at[0].set(0.0), pnp.concat([a, b], axis=0), a + b


def begins_twice(x, y, k):
    a = x * 2.0

    def step(i, p, q):
        return p.at[0].set(q[1] + 1.0), q.at[1].set(q[0] * 2.0)

    return plica.for_loop(0, k, 1, step, a, a)


def begins_held(x, y, k):
    a = x * 2.0
    r = plica.for_loop(0, k, 1, lambda i, p: p.at[0].add(1.0), a)
    return r.at[1].set(0.0), pnp.concat([a, y], axis=0), a * x


def kept_by_dispatch(x, y, k):
    a = x * 2.0
    r, q = plica.for_loop(0, k, 1, lambda i, p, q: (p + q, q), x, a)
    return r, q.at[0].set(0.0), pnp.concat([a, y], axis=0)


def begin_alike(x, y, k):
    def p():
        return pnp.zeros_like(x).at[0:1].set(y)

    u = p().at[1:2].set(y * 2.0)
    v = plica.cond(k > 1, lambda: p().at[1:2].set(y * 3.0), lambda: x)
    return (u * x) @ pnp.ones((4, 4)) + (v * x)


def begin_alike_flat(x, y, k):
    u = pnp.zeros_like(x).at[0:1].set(y).at[1:2].set(y * 2.0)
    v = pnp.zeros_like(x).at[0:1].set(y).at[1:2].set(y * 3.0)
    return u * x + v


def overlaps(x, y, k):
    z = pnp.reshape(x * 2.0, (-1, 4))
    return z.at[1:].set(z[:-1]) + 1.0, (z * 3.0).at[:-1].add(z[1:]), z[::-1]


def overlaps_alone(x, y, k):
    z = pnp.reshape(x * 2.0, (-1, 4))
    return z.at[1:].set(z[:-1])


# Equations that compute nothing, so that their results are arrays from outside


def joined_alone(x, y, k):
    a = x * 2.0
    return plica.for_loop(0, k, 1, lambda i, p: p + pnp.concat([a, a[:0]]).at[0].add(p[1]), x + 1.0)


def called(x, y, k):
    a, same = x * 2.0, plica.jit(lambda z: z)
    return plica.for_loop(0, k, 1, lambda i, p: p + same(a).at[0].add(p[1]), x + 1.0)


def times_one(x, y, k):
    a = x * 2.0
    return plica.for_loop(0, k, 1, lambda i, p: p + (a * 1.0).at[0].add(p[1]), x + 1.0)


def times_one_in_branch(x, y, k):
    a = x * 2.0

    def step(i, p):
        return p + plica.cond(i > 0, lambda: (a * 1.0).at[0].add(p[1]), lambda: p)

    return plica.for_loop(0, k, 1, step, x + 1.0)


def written_whole(x, y, k):
    a = x * 2.0
    return plica.for_loop(0, k, 1, lambda i, p: p + (p * 3.0).at[:].set(a).at[0].add(p[1]), x + 1.0)


def carry_written_whole(x, y, k):
    a = x * 2.0
    return plica.for_loop(0, k, 1, lambda i, p: p.at[:].set(a).at[0].add(p[1]), x + 1.0)


def in_turn(x, y, k):
    a = x * 2.0

    def step(i, p):
        return p + plica.cond(i > 0, lambda: a.at[0:1].set(y).at[1].add(p[1]).at[0].multiply(2.0), lambda: p)

    return plica.for_loop(0, k, 1, step, x + 1.0)


def handed_on_twice(x, y, k):
    a = x * 2.0
    return plica.for_loop(0, k, 1, lambda i, p, q: (p.at[0:1].add(1.0), q.at[1:2].add(1.0)), a, a)


def chosen_twice(x, y, k):
    a, b = x * 2.0, x * 3.0
    c, d = plica.cond(k > 1, lambda: (a, a), lambda: (b, x * 5.0))
    return c.at[0:1].set(0.0) * 1.5, d + 1.0


def goes_on_twice(x, y, k):
    a = x * 2.0

    def step(i, p, q, t):
        u = p.at[0:1].add(1.0)
        return u, u, t + q

    return plica.for_loop(0, k, 1, step, a, a, a)


def widened(x, y, k):
    z = pnp.cumulative_sum(pnp.astype(x, "float32"), axis=2)
    w = pnp.astype(z, "float64")
    u = z.at[0:1].set(pnp.astype(pnp.sum(w), "float32"))
    return pnp.sum(w, axis=0), pnp.ones(pnp.astype(pnp.sum(u), "int64") % 3 + 1)


def host_waits(x, y, k):
    z = pnp.cumulative_sum(x, axis=2)
    u = pnp.concat([z, z[:0]]).at[0:1].set(0.0)
    return pnp.sum(z, axis=0), pnp.ones(pnp.astype(pnp.sum(u), "int64") % 3 + 1)


def indices(x, y, k):
    at = (pnp.arange(2) + k) % 2
    return pnp.take(x, at, axis=0), pnp.ones(pnp.sum(at.at[0:1].set(0)) % 3 + 1)


FEW = (
    captured_loop,
    overlaps_alone,
    joined_alone,
    called,
    times_one,
    times_one_in_branch,
    written_whole,
    carry_written_whole,
)
OTHERS = (
    captured_branch,
    captured_join,
    two_views,
    view_and_join,
    view_returned,
    slice_of_join,
    scatter_view,
    chosen,
    begins_twice,
    begins_held,
    kept_by_dispatch,
    begin_alike,
    begin_alike_flat,
    overlaps,
    in_turn,
    handed_on_twice,
    chosen_twice,
    goes_on_twice,
    widened,
    host_waits,
    indices,
)


def _check(functions: Sequence[Any], rows: Any) -> None:
    shapes = [(2, rows, 4), (1, rows, 4)]
    specs = [*(plica.spec(shape, "float64") for shape in shapes), plica.spec((), "int64")]
    modules = LibraryPrograms({one.__name__: plica.trace(one, *specs) for one in functions})
    random = np.random.default_rng(0)
    for one in functions:
        for steps in (0, 1, 3):
            inputs = [random.random((2, 3, 4)), random.random((1, 3, 4)), np.asarray(steps)]
            assert_interpreted(modules, one.__name__, inputs)


def test_some() -> None:
    _check(FEW, "n")


@pytest.mark.full
@pytest.mark.parametrize("rows", ["n", 3])
def test_many(rows: Any) -> None:
    _check((*FEW, *OTHERS), rows)
