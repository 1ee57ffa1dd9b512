"""The verifier: every rule that a Program keeps, checked, and the equation shown that breaks one."""

from plica.errors import PlicaError, VerifyError
from plica.ir.op import OpTable
from plica.ir.program import Equation, Operand, Program, Var, nested, size_variables
from plica.ir.text import print_equation


def verify_program(program: Program, table: OpTable) -> None:
    """Check that names are unique, variables are defined before use, and every type is its operation's.

    Raises:
        VerifyError: A rule is broken; the message shows the equation between its neighbours.
    """
    checker = _Checker(program, table)
    checker.define((*program.consts, *program.inputs), -1)
    for index, equation in enumerate(program.equations):
        checker.equation(index, equation)
    checker.use(program.outputs, len(program.equations), "the results")


class _Checker:
    def __init__(self, program: Program, table: OpTable) -> None:
        self._program = program
        self._table = table
        self._defined: dict[Var, None] = {}
        self._names: set[str] = set()

    def equation(self, index: int, equation: Equation) -> None:
        row = self._table.get(equation.op.name)
        if row is None:
            self._fail(index, f"the table has no operation {equation.op.name!r}")
            return
        self.use(equation.inputs, index, "an operand")
        for value in equation.params.values():
            self._use_sizes(value, index)
        for program in nested(equation.params):
            verify_program(program, self._table)
        try:
            expected = row.types([one.type for one in equation.inputs], equation.params)
        except (PlicaError, TypeError) as error:
            self._fail(index, f"{equation.op.name} refuses its operands: {error}")
            return
        found = tuple(var.type for var in equation.outputs)
        if found != expected:
            wanted, shown = (", ".join(map(str, types)) for types in (expected, found))
            self._fail(index, f"the result of {equation.op.name} has type {wanted}, but is declared as {shown}")
        self.define(equation.outputs, index)

    def define(self, variables: tuple[Var, ...], index: int) -> None:
        for var in variables:
            self._use_sizes(var.type, index)
            if var in self._defined or var.name in self._names:
                self._fail(index, f"the name {var.name!r} is defined twice")
            self._defined[var] = None
            self._names.add(var.name)

    def use(self, operands: tuple[Operand, ...], index: int, what: str) -> None:
        for operand in operands:
            if isinstance(operand, Var) and operand not in self._defined:
                self._fail(index, f"{what}, {operand.name}, is used before it is defined")

    def _use_sizes(self, value: object, index: int) -> None:
        for var in size_variables(value):
            if var not in self._defined:
                self._fail(index, f"the size {var.name} is used before it is defined")

    def _fail(self, index: int, problem: str) -> None:
        equations = self._program.equations
        lines = []
        for near in range(max(0, index - 2), min(len(equations), index + 3)):
            mark = "-->" if near == index else "   "
            lines.append(f"  {mark} {near}: {print_equation(equations[near])}")
        where = f"equation {index}" if 0 <= index < len(equations) else "the signature"
        source = f" (from {equations[index].source})" if 0 <= index < len(equations) and equations[index].source else ""
        raise VerifyError("\n".join([f"{where}{source}: {problem}", *lines]))
