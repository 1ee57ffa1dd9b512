"""Which loops of a large nest are worth all that LLVM can do: those that run most often, by the sizes they count to."""

from collections.abc import Iterable, Iterator, Mapping

from plica.backend.native.loops.nest import (
    Apply,
    Buffer,
    Cell,
    Compute,
    Constant,
    For,
    Get,
    If,
    Index,
    Load,
    Nest,
    Put,
    Statement,
    Store,
    While,
    all_of,
    blocks_of,
)
from plica.backend.native.scalars.builder import Scalar

_PURE = (Constant, Compute, Apply, Load, Store, Get, Put, For, If)
_SMALL, _LARGE = 100, 40  # statements of a function that is optimized as a whole, and of a loop that is taken as one
_MANY = 16  # turns that count as a size


def count(block: Iterable[Statement]) -> int:
    """How many statements a block has, those within them too."""
    return sum(1 + sum(map(count, blocks_of(one))) for one in block)


def hot_loops(nest: Nest) -> frozenset[For] | None:
    """The loops that become functions of their own, which are optimized; None where the whole nest is to be."""
    if count(nest.body) < _SMALL:
        return None
    degrees = {size.text: 1 for size, _, _ in nest.sizes}
    found = list(_candidates(nest.body, 0, degrees))
    most = max((degree for degree, _ in found), default=0)
    return frozenset(one for degree, one in found if degree == most)


def _degree(value: Index, degrees: Mapping[str, int]) -> int:
    return int(value > _MANY) if isinstance(value, int) else degrees.get(value.text, 1)


def _note(one: Compute, degrees: dict[str, int]) -> None:
    """How many sizes are multiplied in an index."""
    own = [_degree(value, degrees) for value in one.operands]
    if one.name in ("index_multiply", "room"):
        degrees[one.result.text] = sum(own)
    elif one.name in ("index_add", "index_subtract"):
        degrees[one.result.text] = max(own)


def _candidates(block: Iterable[Statement], degree: int, degrees: dict[str, int]) -> Iterator[tuple[int, For]]:
    for one in block:
        if isinstance(one, Compute):
            _note(one, degrees)
        inside = degree
        if isinstance(one, For):
            inside += _degree(one.upper, degrees)
            if count([one]) <= _LARGE and _is_pure([one]):
                inner = [found for found, _ in _leaves([one], degree, degrees)]
                if inner:
                    yield max(inner), one
                continue
        elif isinstance(one, While):
            inside += 1
        for inner_block in blocks_of(one):
            yield from _candidates(inner_block, inside, degrees)


def _leaves(block: Iterable[Statement], degree: int, degrees: dict[str, int]) -> Iterator[tuple[int, For]]:
    """Innermost loops of many turns, and by how many sizes they are run."""
    for one in block:
        if isinstance(one, Compute):
            _note(one, degrees)
        inside = degree
        if isinstance(one, For):
            inside += _degree(one.upper, degrees)
            if not any(isinstance(each, For) for each in one.body) and _degree(one.upper, degrees):
                yield inside, one
        for inner in blocks_of(one):
            yield from _leaves(inner, inside, degrees)


def _is_pure(block: Iterable[Statement]) -> bool:
    """Whether nothing in a block asks for memory or ends the run, whose functions the other module has."""
    return all(
        isinstance(one, _PURE)
        and not (isinstance(one, Compute) and one.name == "room")
        and all(map(_is_pure, blocks_of(one)))
        for one in block
    )


def used(loop: For) -> tuple[list[Scalar], list[Buffer], list[Cell]]:
    """The values, buffers and cells of outside that a loop uses."""
    values: dict[str, Scalar] = {}
    buffers: dict[Buffer, None] = {}
    cells: dict[Cell, None] = {}
    made: set[str] = set()
    for one in all_of([loop]):
        read: tuple[Index, ...] = ()
        match one:
            case Compute(_, _, operands) | Apply(_, _, operands, _):
                read = operands
            case Load(_, buffer, offset):
                read, buffers[buffer] = (offset,), None
            case Store(buffer, offset, value):
                read, buffers[buffer] = (offset, value), None
            case Get(_, cell):
                cells[cell] = None
            case Put(cell, value):
                read, cells[cell] = (value,), None
            case For(index, lower, upper):
                read = (lower, upper)
                made.add(index.text)
            case If(condition):
                read = (condition,)
        values |= {value.text: value for value in read if isinstance(value, Scalar)}
        if isinstance(one, Constant | Compute | Apply | Load | Get):
            made.add(one.result.text)
    return [value for name, value in values.items() if name not in made], list(buffers), list(cells)
