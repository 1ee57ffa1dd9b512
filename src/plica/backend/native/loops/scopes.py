"""Which buffers may be one: what LLVM is told, so that it need not ask while the code runs."""

from collections.abc import Hashable, Iterable, Iterator

from plica.backend.native.loops.nest import (
    Buffer,
    GetPointer,
    Nest,
    PutPointer,
    Reserve,
    Statement,
    blocks_of,
)


class Scopes:
    """Classes of buffers: two of different classes never overlap.

    Buffers are in one class where a pointer may stand for both. Arguments may overlap, but are only read.

    Args:
        nest: The function.
    """

    def __init__(self, nest: Nest) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        for first, second in _joined(nest.body):
            self._parents[self._root(first)] = self._root(second)
        self._numbers: dict[Hashable, int] = {}

    def _root(self, one: Hashable) -> Hashable:
        while one in self._parents and self._parents[one] is not one:
            one = self._parents[one]
        return one

    def number(self, buffer: Buffer) -> int:
        """The number of the class of a buffer."""
        return self._numbers.setdefault(self._root(buffer), len(self._numbers))

    def tag(self, buffer: Buffer) -> str:
        """What stands behind a load or a store."""
        number = self.number(buffer)
        return f", !alias.scope !{_FIRST + 3 * number + 1}, !noalias !{_FIRST + 3 * number + 2}"

    def lines(self) -> list[str]:
        """The metadata of all classes."""
        count = len(self._numbers)
        found = [f"!{_FIRST - 1} = distinct !{{!{_FIRST - 1}}}"]
        for number in range(count):
            scope = _FIRST + 3 * number
            others = ", ".join(f"!{_FIRST + 3 * other}" for other in range(count) if other != number)
            found.append(f"!{scope} = distinct !{{!{scope}, !{_FIRST - 1}}}")
            found.append(f"!{scope + 1} = !{{!{scope}}}")
            found.append(f"!{scope + 2} = !{{{others}}}")
        return found


_FIRST = 10  # of the numbers of metadata


def _joined(block: Iterable[Statement]) -> Iterator[tuple[Hashable, Hashable]]:
    for one in block:
        if isinstance(one, PutPointer | GetPointer):
            yield one.cell, one.buffer
        elif isinstance(one, Reserve):
            yield one.result, one.buffer
        for inner in blocks_of(one):
            yield from _joined(inner)
