"""Products of arrays: by loops, or by products of matrices if they are large."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import If, Index
from plica.backend.native.loops.rows.batches import Batches, batches_of
from plica.backend.native.loops.rows.contraction import Contraction, Factor, factors_of
from plica.backend.native.loops.support import PRODUCTS
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.ir.program import Equation

PRODUCT_FROM = 24**3
"""Products of fewer multiplications are loops: a call of BLAS, or code for blocks, costs about as much."""
PACKED_FROM, PACKED_SIDE = 96**3, 32
"""Without BLAS, products of fewer multiplications, rows or columns are loops over blocks: packing costs more."""
_SMALL = 1 / 4
"""The share of the multiplications of products of unknown sizes that loops compute, as an estimate."""
_BATCH = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An Einstein sum."""
    left, _, result = equation.params["equation"].replace(" ", "").partition("->")
    return _contracted(block, equation, operands, left.split(","), result)


def matmul(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A product of matrices, or vectors, in batches."""
    terms, ranks = [], [len(operand.type.shape) for operand in equation.inputs]
    batches = [max(rank - 2, 0) for rank in ranks]
    letters = _BATCH[: max(batches)]
    for rank, rank_of_batch, matrix in zip(ranks, batches, ("ik", "kj"), strict=True):
        terms.append(letters[len(letters) - rank_of_batch :] + (matrix if rank > 1 else "k"))
    result = letters + ("i" if ranks[0] > 1 else "") + ("j" if ranks[1] > 1 else "")
    return _contracted(block, equation, operands, terms, result)


def _contracted(block: Block, equation: Equation, operands: list[Value], terms: Sequence[str], result: str) -> Value:
    """The sum over all letters that the result lacks of the products of entries."""
    var = equation.outputs[0]
    arrays = [as_array(block, operand) for operand in operands]
    factors, sizes = factors_of(block, arrays, [operand.type.shape for operand in equation.inputs], terms)
    if not result:
        return Contraction(block, factors, sizes, result, var.type.dtype).total({})
    target = block.new(var, block.dims(var.type))
    contract(block, factors, sizes, result, target)
    return target


def as_array(block: Block, value: Value) -> Array:
    """An operand as an array whose entries are cheap to read."""
    if isinstance(value, Array):
        return value if value.is_cheap else block.in_memory(value)
    number = block.scalar(value)
    return Array((), number.dtype, lambda _: number, {})


def contract(block: Block, factors: Sequence[Factor], sizes: Mapping[str, Index], result: str, target: Array) -> None:
    """Write a sum of products: by loops, or by products of matrices if these are large.

    Args:
        block: Where it is written.
        factors: Arrays with distinct letters.
        sizes: The size of each letter.
        result: The letters of the result, one or more; the others are summed over.
        target: The memory of the result.
    """
    writer, dtype = block.writer, target.dtype
    letters = dict.fromkeys(letter for _, term in factors for letter in term)
    is_small = _is_below(writer, [(writer.product([sizes[letter] for letter in letters]), PRODUCT_FROM)]) is True
    batches = None if is_small or dtype not in PRODUCTS else batches_of(factors, result)
    in_blocks = not is_small and not block.has_blas
    if batches is None:
        Contraction(block, factors, sizes, result, dtype).loops(target, in_blocks=in_blocks)
        return
    rows, columns, steps = (
        writer.product([sizes[letter] for letter in letters])
        for letters in (batches.rows, batches.columns, batches.steps)
    )
    count = writer.product([rows, columns, steps])
    limits = [(count, PRODUCT_FROM)]
    if not block.has_blas:
        limits = [(count, PACKED_FROM), (rows, PACKED_SIDE), (columns, PACKED_SIDE)]
    is_below = _is_below(writer, limits)
    if is_below is True:
        Contraction(block, factors, sizes, result, dtype).loops(target, in_blocks=in_blocks)
        return
    with block.scratch():
        batches = _without_own_letters(block, batches, sizes, target)
        if is_below is False:
            batches.put(block, sizes, result, target)
            return
        with writer.into([]) as small, block.scratch():
            Contraction(block, [*batches.left, batches.right], sizes, result, dtype).loops(target, in_blocks=in_blocks)
        with writer.into([]) as large:
            batches.put(block, sizes, result, target)
        writer.put(If(is_below, small, large, _SMALL))


def _is_below(writer: Writer, limits: Sequence[tuple[Index, int]]) -> Scalar | bool:
    """Whether a number lies below its limit: known, or a value."""
    known = [number < least for number, least in limits if isinstance(number, int)]
    others = [writer.compare("less", number, least) for number, least in limits if not isinstance(number, int)]
    if any(known) or not others:
        return any(known)
    below = others[0]
    for other in others[1:]:
        below = writer.compute("or", below, other)
    return below


def _without_own_letters(block: Block, batches: Batches, sizes: Mapping[str, Index], like: Array) -> Batches:
    """The products, after sums over letters that only one matrix has and the result lacks."""
    kept = batches.batch + batches.rows + batches.columns + batches.steps

    def summed(factors: Sequence[Factor]) -> Sequence[Factor]:
        letters = dict.fromkeys(letter for _, term in factors for letter in term)
        rest = "".join(letter for letter in letters if letter in kept)
        if len(rest) == len(letters):
            return factors
        target = block.temporary(like.dtype, [sizes[letter] for letter in rest])
        contract(block, factors, sizes, rest, target)
        return [(target, rest)]

    (right,) = summed([batches.right])
    return replace(batches, left=summed(batches.left), right=right)


LINALG: dict[str, Row] = {"matmul": matmul, "einsum": einsum}
