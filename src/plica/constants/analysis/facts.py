"""Facts of constant values, known before they are computed: their bits, their work, and why one may not be kept.

splat    ::= one number, repeated: `full`, and views and elementwise operations of splats alone
expanded ::= the entries of a smaller constant, repeated: `broadcast_to`, and views of it
widened  ::= the numbers of a narrower constant: a cast to a wider dtype, and views and elementwise operations of it
             in that dtype
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

from plica.constants.policy import FoldPolicy
from plica.ir.op import Memory, View
from plica.ir.program import Equation, Operand, Var, nested
from plica.ir.sizes import SIZE_ARITHMETIC, Size, atoms, evaluate, single_atom
from plica.ir.types import SCALAR_SIZE, ArrayType, ShapedArray
from plica.ops import ELEMENTWISE, LINALG, OPS

UNKNOWN = 64
"""A size that is not known before the run counts as this many where work is estimated; memory is never estimated."""

_ENTRYWISE = frozenset(row.name for row in ELEMENTWISE)
_CONTRACTIONS = frozenset(row.name for row in LINALG)
Sizes = Mapping[Any, int]


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts of a constant value.

    Args:
        bits: How many bits it has; None where a size is not known.
        is_splat: Whether all its entries are one number, and there are several.
        is_expanded: Whether its entries are those of a smaller constant, repeated.
        narrow: The bits of an entry of the constant whose numbers it holds: 8 for a cast of int8 to float32.
        obstacle: Why it may not be kept between calls; empty where it may.
    """

    bits: int | None
    is_splat: bool
    is_expanded: bool
    narrow: int
    obstacle: str = ""

    @property
    def is_repeated(self) -> bool:
        """Whether it repeats numbers, so that fewer are enough to make it."""
        return self.is_splat or self.is_expanded


def facts_of(
    sources: Iterable[Var], equations: Sequence[Equation], sizes: Sizes, policy: FoldPolicy
) -> dict[Operand, Fact]:
    """The facts of constant sources and of the results of constant equations.

    Args:
        sources: Consts, arguments and sizes that are constant.
        equations: The equations that may be folded, in order.
        sizes: The sizes that are known.
        policy: The limits of the values that are kept.
    """
    facts: dict[Operand, Fact] = {
        var: Fact(bits_of(var.type, sizes), is_splat=False, is_expanded=False, narrow=_entry_bits(var.type))
        for var in sources
    }
    for equation in equations:
        for var in equation.outputs:
            facts[var] = _fact(equation, var, facts, sizes, policy)
    return facts


def bits_of(type_: ArrayType, sizes: Sizes) -> int | None:
    """How many bits arrays of a type have; None where a size is not known."""
    count = elements_of(type_, sizes)
    return None if count is None else count * _entry_bits(type_)


def bytes_of(type_: ArrayType, sizes: Sizes) -> int | None:
    """How many bytes arrays of a type have, rounded up; None where a size is not known."""
    bits = bits_of(type_, sizes)
    return None if bits is None else -(-bits // 8)


def elements_of(type_: ArrayType, sizes: Sizes) -> int | None:
    """How many entries arrays of a type have; None where a size is not known."""
    if isinstance(type_, ShapedArray):
        return prod(type_.shape)
    if any(atom not in sizes for dim in type_.shape for atom in atoms(dim)):
        return None
    return prod(evaluate(dim, sizes.__getitem__) for dim in type_.shape)


def work_of(equation: Equation, sizes: Sizes) -> int:
    """An estimate of an equation's work: entries read and written, and multiplications of contractions; 1 for a view.

    A contraction of A and B to C multiplies sqrt(|A| |B| |C|) times if no axis is in all three. Nested Programs count
    once, or as often as a `for_loop` between numbers or a scan of a known length runs them.
    """
    if OPS[equation.op.name].memory is Memory.VIEW:
        return 1
    read = [estimated(operand.type, sizes) for operand in equation.inputs]
    written = [estimated(operand.type, sizes) for operand in equation.outputs]
    work = sum(read) + sum(written)
    if equation.op.name in _CONTRACTIONS and len(read) > 1:
        work += isqrt(prod((*read[:2], *written[:1])))
    inner = sum(work_of(step, sizes) for program in nested(equation.params) for step in program.equations)
    return max(1, work + inner * _num_iterations(equation, sizes))


def _num_iterations(equation: Equation, sizes: Sizes) -> int:
    """How often an equation runs its nested Programs; 1 where that is not known."""
    length = equation.params.get("length", 1)
    return evaluate(length, lambda atom: sizes.get(atom, UNKNOWN)) if isinstance(length, int | Size) else 1


def estimated(type_: ArrayType, sizes: Sizes) -> int:
    """How many entries arrays of a type have, counting `UNKNOWN` for each size that is not known."""
    if isinstance(type_, ShapedArray):
        return prod(type_.shape)
    return prod(evaluate(dim, lambda atom: sizes.get(atom, UNKNOWN)) for dim in type_.shape)


def _entry_bits(type_: ArrayType) -> int:
    return type_.dtype.bits


def _fact(equation: Equation, var: Var, facts: Mapping[Operand, Fact], sizes: Sizes, policy: FoldPolicy) -> Fact:
    bits, entry_bits = bits_of(var.type, sizes), _entry_bits(var.type)
    is_splat = _is_splat(equation, var, facts)
    is_expanded = _is_expanded(equation, var, facts)
    narrow = _narrow(equation, var, facts)
    obstacle = ""
    if is_size_arithmetic(equation):
        obstacle = "arithmetic on sizes, to which types refer: computed again at each use"
    elif is_splat:
        obstacle = "a splat: one number, repeated at each use"
    elif is_expanded:
        obstacle = "expanded: a smaller constant has the same entries"
    elif narrow < entry_bits and not policy.widen:
        obstacle = f"widened: a constant of {narrow} bits for each entry holds the same numbers"
    elif bits is None and policy.max_growth is not None:
        obstacle = "its size is not known before the run, and the policy limits the growth"
    elif any(not isinstance(dim, int) and not isinstance(single_atom(dim), Var) for dim in var.type.shape):
        obstacle = "one of its sizes could not be read off it"
    return Fact(bits, is_splat, is_expanded, narrow, obstacle)


def is_size_arithmetic(equation: Equation) -> bool:
    """Whether types may name a result, as a polynomial of sizes."""
    return equation.op.name in SIZE_ARITHMETIC and all(var.type == SCALAR_SIZE for var in equation.outputs)


def _is_single(type_: ArrayType) -> bool:
    return all(dim == 1 for dim in type_.shape)


def _is_splat(equation: Equation, var: Var, facts: Mapping[Operand, Fact]) -> bool:
    row = OPS[equation.op.name]
    if row.name in _ENTRYWISE:
        read = equation.inputs
    else:
        read = equation.inputs[:1] if row.view in (View.MOVED, View.SELECTED) else ()
    return (
        not _is_single(var.type)
        and bool(read)
        and all(_is_single(operand.type) or (operand in facts and facts[operand].is_splat) for operand in read)
    )


def _is_expanded(equation: Equation, var: Var, facts: Mapping[Operand, Fact]) -> bool:
    if OPS[equation.op.name].view is not View.MOVED or len(equation.inputs) != 1:
        return False
    (operand,) = equation.inputs
    if operand in facts and facts[operand].is_expanded:
        return True
    shapes = [dim for dim in operand.type.shape if dim != 1], [dim for dim in var.type.shape if dim != 1]
    return equation.op.name == "broadcast_to" and shapes[0] != shapes[1]


def _narrow(equation: Equation, var: Var, facts: Mapping[Operand, Fact]) -> int:
    """The bits of an entry of the constant whose numbers a result holds: the most among operands as large as it.

    Expanded operands do not count. For example, scales that are repeated for a block of weights make these no wider.
    """
    row, entry_bits = OPS[equation.op.name], _entry_bits(var.type)
    if row.name in _ENTRYWISE:
        large = (operand for operand in equation.inputs if operand.type.shape == var.type.shape)
        read: Sequence[Operand] = [
            operand for operand in large if operand not in facts or not facts[operand].is_repeated
        ]
    else:
        read = equation.inputs[row.view.operands]
    if _is_single(var.type) or not read:
        return entry_bits
    return min(entry_bits, max(facts[operand].narrow if operand in facts else entry_bits for operand in read))
