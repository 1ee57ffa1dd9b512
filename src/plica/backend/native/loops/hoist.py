"""Memory that each turn of a loop takes and gives back is taken once, before the loop, where its size is known.

A loop that does not turn needs none: only a turn that needs it asks whether it is there.
"""

from collections.abc import Iterator
from dataclasses import replace

from plica.backend.native.loops.nest import (
    Allocate,
    Apply,
    Compute,
    Constant,
    For,
    Free,
    Get,
    Index,
    Load,
    Require,
    Statement,
    While,
    blocks_of,
)
from plica.backend.native.loops.support import is_on_stack

_ARITHMETIC = ("index_add", "index_subtract", "index_multiply", "room", "minimum", "maximum")


def hoist_memory(block: list[Statement]) -> list[Statement]:
    """The statements of a block, with the memory of its loops before and behind them."""
    found: list[Statement] = []
    for statement in block:
        for inner in blocks_of(statement):
            inner[:] = hoist_memory(inner)
        if isinstance(statement, For | While):
            before, after = _taken_out(statement)
            found += [*before, statement, *after]
        else:
            found.append(statement)
    return found


def _taken_out(loop: For | While) -> tuple[list[Statement], list[Statement]]:
    """What may stand before a loop, and behind it."""
    body = loop.body
    inside = set(_defined([loop]))
    freed = {one.buffer for one in body if isinstance(one, Free)}
    before: list[Statement] = []
    kept: list[Statement] = []
    for one in body:
        if _is_arithmetic(one) and not any(name in inside for name in _read(one)):
            before.append(one)
            inside.discard(one.result.text)  # type: ignore[union-attr]
        elif isinstance(one, Allocate) and one.buffer in freed and not any(n in inside for n in _names([one.count])):
            before.append(replace(one, may_fail=True))
            if not (is_on_stack(one) or one.may_fail):
                kept.append(Require(one.buffer))
        else:
            kept.append(one)
    moved = {one.buffer for one in before if isinstance(one, Allocate)}
    after: list[Statement] = [one for one in kept if isinstance(one, Free) and one.buffer in moved]
    body[:] = [one for one in kept if one not in after]
    return before, after


def _is_arithmetic(one: Statement) -> bool:
    return isinstance(one, Constant) or (isinstance(one, Compute) and one.name in _ARITHMETIC)


def _read(one: Statement) -> Iterator[str]:
    return _names(one.operands) if isinstance(one, Compute) else iter(())


def _names(values: "tuple[Index, ...] | list[Index]") -> Iterator[str]:
    return (one.text for one in values if not isinstance(one, int))


def _defined(block: list[Statement]) -> Iterator[str]:
    """The names of all values that statements make, those within them too."""
    for one in block:
        if isinstance(one, Constant | Compute | Apply | Load | Get):
            yield one.result.text
        elif isinstance(one, For):
            yield one.index.text
        for inner in blocks_of(one):
            yield from _defined(inner)
