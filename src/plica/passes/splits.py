"""Slices of one array that do not overlap become one split, whose derivative joins the derivatives of its parts.

The derivative of a slice has the size of the whole source, with zeros around a part. So n slices add n such arrays,
and a split makes one. Slices whose memory a result may share stay: callers may write to results, and torch refuses to
write to a part of a split that has a gradient.

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
from plica.passes.replacements import names_of

_SPLIT = OpRef("split")


def split_slices(program: Program) -> Program:
    """The Program with a split in place of the slices of one array that do not overlap; nested Programs stay."""
    groups: dict[tuple[Operand, int], list[Equation]] = {}
    shared = _sharing_with_results(program)
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
            instead.update((equation.outputs[0], None) for equation in slices if equation in disjoint)
            first = next(equation for equation in slices if equation in disjoint)
            instead[first.outputs[0]] = _split(disjoint, axis, first.source, names)
    if not instead:
        return program
    equations = (
        instead.get(equation.outputs[0], equation) if equation.outputs else equation for equation in program.equations
    )
    return replace(program, equations=tuple(equation for equation in equations if equation is not None))


def _split(slices: Sequence[Equation], axis: int, source: str, names: Names) -> Equation:
    """One equation that makes the slices of one array, in the order of their starts, and the parts between them."""
    array = slices[0].inputs[0]
    dims = array.type.shape

    def between(end: int, start: int) -> list[Var]:
        type_ = array_type((*dims[:axis], start - end, *dims[axis + 1 :]), array.type.dtype)
        return [Var(names.fresh(), type_)] if end < start else []

    parts: list[Var] = []
    end = 0
    for view in slices:
        start, stop = _bounds(view)
        parts += [*between(end, start), view.outputs[0]]
        end = stop
    parts += between(end, int(dims[axis]))
    sizes = tuple(var.type.shape[axis] for var in parts)
    return Equation(_SPLIT, (array,), tuple(parts), {"axis": axis, "sizes": sizes}, source)


def _sharing_with_results(program: Program) -> dict[Operand, None]:
    """The values whose memory results of the Program may share."""
    sharing: dict[Operand, None] = dict.fromkeys(program.outputs)
    for equation in reversed(program.equations):
        may_share = OPS[equation.op.name].memory in (Memory.VIEW, Memory.EITHER) or any(nested(equation.params))
        if may_share and any(output in sharing for output in equation.outputs):
            sharing.update(dict.fromkeys(equation.inputs))
    return sharing


def _is_run(equation: Equation) -> bool:
    """Whether an equation is a slice with step 1 and known bounds that is not empty."""
    if equation.op.name != "slice":
        return False
    axis, bounds = equation.params["axis"], (equation.params["start"], equation.params["stop"])
    known = not any(isinstance(bound, Size) for bound in (*bounds, equation.inputs[0].type.shape[axis]))
    return known and equation.params["step"] == 1 and bounds[0] < bounds[1]


def _bounds(equation: Equation) -> tuple[int, int]:
    return equation.params["start"], equation.params["stop"]


def _disjoint(slices: Sequence[Equation]) -> Iterator[Equation]:
    """A largest set of slices that do not overlap, in order: each time the one that ends first."""
    end = 0
    for view in sorted(slices, key=lambda view: _bounds(view)[::-1]):
        start, stop = _bounds(view)
        if start >= end:
            end = stop
            yield view
