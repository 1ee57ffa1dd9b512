"""Sizes that turn out to be equal after a function was traced, and the checks that are then not needed.

A nested Program may get one size twice: as two constants, or as a constant and as the size of an array. Within, it then
had to check that they are equal. Here they become one, from the outside to the inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plica.ir.program import Equation, Operand, Program, Var, rewrite, size_variables
from plica.ir.sizes import Dim, Size, as_size
from plica.ops.control import regions_of, with_regions


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
        regions.append(_without_unread(program, operands))
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


def _without_unread(program: Program, operands: tuple[Operand, ...]) -> tuple[Program, tuple[Operand, ...]]:
    """A region without the consts that nothing in it reads."""
    read: dict[Operand, None] = dict.fromkeys(program.outputs)
    for var in (*program.consts, *program.inputs):
        read.update(dict.fromkeys(size_variables(var.type)))
    for equation in program.equations:
        read.update(dict.fromkeys(equation.inputs))
        values = (tuple(equation.params.values()), *(var.type for var in equation.outputs))
        for value in values:
            read.update(dict.fromkeys(size_variables(value)))
    kept = [(var, operand) for var, operand in zip(program.consts, operands, strict=True) if var in read]
    return replace(program, consts=tuple(var for var, _ in kept)), tuple(operand for _, operand in kept)
