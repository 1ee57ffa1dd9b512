"""Programs with other names of variables, and with other variables or sizes in the place of some."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from plica.ir.program import WITHOUT_SIZES, Equation, Operand, Program, Var
from plica.ir.sizes import Dim, Size, substitute
from plica.ir.types import ShapedArray, array_type


def rename(program: Program, name: Callable[[Var], str]) -> Program:
    """The same Program with other names of variables, those of nested Programs too."""
    return rewrite(program, name, {})


def rewrite(program: Program, name: Callable[[Var], str], sizes: Mapping[Any, Dim]) -> Program:
    """The same Program with other names, and with other variables in the place of some.

    Args:
        program: The Program.
        name: The new name of each variable.
        sizes: The sizes that replace variables in types and parameters.

    Assumes:
        A replaced variable has the value of its replacement whenever the Program runs.
    """
    new: dict[Hashable, Var] = {}
    known: dict[Size, Dim] = {}

    def size(atom: Any) -> Dim:
        if atom in sizes:
            return substitute(sizes[atom], lambda inner: Size.of(new.get(inner, inner)))
        return Size.of(new.get(atom, atom))

    def move(value: Any) -> Any:
        if isinstance(value, WITHOUT_SIZES):
            return value
        if isinstance(value, Size):
            return substitute(value, size, known)
        if isinstance(value, Program):
            return rename(value, name)
        return tuple(move(entry) for entry in value) if isinstance(value, tuple) else value

    def define(var: Var) -> Var:
        is_static = isinstance(var.type, ShapedArray)
        type_ = var.type if is_static else array_type(move(var.type.shape), var.type.dtype)
        new[var] = Var(name(var), type_, var.is_size)
        return new[var]

    def use(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(new[operand] if isinstance(operand, Var) else operand for operand in operands)

    consts = tuple(map(define, program.consts))
    inputs = tuple(map(define, program.inputs))
    equations = tuple(
        Equation(
            equation.op,
            use(equation.inputs),
            tuple(map(define, equation.outputs)),
            {key: move(value) for key, value in equation.params.items()},
            equation.source,
        )
        for equation in program.equations
    )
    return Program(
        consts, inputs, equations, use(program.outputs), program.num_implicit_inputs, program.num_implicit_outputs
    )
