"""Which loops of a large nest are worth all that LLVM can do: those that run most often, by the sizes they count to."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from plica.backend.native.loops.nest import (
    Allocate,
    Apply,
    Buffer,
    Cell,
    Compute,
    Constant,
    Copy,
    For,
    Free,
    Get,
    GetPointer,
    If,
    Index,
    Load,
    Nest,
    PointerCell,
    Product,
    Put,
    PutPointer,
    Reserve,
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


Loop = For | While


@dataclass(frozen=True, slots=True)
class Split:
    """The loops of a large nest that become functions of their own.

    Args:
        hot: Those that run most often, for which LLVM does all that it can.
        warm: Those that run less often by one size, for which it does what takes little time. What is left is compiled
            as fast as can be.
    """

    hot: frozenset[Loop]
    warm: frozenset[Loop]


def split(nest: Nest) -> Split | None:
    """The loops that become functions; None where the whole nest is to be optimized as one."""
    if count(nest.body) < _SMALL:
        return None
    degrees = {size.text: 1 for size, _, _ in nest.sizes}
    found = list(_candidates(nest.body, 0, degrees))
    most = max((degree for degree, _ in found), default=0)
    hot = frozenset(one for degree, one in found if degree == most)
    warm = _warm(nest.body, hot, 0, most - 1, degrees) if hot else ()
    return Split(hot, frozenset(warm))


def _warm(
    block: Iterable[Statement], hot: Collection[Loop], degree: int, least: int, degrees: dict[str, int]
) -> Iterator[Loop]:
    """The outermost loops around no hot ones, with lines that run as often as `least` sizes multiplied say."""
    for one in block:
        inside = degree
        if isinstance(one, For | While):
            inside += _degree(one.upper, degrees) if isinstance(one, For) else 1
            if not any(inner in hot for inner in all_of([one])):
                if max((found for found, _ in _leaves([one], degree, degrees)), default=inside) >= least:
                    yield one
                continue
        for inner_block in blocks_of(one):
            yield from _warm(inner_block, hot, inside, least, degrees)


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


def _is_pure(block: Iterable[Statement], more: tuple[type, ...] = ()) -> bool:
    """Whether a block has statements of numbers and entries alone, and `more`."""
    return all(
        isinstance(one, (*_PURE, *more)) and all(_is_pure(inner, more) for inner in blocks_of(one)) for one in block
    )


Place = Buffer | Cell | PointerCell
_NAMED = (Scalar, Buffer, Cell, PointerCell)


def named(block: Iterable[Statement]) -> Counter[Place]:
    """How often buffers and cells are named, but for where memory is taken and given back."""
    statements = (one for one in all_of(block) if not isinstance(one, Allocate | Free))
    return Counter(one for statement in statements for one in parts_of(statement) if not isinstance(one, Scalar))


def used(loop: Loop, everywhere: Counter[Place]) -> tuple[list[Scalar], list[Place], list[Place]]:
    """The values, and the buffers and cells, of outside that a loop uses; and those that nothing but the loop names.

    Args:
        loop: The loop.
        everywhere: How often buffers and cells are named in the whole nest.
    """
    values: dict[str, Scalar] = {}
    made: set[str] = set()
    for statement in all_of([loop]):
        values |= {one.text: one for one in parts_of(statement) if isinstance(one, Scalar)}
        match statement:
            case Constant(result) | Compute(result) | Apply(result) | Load(result) | Get(result) | For(result):
                made.add(result.text)
            case GetPointer(buffer) | Allocate(buffer) | Reserve(buffer):
                made.add(buffer.name)
    inside = named([loop])
    places = [one for one in inside if one.name not in made]
    outside = [one for one in places if inside[one] < everywhere[one]]
    own = [one for one in places if inside[one] == everywhere[one]]
    return [value for name, value in values.items() if name not in made], outside, own


def parts_of(statement: Statement) -> Iterator[Scalar | Place]:
    """The values, buffers and cells of a statement, those in blocks within it left out."""
    for name in statement.__match_args__:
        part = getattr(statement, name)
        for one in part if isinstance(part, tuple) else (part,):
            if isinstance(one, _NAMED):
                yield one


def may_end(loop: Loop) -> bool:
    """Whether a run may end within a loop, or it asks for memory."""
    return not _is_pure([loop], (While, GetPointer, PutPointer, Copy, Product))
