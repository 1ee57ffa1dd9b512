"""Reads of parts: `x[i]`, and then `[j]` of what only that reads, are written as one subscript."""

from collections.abc import Iterator, Sequence

from plica.backend.torch.operations.subscripts import parts_read, sizes_compared
from plica.backend.torch.operations.unsigned import UNSIGNED
from plica.backend.torch.plan import Plan
from plica.ir.program import Equation, Operand, Var, size_variables

Chain = tuple[Equation, ...]
_PARTS = ("index", "slice", "squeeze")


def sizes_read(equation: Equation) -> Iterator[Var]:
    """The variables of sizes that the text of an equation has; repeats possible."""
    yield from size_variables(tuple(equation.params.values()))
    yield from sizes_compared(equation)


def joined_reads(
    equations: Sequence[Equation], dying: Sequence[Sequence[Var]], plan: Plan
) -> Iterator[tuple[Chain, list[Var]]]:
    """The equations of a block in order, reads of parts of parts together, each with the variables that die there.

    A read stands where the last of its chain does: an update in between writes over nothing that is read later.

    Args:
        equations: The equations of a block.
        dying: The variables that die after each.
        plan: Which scalars are Python numbers.
    """
    readers: dict[Operand, list[Equation]] = {}
    for equation in equations:
        for operand in (*equation.inputs, *sizes_read(equation)):
            readers.setdefault(operand, []).append(equation)
    local = {var for last in dying for var in last}
    waiting: dict[Operand, tuple[Chain, list[Var]]] = {}
    for equation, last in zip(equations, dying, strict=True):
        chain: Chain = (equation,)
        dead = list(last)
        if equation.inputs and equation.inputs[0] in waiting:
            before, earlier = waiting.pop(equation.inputs[0])
            chain = (*before, equation)
            dead = [*earlier, *(var for var in last if var is not equation.inputs[0])]
        following = [reader for var in equation.outputs if var in local for reader in readers.get(var, ())]
        if len(following) == 1 and _is_one_read((*chain, *following), plan):
            waiting[equation.outputs[0]] = chain, dead
        else:
            yield chain, dead


def _is_one_read(chain: Chain, plan: Plan) -> bool:
    """Whether equations, each of which reads what the one before it makes, are of one line and one subscript."""
    first = chain[0]
    if any(read.op.name not in _PARTS or read.source != first.source for read in chain):
        return False
    indices = [index for read in chain for index in read.inputs[1:]]
    if first.inputs[0].type.dtype in UNSIGNED or not all(map(plan.is_host, indices)):
        return False
    return parts_read(chain, str) is not None
