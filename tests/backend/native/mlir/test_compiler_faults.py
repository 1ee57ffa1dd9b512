"""What IREE 3.13 makes wrong, or makes no code of, unless it is written as it is: each was once a wrong answer."""

from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.mlir.emit import emit
from plica.ir.builder import Builder
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.ir.types import ShapedArray
from plica.ops import OPS
from tests.harness.native import NativePrograms, assert_interpreted
from tests.harness.programs import run_region


def sums_of_numbers(x):
    """Of a number that it knows, it added one for each vector."""
    ones = pnp.ones_like(x)
    return (
        pnp.sum(ones, axis=1),
        pnp.prod(ones + 1),
        pnp.mean(ones),
        pnp.einsum("a,b->a", x[:, 0:1].sum(axis=1), ones[0]),
    )


def counts_then_turns(x):
    """Two results of a loop of numbers alone became one."""
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
    """Of `scf.if` that hands an array on no code was made, or code that several threads ended with an error."""
    weight = pnp.eye(x.shape[1])
    first = pnp.log_matmul_exp([2000 * x], weight)
    return pnp.log_matmul_exp([first + 1], weight)


def chosen_then_carried(x):
    """What a branch handed on was lost for the loop behind it, which begins with it."""
    first = plica.while_loop(lambda x: x.shape[0] < 3, lambda x: pnp.concat([x, x]), x, preserve_dimensions=False)
    again = pnp.where(first < -2, first, 1.0)
    chosen = plica.cond(x[0, 0] > 0.5, lambda: again, lambda: x, preserve_dimensions=False)
    longer = plica.while_loop(lambda x: x.shape[0] < 7, lambda x: pnp.concat([x, x]), again, preserve_dimensions=False)
    return chosen, longer


def sums_of_a_number(x):
    """It made the whole of what is summed on the stack, in 2^56 bytes."""
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
def modules() -> NativePrograms:
    """By several threads, which some of the faults take."""
    programs = {one.__name__: plica.trace(one, plica.spec(("n", "m"), "float64")) for one in FUNCTIONS}
    return NativePrograms(programs, "local-task")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_native_is_the_interpreter(modules: NativePrograms, function: Any) -> None:
    for shape in ((1, 1), (5, 3), (4, 20)):
        assert_interpreted(modules, function.__name__, [np.sin(np.arange(np.prod(shape)).reshape(shape) + 0.5)])


def test_an_argument_of_a_wrong_size_is_refused_by_us() -> None:
    def products(x, y):
        return pnp.linalg.cross(x, y, axis=0)

    program = plica.trace(products, plica.spec(("n", 2), "float64"), plica.spec(("n", 2), "float64"))
    assert_interpreted(NativePrograms({"f": program}), "f", [np.ones((2, 2)), np.ones((2, 2))])


def test_errors_of_decompositions_name_the_line_of_the_operation() -> None:
    program = plica.trace(lambda x: pnp.pack(x, inner_dims_pos=(0,), inner_tiles=(2,)), plica.spec("n", "float64"))
    assert "test_compiler_faults.py" in emit(program).text


def _joins_that_begin_alike(rows: int) -> Program:
    """Two arrays into which the same is put first became one."""
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
    (found,) = NativePrograms({"f": program}, consts=dict(zip(program.consts, weights, strict=True)))("f", *given)
    (expected,) = run_region(program, weights, given)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
