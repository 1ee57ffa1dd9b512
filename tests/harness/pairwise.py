"""Few cases that hold every pair of choices: for products that are too large to run whole.

>>> len(list(pairwise({"a": [1, 2, 3], "b": "xyz", "c": [True, False]})))
9
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
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


def _new(chosen: Mapping[str, int], missing: Mapping[Any, None]) -> list[Any]:
    pairs = ((a, chosen[a], b, chosen[b]) for a, b in combinations(sorted(chosen), 2))
    return [pair for pair in pairs if pair in missing]
