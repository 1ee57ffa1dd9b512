"""Results that may be written over an operand: an array of the Program, of the same type, that nothing reads later.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x: (x + 1) * (x + 2), spec(3, "float32"))
>>> list(overwritten(program, {"multiply": (0, 1)}).values())
[0]

As with updates (`ownership.py`), nothing may be written over where gradients are wanted, which is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plica.ir.op import Memory, OpTable
from plica.ir.program import Equation, Operand, Program, Var, nested
from plica.ops import OPS
from plica.passes.ownership import memory_of

_OWN = (Memory.NEW, Memory.COPY)
_RESHAPED = ("reshape", "expand_dims", "squeeze")
"""Operations that return a view of a whole array, or a copy of it, which counts as a view here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The memory of an array: all of another array's memory, or one part of that, which a split has made.

    Args:
        array: The array that the memory was made for.
        split: The equation that split it; None for all of it.
        index: The index of the part.
    """

    array: Var
    split: Equation | None = None
    index: int = 0


@dataclass(slots=True)
class _Memory:
    """The memory of variables, as known before an equation.

    Args:
        last: The index of the last equation that reads a variable.
        holders: The variables that may lie in the memory of an array, by the split and the index of the part. So a
            check of one part does not visit the variables of all others.
        inside: The arrays in whose memory a variable may lie.
        part: The exact part, if that is known.
    """

    last: Mapping[Operand, int]
    holders: dict[Var, dict[Equation | None, dict[int, list[Var]]]] = field(default_factory=dict)
    inside: dict[Operand, tuple[Var, ...]] = field(default_factory=dict)
    part: dict[Operand, _Part] = field(default_factory=dict)

    def put(self, var: Var, arrays: Sequence[Var]) -> None:
        """Note that a variable may lie in the memory of some arrays."""
        self.inside[var] = tuple(dict.fromkeys(arrays))
        part = self.part.get(var, _Part(var))
        for array in self.inside[var]:
            self.holders.setdefault(array, {}).setdefault(part.split, {}).setdefault(part.index, []).append(var)

    def is_free(self, operand: Operand, number: int) -> bool:
        """Whether the memory of an operand is the Program's own, and no later equation reads it."""
        part = self.part.get(operand)
        if part is None or self.last[operand] > number:
            return False
        for split, parts in self.holders[part.array].items():
            is_apart = split is not None and split is part.split  # from all other parts
            for holders in (parts[part.index],) if is_apart else parts.values():
                if any(holder is not operand and self.last.get(holder, -1) >= number for holder in holders):
                    return False
                holders[:] = [holder for holder in holders if holder is operand]  # nothing reads the others any more
        return True


def overwritten(program: Program, candidates: Mapping[str, Sequence[int]], table: OpTable = OPS) -> dict[Equation, int]:
    """The equations whose result may be written over an operand, and the index of that operand.

    Args:
        program: The Program; in one with updates or nested Programs nothing is written over.
        candidates: The indices of operands that each operation can write its result over, by its name.
        table: The operations, where a backend has private ones.
    """
    equations = program.equations
    if any(equation.op.name == "update" or any(nested(equation.params)) for equation in equations):
        return {}
    last: dict[Operand, int] = {
        operand: number for number, equation in enumerate(equations) for operand in equation.inputs
    }
    last.update(dict.fromkeys(program.results, len(equations)))
    memory = _Memory(last)
    targets: dict[Equation, int] = {}
    for number, equation in enumerate(equations):
        for index in candidates.get(equation.op.name, ()):
            operand = equation.inputs[index]
            is_float = operand.type.dtype.kind in ("float", "complex")
            if is_float and operand.type == equation.outputs[0].type and memory.is_free(operand, number):
                targets[equation] = index
                break
        _note(memory, equation, targets.get(equation), memory_of(equation, table))
    return targets


def _note(memory: _Memory, equation: Equation, over: int | None, kind: Memory) -> None:
    """Note the memory of the results of an equation; `over` is the index of the operand that it writes over."""
    read = equation.inputs[:1] if kind is Memory.VIEW else equation.inputs if kind is Memory.EITHER else ()
    arrays = [array for operand in read for array in memory.inside.get(operand, ())]
    for index, var in enumerate(equation.outputs):
        if over is not None and index == 0:
            part = memory.part[equation.inputs[over]]
            memory.part[var] = part
            memory.put(var, [part.array])
        elif kind in _OWN:
            memory.part[var] = _Part(var)
            memory.put(var, [var])
        else:
            source = memory.part.get(equation.inputs[0])
            if source is not None and equation.op.name in _RESHAPED:
                memory.part[var] = source
            elif source is not None and equation.op.name == "split" and source.split is None:
                memory.part[var] = _Part(source.array, equation, index)
            memory.put(var, [*arrays, var] if kind is Memory.EITHER else arrays)
