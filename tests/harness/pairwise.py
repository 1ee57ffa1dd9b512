"""Few cases that hold every pair of choices: for products that are too large to run whole.

>>> len(list(pairwise({"a": [1, 2, 3], "b": "xyz", "c": [True, False]})))
9
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Case = dict[str, Any]


def pairwise(choices: Mapping[str, Sequence[Any]]) -> Iterator[Case]:
    """Cases in which any two choices of different names come together, each found greedily."""
    places = {name: range(len(values)) for name, values in choices.items()}
    missing = {(a, i, b, j): None for a, b in combinations(sorted(places), 2) for i in places[a] for j in places[b]}
    while missing:
        a, i, b, j = next(iter(missing))
        chosen = {a: i, b: j}
        for name in places:
            if name not in chosen:
                chosen[name] = max(places[name], key=lambda place: len(_new({**chosen, name: place}, missing)))
        for pair in _new(chosen, missing):
            del missing[pair]
        yield {name: choices[name][chosen[name]] for name in choices}


def flagged(**choices: Sequence[Any]) -> Any:
    """Parametrizes a test by all products of choices; the usual suite has some that hold every pair."""
    return _parametrized(choices, [tuple(case.values()) for case in pairwise(choices)])


def by_turns(**choices: Sequence[Any]) -> Any:
    """Parametrizes a test by all products of choices; the usual suite has some that hold each choice."""
    number = max(map(len, choices.values()))
    return _parametrized(choices, [tuple(one[turn % len(one)] for one in choices.values()) for turn in range(number)])


def first_usual(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Values to parametrize a test by, of which the usual suite has the first ones."""
    import pytest

    return [pytest.param(one, marks=[] if place < count else pytest.mark.full) for place, one in enumerate(values)]


def _parametrized(choices: Mapping[str, Sequence[Any]], usual: Sequence[tuple[Any, ...]]) -> Any:
    import pytest  # here alone: a machine with a GPU may lack it

    every = product(*choices.values())
    return pytest.mark.parametrize(
        ",".join(choices), [pytest.param(*case, marks=[] if case in usual else pytest.mark.full) for case in every]
    )


def _new(chosen: Mapping[str, int], missing: Mapping[Any, None]) -> list[Any]:
    pairs = ((a, chosen[a], b, chosen[b]) for a, b in combinations(sorted(chosen), 2))
    return [pair for pair in pairs if pair in missing]
