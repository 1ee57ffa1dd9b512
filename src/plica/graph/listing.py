"""Nodes of a graph as its properties give them: a tuple that is also an iterator.

>>> letters = Listing("abc")
>>> next(letters), next(letters), letters[0], letters[1:], len(letters), list(letters)
('a', 'b', 'a', ('b', 'c'), 3, ['a', 'b', 'c'])
"""

from collections.abc import Iterator
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Listing(tuple[T_co, ...]):
    """A tuple on which `next` works: it gives the first item, then the second.

    A property that returns a new one each time starts over: `next(circuit.sum_layers)` is the first sum layer. Loops
    start at the first item whatever `next` has given; equality, hashes and slices are those of the tuple.
    """

    _rest: Iterator[Any]

    def __next__(self) -> T_co:
        if not hasattr(self, "_rest"):
            self._rest = iter(self)
        item: T_co = next(self._rest)
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies begin at the first item."""
        return Listing, (tuple(self),)
