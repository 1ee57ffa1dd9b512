"""Large functions, whose hottest loops LLVM takes its time for, and small factorizations without loops."""

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops import most_work
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.most_work import loops_apart, may_end, split
from plica.backend.native.loops.nest import Apply, all_of
from plica.errors import InputError
from plica.tracing.trees import flatten
from tests.harness.libraries import LibraryPrograms, assert_interpreted


def _many_steps(a: "plica.spec(('n', 'm'), 'float64')", b: "plica.spec(('n',), 'float64')"):
    def step(carry, row):
        total, low = carry
        sums = [pnp.sum(a * row * k, axis=1) + pnp.sin(total) for k in range(1, 6)]
        places, best = pnp.argmax(a + row, axis=0), pnp.max(a + row, axis=0)
        others, least = pnp.argmin(a - row, axis=1), pnp.min(a - row, axis=1)
        total = total * 0.5 + sum(sums[1:], sums[0])
        return (total, low + least), (places, best, others, pnp.sum(total))

    return plica.scan(step, (b, b * 0), a)


def test_the_hottest_loops_of_a_large_function_give_what_the_interpreter_gives():
    axes = plica.spec(("n", "m"), "float64"), plica.spec(("n",), "float64")
    program = plica.trace(_many_steps, *axes)
    assert split(build_nest(program)).hot
    named = [{0: "n", 1: "m"}, {0: "n"}]
    functions = [plica.jit(_many_steps, abstracted_axes=named, backend=one) for one in ("native", "interpreter")]
    generator = np.random.default_rng(0)
    for n, m in ((1, 1), (3, 5), (9, 40)):
        a, b = generator.normal(size=(n, m)), generator.normal(size=n)
        a[0, m // 2] = np.nan
        (found, wanted) = (function(a, b) for function in functions)
        for one, other in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_equations_exchange_rows(size):
    def function(a, b):
        return pnp.linalg.solve(a, b), pnp.linalg.det(a), *pnp.linalg.slogdet(a)

    native = plica.jit(function, backend="native")
    for a in (np.eye(size)[::-1], np.random.default_rng(size).normal(size=(size, size))):
        b = np.arange(2.0 * size).reshape(size, 2)
        solved, *others = native(np.ascontiguousarray(a), b)
        np.testing.assert_allclose(solved, np.linalg.solve(a, b), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(others, [np.linalg.det(a), *np.linalg.slogdet(a)], rtol=1e-10, atol=1e-12)


def test_a_branch_that_is_there_for_a_check_alone():
    def function(x: plica.spec(("n",), "float64"), start: int):
        plica.cond(start > 0, lambda: x[start:], lambda: x, preserve_dimensions=False)
        return x * 2

    native = plica.jit(function, backend="native")
    np.testing.assert_array_equal(native(np.ones(3), 3), np.full(3, 2.0))
    with pytest.raises(InputError):
        native(np.ones(3), 4)


def _steps_with_checks(a: "plica.spec(('n', 'm'), 'float64')", at: "plica.spec(('n', 'm'), 'int64')"):
    def step(total, row):
        ways = total[:, None] + a  # (m, n): what is read once runs most often
        best, places = pnp.max(ways, axis=1), pnp.argmin(ways, axis=1)
        others = [pnp.take(pnp.sort(a[:, 0] * k), at[:, 0], axis=0) for k in range(1, 4)]
        found = pnp.take_along_axis(a, at, axis=1) + row  # an index that may lie outside
        kept = pnp.cumulative_sum(found, axis=0) * 0.5
        return best * 0.5 + sum(others[1:], others[0]), (kept, places, pnp.max(kept, axis=1))

    return plica.scan(step, a[:, 0], a[:, 0] * 0)


def test_loops_that_are_functions_end_a_run_and_take_memory():
    axes = plica.spec(("n", "m"), "float64"), plica.spec(("n", "m"), "int64")
    found = split(build_nest(plica.trace(_steps_with_checks, *axes)))
    assert found.warm
    assert any(may_end(one) for one in found.warm)
    named = [{0: "n", 1: "m"}] * 2
    native, plain = (plica.jit(_steps_with_checks, abstracted_axes=named, backend=b) for b in ("native", "interpreter"))
    generator = np.random.default_rng(0)
    for n in (1, 3, 8):
        a, at = generator.normal(size=(n, n)), generator.integers(-n, n, size=(n, n))
        for one, other in zip(flatten(native(a, at))[0], flatten(plain(a, at))[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        at[n - 1, 0] = n
        with pytest.raises(InputError, match="index"):
            native(a, at)


def test_hot_loops_in_a_loop_that_never_turns():
    def function(x: "plica.spec(('n', 'm'), 'float64')"):
        @plica.for_loop(1, 0)
        def never(_, total):
            return total @ total.mT @ total

        scores = [pnp.cumulative_sum(pnp.sin(x * k), axis=1) for k in range(1, 12)]
        return never(x), sum(scores[1:], scores[0])

    nest = build_nest(plica.trace(function, plica.spec(("n", "m"), "float64")))
    assert split(nest).hot
    native, plain = (plica.jit(function, backend=one) for one in ("native", "interpreter"))
    x = np.random.default_rng(0).normal(size=(3, 4))
    for one, other in zip(native(x), plain(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_loops_with_functions_are_hot_beside_products():
    def layer(x, weight):
        def step(carry, row):
            said, cell = carry
            gates = pnp.concat([row] * 16, axis=1) + said @ weight
            first, second = (pnp.sigmoid(gates[:, k * 64 : (k + 1) * 64]) for k in range(2))
            cell = first * cell + second * pnp.tanh(gates[:, 128:192])
            return (pnp.sigmoid(gates[:, 192:]) * pnp.tanh(cell), cell), pnp.sum(cell)

        nothing = pnp.concat([x[0]] * 4, axis=1) * 0.0
        return plica.scan(step, (nothing, nothing), x)

    nest = build_nest(plica.trace(layer, plica.spec(("n", "b", 16), "float64"), plica.spec((64, 256), "float64")))
    hot = [one for loop in split(nest).hot for one in all_of([loop])]
    functions = [one for one in all_of(nest.body) if isinstance(one, Apply) and one.op in ("sigmoid", "tanh")]
    assert len(functions) == 5
    assert set(functions) <= set(hot)


def test_outermost_loops_of_a_long_function_are_functions_of_its_library(monkeypatch):
    axes = plica.spec(("n", "m"), "float64"), plica.spec(("n", "m"), "int64")
    program = plica.trace(_steps_with_checks, *axes)
    assert loops_apart(build_nest(program)) is None
    monkeypatch.setattr(most_work, "_LONG", 1)
    loops = loops_apart(build_nest(program, has_blas=False)).hot
    assert any(may_end(loop) for loop in loops)
    assert not any(inner in loops for loop in loops for inner in all_of(loop.body))
    divided = LibraryPrograms({"main": program})
    generator = np.random.default_rng(0)
    for n in (1, 3, 8):
        a, at = generator.normal(size=(n, n)), generator.integers(-n, n, size=(n, n))
        assert_interpreted(divided, "main", (a, at))
        at[n - 1, 0] = n
        with pytest.raises(InputError, match=f"index {n} does not lie within axis 0 of size {n}"):
            divided("main", a, at)
