"""The memory plan of a Program: what is alive when, if every value is freed after its last use.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> plan = plan_memory(trace(lambda x: (x + 1) * 2 + 3, spec(("n", 4))), 8)
>>> plan.peak, plan.total
(256, 384)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from plica.ir.program import Operand, Program, Var
from plica.ir.sizes import evaluate
from plica.ir.types import ArrayType

VIEWS = frozenset(
    {"slice", "index", "permute_dims", "expand_dims", "squeeze", "broadcast_to", "reshape", "stop_gradient"}
)
"""Operations whose result shares the memory of their operand."""

COPIES = frozenset({"concat", "gather", "take", "stack"})
"""Operations that compute nothing and copy."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a Program's intermediate results; leaves and arguments do not count.

    Args:
        peak: The most that is alive at once, each value freed after its last use.
        total: What all of them take together, which is what automatic differentiation may keep.
        copied: What is written by operations that compute nothing.
    """

    peak: int
    total: int
    copied: int


def plan_memory(program: Program, rows: int) -> MemoryPlan:
    """The plan for arguments whose symbolic sizes are all `rows`."""
    owner: dict[Operand, Var] = {}
    size: dict[Var, int] = {}
    copied = 0
    for equation in program.equations:
        for output in equation.outputs:
            source = equation.inputs[0] if equation.op.name in VIEWS else output
            owner[output] = owner.get(source, output)
            if owner[output] is output and source is output:
                size[output] = _bytes(output.type, rows)
                copied += size[output] if equation.op.name in COPIES else 0
    return MemoryPlan(_peak(program, owner, size), sum(size.values()), copied)


def _peak(program: Program, owner: dict[Operand, Var], size: dict[Var, int]) -> int:
    dying = list(_dying(program, owner))
    alive = peak = 0
    for equation, dead in zip(program.equations, dying, strict=True):
        alive += sum(size.get(output, 0) for output in equation.outputs)
        peak = max(peak, alive)
        alive -= sum(size.get(one, 0) for one in dead)
    return peak


def _dying(program: Program, owner: dict[Operand, Var]) -> Iterator[list[Var]]:
    """For each equation, the arrays that nothing after it reads, through a view or not."""
    last: dict[Var, int] = {}
    for index, equation in enumerate(program.equations):
        for operand in (*equation.inputs, *equation.outputs):
            if operand in owner:
                last[owner[operand]] = index
    for result in program.outputs:
        if result in owner:
            last.pop(owner[result], None)
    ends: dict[int, list[Var]] = {}
    for var, index in last.items():
        ends.setdefault(index, []).append(var)
    return (ends.get(index, []) for index in range(len(program.equations)))


def _bytes(type_: ArrayType, rows: int) -> int:
    return prod(evaluate(dim, lambda _: rows) for dim in type_.shape) * type_.dtype.numpy.itemsize
