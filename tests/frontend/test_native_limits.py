"""`jit(backend="native")` at the limits of numbers and of memory: sizes, indices and loops that do not fit 64 bits."""

import re

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import BoundsError, InputError


@plica.jit(backend="native")
def last_of_sorted(n: int, m: int):
    return pnp.sort(pnp.zeros((n, m)) + 1.0, axis=1)[-1, -1]


@pytest.mark.parametrize("sizes", [(2**61, 1), (2**61 + 1, 1), (2**32, 2**32), (2**40, 2**40), (1, 2**62)])
def test_sizes_whose_product_does_not_fit_a_number_end_the_run(sizes):
    assert last_of_sorted(2, 3) == 1.0
    with pytest.raises(MemoryError, match="too large for this computer's memory"):
        last_of_sorted(*sizes)


def test_arrays_that_grow_too_far_end_the_run():
    @plica.jit(backend="native")
    def grown(n: int, k: int):
        def body(_, a):
            return pnp.concat([a, pnp.zeros(n)])

        return plica.for_loop(0, k, 1, body, pnp.ones(1), preserve_dimensions=False)[0]

    assert grown(3, 2) == 1.0
    for size in (2**60, 2**61, 2**62):
        with pytest.raises(MemoryError):
            grown(size, 1)


def test_a_result_of_a_size_that_no_array_has_is_an_error():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def shorter(x):
        return pnp.ones(x.shape[0] - 5)

    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def longer(x):
        return pnp.ones((x.shape[0], 2**62))

    assert shorter(np.ones(7)).tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match=r"the size n-5 = -2 is negative"):
        shorter(np.ones(3))
    with pytest.raises(MemoryError, match="too large"):
        longer(np.ones(3))


def test_what_a_loop_or_a_branch_makes_of_a_negative_size_is_no_lack_of_memory():
    @plica.jit(backend="native")
    def stacked(n: int, turns: int):
        return plica.scan(lambda total, _: (total, pnp.ones(n - 2)), 0.0, length=turns)[1]

    @plica.jit(backend="native")
    def summed(n: int, turns: int):
        return pnp.sum(stacked(n, turns), axis=0)

    @plica.jit(backend="native")
    def chosen(n: int, turns: int):
        return pnp.sum(plica.cond(turns > 0, lambda: pnp.ones(n - 2), lambda: pnp.zeros(n - 2)))

    assert stacked(3, 2).tolist() == [[1.0], [1.0]]
    assert stacked(2, 0).shape == (0, 0)
    assert summed(3, 2).tolist() == [2.0]
    assert chosen(5, 1) == 3.0
    for function in (stacked, summed, chosen):
        for turns in (0, 1, 3):
            with pytest.raises(InputError, match=r"the size n-2 = -2 is negative; take 0 or more"):
                function(0, turns)


def test_a_loop_that_does_not_turn_needs_no_memory():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def total(x, far, turns):
        def body(_, s):
            rows = pnp.cumulative_sum(pnp.ones(x.shape[0] * far))
            return s + pnp.sum(rows * rows[::-1])

        return plica.for_loop(0, turns, 1, body, x[0])

    assert total(np.ones(2), 1, 2) == 9.0
    assert total(np.ones(2), 2**50, 0) == 1.0
    with pytest.raises(MemoryError):
        total(np.ones(2), 2**50, 1)
    with pytest.raises(InputError, match="negative"):
        total(np.ones(2), -1, 1)


@pytest.mark.parametrize(
    "bounds",
    [
        (-(2**63), 2**63 - 1, 2**62),
        (2**63 - 1, -(2**63), -(2**62)),
        (-(2**63), 2**63 - 1, 2**63 - 1),
        (2**63 - 1, -(2**63), -(2**63)),
        (0, 10, -(2**63)),
        (0, 5, 2**63 - 1),
        (7, 0, -3),
        (0, 7, 3),
        (3, 3, 2),
    ],
)
def test_loops_over_all_of_64_bits_turn_as_often_as_those_of_python(bounds):
    def body(i, place, found):
        return place + 1, found.at[place].set(i)

    def visited(lower: int, upper: int, step: int):
        return plica.for_loop(lower, upper, step, body, 0, pnp.zeros(4, dtype=int))

    expected = list(range(*bounds))
    count, found = plica.jit(visited, backend="native")(*bounds)
    assert count == len(expected)
    assert found[: len(expected)].tolist() == expected


def test_an_index_that_wraps_around_is_checked():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def far(x, upper):
        return plica.for_loop(2**63 - 3, upper, 1, lambda i, s: s + x[i + 1000], 0.0)

    assert far(np.ones(3), 0) == 0.0
    with pytest.raises(BoundsError):
        far(np.ones(3), 2**63 - 1)


def test_memory_that_grew_and_is_no_longer_carried_is_given_back_where_it_lies_now():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def turned(a, b, k):
        def body(_, a, b):
            return b, pnp.concat([a, a[:1]])

        return plica.for_loop(0, k, 1, body, a, b, preserve_dimensions=False)

    a, b = np.arange(3.0), np.arange(3.0) + 5
    found = turned(a, b, 7)
    for _ in range(7):
        a, b = b, np.concatenate([a, a[:1]])
    np.testing.assert_array_equal(found[0], a)
    np.testing.assert_array_equal(found[1], b)
    moved = re.search(r"(b\d+) = (b\d+) with room", str(turned.code))
    assert moved is not None
    behind = str(turned.code)[moved.end() :]
    assert re.search(rf"free {moved[1]}\b", behind)
    assert not re.search(rf"free {moved[2]}\b", behind)
