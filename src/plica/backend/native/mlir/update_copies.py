"""Which arrays an update copies before it writes over some of their entries."""

from collections.abc import Iterable, Mapping
from typing import Any

from plica.ir.op import View
from plica.ir.program import Operand, Program, Var
from plica.ops import OPS

_JOINS = ("concat", "stack")  # their operands may be views of their result, and must not be written to


def copied_bases(program: Program, shared: Iterable[Operand], *, is_nested: bool = False) -> set[Operand]:
    """The arrays that updates must copy: IREE 3.13 may write over them before another reader has read them.

    A reader has read it before if the update needs its result. Results, arrays in `shared`, which other Programs read,
    and operands of joins are read later. So is an array of which the values of an update are a part, since it would be
    copied to itself. Views count as their array.

    In a nested Program (`is_nested`), IREE may compute nothing for an equation: `a * 1.0`, or a call that returns its
    argument. Then its result is an array from outside, which the next iteration reads. An iteration owns only its
    inputs and the results of updates of some entries.
    """
    sources: dict[Operand, Operand] = {}

    def source(operand: Operand) -> Operand:
        return sources.get(operand, operand)

    later = {source(operand) for operand in shared}
    readers: dict[Operand, list[int]] = {}
    updates = []
    for index, equation in enumerate(program.equations):
        name, read = equation.op.name, list(dict.fromkeys(map(source, equation.inputs)))
        if name in OPS and OPS[name].view in (View.MOVED, View.SELECTED):
            sources.update((view, source(equation.inputs[0])) for view in equation.outputs)
            read = list(dict.fromkeys(map(source, equation.inputs[1:])))  # indices
        for operand in read:
            readers.setdefault(operand, []).append(index)
        if name in _JOINS:
            later.update(read)
        elif name == "update":
            updates.append(index)
            if source(equation.inputs[0]) in map(source, equation.inputs[1:]):
                later.add(source(equation.inputs[0]))
    later.update(map(source, program.outputs))
    makers = {var: index for index, equation in enumerate(program.equations) for var in equation.outputs}
    own: set[Operand] = set(program.inputs)
    for index in updates:
        base, values = program.equations[index].inputs[:2]
        if base.type.shape != values.type.shape:  # else it may be the values that are written
            own.update(program.equations[index].outputs)
    copied = set()
    for index in updates:
        base = program.equations[index].inputs[0]
        others = set(readers[source(base)]) - {index}
        is_foreign = is_nested and source(base) not in own
        if is_foreign or source(base) in later or (others and others - _needed(program, index, makers)):
            copied.add(base)
    return copied


def _needed(program: Program, index: int, makers: Mapping[Any, int]) -> set[int]:
    """The indices of the equations whose results an equation needs; `makers` has the one that makes a variable."""
    needed: set[int] = set()
    waiting = [index]
    while waiting:
        operands = program.equations[waiting.pop()].inputs
        new = {makers[operand] for operand in operands if isinstance(operand, Var) and operand in makers} - needed
        needed |= new
        waiting += new
    return needed
