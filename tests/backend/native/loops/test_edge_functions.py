"""Functions and Programs that a compiler once made wrong: sums of numbers, empty rows, sizes of inner loops, joins."""

from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.ir.builder import Builder
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.ir.types import ShapedArray
from plica.ops import OPS
from tests.harness.libraries import LibraryPrograms, assert_interpreted
from tests.harness.programs import run_region


def sums_of_numbers(x):
    """Sums of a number that is known."""
    ones = pnp.ones_like(x)
    return (
        pnp.sum(ones, axis=1),
        pnp.prod(ones + 1),
        pnp.mean(ones),
        pnp.einsum("a,b->a", x[:, 0:1].sum(axis=1), ones[0]),
    )


def counts_then_turns(x):
    """Two results of a loop of numbers alone."""
    size, turns = plica.while_loop(lambda size, _: size < 5, lambda size, turns: (2 * size, turns + 1), 1, 0)

    @plica.for_loop(0, turns)
    def doubled(_, x):
        return x * 2

    return doubled(pnp.concat([x, pnp.zeros((x.shape[0], size))], axis=1))


def without_entries(x):
    """Rows without entries have no place where they could be put."""
    none = x[:, 0:0]

    def step(carried, row):
        return pnp.concat([carried, pnp.full((2, 0), 0.5)]), row

    carried, rows = plica.scan(step, none, none, preserve_dimensions=False)
    return carried, rows, pnp.concat([none, x], axis=1), pnp.stack([none, none])


def sizes_of_inner_loops(x):
    """What a loop leaves has sizes that are called otherwise within it."""

    def step(grown, row):
        def longer(count, rows):
            return count + 1, pnp.concat([rows, pnp.full((2, x.shape[1]), 1.0)])

        _, rows = plica.while_loop(lambda _, rows: rows.shape[0] < 5, longer, 0, grown, preserve_dimensions=False)
        return pnp.full((3, rows.shape[1]), 1.0), row

    return plica.scan(step, x, x)[0]


def lost_terms(x):
    """Sums of which all terms underflow."""
    weight = pnp.eye(x.shape[1])
    first = pnp.log_matmul_exp([2000 * x], weight)
    return pnp.log_matmul_exp([first + 1], weight)


def chosen_then_carried(x):
    """A loop that begins with what a branch gave."""
    first = plica.while_loop(lambda x: x.shape[0] < 3, lambda x: pnp.concat([x, x]), x, preserve_dimensions=False)
    again = pnp.where(first < -2, first, 1.0)
    chosen = plica.cond(x[0, 0] > 0.5, lambda: again, lambda: x, preserve_dimensions=False)
    longer = plica.while_loop(lambda x: x.shape[0] < 7, lambda x: pnp.concat([x, x]), again, preserve_dimensions=False)
    return chosen, longer


def sums_of_a_number(x):
    """Cumulative sums of one number for all rows."""
    rows = x[:, 0]
    return pnp.cumulative_sum(rows.at[:].set(3.0)), pnp.cumulative_prod(rows.at[::-1].set(-1.0))


FUNCTIONS = (
    sums_of_numbers,
    counts_then_turns,
    without_entries,
    sizes_of_inner_loops,
    lost_terms,
    chosen_then_carried,
    sums_of_a_number,
)


@pytest.fixture(scope="module")
def modules() -> LibraryPrograms:
    programs = {one.__name__: plica.trace(one, plica.spec(("n", "m"), "float64")) for one in FUNCTIONS}
    return LibraryPrograms(programs)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_a_file_is_the_interpreter(modules: LibraryPrograms, function: Any) -> None:
    for shape in ((1, 1), (5, 3), (4, 20)):
        assert_interpreted(modules, function.__name__, [np.sin(np.arange(np.prod(shape)).reshape(shape) + 0.5)])


def test_an_argument_of_a_wrong_size_is_refused_by_us() -> None:
    def products(x, y):
        return pnp.linalg.cross(x, y, axis=0)

    program = plica.trace(products, plica.spec(("n", 2), "float64"), plica.spec(("n", 2), "float64"))
    assert_interpreted(LibraryPrograms({"f": program}), "f", [np.ones((2, 2)), np.ones((2, 2))])


def _joins_that_begin_alike(rows: int) -> Program:
    """Two arrays into which the same is put first."""
    builder = Builder(OPS)
    x, y, z = (builder.argument(None, (count, rows, 4), DType.FLOAT64) for count in (2, 2, 1))
    scales = [builder.argument(None, (2, rows, 1), DType.FLOAT64) for _ in range(2)]
    weights = [builder.const(None, ShapedArray((2, 4, 4), DType.FLOAT64)) for _ in range(2)]
    first, second = builder.add("split", y, axis=0, sizes=(1, 1))
    product = builder.add("multiply", second, z)
    third, _ = builder.add("split", x, axis=0, sizes=(1, 1))
    joins = [*builder.add("concat", third, first, axis=0), *builder.add("concat", *product, first, axis=0)]
    scaled = [builder.add("multiply", *pair)[0] for pair in zip(joins, scales, strict=True)]
    products = [builder.add("matmul", *pair)[0] for pair in zip(scaled, weights, strict=True)]
    return builder.build(builder.add("add", *products))


@pytest.mark.parametrize("rows", [1, 3])
def test_joins_that_begin_alike_are_two_arrays(rows: int) -> None:
    program, generator = _joins_that_begin_alike(rows), np.random.default_rng(0)
    weights = [generator.random((2, 4, 4)) for _ in program.consts]
    given = [generator.random((count, rows, 4)) for count in (2, 2, 1)] + [generator.random((2, rows, 1)) for _ in "12"]
    (found,) = LibraryPrograms({"f": program}, consts=dict(zip(program.consts, weights, strict=True)))("f", *given)
    (expected,) = run_region(program, weights, given)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
