"""The memory plan of a Program: how many bytes are alive at once, if every value is freed after its last use.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> plan = plan_memory(trace(lambda x: (x + 1) * 2 + 3, spec(("n", 4))), 8)
>>> plan.peak, plan.total
(256, 384)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, Program, Var
from plica.ir.sizes import evaluate
from plica.ir.types import ArrayType
from plica.ops import OPS
from plica.ops.regions import regions_of
from plica.passes.ownership import Owned, owned
from plica.passes.reshapes import copying_reshapes


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a Program's intermediate results; leaves and arguments do not count.

    Args:
        peak: The most that is alive at once, each value freed after its last use.
        total: All of them together; automatic differentiation may keep as much.
        copied: The bytes that are copied, by operations that compute nothing.
        working: The most that is alive at once besides the results of the Program.
    """

    peak: int
    total: int
    copied: int
    working: int


def plan_memory(program: Program, rows: int) -> MemoryPlan:
    """The plan for arguments whose symbolic sizes are all `rows`.

    Results of control flow count as memory of their own. A loop is planned as one iteration, with the arrays of the
    iteration before. So a loop that grows its arrays has the peak of its last sizes only where these are known.
    `total` and `copied` count each loop once. Updates write over arrays that nothing else reads. `total` counts their
    results as new arrays, which they are where gradients are wanted.
    """
    return _plan(program, rows, owned(program))


def _plan(program: Program, rows: int, in_place: Owned) -> MemoryPlan:
    owner: dict[Operand, Var] = {}
    size: dict[Var, int] = {}
    overwritten = 0
    inside: dict[Equation, MemoryPlan] = {}
    copied = 0
    copying = copying_reshapes(program)
    for equation in program.equations:
        memory = Memory.COPY if equation in copying else OPS[equation.op.name].memory
        if memory is Memory.VIEW or equation in in_place.written:
            source = equation.inputs[0]
            overwritten += _bytes(equation.outputs[0].type, rows) if memory is not Memory.VIEW else 0
            owner.update((output, owner[source]) for output in equation.outputs if source in owner)
            continue
        for output in _in_memory(equation):
            owner[output] = output
            size[output] = _bytes(output.type, rows)
            copied += size[output] if memory is Memory.COPY else 0
        if regions := [_plan(region, rows, in_place) for region, _ in regions_of(equation)]:
            inside[equation] = _of_control_flow(equation, regions, rows)
    total, copied = (
        bytes_here + sum(getattr(plan, name) for plan in inside.values())
        for name, bytes_here in (("total", sum(size.values()) + overwritten), ("copied", copied))
    )
    results = {owner.get(result) for result in program.outputs}
    others = {var: 0 if var in results else count for var, count in size.items()}
    return MemoryPlan(_peak(program, owner, size, inside), total, copied, _peak(program, owner, others, inside))


def _of_control_flow(equation: Equation, regions: list[MemoryPlan], rows: int) -> MemoryPlan:
    """The memory of control flow while it runs, besides the values outside: one region at a time, and carries."""
    peak, params = max(plan.peak for plan in regions), equation.params
    if "body" in params:  # the results of the iteration before, which are as large as its own
        sizes = [_bytes(output.type, rows) for output in _in_memory(equation)]
        stacks = sizes[params["num_carries"] :] if "num_carries" in params else ()
        peak = sum(sizes) + max(peak, sum(stacks))  # the rows of a stack are alive while they are joined
    return MemoryPlan(peak, sum(plan.total for plan in regions), sum(plan.copied for plan in regions), peak)


def _in_memory(equation: Equation) -> tuple[Var, ...]:
    """The results that take memory: those of control flow that are sizes are Python numbers."""
    return equation.outputs[equation.params.get("num_implicit_outputs", 0) :]


def _peak(program: Program, owner: dict[Operand, Var], size: dict[Var, int], inside: dict[Equation, MemoryPlan]) -> int:
    unread_after = list(_unread_after(program, owner))
    alive = peak = 0
    for equation, dead in zip(program.equations, unread_after, strict=True):
        if equation in inside:
            peak = max(peak, alive + inside[equation].peak)
        alive += sum(size.get(output, 0) for output in equation.outputs)
        peak = max(peak, alive)
        alive -= sum(size.get(var, 0) for var in dead)
    return peak


def _unread_after(program: Program, owner: dict[Operand, Var]) -> Iterator[list[Var]]:
    """For each equation, the arrays that nothing after it reads, through a view or not."""
    last: dict[Var, int] = {}
    for index, equation in enumerate(program.equations):
        for operand in (*equation.inputs, *equation.outputs):
            if operand in owner:
                last[owner[operand]] = index
    for result in program.outputs:
        if result in owner:
            last.pop(owner[result], None)
    last_reads: dict[int, list[Var]] = {}
    for var, index in last.items():
        last_reads.setdefault(index, []).append(var)
    return (last_reads.get(index, []) for index in range(len(program.equations)))


def _bytes(type_: ArrayType, rows: int) -> int:
    return prod(evaluate(dim, lambda _: rows) for dim in type_.shape) * type_.dtype.numpy.itemsize
