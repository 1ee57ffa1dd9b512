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

from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, Program, Var
from plica.ir.sizes import evaluate
from plica.ir.types import ArrayType
from plica.ops import OPS
from plica.ops.regions import regions_of
from plica.passes.order import copying_reshapes
from plica.passes.ownership import Owned, owned


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a Program's intermediate results; leaves and arguments do not count.

    Args:
        peak: The most that is alive at once, each value freed after its last use.
        total: What all of them take together, which is what automatic differentiation may keep.
        copied: What is written by operations that compute nothing.
        working: The most that is alive at once beside the results.
    """

    peak: int
    total: int
    copied: int
    working: int


def plan_memory(program: Program, rows: int) -> MemoryPlan:
    """The plan for arguments whose symbolic sizes are all `rows`.

    Results of control flow count as memory of their own. A loop is planned as one iteration beside the arrays that the
    iteration before it left, so a loop that grows its arrays has the peak of its last sizes only where these are
    known; `total` and `copied` count each loop once. Updates write over arrays that nobody else reads, which `total`
    counts as arrays of their own: that is what they are where gradients are asked for.
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
        for output in _made(equation):
            owner[output] = output
            size[output] = _bytes(output.type, rows)
            copied += size[output] if memory is Memory.COPY else 0
        if regions := [_plan(region, rows, in_place) for region, _ in regions_of(equation)]:
            inside[equation] = _together(equation, regions, rows)
    total, copied = (
        own + sum(getattr(plan, what) for plan in inside.values())
        for what, own in (("total", sum(size.values()) + overwritten), ("copied", copied))
    )
    results = {owner.get(one) for one in program.outputs}
    beside = {var: 0 if var in results else count for var, count in size.items()}
    return MemoryPlan(_peak(program, owner, size, inside), total, copied, _peak(program, owner, beside, inside))


def _together(equation: Equation, regions: list[MemoryPlan], rows: int) -> MemoryPlan:
    """What control flow holds while it runs beside the values outside: one region at a time, and what is carried."""
    peak, params = max(plan.peak for plan in regions), equation.params
    if "body" in params:  # the results of the iteration before, which are as large as its own
        made = [_bytes(output.type, rows) for output in _made(equation)]
        stacks = made[params["num_carries"] :] if "num_carries" in params else ()
        peak = sum(made) + max(peak, sum(stacks))  # the rows of a stack are alive while it is made of them
    return MemoryPlan(peak, sum(plan.total for plan in regions), sum(plan.copied for plan in regions), peak)


def _made(equation: Equation) -> tuple[Var, ...]:
    """The results that take memory: those of control flow that are sizes are Python numbers."""
    return equation.outputs[equation.params.get("num_implicit_outputs", 0) :]


def _peak(program: Program, owner: dict[Operand, Var], size: dict[Var, int], inside: dict[Equation, MemoryPlan]) -> int:
    dying = list(_dying(program, owner))
    alive = peak = 0
    for equation, dead in zip(program.equations, dying, strict=True):
        if equation in inside:
            peak = max(peak, alive + inside[equation].peak)
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
