"""The verifier: checks every rule that a Program keeps, and shows the equation that breaks one."""

from plica.errors import VerifyError
from plica.ir.op import OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var, is_name, nested, print_equation, size_variables
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim, Size, as_size
from plica.ir.types import SCALAR_SIZE, resolve


def verify_program(program: Program, table: OpTable) -> None:
    """Check that names are unique, variables are defined before use, and every type is its operation's.

    Raises:
        VerifyError: A rule is broken; the message shows the equation between its neighbours.
    """
    _verify(program, table, is_nested=False)


def _verify(program: Program, table: OpTable, *, is_nested: bool) -> None:
    checker = _Checker(program, table)
    checker.signature(is_nested)
    for index, equation in enumerate(program.equations):
        checker.equation(index, equation)
    checker.use(program.outputs, len(program.equations), "the results")


class _Checker:
    def __init__(self, program: Program, table: OpTable) -> None:
        self._program = program
        self._table = table
        self._defined: dict[Var, None] = {}
        self._names: set[str] = set()

    def signature(self, is_nested: bool) -> None:
        program = self._program
        if not 0 <= program.num_implicit_inputs <= len(program.inputs):
            self._fail(-1, f"{program.num_implicit_inputs} of {len(program.inputs)} inputs cannot be implicit")
        if not 0 <= program.num_implicit_outputs <= len(program.outputs):
            self._fail(-1, f"{program.num_implicit_outputs} of {len(program.outputs)} outputs cannot be implicit")
        implicit, outputs = (
            program.inputs[: program.num_implicit_inputs],
            program.outputs[: program.num_implicit_outputs],
        )
        for operand in (*implicit, *outputs):
            if operand.type != SCALAR_SIZE:
                self._fail(-1, f"the implicit size {operand!r} is no {SCALAR_SIZE}")
        self.define((*program.consts, *program.inputs), -1)
        if is_nested:  # the operation that holds the Program hands over its sizes
            return
        sources = size_sources(program)
        for var in implicit:
            if var not in sources:
                self._fail(-1, f"no argument has an axis of size {var.name} alone, from which it could be read")

    def equation(self, index: int, equation: Equation) -> None:
        operation = self._table.get(equation.op.name)
        if operation is None:
            self._fail(index, f"the table has no operation {equation.op.name!r}")
            return
        self.use(equation.inputs, index, "an operand")
        for value in equation.params.values():
            self._use_sizes(value, index)
        for program in nested(equation.params):
            _verify(program, self._table, is_nested=True)
        try:
            sizes = [self._size(operand) for operand in equation.inputs] if operation.regions else ()
            types = operation.types([operand.type for operand in equation.inputs], equation.params, sizes)
            expected = tuple(resolve(type_, lambda position: Size.of(equation.outputs[position])) for type_ in types)
        except Exception as error:  # a type rule may stumble over parameters of a kind that it does not expect
            self._fail(index, f"{equation.op.name} does not take its operands: {error}")
            return
        declared = tuple(var.type for var in equation.outputs)
        if declared != expected:
            wanted, shown = (", ".join(map(str, types)) for types in (expected, declared))
            self._fail(index, f"the result of {equation.op.name} has type {wanted}, but is declared as {shown}")
        self.define(equation.outputs, index)

    def _size(self, operand: Operand) -> Dim | None:
        known = self._program.size_values.get(operand)
        return as_size(operand) if known is None else known

    def define(self, variables: tuple[Var, ...], index: int) -> None:
        for var in variables:
            self._use_sizes(var.type, index)
            if not is_name(var.name):
                self._fail(index, f"{var.name!r} cannot name a variable")
            if var.is_size and var.type != SCALAR_SIZE:
                self._fail(index, f"the size {var!r} is no {SCALAR_SIZE}")
            if var in self._defined or var.name in self._names:
                self._fail(index, f"the name {var.name!r} is defined twice")
            self._defined[var] = None
            self._names.add(var.name)

    def use(self, operands: tuple[Operand, ...], index: int, what: str) -> None:
        for operand in operands:
            if isinstance(operand, Var) and operand not in self._defined:
                self._fail(index, f"{what}, {operand.name}, is used before it is defined")
            if isinstance(operand, Literal) and operand.type.dtype.kind == "int":
                least, most = operand.type.dtype.limits
                if not least <= operand.value <= most:  # type: ignore[operator]
                    self._fail(index, f"{what}, {operand.value}, does not fit {operand.type.dtype.value}")

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
