"""Loops in files: what the interpreter gives, or the error that it raises."""

from functools import cache

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import PlicaError
from plica.frontend.programs import interpret
from tests.harness.libraries import LibraryPrograms, assert_interpreted, without_names

SIZES = (0, 1, 7)
COUNTS = (-2, 0, 3)


def changes_places(x, times):
    @plica.for_loop(0, times)
    def step(_, one, other):
        return pnp.concat([other[1:], other[:1]]) * 0.5, pnp.cumulative_sum(one)

    return step(x, x + 1)


def reads_outside(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, x):
        return x.at[i].set(x[times - i] + 1)

    return step(x)


def branches(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, x):
        @plica.cond(x[i] > 0.5)
        def branch():
            return x.at[i].set(-x[i])

        @branch.else_if(x[i] > 0)
        def branch():
            return x.at[i].set(pnp.sum(x[i:]) + times)

        @branch.otherwise
        def branch():
            return x

        return branch()

    return step(x)


def multiplies_matrices(x, times):
    n = x.shape[0]
    matrix = pnp.expand_dims(x, axis=1) * pnp.ones((1, n)) * 0.01

    @plica.for_loop(0, times)
    def step(_, product):
        return product @ matrix + 1.0

    return step(matrix)


def multiplies_large_matrices(x, times):
    @plica.for_loop(0, times)
    def step(_, matrix):
        return matrix @ matrix * 0.01

    return step(pnp.ones((32, 32)) * pnp.sum(x))


def booleans(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, seen, odd):
        return seen.at[i].set(x[i] > 0), odd ^ (x[i] > 0.5)

    return step(pnp.zeros(x.shape[0], dtype="bool"), times > 2)


def narrow_types(x, times):
    def step(carry, row):
        a, b, c, d = carry
        a, b = a * 3 + pnp.astype(row, "int8"), b + pnp.astype(row, "float16")
        return (a, b, c + pnp.astype(row, "bfloat16"), d * pnp.astype(row, "uint32")), d

    first = (pnp.astype(times, "int8"), pnp.astype(0.5, "float16"), pnp.astype(0.25, "bfloat16"))
    return plica.scan(step, (*first, pnp.astype(7, "uint32")), x * 10)


def divides(x, times):
    @plica.for_loop(0, 4)
    def step(i, total):
        return total + 12 // (times - i)

    return step(0), x


def slices(x, times):
    @plica.for_loop(0, 3)
    def step(i, total):
        return total + pnp.sum(x[i * times : i * times + 2])

    return step(0.0)


def makes_a_negative_size(x, times):
    @plica.for_loop(0, 3)
    def step(_, total):
        return total + pnp.sum(pnp.ones(times + 1) * x[0])

    return step(0.0)


def meets_another_size(x, times):
    @plica.for_loop(0, 3)
    def step(_, total):
        return total + pnp.sum(x * pnp.ones(times))

    return step(0.0)


def sizes_from_a_loop(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, total):
        return total + pnp.astype(x[times - i], "int64")

    return pnp.zeros(pnp.abs(step(0)) % 7)


def turns_by_a_loop(x, times):
    # that reads outside of x, and so would leave any number
    @plica.for_loop(0, 2)
    def step(i, _):
        return pnp.astype(x[times + i], "int64")

    bound = step(1)

    @plica.while_loop(lambda total: total < pnp.abs(bound) + 5)
    def turn(total):
        return total + 1

    return turn(0)


def sorts(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, total):
        places = pnp.astype(pnp.arange(times), "float64")
        return total + pnp.sum(pnp.sort(x[i] * places - places**2)[:1])

    return step(0.0)


def solves(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, x, matrix):
        square = matrix @ pnp.permute_dims(matrix, (1, 0)) + 12.0 * pnp.eye(12)
        matrix = pnp.sort(pnp.linalg.solve(square, matrix + x[i]), axis=1)
        return x.at[i].set(pnp.sum(matrix[0]) + times), matrix

    return step(x, pnp.ones((12, 12)) * 0.1)


def carries_many(x, times):
    @plica.for_loop(0, times)
    def step(_, *values):
        return (*values[1:], values[0] + values[1])

    return step(*(x * place for place in range(14)))


def counts(x, times):
    @plica.while_loop(lambda number, _: number > 1)
    def step(number, turns):
        return pnp.where(number % 2 == 0, number // 2, 3 * number + 1), turns + 1

    return step(times, 0), x[:0]


def has_no_rows(x, times):
    return plica.scan(lambda total, _: (total * 0.5 + 1.0, total), pnp.sum(x), length=times * times)


def grows(x, times):
    @plica.for_loop(0, times, preserve_dimensions=False)
    def step(_, x):
        @plica.for_loop(0, x.shape[0])
        def inner(j, y):
            return y.at[j].set(y[j] + pnp.sum(y))

        return pnp.concat([inner(x), pnp.ones(1)])

    return step(x)


def takes_memory_by_turn(x, times):
    @plica.for_loop(0, x.shape[0])
    def step(i, total):
        return total + pnp.sum(pnp.sort(x[:i])) * times

    return step(0.0)


ALL = (
    changes_places,
    reads_outside,
    branches,
    multiplies_matrices,
    multiplies_large_matrices,
    booleans,
    narrow_types,
    divides,
    slices,
    makes_a_negative_size,
    meets_another_size,
    sizes_from_a_loop,
    turns_by_a_loop,
    sorts,
    solves,
    carries_many,
    counts,
    has_no_rows,
    grows,
    takes_memory_by_turn,
)
FEW = (changes_places, reads_outside, branches, multiplies_matrices)


def _program(function):
    return plica.trace(function, plica.spec("n", "float64"), int)


@cache
def _modules(functions) -> LibraryPrograms:
    return LibraryPrograms({one.__name__: _program(one) for one in functions})


def _check(functions, function, sizes, counts) -> None:
    for size in sizes:
        x = np.sin(np.arange(size) + 0.5)
        for times in counts:
            _agree(_modules(functions), function.__name__, [x, np.asarray(times)])


def _agree(modules: LibraryPrograms, name: str, arguments) -> None:
    """Check what a loop gives, or raises: the interpreter says in front where the loop begins."""
    expected = None
    try:
        interpret(modules.programs[name], *arguments)
    except PlicaError as error:
        expected = error
    if expected is None:
        assert_interpreted(modules, name, arguments, scale=100.0)
        return
    with pytest.raises(type(expected)) as found:
        modules(name, *arguments)
    assert without_names(expected).endswith(without_names(found.value))


@pytest.mark.parametrize("function", FEW, ids=lambda one: one.__name__)
def test_a_file_is_the_interpreter(function) -> None:
    _check(FEW, function, SIZES, COUNTS)


@pytest.mark.full
@pytest.mark.parametrize("function", ALL, ids=lambda one: one.__name__)
def test_every_loop_is_the_interpreter(function) -> None:
    sizes = (*SIZES, 1000) if function is not grows else SIZES
    _check(ALL, function, sizes, (-2, 0, 1, 3, 6) if function is not grows else (0, 1, 6))


@pytest.mark.parametrize("size", [24, 29, 30])
def test_products_of_many_rows_are_computed_in_blocks(size: int) -> None:
    x = np.sin(np.arange(size) + 0.5)
    assert_interpreted(_modules(FEW), "multiplies_matrices", [x, np.asarray(3)], scale=100.0)


def test_an_array_without_axes_is_permuted() -> None:
    program = plica.trace(lambda x: pnp.permute_dims(x, ()) * 2, plica.spec(()))
    assert_interpreted(LibraryPrograms({"f": program}), "f", [np.float32(3)], "permute_dims")
