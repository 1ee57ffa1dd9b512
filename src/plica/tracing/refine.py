"""Sizes that turn out to be equal after a function was traced, and the checks that are then not needed.

A nested Program may get one size twice: as two constants, or as a constant and as the size of an array. Within, it then
had to check that they are equal. Here they become one, from the outside to the inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from plica.ir.program import Equation, Operand, Program, Var, nested, rewrite, size_variables
from plica.ir.sizes import Dim, Size, as_size
from plica.ops.regions import regions_of, with_regions, without_unread
from plica.tracing.nested import Region, Traced
from plica.tracing.scope import Trace


def refine(
    program: Program, sizes: Mapping[Var, Dim] | None = None, values: Mapping[Var, Var] | None = None
) -> Program:
    """The Program with these sizes and values in the place of others, without the checks that this makes true.

    Recursion is as deep as Programs are nested.
    """
    program = rewrite(program, lambda var: var.name, sizes or {}, values)
    now: dict[Operand, Operand] = {}
    kept = []
    for equation in program.equations:
        inputs = tuple(now.get(one, one) for one in equation.inputs)
        if equation.op.name == "assert_shape" and inputs[0].type == equation.outputs[0].type:
            now[equation.outputs[0]] = inputs[0]
            continue
        equation = equation if inputs == equation.inputs else replace(equation, inputs=inputs)
        kept.append(_refined(equation, program) if regions_of(equation) else equation)
    return replace(program, equations=tuple(kept), outputs=tuple(now.get(one, one) for one in program.outputs))


def _refined(equation: Equation, outer: Program) -> Equation:
    """An equation whose regions get each value once."""
    regions = []
    for region, operands in regions_of(equation):
        first: dict[Operand | Dim, Var] = {}
        same: dict[Var, Var] = {}
        for var, operand in zip(region.consts, operands, strict=True):
            key = _value(operand, outer)
            if key in first:
                same[var] = first[key]
            else:
                first[key] = var
        same |= _invariant(equation, region, first, outer)
        changed = {var: Size.of(one) for var, one in same.items()}
        program = refine(region, changed, same)
        regions.append(without_unread(program, operands))
    return with_regions(equation, regions)


def _value(operand: Operand, outer: Program) -> Operand | Dim:
    """What two operands of one value share."""
    return outer.size_of(operand) if as_size(operand) is not None else operand


def _invariant(
    equation: Equation, region: Program, known: Mapping[Operand | Dim, Var], outer: Program
) -> dict[Var, Var]:
    """Implicit inputs that stay what they are, and are captured too."""
    start = sum(len(operands) for _, operands in regions_of(equation))
    count = region.num_implicit_inputs
    body = equation.params.get("body", region)
    found = {}
    for place, var in enumerate(region.inputs[:count]):
        stays = equation.op.name == "call" or body.outputs[place] is body.inputs[place]
        constant = known.get(_value(equation.inputs[start + place], outer))
        if stays and constant is not None:
            found[var] = constant
    return found


# Regions of a function that was just traced


def without_captured(regions: Sequence[Region], traced: Sequence[Traced], constant: Mapping[int, Dim]) -> list[Region]:
    """The regions with captured sizes in the place of implicit inputs that equal them.

    Args:
        regions: What was built; outputs of the last one belong to its inputs.
        traced: What they were built from.
        constant: Implicit inputs by place, with their sizes outside.
    """
    if not constant:
        return list(regions)
    programs = [_renamed(region.program, one, constant) for region, one in zip(regions, traced, strict=True)]
    gone = {entry for entry in constant if not any(_reads(one, one.inputs[entry]) for one in programs)}
    return [
        Region(
            replace(
                program,
                inputs=_dropped(program.inputs, gone),
                outputs=_dropped(program.outputs, gone) if program.num_implicit_outputs else program.outputs,
                num_implicit_inputs=program.num_implicit_inputs - len(gone),
                num_implicit_outputs=program.num_implicit_outputs and program.num_implicit_outputs - len(gone),
            ),
            tuple(one.scope.captured),
            _dropped(region.entries, gone),
        )
        for program, region, one in zip(programs, regions, traced, strict=True)
    ]


T = TypeVar("T")


def _dropped(items: Sequence[T], gone: set[int]) -> tuple[T, ...]:
    return tuple(one for place, one in enumerate(items) if place not in gone)


def _reads(program: Program, var: Var) -> bool:
    """Whether an equation or an output reads the value of `var`."""
    return var in program.outputs or any(var in equation.inputs for equation in program.equations)


def _makers(equations: Sequence[Equation], operands: Iterable[Operand]) -> dict[Equation, None]:
    """The equations that compute these operands, in order."""
    needed = set(operands)
    for equation in reversed(equations):
        if any(var in needed for var in equation.outputs):
            needed.update(equation.inputs)
    return dict.fromkeys(one for one in equations if any(var in needed for var in one.outputs))


def _renamed(program: Program, traced: Traced, constant: Mapping[int, Dim]) -> Program:
    """`program` with the sizes outside, as captured, in the place of implicit inputs."""
    scope = traced.scope
    assert scope.parent is not None, "a nested function has an enclosing scope"
    sizes = {traced.implicit[entry]: scope.lift(size, scope.parent) for entry, size in constant.items()}
    values = {var: scope.builder.size_operand(size) for var, size in sizes.items() if _reads(program, var)}
    equations = scope.builder.build((), ()).equations  # with what computes these sizes
    first = _makers(equations, values.values())
    ordered = (*first, *(one for one in equations if one not in first))
    program = replace(program, consts=tuple(scope.captured.values()), equations=ordered)
    return refine(program, sizes, {var: one for var, one in values.items() if isinstance(one, Var)})


def sizes_in_types(scope: Trace) -> dict[Var, None]:
    """The variables that sizes within a scope refer to."""
    program = scope.builder.build((), ())
    values: list[Any] = [var.type for var in program.consts]
    for equation in program.equations:
        values += [tuple(equation.params.values()), *(var.type for var in equation.outputs)]
        for one in nested(equation.params):
            inputs = (*one.consts, *one.inputs)
            shapes = [var for var in inputs if var in dict.fromkeys(chain(*(size_variables(v.type) for v in inputs)))]
            places = [inputs.index(var) for var in shapes]
            values += [tuple(Size.of(operand) for operand in _at(equation, places) if isinstance(operand, Var))]
    return dict.fromkeys(chain(*map(size_variables, values)))


def _at(equation: Equation, places: Sequence[int]) -> list[Operand]:
    return [equation.inputs[place] for place in places if place < len(equation.inputs)]
