"""Names in generated code: one Python name for each value, and none that means something there."""

from collections.abc import Iterator
from itertools import count
from keyword import kwlist

from plica.ir.program import Program, Var, nested
from plica.ir.rewrite import rename
from plica.ops.control_operands import carries, unchanged_sizes
from plica.ops.regions import regions_of

_USED = ("torch", "kernels", "leaves", "device", "in_place", "error", "inf", "nan", "_")
_BUILTINS = ("abs", "bool", "complex", "float", "int", "max", "min", "range", "zip", "__debug__")
_ERRORS = ("ArithmeticError", "IndexError", "RuntimeError")
RESERVED = frozenset({*kwlist, *_USED, *_BUILTINS, *_ERRORS})
"""Names that mean something in generated code."""


def with_python_names(program: Program) -> Program:
    """The Program with one Python name for every value, those of nested Programs too.

    A captured variable is called what it captures, so is a size that a loop never changes, and what a loop carries is
    called as the loop's result.
    """
    own_names = {var.name for var in variables(program)}
    if own_names.isdisjoint(RESERVED) and not any(regions_of(equation) for equation in program.equations):
        return program
    program = rename(
        program, lambda var: var.name
    )  # a Program that is called twice has its own variables in each place
    names: dict[Var, str] = {}
    used = set(RESERVED)

    def fresh(var: Var) -> str:
        numbers = count(1)
        name = var.name
        while name in used or (name != var.name and name in own_names):
            name = f"{var.name}_{next(numbers)}"
        used.add(name)
        return name

    def visit(block: Program) -> None:
        for var in (*block.consts, *block.inputs):
            names.setdefault(var, fresh(var) if var not in names else "")
        for equation in block.equations:
            for var in equation.outputs:
                names[var] = fresh(var)
            for region, operands in regions_of(equation):
                for var, operand in zip(region.consts, operands, strict=False):
                    if isinstance(operand, Var):
                        names[var] = names[operand]
            if equation.op.name in ("for_loop", "while_loop", "scan"):
                for inner, _, _, output in carries(equation):
                    names[inner] = names[output]
                for inner, outer in unchanged_sizes(equation):
                    if isinstance(outer, Var):
                        names[inner] = names[outer]
                if equation.op.name == "while_loop":
                    body, cond = equation.params["body"], equation.params["cond"]
                    for var in body.inputs:
                        names.setdefault(var, fresh(var) if var not in names else "")
                    names.update(zip(cond.inputs, (names[var] for var in body.inputs), strict=True))
            for region, _ in regions_of(equation):
                visit(region)

    visit(program)
    return rename(program, names.__getitem__)


def variables(program: Program) -> Iterator[Var]:
    """The variables of a Program and of those nested in it; repeats possible."""
    yield from program.consts
    yield from program.inputs
    for equation in program.equations:
        yield from equation.outputs
        for region in nested(equation.params):
            yield from variables(region)
