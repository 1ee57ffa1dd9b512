"""Chooses the loops of a large nest that LLVM optimizes fully: those with the most work, by their trip counts."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import mul

from plica.backend.native.loops.nest import (
    LIGHT,
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
_SMALL, _LARGE = 100, 80  # statements of a nest that is optimized as a whole, and of a loop that is not divided
_LONG = 1000  # statements of a nest whose loops become functions of a library
_ITERATIONS = 64  # the estimate for a loop whose trip count is not known
_HEAVY = 40  # instructions of an elementwise operation that is no single instruction
_RARE = 64  # a loop with so many times less work than another one is optimized less
_FEW, _SHORT = 7, 200  # iterations, and statements of them all, of a loop that is unrolled
_COPIES = 5  # a statement of a loop within unrolled code counts as so many statements


def is_straight(loop: For) -> bool:
    """Whether a loop is unrolled: its trip count is known and small, and it has few statements."""
    trip_count = known_trip_count(loop)
    return trip_count is not None and trip_count <= _FEW and _weight(loop.body) * trip_count <= _SHORT


def known_trip_count(loop: For) -> int | None:
    """How many iterations a loop has; None where that is not known."""
    is_known = isinstance(loop.lower, int) and isinstance(loop.upper, int)
    return max(0, loop.upper - loop.lower) if is_known else None  # type: ignore[operator]


def _weight(block: Iterable[Statement]) -> int:
    """About how many statements the printed text of a block has."""
    return sum(1 + _copies(statement) * sum(map(_weight, blocks_of(statement))) for statement in block)


def _copies(statement: Statement) -> int:
    """How often the blocks of a statement are printed; a loop that is not unrolled counts as several times."""
    if not isinstance(statement, For):
        return 1
    trip_count = known_trip_count(statement)
    return _COPIES if trip_count is None else min(trip_count, _COPIES)


def count(block: Iterable[Statement]) -> int:
    """How many statements a block has, including those in nested blocks."""
    return sum(1 + sum(map(count, blocks_of(statement))) for statement in block)


Loop = For | While


@dataclass(frozen=True, slots=True)
class Split:
    """The loops of a large nest that become functions of their own.

    Args:
        hot: Those with the most work, which LLVM optimizes fully.
        warm: Those with less, for which it runs few passes. It compiles all other code without optimization.
    """

    hot: frozenset[Loop]
    warm: frozenset[Loop]


def split(nest: Nest) -> Split | None:
    """The loops that become functions; None if the whole nest is to be optimized as one."""
    if count(nest.body) < _SMALL:
        return None
    sizes = {size.text: float(_ITERATIONS) for size, _, _ in nest.sizes}
    loops = list(_candidates(nest.body, 1.0, sizes))
    largest = max((work for work, _ in loops), default=0.0)
    hot = frozenset(loop for work, loop in loops if work * _RARE >= largest)
    warm = _warm(nest.body, hot, 1.0, largest / _RARE**2, sizes) if hot else ()
    return Split(hot, frozenset(warm))


def loops_apart(nest: Nest) -> Split | None:
    """The outermost loops of a long nest, each of which is optimized alone; None if the nest is optimized as one.

    LLVM's passes on the loops of one function take far more than twice as long for twice as many loops. Inner loops
    stay where they are, since what they add up is in registers of the loops around them.
    """
    return Split(frozenset(_outermost(nest.body)), frozenset()) if count(nest.body) >= _LONG else None


def _outermost(block: Iterable[Statement]) -> Iterator[Loop]:
    """The loops of a block that are in no other one and are not unrolled."""
    for statement in block:
        if isinstance(statement, While) or (isinstance(statement, For) and not is_straight(statement)):
            yield statement
            continue
        for inner_block in blocks_of(statement):
            yield from _outermost(inner_block)


def _candidates(block: Iterable[Statement], times: float, sizes: dict[str, float]) -> Iterator[tuple[float, For]]:
    """The outermost loops that only compute, load and store, and the work of each.

    Args:
        block: The statements in which they are.
        times: How often these run.
        sizes: Estimates of indices, by name; those that the block computes are added.
    """
    for statement in block:
        if isinstance(statement, Compute):
            _estimate(statement, sizes)
        if isinstance(statement, For) and count([statement]) <= _LARGE and _is_pure([statement]):
            yield times * _work([statement], sizes), statement
            continue
        for inner_block in blocks_of(statement):
            yield from _candidates(inner_block, times * _trip_count(statement, sizes), sizes)


def _warm(
    block: Iterable[Statement], hot: Collection[Loop], times: float, least_work: float, sizes: dict[str, float]
) -> Iterator[Loop]:
    """The outermost loops that contain no hot loop and have at least `least_work`."""
    for statement in block:
        if statement in hot:
            continue
        if isinstance(statement, For | While) and not any(inner in hot for inner in all_of([statement])):
            if times * _work([statement], sizes) >= least_work:
                yield statement
            continue
        for inner_block in blocks_of(statement):
            yield from _warm(inner_block, hot, times * _trip_count(statement, sizes), least_work, sizes)


def _work(block: Iterable[Statement], sizes: dict[str, float]) -> float:
    """About how many instructions a block takes."""
    total = 0.0
    for statement in block:
        if isinstance(statement, Compute):
            _estimate(statement, sizes)
        total += _HEAVY if isinstance(statement, Apply) and statement.op not in LIGHT else 1
        total += _trip_count(statement, sizes) * sum(_work(inner, sizes) for inner in blocks_of(statement))
    return total


def _trip_count(statement: Statement, sizes: Mapping[str, float]) -> float:
    """How often the blocks of a statement run."""
    match statement:
        case For():
            upper = statement.upper
            return float(upper) if isinstance(upper, int) else sizes.get(upper.text, _ITERATIONS)
        case While():
            return _ITERATIONS
        case If():
            return statement.share
        case _:
            return 1.0


def _estimate(statement: Compute, sizes: dict[str, float]) -> None:
    """Add the estimate of an index that is computed from two others."""
    if statement.name in _ESTIMATES:
        first, second = (
            abs(float(value)) if isinstance(value, int) else sizes.get(value.text, _ITERATIONS)
            for value in statement.operands
        )
        sizes[statement.result.text] = _ESTIMATES[statement.name](first, second)


_ESTIMATES: Mapping[str, Callable[[float, float], float]] = {
    "index_multiply": mul,
    "room": mul,
    "index_add": max,
    "index_subtract": lambda size, _: size,
    "maximum": max,
    "minimum": min,
    "shift_right": lambda size, bits: size / 2 ** min(bits, _ITERATIONS),
}


def _is_pure(block: Iterable[Statement], more: tuple[type, ...] = ()) -> bool:
    """Whether all statements of a block are computations, loads, stores, or of the types `more`."""
    return all(
        isinstance(statement, (*_PURE, *more)) and all(_is_pure(inner, more) for inner in blocks_of(statement))
        for statement in block
    )


Storage = Buffer | Cell | PointerCell
"""Memory that statements read and write."""
_NAMED = (Scalar, Buffer, Cell, PointerCell)


def named(block: Iterable[Statement]) -> Counter[Storage]:
    """How often statements mention buffers and cells, except in allocations and frees."""
    statements = (statement for statement in all_of(block) if not isinstance(statement, Allocate | Free))
    return Counter(part for statement in statements for part in parts_of(statement) if not isinstance(part, Scalar))


def used(loop: Loop, everywhere: Counter[Storage]) -> tuple[list[Scalar], list[Storage], list[Storage]]:
    """The values, and the buffers and cells, from outside that a loop uses; and those that only the loop uses.

    Args:
        loop: The loop.
        everywhere: How often the whole nest mentions buffers and cells.
    """
    values: dict[str, Scalar] = {}
    written: set[str] = set()
    for statement in all_of([loop]):
        values |= {part.text: part for part in parts_of(statement) if isinstance(part, Scalar)}
        match statement:
            case Constant(result) | Compute(result) | Apply(result) | Load(result) | Get(result) | For(result):
                written.add(result.text)
            case GetPointer(buffer) | Allocate(buffer) | Reserve(buffer):
                written.add(buffer.name)
    inside = named([loop])
    outer = [storage for storage in inside if storage.name not in written]
    outside = [storage for storage in outer if inside[storage] < everywhere[storage]]
    private = [storage for storage in outer if inside[storage] == everywhere[storage]]
    return [value for name, value in values.items() if name not in written], outside, private


def parts_of(statement: Statement) -> Iterator[Scalar | Storage]:
    """The values, buffers and cells of a statement, without those in nested blocks."""
    for name in statement.__match_args__:
        part = getattr(statement, name)
        for value in part if isinstance(part, tuple) else (part,):
            if isinstance(value, _NAMED):
                yield value


def may_end(loop: Loop) -> bool:
    """Whether a loop may end the run, or allocates memory."""
    return not _is_pure([loop], (While, GetPointer, PutPointer, Copy, Product))
