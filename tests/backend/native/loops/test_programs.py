"""Functions as users write them, in files and in the interpreter: loops, branches, dtypes, errors, sizes."""

from functools import cache

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.nest_text import nest_text
from plica.errors import InputError
from tests.harness.libraries import LibraryPrograms, assert_interpreted

SIZES = (0, 1, 7)


def longer(x, times):
    @plica.for_loop(0, times)
    def grow(_, sound):
        return pnp.concat([sound, x * 0.5])

    return grow(x) + 1.0


def counted(x, times):
    @plica.while_loop(lambda i, _: i < times)
    def step(i, total):
        return i + 2, total * 0.5 + x

    return step(0, x)


def until_long(x, least):
    @plica.while_loop(lambda sound: sound.shape[0] < least)
    def grow(sound):
        return pnp.concat([sound, x + pnp.sum(sound), pnp.ones(1)])

    return grow(x)


def chosen(x, times):
    @plica.cond(times > 2)
    def branch():
        return x * 2.0, 1

    @branch.else_if(times < -2)
    def branch():
        return x, times

    @branch.otherwise
    def branch():
        return pnp.concat([x, x]), 3

    return branch()


def scanned(x, times):
    rows = pnp.expand_dims(x, axis=0) * pnp.expand_dims(pnp.astype(pnp.arange(4), "float64"), axis=1)

    def step(total, row):
        return total + row, (total * row, pnp.sum(row))

    return plica.scan(step, x, rows), plica.scan(step, x * times, rows, reverse=True)


def backwards(x, times):
    @plica.for_loop(times, 0, -3)
    def step(i, total, count):
        @plica.for_loop(0, i)
        def inner(j, one):
            return one + j * x

        return inner(total), count + i

    return step(x, 0)


def counts_by_step(x, times):
    @plica.for_loop(0, 6, times)
    def step(i, total):
        return total + i

    return step(x)


def two_of_one_size(x, times):
    # a carry and a stack, whose sizes are known outside
    def step(total, row):
        total = total + row
        return total, total + total

    rows = pnp.broadcast_to(pnp.astype(pnp.arange(3), "float64") + times, (4, 3))
    return plica.scan(step, pnp.zeros(3) + pnp.sum(x), rows)


def sizes(x, times):
    n = x.shape[0]
    whole = pnp.arange((n * n + 3) // 2)
    part = whole[n // 2 : n // 2 + 2 : 1]
    return whole[:: n + 1], part, (n - 5) // 3, (n - 5) % 3, pnp.maximum(n, times) // 2, pnp.zeros((n, 2 * n + 1))


def cut(x, times):
    return x[times : times + 2]


def divided(x, times):
    return pnp.arange(x.shape[0]) // times, pnp.arange(6) % (x.shape[0] - 1), 7 // times


def made(x, times):
    return pnp.zeros((times, x.shape[0])), pnp.full(times + 2, x[:1].shape[0])


def halves(x, times):
    small, brain = pnp.astype(x, "float16"), pnp.astype(x, "bfloat16")
    return small + times, pnp.sum(small), brain * brain, pnp.mean(brain), pnp.max(brain), pnp.logsumexp(brain)


def whole_numbers(x, times):
    number = pnp.astype(x * 100 + times, "int64")
    names = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64", "int4", "uint4")
    kept = [pnp.astype(number, name) for name in names]
    computed = [one * one - one for one in kept[:7]]
    orders = [one > 100 for one in kept[:7]]
    back = [pnp.astype(one, "float64") for one in kept]
    return kept[:7], computed, orders, back, pnp.sum(kept[1]), kept[6] // 7


def long_sums(x, times):
    many = pnp.astype(pnp.arange(x.shape[0] * 100_000) % 1013, "float32") * 0.37 + times
    rows = pnp.reshape(many, (x.shape[0], 100_000))
    return pnp.sum(many), pnp.sum(rows, axis=1), pnp.mean(rows, axis=1), pnp.logsumexp(rows * 0.01, axis=1)


def of_the_host(x, times):
    n = x.shape[0]
    few = n < 3
    return few, few | (n > 5), pnp.where(few, n, -n), n**3, pnp.bitwise_xor(n, times), pnp.abs(n - 4) << 2, x * few


def extremes(x, times):
    return pnp.max(x), pnp.argmin(x), pnp.min(pnp.zeros((3, 0)), axis=0) + times


def constants_in_steps(x, times):
    @plica.for_loop(-1, x.shape[0], preserve_dimensions=False)
    def step(_, _first, _second, count):
        return pnp.ones(3), pnp.ones(pnp.abs(times)), count - 1

    return step(x, x, x.shape[0])


FUNCTIONS = (
    longer,
    counted,
    until_long,
    chosen,
    scanned,
    backwards,
    counts_by_step,
    two_of_one_size,
    sizes,
    cut,
    divided,
    made,
    halves,
    whole_numbers,
    long_sums,
    of_the_host,
    extremes,
    constants_in_steps,
)


FURTHER = (counted, chosen, backwards, sizes, divided, halves, of_the_host)
"""Those of which others have the parts; a function takes the compiler some tenths of a second."""


@cache
def _modules(further: bool) -> LibraryPrograms:
    arguments = (plica.spec("n", "float64"), int)
    some = [one for one in FUNCTIONS if (one in FURTHER) == further]
    return LibraryPrograms({one.__name__: plica.trace(one, *arguments) for one in some})


@pytest.mark.parametrize(
    "function",
    [pytest.param(one, id=one.__name__, marks=pytest.mark.full if one in FURTHER else []) for one in FUNCTIONS],
)
@pytest.mark.parametrize("times", [4, 0, -3])
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_a_file_is_the_interpreter(function, times) -> None:
    for size in SIZES if function is not until_long else SIZES[1:]:
        x = np.sin(np.arange(size) + 0.5)
        assert_interpreted(_modules(function in FURTHER), function.__name__, [x, np.asarray(times)])


def test_nothing_has_no_largest_element() -> None:
    with pytest.raises(InputError, match=r"test_programs.py:\d+: an axis of size 0 has no largest or smallest element"):
        _modules(False)("extremes", np.zeros(0), np.asarray(1))


def test_traces_of_one_function_have_one_nest() -> None:
    def factors(x):
        return *pnp.linalg.svd(x), *pnp.linalg.qr(x)

    programs = [plica.trace(factors, plica.spec(("n", "n"), "float64")) for _ in range(12)]
    assert len({nest_text(build_nest(program)) for program in programs}) == 1
