"""Classes of buffers that may overlap. LLVM gets them as metadata, so that code compares no addresses when it runs."""

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

    Buffers are in one class if one pointer may point to both. Arguments may overlap, but are only read. LLVM itself
    knows that memory on the stack overlaps nothing if no pointer points to it.

    Args:
        nest: The function.
    """

    def __init__(self, nest: Nest) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        on_stack: list[Buffer] = []
        for first, second in _joined(nest.body, on_stack):
            self._parents[self._root(first)] = self._root(second)
        joined = set(self._parents) | set(self._parents.values())
        self._known = {buffer for buffer in on_stack if buffer not in joined}
        self._numbers: dict[Hashable, int] = {}

    def _root(self, member: Hashable) -> Hashable:
        while member in self._parents and self._parents[member] is not member:
            member = self._parents[member]
        return member

    def number(self, buffer: Buffer) -> int:
        """The number of the class of a buffer."""
        return self._numbers.setdefault(self._root(buffer), len(self._numbers))

    def tag(self, buffer: Buffer) -> str:
        """The text after a load or a store: the type of its memory, one for each class."""
        if buffer in self._known:
            return ""
        return f", !tbaa !{_FIRST + 2 * self.number(buffer) + 2}"

    def lines(self) -> list[str]:
        """The metadata of all classes: a type each, since lists of all pairs would grow with the square of classes."""
        metadata = [f'!{_FIRST} = !{{!"plica"}}']
        for number in range(len(self._numbers)):
            type_ = _FIRST + 2 * number + 1
            metadata.append(f'!{type_} = !{{!"{number}", !{_FIRST}, i64 0}}')
            metadata.append(f"!{type_ + 1} = !{{!{type_}, !{type_}, i64 0}}")
        return metadata


_FIRST = 10  # the first number of this metadata


def _joined(block: Iterable[Statement], on_stack: list[Buffer]) -> Iterator[tuple[Hashable, Hashable]]:
    """Pairs of buffers and pointers that may be the same memory; `on_stack` receives the buffers on the stack."""
    for statement in block:
        if isinstance(statement, PutPointer | GetPointer):
            yield statement.cell, statement.buffer
        elif isinstance(statement, Reserve):
            yield statement.result, statement.buffer
        elif isinstance(statement, Allocate) and is_on_stack(statement):
            on_stack.append(statement.buffer)
        for inner in blocks_of(statement):
            yield from _joined(inner, on_stack)
