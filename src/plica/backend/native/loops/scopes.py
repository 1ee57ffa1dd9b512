"""Which buffers may be one: what LLVM is told, so that it need not ask while the code runs."""

from collections.abc import Hashable, Iterable, Iterator

from plica.backend.native.loops.nest import (
    Allocate,
    Buffer,
    GetPointer,
    Nest,
    PutPointer,
    Reserve,
    Statement,
    blocks_of,
)
from plica.backend.native.loops.support import is_on_stack


class Scopes:
    """Classes of buffers: two of different classes never overlap.

    Buffers are in one class where a pointer may stand for both. Arguments may overlap, but are only read. LLVM knows
    itself what overlaps with memory on the stack that no pointer stands for.

    Args:
        nest: The function.
    """

    def __init__(self, nest: Nest) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        on_stack: list[Buffer] = []
        for first, second in _joined(nest.body, on_stack):
            self._parents[self._root(first)] = self._root(second)
        joined = set(self._parents) | set(self._parents.values())
        self._known = {one for one in on_stack if one not in joined}
        self._numbers: dict[Hashable, int] = {}

    def _root(self, one: Hashable) -> Hashable:
        while one in self._parents and self._parents[one] is not one:
            one = self._parents[one]
        return one

    def number(self, buffer: Buffer) -> int:
        """The number of the class of a buffer."""
        return self._numbers.setdefault(self._root(buffer), len(self._numbers))

    def tag(self, buffer: Buffer) -> str:
        """What stands behind a load or a store: the type of what lies there, one for each class."""
        if buffer in self._known:
            return ""
        return f", !tbaa !{_FIRST + 2 * self.number(buffer) + 2}"

    def lines(self) -> list[str]:
        """The metadata of all classes; lists of what each does not overlap with would grow with their square."""
        found = [f'!{_FIRST} = !{{!"plica"}}']
        for number in range(len(self._numbers)):
            type_ = _FIRST + 2 * number + 1
            found.append(f'!{type_} = !{{!"{number}", !{_FIRST}, i64 0}}')
            found.append(f"!{type_ + 1} = !{{!{type_}, !{type_}, i64 0}}")
        return found


_FIRST = 10  # of the numbers of metadata


def _joined(block: Iterable[Statement], on_stack: list[Buffer]) -> Iterator[tuple[Hashable, Hashable]]:
    """What may be one, and in `on_stack` the memory that lies there."""
    for one in block:
        if isinstance(one, PutPointer | GetPointer):
            yield one.cell, one.buffer
        elif isinstance(one, Reserve):
            yield one.result, one.buffer
        elif isinstance(one, Allocate) and is_on_stack(one):
            on_stack.append(one.buffer)
        for inner in blocks_of(one):
            yield from _joined(inner, on_stack)
