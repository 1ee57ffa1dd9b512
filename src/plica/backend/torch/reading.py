"""Joins reads of parts: `y = x[i]`, and `y[j]` if nothing else reads `y`, are written as one subscript `x[i, j]`."""

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
    """The equations of a block in order, as chains of joined reads, each with the variables that nothing reads later.

    A chain is written where its last read is. Between its reads no update writes over the array, which is read later.

    Args:
        equations: The equations of a block.
        dying: For each equation the variables that nothing after it reads.
        plan: Says which scalars are Python numbers.
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
    """Whether a chain of reads can be one subscript: of one line of the user, with Python numbers as indices."""
    first = chain[0]
    if any(read.op.name not in _PARTS or read.source != first.source for read in chain):
        return False
    indices = [index for read in chain for index in read.inputs[1:]]
    if first.inputs[0].type.dtype in UNSIGNED or not all(map(plan.is_host, indices)):
        return False
    return parts_read(chain, str) is not None
