"""Inlining: the equations of a called Program replace the call, so that folding sees through it.

>>> from plica.ir.types import spec
>>> from plica.tracing.call import trace_call
>>> from plica.tracing.trace import trace
>>> def twice(x):
...     return x + x
>>> print(inline(trace(lambda x: trace_call(twice, [x], lambda arguments: twice(*arguments), ["x"]) * 3, spec(2))))
{ lambda ; x:f32[2] . let
    a:f32[2] = add x x
    b:f32[2] = multiply a 3.0:f32[]
  in (b,) }
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plica.ir.builder import Names
from plica.ir.program import Equation, Operand, Program, Var, nested, size_value
from plica.ir.sizes import Dim, Size, as_size, substitute
from plica.ir.types import array_type
from plica.ops.control_operands import call_inputs, implicit_operands
from plica.ops.regions import regions_of, with_regions


def inline(program: Program) -> Program:
    """The Program without calls, within loops and branches too; recursion is as deep as Programs are nested."""
    if not any(any(nested(equation.params)) for equation in program.equations):
        return program
    inliner = _Inliner()
    for var in (*program.consts, *program.inputs):
        inliner.names.fresh(var.name)
        inliner.values[var] = var
    inliner.add(program.equations)
    return replace(program, equations=tuple(inliner.equations), outputs=inliner.operands(program.outputs))


@dataclass(slots=True)
class _Inliner:
    """The Program under construction.

    Attributes:
        equations: Its equations so far.
        names: The names of its variables.
        values: The operand of the new Program for each variable of the old one and of called ones.
        sizes: The size that each scalar holds, where equations compute it.
    """

    equations: list[Equation] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    values: dict[Var, Operand] = field(default_factory=dict)
    sizes: dict[Operand, Dim] = field(default_factory=dict)

    def operands(self, operands: Sequence[Operand]) -> tuple[Operand, ...]:
        """The operands of the new Program for those of the old one."""
        return tuple(self.values[operand] if isinstance(operand, Var) else operand for operand in operands)

    def add(self, equations: Sequence[Equation]) -> None:
        """Add equations, those of a called Program in place of a call."""
        for equation in equations:
            if equation.op.name == "call":
                self._call(equation)
            else:
                self._append(equation)

    def _call(self, equation: Equation) -> None:
        ((program, captured),) = regions_of(equation)
        sizes = (equation.inputs[index] for index in implicit_operands(equation))
        given = (*zip(program.consts, captured, strict=True), *zip(program.inputs, sizes, strict=False))
        pairs = [*given, *call_inputs(equation)]
        operands = self.operands(
            [operand for _, operand in pairs]
        )  # looked up first: calls of one Program share its variables
        self.values.update(zip((var for var, _ in pairs), operands, strict=True))
        self.add(program.equations)
        self.values.update(zip(equation.outputs, self.operands(program.outputs), strict=True))

    def _append(self, equation: Equation) -> None:
        regions = [(inline(region), operands) for region, operands in regions_of(equation)]
        if regions:
            equation = with_regions(equation, regions)
        outputs = []
        for var in equation.outputs:
            type_ = array_type(self._moved(var.type.shape), var.type.dtype)  # implicit outputs come first
            self.values[var] = new = Var(self.names.fresh(var.name), type_, var.is_size)
            outputs.append(new)
        params = {name: self._moved(value) for name, value in equation.params.items()}
        appended = Equation(equation.op, self.operands(equation.inputs), tuple(outputs), params, equation.source)
        size = size_value(appended, self._size_value)
        if size is not None:
            self.sizes[appended.outputs[0]] = size
        self.equations.append(appended)

    def _size_value(self, operand: Operand) -> Dim | None:
        return self.sizes[operand] if operand in self.sizes else as_size(operand)

    def _size(self, atom: Any) -> Dim:
        size = self._size_value(self.values[atom])
        assert size is not None, "sizes are scalar integers"
        return size

    def _moved(self, value: Any) -> Any:
        """A parameter or a size in terms of the new variables."""
        if isinstance(value, Size):
            return substitute(value, self._size)
        return tuple(map(self._moved, value)) if isinstance(value, tuple) else value
