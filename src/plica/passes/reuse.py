"""Results that may be written over an operand: memory of its size and dtype, made by the Program, that nobody reads on.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x: (x + 1) * (x + 2), spec(3, "float32"))
>>> list(overwritten(program, {"multiply": (0, 1)}).values())
[0]

As with updates (`ownership.py`), nothing may be written over where gradients are asked for, which is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plica.ir.op import Memory, OpTable
from plica.ir.program import Equation, Operand, Program, Var, nested
from plica.ops import OPS
from plica.passes.ownership import memory_of

_OWN = (Memory.NEW, Memory.COPY)
_RESHAPED = ("reshape", "expand_dims", "squeeze")
"""Views of all of an array, or copies of it, which count as views here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Where an array lies that takes all of a piece of memory, or what a split has made of one.

    Args:
        whole: The array that the memory was made for.
        split: The equation that split it; None where it is whole.
        place: Which of the parts it is.
    """

    whole: Var
    split: Equation | None = None
    place: int = 0


@dataclass(slots=True)
class _Memory:
    """What is known of the memory of variables, up to an equation.

    Args:
        last: The number of the equation that reads a variable last.
        holders: The variables that may lie in the memory of an array, by the split and its part where they lie, so that
            an array of many parts is not gone through for each of them.
        inside: In the memory of which arrays a variable may lie.
        part: Where exactly, if that is known.
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
            self.holders.setdefault(array, {}).setdefault(part.split, {}).setdefault(part.place, []).append(var)

    def is_free(self, operand: Operand, number: int) -> bool:
        """Whether the memory of an operand of an equation is the Program's, and read by nobody afterwards."""
        part = self.part.get(operand)
        if part is None or self.last[operand] > number:
            return False
        for split, places in self.holders[part.whole].items():
            is_apart = split is not None and split is part.split  # from all other parts
            for holders in (places[part.place],) if is_apart else places.values():
                if any(one is not operand and self.last.get(one, -1) >= number for one in holders):
                    return False
                holders[:] = [one for one in holders if one is operand]  # of the others nobody reads one any more
        return True


def overwritten(program: Program, places: Mapping[str, Sequence[int]], table: OpTable = OPS) -> dict[Equation, int]:
    """The equations whose result may be written over an operand, and the place of that operand.

    Args:
        program: The Program; in one with updates or nested Programs nothing is written over.
        places: Over which operands the result of an operation can be written, by its name.
        table: The operations, where a backend has private ones.
    """
    equations = program.equations
    if any(one.op.name == "update" or any(nested(one.params)) for one in equations):
        return {}
    last: dict[Operand, int] = {one: number for number, equation in enumerate(equations) for one in equation.inputs}
    last.update(dict.fromkeys(program.results, len(equations)))
    memory = _Memory(last)
    found: dict[Equation, int] = {}
    for number, equation in enumerate(equations):
        for place in places.get(equation.op.name, ()):
            operand = equation.inputs[place]
            is_float = operand.type.dtype.kind in ("float", "complex")
            if is_float and operand.type == equation.outputs[0].type and memory.is_free(operand, number):
                found[equation] = place
                break
        _note(memory, equation, found.get(equation), memory_of(equation, table))
    return found


def _note(memory: _Memory, equation: Equation, over: int | None, kind: Memory) -> None:
    """Note where the results of an equation lie, the first over an operand where that is given."""
    read = equation.inputs[:1] if kind is Memory.VIEW else equation.inputs if kind is Memory.EITHER else ()
    arrays = [array for one in read for array in memory.inside.get(one, ())]
    for place, var in enumerate(equation.outputs):
        if over is not None and place == 0:
            part = memory.part[equation.inputs[over]]
            memory.part[var] = part
            memory.put(var, [part.whole])
        elif kind in _OWN:
            memory.part[var] = _Part(var)
            memory.put(var, [var])
        else:
            source = memory.part.get(equation.inputs[0])
            if source is not None and equation.op.name in _RESHAPED:
                memory.part[var] = source
            elif source is not None and equation.op.name == "split" and source.split is None:
                memory.part[var] = _Part(source.whole, equation, place)
            memory.put(var, [*arrays, var] if kind is Memory.EITHER else arrays)
