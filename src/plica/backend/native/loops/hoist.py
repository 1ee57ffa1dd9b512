"""Hoists allocations out of loops: memory that each iteration allocates and frees is allocated once before the loop.

This needs a size that is known before the loop. A hoisted allocation may fail; the iteration that needs it checks,
since a loop without iterations needs no memory.
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
    """The statements of a block, with allocations hoisted out of its loops."""
    statements: list[Statement] = []
    for statement in block:
        for inner in blocks_of(statement):
            inner[:] = hoist_memory(inner)
        if isinstance(statement, For | While):
            before, after = _hoisted(statement)
            statements += [*before, statement, *after]
        else:
            statements.append(statement)
    return statements


def _hoisted(loop: For | While) -> tuple[list[Statement], list[Statement]]:
    """Remove the statements of a loop that may stand before and after it, and return both."""
    body = loop.body
    inside = set(_defined([loop]))
    freed = {statement.buffer for statement in body if isinstance(statement, Free)}
    before: list[Statement] = []
    remaining: list[Statement] = []
    for line in body:
        if _is_arithmetic(line) and not any(name in inside for name in _read(line)):
            before.append(line)
            inside.discard(line.result.text)  # type: ignore[union-attr]
        elif isinstance(line, Allocate) and line.buffer in freed and not any(n in inside for n in _names([line.count])):
            before.append(replace(line, may_fail=True))
            if not (is_on_stack(line) or line.may_fail):
                remaining.append(Require(line.buffer))
        else:
            remaining.append(line)
    hoisted = {statement.buffer for statement in before if isinstance(statement, Allocate)}
    after: list[Statement] = [
        statement for statement in remaining if isinstance(statement, Free) and statement.buffer in hoisted
    ]
    body[:] = [statement for statement in remaining if statement not in after]
    return before, after


def _is_arithmetic(statement: Statement) -> bool:
    return isinstance(statement, Constant) or (isinstance(statement, Compute) and statement.name in _ARITHMETIC)


def _read(statement: Statement) -> Iterator[str]:
    return _names(statement.operands) if isinstance(statement, Compute) else iter(())


def _names(values: "tuple[Index, ...] | list[Index]") -> Iterator[str]:
    return (value.text for value in values if not isinstance(value, int))


def _defined(block: list[Statement]) -> Iterator[str]:
    """The names of all values that statements define, including those in nested blocks."""
    for statement in block:
        if isinstance(statement, Constant | Compute | Apply | Load | Get):
            yield statement.result.text
        elif isinstance(statement, For):
            yield statement.index.text
        for inner in blocks_of(statement):
            yield from _defined(inner)
