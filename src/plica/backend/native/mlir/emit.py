"""A Program becomes a function of MLIR on tensors, with `?` for each size that is not known before it runs.

    module_text([emit(program, "score")])

Each equation is written by the row of its operation in `rows/`; what has no row goes through its decomposition. The
function takes the leaves of the Program's consts, then its arguments, all as tensors (scalars too), and returns the
results. Implicit sizes are read off the arguments. What a check finds wrong while it runs is told as `Function.checks`
says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.literals import literal_text
from plica.backend.native.mlir.rows import ROWS
from plica.backend.native.mlir.rows.row import Call
from plica.backend.native.mlir.sizes import index_constant, write_size
from plica.backend.native.mlir.types import Value, tensor_type
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim, Size


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module.

    Args:
        name: Its name.
        text: Its lines.
    """

    name: str
    text: str


def emit(program: Program, name: str = "main") -> Function:
    """The function of a Program.

    Raises:
        UnsupportedError: An operation has neither a row nor a decomposition.
    """
    emitter = Emitter()
    code = emitter.code
    names = [f"%arg{place}" for place in range(len(program.consts) + len(program.arguments))]
    arguments = [
        Value(text, var.type.shape, var.type.dtype)
        for text, var in zip(names, (*program.consts, *program.arguments), strict=True)
    ]
    emitter.bind((*program.consts, *program.arguments), arguments)
    for var, (place, axis) in size_sources(program).items():
        emitter.bind_size(var, emitter.dim(arguments[len(program.consts) + place], axis))
    emitter.equations(program)
    results = [emitter.tensor(emitter.read(one)) for one in program.results]
    code.put(f"return {', '.join(one.text for one in results)} : {', '.join(one.type for one in results)}")
    taken = ", ".join(f"{one.text}: {one.type}" for one in arguments)
    head = f"  func.func @{name}({taken}) -> ({', '.join(one.type for one in results)}) {{"
    return Function(name, "\n".join([head, *code.lines, "  }"]) + "\n")


def module_text(functions: Iterable[Function]) -> str:
    """The module of some functions."""
    return "module @plica {\n" + "\n".join(one.text for one in functions) + "}\n"


class Emitter:
    """What rows write with: the lines of one function, the values of variables, and sizes."""

    def __init__(self) -> None:
        self.code = Code()
        self._values: dict[Operand, Value] = {}

    # Variables and sizes

    def bind(self, variables: Sequence[Var], values: Sequence[Value]) -> None:
        """From now on, variables are these values."""
        self._values.update(zip(variables, values, strict=True))

    def bind_size(self, var: Var, index: str) -> None:
        """From now on, a variable is a size: a value of type `index`."""
        self.code.known(Size.of(var), lambda: index)
        text = self.code.op(f"arith.index_cast {index} : index to i64")
        self._values[var] = Value(text, (), DType.INT64, is_scalar=True)

    def read(self, operand: Operand) -> Value:
        """The value of an operand; that of a number of the Program is a scalar."""
        if isinstance(operand, Literal):
            return self.constant(operand.value, operand.type.dtype)
        return self._values[operand]

    def size(self, dim: Dim) -> str:
        """A size, as a value of type `index`."""
        return write_size(self.code, dim, lambda var: self.index(self._values[var]))

    def size_text(self, dim: Dim) -> str:
        """A size where MLIR takes numbers too."""
        return str(dim) if isinstance(dim, int) else self.size(dim)

    def dim(self, value: Value, axis: int) -> str:
        """The size of an axis, read off a tensor."""
        return self.code.once(f"tensor.dim {value.text}, {index_constant(self.code, axis)} : {value.type}")

    # Values

    def constant(self, value: complex, dtype: DType) -> Value:
        """A number, as a scalar."""
        text = literal_text(value, dtype)
        made = Value("", (), dtype, is_scalar=True)
        text = self.code.once(f"arith.constant {text}" + ("" if dtype == DType.BOOL else f" : {made.element}"))
        return Value(text, (), dtype, is_scalar=True)

    def tensor(self, value: Value) -> Value:
        """A value as a tensor: a scalar becomes one of no dimension."""
        if not value.is_scalar:
            return value
        text = self.code.once(f"tensor.from_elements {value.text} : {tensor_type((), value.dtype)}")
        return Value(text, (), value.dtype)

    def scalar(self, value: Value) -> Value:
        """A value of no dimension as a scalar of the host, which waits for it where it is a tensor."""
        if value.is_scalar:
            return value
        return Value(self.code.once(f"tensor.extract {value.text}[] : {value.type}"), (), value.dtype, is_scalar=True)

    def index(self, value: Value) -> str:
        """An integer of no dimension as a value of type `index`."""
        scalar = self.scalar(value)
        return self.code.once(f"arith.index_cast {scalar.text} : {scalar.element} to index")

    def empty(self, shape: Sequence[Dim], dtype: DType) -> Value:
        """An array whose entries are all written later."""
        sizes = ", ".join(self.size(dim) for dim in shape if not isinstance(dim, int))
        return Value(self.code.op(f"tensor.empty({sizes}) : {tensor_type(shape, dtype)}"), tuple(shape), dtype)

    def full(self, shape: Sequence[Dim], fill: Value) -> Value:
        """An array of one number, given as a scalar."""
        out = self.empty(shape, fill.dtype)
        text = self.code.op(f"linalg.fill ins({fill.text} : {fill.type}) outs({out.text} : {out.type}) -> {out.type}")
        return Value(text, tuple(shape), fill.dtype)

    # Equations

    def equations(self, program: Program) -> None:
        """All equations of a Program, whose inputs are bound."""
        for equation in program.equations:
            values = self.equation(equation, [self.read(one) for one in equation.inputs])
            self.bind(equation.outputs, values)

    def equation(self, equation: Equation, inputs: Sequence[Value]) -> Sequence[Value]:
        """The results of one equation."""
        row = ROWS.get(equation.op.name)
        if row is None:
            raise UnsupportedError(f"{equation.source}: {equation.op.name} cannot become native code yet.")
        types = tuple(var.type for var in equation.outputs)
        made: Any = row.write(self, Call(tuple(inputs), types, equation.params, equation.source))
        return [made] if isinstance(made, Value) else made
