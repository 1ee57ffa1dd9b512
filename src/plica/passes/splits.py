"""Slices of one array that do not overlap become one split, whose derivative joins what it is given.

The derivative of each slice is an array of the whole source's size, zeros but for a part, and those are added: as many
times the source as there are slices. That of a split is one array. Slices whose memory a result may share stay: torch
lets nobody write to a part of a split that has a gradient, and results are their receiver's to write to.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(split_slices(trace(lambda x: x[:2] * x[3:5], spec(6))))
{ lambda ; x:f32[6] . let
    a:f32[2] d:f32[1] b:f32[2] e:f32[1] = split[axis=0 sizes=(2,1,2,1)] x
    c:f32[2] = multiply a b
  in (c,) }
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plica.ir.builder import Names
from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, OpRef, Program, Var, nested
from plica.ir.sizes import Size
from plica.ir.types import array_type
from plica.ops import OPS
from plica.passes.replaced import names_of

_SPLIT = OpRef("split")


def split_slices(program: Program) -> Program:
    """The Program with a split in place of the slices of one array that do not overlap; nested Programs stay."""
    groups: dict[tuple[Operand, int], list[Equation]] = {}
    shared = _with_results(program)
    for equation in program.equations:
        if _is_run(equation) and equation.outputs[0] not in shared:
            source = equation.inputs[0]
            groups.setdefault((source, equation.params["axis"] % len(source.type.shape)), []).append(equation)
    instead: dict[Var, Equation | None] = {}
    names: Names | None = None
    for (_, axis), slices in groups.items():
        disjoint = list(_disjoint(slices))
        if len(disjoint) > 1:
            names = names or names_of(program)
            instead.update((one.outputs[0], None) for one in slices if one in disjoint)
            first = next(one for one in slices if one in disjoint)
            instead[first.outputs[0]] = _split(disjoint, axis, first.source, names)
    if not instead:
        return program
    found = (instead.get(one.outputs[0], one) if one.outputs else one for one in program.equations)
    return replace(program, equations=tuple(one for one in found if one is not None))


def _split(slices: Sequence[Equation], axis: int, source: str, names: Names) -> Equation:
    """One equation that makes the slices of one array, in the order of their places, and what lies between them."""
    array = slices[0].inputs[0]
    dims = array.type.shape

    def between(end: int, start: int) -> list[Var]:
        type_ = array_type((*dims[:axis], start - end, *dims[axis + 1 :]), array.type.dtype)
        return [Var(names.fresh(), type_)] if end < start else []

    parts: list[Var] = []
    end = 0
    for one in slices:
        start, stop = _bounds(one)
        parts += [*between(end, start), one.outputs[0]]
        end = stop
    parts += between(end, int(dims[axis]))
    sizes = tuple(var.type.shape[axis] for var in parts)
    return Equation(_SPLIT, (array,), tuple(parts), {"axis": axis, "sizes": sizes}, source)


def _with_results(program: Program) -> dict[Operand, None]:
    """The values whose memory results of the Program may share."""
    found: dict[Operand, None] = dict.fromkeys(program.outputs)
    for equation in reversed(program.equations):
        may_share = OPS[equation.op.name].memory in (Memory.VIEW, Memory.EITHER) or any(nested(equation.params))
        if may_share and any(one in found for one in equation.outputs):
            found.update(dict.fromkeys(equation.inputs))
    return found


def _is_run(equation: Equation) -> bool:
    """Whether it is a slice of neighbours that is not empty, at places of an axis that are all known."""
    if equation.op.name != "slice":
        return False
    axis, bounds = equation.params["axis"], (equation.params["start"], equation.params["stop"])
    known = not any(isinstance(one, Size) for one in (*bounds, equation.inputs[0].type.shape[axis]))
    return known and equation.params["step"] == 1 and bounds[0] < bounds[1]


def _bounds(equation: Equation) -> tuple[int, int]:
    return equation.params["start"], equation.params["stop"]


def _disjoint(slices: Sequence[Equation]) -> Iterator[Equation]:
    """As many of the slices as do not overlap, in the order of their places: each time the one that ends first."""
    end = 0
    for one in sorted(slices, key=lambda one: _bounds(one)[::-1]):
        start, stop = _bounds(one)
        if start >= end:
            end = stop
            yield one
