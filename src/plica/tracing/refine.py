"""Relations between sizes that are found after a function was traced, and the checks that they make needless.

A nested Program is traced before its sizes are known. A size that a loop carries may equal an outer size, or be twice
another; so may a size that a branch reads. `relations.py` finds this once the function has returned, and the Program is
built again with it. Type rules then give sharper types, checks that hold disappear, and sizes that others determine are
no longer inputs. The Programs that are nested in it follow, from the outside to the inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from plica.errors import PlicaError
from plica.ir.builder import Builder
from plica.ir.program import Equation, Operand, OpRef, Program, Var, nested, size_variables
from plica.ir.sizes import Dim, Size, as_size, single_atom, substitute
from plica.ops.regions import Region, regions_of, with_regions, without_unread
from plica.tracing.rebuilt import Rebuilt
from plica.tracing.relations import Relations, among_constants, invariants, with_relations
from plica.tracing.scope import Trace
from plica.tracing.tracer import Tracer


def apply_nested(scope: Trace, op: str, *operands: Tracer | Operand, **params: Any) -> tuple[Tracer, ...]:
    """Record control flow, whose nested Programs were just traced; its results."""
    inputs = tuple(scope.operand(operand) for operand in operands)
    equation, _ = refined(Equation(OpRef(op), inputs, (), params), scope.builder)
    return scope.apply(op, *equation.inputs, **equation.params)


def refined(equation: Equation, outer: Builder) -> tuple[Equation, list[int]]:
    """An equation of control flow, without outputs, whose nested Programs know the relations between their sizes.

    Args:
        equation: The operation, its operands and its parameters.
        outer: The Program under construction that the equation is for.

    Returns:
        The equation, and which of its implicit results it still has.
    """
    regions = [_Region(program, operands, outer) for program, operands in regions_of(equation)]
    body = regions[-1]
    start = _leading(equation) + sum(len(region.operands) for region in regions)
    stop = start + body.program.num_implicit_inputs
    relations = body.invariants(equation.inputs[start:stop], equation)
    gone = [position for position, var in enumerate(body.program.inputs[: stop - start]) if var in relations]
    sizes = _without(equation.inputs[start:stop], gone)
    equation = replace(equation, inputs=(*equation.inputs[:start], *sizes, *equation.inputs[stop:]))
    is_loop = "body" in equation.params
    programs = [region.again(region.translated(relations, body), gone if is_loop else ()) for region in regions]
    remaining = [
        position for position in range(body.program.num_implicit_outputs) if not (is_loop and position in gone)
    ]
    if not is_loop:
        programs, remaining = _without_known_outputs(programs, outer, equation, start)
    equation = with_regions(equation, [without_unread(program, operands) for program, operands in programs])
    counts = {"num_implicit_inputs": stop - start - len(gone), "num_implicit_outputs": len(remaining)}
    return replace(
        equation, params={name: counts.get(name, value) for name, value in equation.params.items()}
    ), remaining


def _leading(equation: Equation) -> int:
    """How many operands stand before those that are captured."""
    return len(equation.params["branches"]) - 1 if "branches" in equation.params else 0


def _without(items: Sequence[Any], gone: Iterable[int]) -> tuple[Any, ...]:
    left_out = frozenset(gone)
    return tuple(item for position, item in enumerate(items) if position not in left_out)


class _Region:
    """A nested Program, with the outer operands of its constants.

    Args:
        program: The Program.
        operands: The outer operand for each of its constants.
        outer: The Program under construction that it is nested in.
    """

    def __init__(self, program: Program, operands: Sequence[Operand], outer: Builder) -> None:
        self.program = program
        self.operands = tuple(operands)
        self._outer = outer
        self._values: dict[Var, Dim] = {}
        self._again: dict[Var, Var] = {}  # arrays that are captured twice
        first: dict[Operand, Var] = {}
        for var, operand in zip(program.consts, self.operands, strict=True):
            size = outer.size_of(operand) if as_size(var) is not None else None
            if size is not None:
                self._values[var] = size
            elif first.setdefault(operand, var) is not var:
                self._again[var] = first[operand]
        equal = among_constants(self._values)
        # a loop's carried sizes are compared with captured ones: each size needs one name there
        is_open = bool(equal) and (program.num_implicit_inputs or any(map(_may_get_sharper, program.equations)))
        self._constants = {var: dim for var, dim in equal.items() if is_open or _is_plain(dim)}

    def invariants(self, operands: Sequence[Operand], equation: Equation) -> Relations:
        """The sizes among the inputs that others determine, whenever the Program runs."""
        program, count = self.program, len(operands)
        first = {var: self._size(operand) for var, operand in zip(program.inputs[:count], operands, strict=True)}
        if not first:
            return {}
        is_loop = "body" in equation.params
        after = dict(zip(first, program.outputs if is_loop else program.inputs, strict=False))
        typed = _sizes_in_types(program)
        constants = {var: dim for var, dim in self._values.items() if var in typed and var not in self._constants}
        related = equation.params.get("preserve_dimensions", True)

        def step(_: Relations) -> Mapping[Var, Dim]:
            return {var: with_relations(self._constants, program.size_of(operand)) for var, operand in after.items()}

        def rebuilt(relations: Relations) -> Mapping[Var, Dim]:
            """The same, where nested Programs know these relations too."""
            again = Rebuilt(program, {**self._constants, **relations}, self._again, self._outer.table, refined)
            return {var: with_relations(self._constants, again.size_before(operand)) for var, operand in after.items()}

        determined = invariants(constants, first, step, related=related)
        if len(determined) < len(first) and is_loop and any(map(_makes_sizes, program.equations)):
            with suppress(PlicaError):  # the first assumptions may be false, and operations inside then refuse them
                determined = invariants(constants, first, rebuilt, related=related)
        return {var: dim for var, dim in determined.items() if isinstance(dim, Size)}

    def _size(self, operand: Operand) -> Dim:
        size = self._outer.size_of(operand)
        assert size is not None, "an implicit input is a size"
        return size

    def translated(self, relations: Relations, source: _Region) -> Relations:
        """Relations of `source`, another region of the equation, in terms of this one, which may capture more."""
        if source is self:
            return relations
        inputs = dict(zip(source.program.inputs, self.program.inputs, strict=False))
        constants = dict(zip(source.program.consts, source.operands, strict=True))

        def value(atom: Any) -> Dim:
            var = inputs.get(atom)
            return Size.of(self._captured(constants[atom], atom) if var is None else var)

        return {inputs[var]: substitute(dim, value) for var, dim in relations.items()}

    def _captured(self, operand: Operand, like: Var) -> Var:
        for var, outer in zip(self.program.consts, self.operands, strict=True):
            if outer is operand and var not in self._constants:
                return var
        var = Var(like.name, like.type, like.is_size)
        self.program = replace(self.program, consts=(*self.program.consts, var))
        self.operands = (*self.operands, operand)
        return var

    def again(self, relations: Relations, gone: Sequence[int]) -> tuple[Program, tuple[Operand, ...]]:
        """The Program with these relations and without these implicit outputs, and the operands of its constants."""
        known = {**self._constants, **relations}
        if not known and not self._again:
            return self.program, self.operands
        again = Rebuilt(self.program, known, self._again, self._outer.table, refined)
        outside = dict(zip(self.program.consts, self.operands, strict=True))
        return again.build(gone), tuple(outside[var] for var in again.consts)


def _without_known_outputs(
    programs: Sequence[tuple[Program, tuple[Operand, ...]]], outer: Builder, equation: Equation, start: int
) -> tuple[list[tuple[Program, tuple[Operand, ...]]], list[int]]:
    """Branches or a called Program without the sizes that are known outside, and the positions of the others."""
    regions = []
    for program, operands in programs:
        inputs = equation.inputs[start:] if "program" in equation.params else ()
        consts, given = ([(operand.type, outer.size_of(operand)) for operand in part] for part in (operands, inputs))
        regions.append(Region(program, consts, given, equation.op.name))
    returned = [
        [region.program.size_of(size) for size in region.program.outputs[: region.program.num_implicit_outputs]]
        for region in regions
    ]
    remaining = []
    for position, alike in enumerate(zip(*returned, strict=True)):
        outside = {region.outside(size) for region, size in zip(regions, alike, strict=True)}
        if len(outside) != 1 or None in outside:
            remaining.append(position)
    gone = [position for position in range(len(returned[0])) if position not in remaining]
    return [(_without_outputs(program, gone), operands) for program, operands in programs], remaining


def _without_outputs(program: Program, gone: Sequence[int]) -> Program:
    count = program.num_implicit_outputs - len(gone)
    return replace(program, outputs=_without(program.outputs, gone), num_implicit_outputs=count) if gone else program


def _is_plain(dim: Dim) -> bool:
    """Whether a size is a number or one variable, so that nothing is computed for it."""
    return isinstance(dim, int) or isinstance(single_atom(dim), Var)


def _makes_sizes(equation: Equation) -> bool:
    return bool(equation.params.get("num_implicit_outputs", 0))


def _may_get_sharper(equation: Equation) -> bool:
    """Whether relations between sizes may sharpen the types of an equation, or remove its check."""
    if equation.op.name == "assert_shape" or _makes_sizes(equation):
        return True
    return any(_may_get_sharper(inner) for program in nested(equation.params) for inner in program.equations)


def _sizes_in_types(program: Program) -> dict[Var, None]:
    """The variables that sizes within a Program refer to, those within its nested Programs too."""
    values: list[Any] = [var.type for var in (*program.consts, *program.inputs)]
    for equation in program.equations:
        values += [tuple(equation.params.values()), *(var.type for var in equation.outputs)]
        for region, operands in regions_of(equation):
            sizes = _sizes_in_types(region)
            given = zip(region.consts, operands, strict=True)
            values += [(Size.of(operand),) for var, operand in given if var in sizes and isinstance(operand, Var)]
    return dict.fromkeys(chain(*map(size_variables, values)))
