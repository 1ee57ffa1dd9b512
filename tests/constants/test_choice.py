"""The cut against brute force, under its budget, and monotone; large problems stay linear."""

from itertools import product
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from plica.constants.cut.choice import EXACT, Choice, Operation, Problem, _all, choose


@st.composite
def problems(draw: st.DrawFn, most: int = 8) -> Problem:
    """Diamonds, fan-out, several results: each operation reads values that are there already."""
    count = draw(st.integers(1, 3))
    bits: list[int | None] = [draw(st.integers(1, 40)) for _ in range(count)]
    sources = list(range(count))
    operations = []
    for _ in range(draw(st.integers(1, most))):
        reads = draw(st.lists(st.integers(0, len(bits) - 1), max_size=3, unique=True))
        makes = tuple(range(len(bits), len(bits) + draw(st.sampled_from((1, 1, 1, 2)))))
        bits += [draw(st.sampled_from((None, 1, 2, 5, 20, 60))) for _ in makes]
        operations.append(Operation(tuple(reads), makes, draw(st.integers(1, 30))))
    needed = draw(st.lists(st.integers(0, len(bits) - 1), min_size=1, max_size=4, unique=True))
    return Problem(operations, bits, sources, needed)


def _measured(problem: Problem, runs: set[int]) -> tuple[int, int] | None:
    """Work and growth by the definition, with sets; None if it keeps what may not be kept, or runs what none reads."""
    needed, work = set(problem.needed), 0
    for place in sorted(runs):
        needed.update(problem.operations[place].reads)
        work += problem.operations[place].work
    made = {value: place for place, one in enumerate(problem.operations) for value in one.makes}
    kept = {value for value in needed if made.get(value) not in runs}
    if any(problem.bits[value] is None for value in kept):
        return None
    if any(needed.isdisjoint(problem.operations[place].makes) for place in runs):
        return None
    return work, sum(problem.bits[one] or 0 for one in kept) - sum(problem.bits[one] or 0 for one in problem.sources)


def _brute(problem: Problem, budget: int) -> tuple[int, int]:
    places = range(len(problem.operations))
    sets = (
        {place for place, flag in zip(places, flags, strict=True) if flag}
        for flags in product((0, 1), repeat=len(places))
    )
    found = (_measured(problem, runs) for runs in sets)
    return min(one for one in found if one is not None and one[1] <= budget)


def _is_sound(problem: Problem, choice: Choice) -> bool:
    return _measured(problem, set(choice.runs)) == (choice.work, choice.growth)


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(0, 120))
def test_small_problems_are_solved_as_by_brute_force(problem: Problem, budget: int) -> None:
    choice = choose(problem, budget)
    assert _is_sound(problem, choice)
    assert (choice.work, choice.growth) == _brute(problem, budget)


def _connected(draw: Random, count: int) -> Problem:
    """A problem whose operations read one or two values each, most of them in one component."""
    bits: list[int | None] = [draw.randint(1, 40) for _ in range(2)]
    operations = []
    for _ in range(count):
        reads = sorted({draw.randrange(len(bits)) for _ in range(draw.randint(1, 2))})
        operations.append(Operation(tuple(reads), (len(bits),), draw.randint(1, 30)))
        bits.append(draw.choice((None, 1, 2, 5, 20, 60)))
    read = {value for one in operations for value in one.reads}
    return Problem(operations, bits, [0, 1], [one.makes[0] for one in operations if one.makes[0] not in read])


def test_problems_that_are_too_large_to_be_searched_are_solved_nearly_as_well() -> None:
    lost = []
    for seed in range(8):
        problem = _connected(Random(seed), EXACT + 1)
        choices = list(_all(problem, None))
        least, most = min(one.work for one in choices), problem.closed(lambda *_: True).work
        for budget in (0, 30, 100):
            best = min([one.work for one in choices if one.growth <= budget], default=most)
            lost.append((choose(problem, budget).work - best) / (most - least))
    assert sum(one == 0 for one in lost) >= 0.8 * len(lost), "the best there is"
    assert sum(lost) <= 0.05 * len(lost), "of the work that could be saved"


def test_twelve_operations_are_solved_as_by_brute_force() -> None:
    # a chain of diamonds: each value is read twice
    operations = [Operation((place, max(0, place - 1)), (place + 1,), 3 + place % 4) for place in range(EXACT)]
    bits: list[int | None] = [10, *(4 + (7 * place) % 13 for place in range(EXACT))]
    problem = Problem(operations, bits, [0], [EXACT, EXACT - 3, EXACT // 2, 2])
    for budget in (0, 3, 9, 30):
        choice = choose(problem, budget)
        assert (choice.work, choice.growth) == _brute(problem, budget)


@settings(max_examples=40, deadline=None)
@given(problems(most=30), st.lists(st.integers(0, 200), min_size=2, max_size=5))
def test_a_larger_budget_never_saves_less_and_none_is_exceeded(problem: Problem, budgets: list[int]) -> None:
    choices = [choose(problem, budget) for budget in sorted(budgets)]
    assert all(one.growth <= budget for one, budget in zip(choices, sorted(budgets), strict=True))
    assert all(_is_sound(problem, one) for one in choices)
    works = [one.work for one in choices]
    assert works == sorted(works, reverse=True)


def test_many_small_gains_are_taken_beside_a_large_one_that_does_not_fit() -> None:
    small = [Operation((place,), (100 + place,), 5) for place in range(40)]
    large = Operation((40,), (140,), 10**9)
    bits = [*[8] * 100, *[9] * 40, 10**6]
    problem = Problem([*small, large], bits, list(range(41)), [*range(41), *range(100, 141)])
    choice = choose(problem, 9 * 30)
    assert choice.work == 10**9 + 10 * 5
    assert len(choice.kept) == 30


def test_a_large_value_is_computed_again_where_a_small_one_before_it_holds_as_much() -> None:
    # source -> expand (large) -> sum (small): both the large and the small one are read; the large is not kept
    problem = Problem([Operation((0,), (1,), 1), Operation((1,), (2,), 50)], [8, 1000, 4], [0], [1, 2])
    choice = choose(problem, 10)
    assert choice.runs == (0,)
    assert choice.kept == (2,)


@settings(max_examples=30, deadline=None)
@given(problems(most=20), st.lists(st.integers(0, 200), min_size=2, max_size=4), st.integers(0, 6))
def test_that_holds_under_a_further_limit_too(problem: Problem, budgets: list[int], limit: int) -> None:
    def fits(choice: Choice) -> bool:
        return len(choice.kept) <= limit

    choices = [choose(problem, budget, fits) for budget in sorted(budgets)]
    assert all(fits(one) for one in choices)
    works = [one.work for one in choices]
    assert works == sorted(works, reverse=True)


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("budget", [None, 0])
def test_long_chains_are_cut(budget: int | None, count: int) -> None:
    operations = [Operation((place,), (place + 1,), 1) for place in range(count)]
    choice = choose(Problem(operations, [8, *[16] * count], [0], [count]), budget)
    assert choice.growth == (8 if budget is None else 0)
    assert len(choice.runs) == (0 if budget is None else count)
