"""Cuts a Program into consecutive parts by the captured arrays that they read, so that few of these are needed at once.

Equations that depend on captured arrays alone, such as the softmax of a weight, are computed in the parts that read
them: in several of them again. So no part hands on more than it has computed from arguments.

>>> from plica.ir.text import parse_program
>>> from plica.ops import OPS
>>> program = parse_program('''{ lambda v:f32[2] w:f32[2] ; x:f32[2] . let
...     a:f32[2] = exp v
...     b:f32[2] = exp w
...     c:f32[2] = multiply x a
...     d:f32[2] = multiply c b
...   in (d,) }''', OPS)
>>> units = units_of(program, {var: 8 for var in program.consts}, 8)
>>> for segment in segments(program, units):
...     print(segment.units, segment.program)
(0,) { lambda v:f32[2] ; x:f32[2] . let
    a:f32[2] = exp v
    c:f32[2] = multiply x a
  in (c,) }
(1,) { lambda w:f32[2] ; x:f32[2] c:f32[2] . let
    b:f32[2] = exp w
    d:f32[2] = multiply c b
  in (d,) }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plica.constants.analysis.origins import needed_by
from plica.ir.program import Equation, Program, Var


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a Program.

    Args:
        program: Its Program, whose arguments are those of the whole one and then `reads`.
        reads: What it reads of earlier parts.
        units: The units of the captured arrays that it reads, ascending.
    """

    program: Program
    reads: tuple[Var, ...]
    units: tuple[int, ...]


class _Reads:
    """What equations of a Program read."""

    def __init__(self, program: Program) -> None:
        outside = dict.fromkeys(program.inputs)
        self._maker: dict[Var, Equation] = {}  # of what depends on captured arrays alone
        self.late: list[Equation] = []  # equations that depend on arguments
        for equation in program.equations:
            if any(var in outside for var in needed_by([equation], ())):
                self.late.append(equation)
                outside.update(dict.fromkeys(equation.outputs))
            else:
                self._maker.update(dict.fromkeys(equation.outputs, equation))
        self._consts = dict.fromkeys(program.consts)

    def early(self, needed: Mapping[Var, None]) -> tuple[dict[Equation, None], dict[Var, None]]:
        """The equations of captured arrays alone that values follow from, and the captured arrays."""
        equations: dict[Equation, None] = {}
        consts: dict[Var, None] = {}
        pending = list(needed)
        while pending:
            var = pending.pop()
            if var in self._consts:
                consts[var] = None
            equation = self._maker.get(var)
            if equation is not None and equation not in equations:
                equations[equation] = None
                pending += needed_by([equation], ())
        return equations, consts


def units_of(program: Program, sizes: Mapping[Var, int], at_most: int) -> dict[Var, int]:
    """Captured arrays in units, in the order in which they are read; those read in several places are in none.

    Args:
        program: The Program.
        sizes: The sizes of the captured arrays that get units.
        at_most: The size of a unit, unless an equation reads more at once.
    """
    reads, units, closed, unit, used = _Reads(program), dict[Var, int](), dict[Var, None](), 0, 0
    for equation in reads.late:
        consts = [var for var in reads.early(needed_by([equation], ()))[1] if var in sizes]
        new = [var for var in consts if var not in units and var not in closed]
        added = sum(sizes[var] for var in new)
        if new and used and used + added > at_most:
            unit, used = unit + 1, 0
        for var in consts:
            if var in units and units[var] != unit:
                del units[var]
                closed[var] = None
        units.update(dict.fromkeys(new, unit))
        used += added
    numbers = {number: position for position, number in enumerate(dict.fromkeys(units.values()))}
    return {var: numbers[number] for var, number in units.items()}


def segments(program: Program, units: Mapping[Var, int]) -> tuple[Segment, ...]:
    """The parts of a Program, in order; each reads captured arrays of one unit, unless one equation reads several.

    Args:
        program: The Program.
        units: The unit of captured arrays; others have none.
    """
    reads = _Reads(program)
    runs: list[tuple[set[int], list[Equation]]] = [(set(), [])]
    for equation in reads.late:
        consts = reads.early(needed_by([equation], ()))[1]
        read = {units[var] for var in consts if var in units}
        own, equations = runs[-1]
        if read and own and not read <= own:
            runs.append((read, [equation]))
        else:
            own |= read
            equations.append(equation)
    parts: list[Segment] = []
    wanted = needed_by([], program.outputs)  # by later parts
    for number in reversed(range(len(runs))):
        late = dict.fromkeys(runs[number][1])
        is_last = number == len(runs) - 1
        made = [var for equation in late for var in equation.outputs]
        results = program.outputs if is_last else tuple(var for var in made if var in wanted)
        needed = needed_by([*late], program.outputs if is_last else ())
        early, consts = reads.early(needed)
        chosen = tuple(equation for equation in program.equations if equation in early or equation in late)
        defined = dict.fromkeys(var for equation in chosen for var in equation.outputs)
        outside = {**dict.fromkeys((*program.inputs, *program.consts)), **defined}
        read_earlier = tuple(var for var in needed if var not in outside)
        own_consts = tuple(var for var in program.consts if var in consts)
        part = Program(own_consts, (*program.inputs, *read_earlier), chosen, results, program.num_implicit_inputs, 0)
        own_units = tuple(sorted({units[var] for var in own_consts if var in units}))
        parts.append(Segment(part, read_earlier, own_units))
        wanted = {**{var: None for var in wanted if var not in defined}, **dict.fromkeys(read_earlier)}
    return tuple(reversed(parts))
