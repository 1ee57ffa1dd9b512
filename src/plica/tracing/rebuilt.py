"""`Rebuilt`: a Program built again with relations between its sizes, which were found after it was traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plica.ir.builder import Builder
from plica.ir.op import OpTable
from plica.ir.program import Equation, Operand, Program, Var, nested
from plica.ir.sizes import Dim, Size, single_atom, substitute
from plica.ir.types import array_type

Refine = Callable[[Equation, Builder], tuple[Equation, list[int]]]


class Rebuilt:
    """A Program that is built again with relations between its constants and its implicit inputs.

    Args:
        program: The Program.
        relations: The sizes that others determine, in terms of those.
        same: Constants that repeat another one, which is read instead.
        table: The operations.
        refine: Rewrites an equation with nested Programs so that these know the relations of this Program.
    """

    def __init__(
        self, program: Program, relations: Mapping[Var, Dim], same: Mapping[Var, Var], table: OpTable, refine: Refine
    ) -> None:
        self._program = program
        self._relations = relations
        self._refine = refine
        self._builder = builder = Builder(table)
        self._values: dict[Var, Operand] = {}
        self._sizes: dict[Var, Dim] = {}  # variables that nested Programs return, as the rebuilt results have them
        self.consts = [var for var in program.consts if var not in relations and var not in same]
        if any(isinstance(dim, Size) and not isinstance(single_atom(dim), Var) for dim in relations.values()):
            self.consts.sort(key=lambda var: bool(var.type.shape))  # sizes come before the arrays that have them
        count = program.num_implicit_inputs
        for var in self.consts:
            self._values[var] = builder.const(
                var.name, array_type(self._dims(var), var.type.dtype), is_size=var.is_size
            )
        for var in program.inputs[:count]:
            if var not in relations:
                self._values[var] = builder.implicit(var.name)
        self._before = {value: Size.of(var) for var, value in self._values.items()}
        self._values |= {var: self._values[twin] for var, twin in same.items()}
        for var in program.inputs[count:]:
            self._values[var] = argument = builder.argument(var.name, self._dims(var), var.type.dtype)
            self._before[argument] = Size.of(var)
        for equation in program.equations:
            with builder.at(equation.source):
                self._equation(equation)

    def build(self, gone: Sequence[int]) -> Program:
        """The Program without these implicit outputs."""
        implicit = [self._operand(output) for output in self._program.outputs[: self._program.num_implicit_outputs]]
        remaining = [operand for position, operand in enumerate(implicit) if position not in gone]
        return self._builder.build([self._operand(result) for result in self._program.results], remaining)

    def size_before(self, operand: Operand) -> Dim:
        """The size that an operand stands for, in terms of the Program before it was rebuilt."""
        return substitute(self._size(operand), lambda atom: self._before.get(atom, Size.of(atom)))  # type: ignore[call-overload]

    # Variables

    def _size(self, operand: Operand) -> Dim:
        if isinstance(operand, Var) and operand in self._sizes:
            return self._sizes[operand]
        if isinstance(operand, Var) and operand in self._relations:
            dim: Dim = self._moved(self._relations[operand])
            return dim
        size = self._builder.size_of(self._values[operand] if isinstance(operand, Var) else operand)
        assert size is not None, "sizes are scalar integers"
        return size

    def _operand(self, operand: Operand) -> Operand:
        if isinstance(operand, Var) and operand not in self._values:
            self._values[operand] = self._builder.size_operand(self._size(operand))
        return self._values[operand] if isinstance(operand, Var) else operand

    def _dims(self, var: Var) -> tuple[Dim, ...]:
        return tuple(map(self._moved, var.type.shape))

    def _moved(self, value: Any) -> Any:
        """A parameter or a size in terms of the new variables."""
        if isinstance(value, Size):
            return substitute(value, self._size)  # type: ignore[arg-type]
        if isinstance(value, tuple):
            return tuple(map(self._moved, value))
        return value

    # Equations

    def _equation(self, equation: Equation) -> None:
        inputs = tuple(map(self._operand, equation.inputs))
        params = {name: self._moved(value) for name, value in equation.params.items()}
        if equation.op.name == "assert_shape":
            self._values[equation.outputs[0]] = self._builder.assert_dims(inputs[0], params["shape"])
            return
        remaining = list(range(params.get("num_implicit_outputs", 0)))
        count = len(remaining)
        refined = replace(equation, inputs=inputs, outputs=(), params=params)
        if any(nested(params)):
            refined, remaining = self._refine(refined, self._builder)
        before = [*(equation.outputs[position] for position in remaining), *equation.outputs[count:]]
        with self._builder.naming([var.name for var in before]):
            after = self._builder.add(refined.op.name, *refined.inputs, **refined.params)
        self._values |= dict(zip(before, after, strict=True))
        implicit = frozenset(equation.outputs[:count])
        for old, new in zip(equation.outputs[count:], after[len(remaining) :], strict=True):
            for was, dim in zip(old.type.shape, new.type.shape, strict=True):
                atom = single_atom(was) if isinstance(was, Size) else None
                if atom in implicit:  # it may still be a result, and equal an outer size
                    self._sizes[atom] = dim
                    self._values.pop(atom, None)
