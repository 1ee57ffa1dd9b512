"""A Program becomes a function of MLIR on tensors, with `?` for each size that is not known before it runs.

    module_text([emit(program, "score")])

Each equation is written by the row of its operation in `rows/`; what has no row goes through its decomposition. The
function takes the leaves of the Program's consts, then its arguments, all as tensors (scalars too), and returns the
results. Implicit sizes are read off the arguments, whose sizes the caller has checked. What a check finds while it runs
is told as `plica.runtime.faults` says.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from plica.backend.native.mlir.checks import Checks, values_text
from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.literals import literal_text
from plica.backend.native.mlir.rows import ROWS
from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.sizes import index_constant, write_size
from plica.backend.native.mlir.types import Value, tensor_type
from plica.backend.native.scalars import MlirScalars
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, Program, Var, rename
from plica.ir.signature import size_sources
from plica.ir.sizes import Dim, Size
from plica.ir.types import ArrayType


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module.

    Args:
        name: Its name.
        text: Its lines.
        num_values: How many numbers its checks tell of at most.
    """

    name: str
    text: str
    num_values: int = 0


def emit(program: Program, name: str = "main") -> Function:
    """The function of a Program.

    Raises:
        UnsupportedError: An operation has neither a row nor a decomposition, or numbers are complex.
    """
    emitter = Emitter()
    code = emitter.code
    variables = (*program.consts, *program.arguments)
    arguments = [Value(f"%arg{place}", var.type.shape, var.type.dtype) for place, var in enumerate(variables)]
    emitter.bind(variables, arguments)
    for var, (place, axis) in size_sources(program).items():
        emitter.bind_size(var, emitter.dim(arguments[len(program.consts) + place], axis))
    emitter.equations(program)
    results = [emitter.tensor(emitter.read(one)) for one in program.results]
    emitter.checks.settle()
    returned = f"return {', '.join(one.text for one in results)}"
    code.put(f"{returned} : {', '.join(one.type for one in results)}" if results else "return")
    taken = ", ".join(f"{one.text}: {one.type}" for one in arguments)
    head = f"  func.func @{name}({taken}) -> ({', '.join(one.type for one in results)}) {{"
    return Function(name, "\n".join([head, *code.lines, "  }"]) + "\n", emitter.checks.num_values)


def module_text(functions: Iterable[Function]) -> str:
    """The module of some functions."""
    found = list(functions)
    parts = [values_text(max((one.num_values for one in found), default=0)), *(one.text for one in found)]
    return "module @plica {\n" + "\n".join(part for part in parts if part) + "}\n"


class Emitter:
    """What rows write with: the lines of one function, the values of variables, and sizes.

    Attributes:
        code: The lines.
        scalars: The code of entries, written to the same lines.
        checks: Checks of what is known only when the function runs.
    """

    def __init__(self) -> None:
        self.code = Code()
        self.scalars = MlirScalars(self.code.lines)
        self.checks = Checks(self)
        self._values: dict[Operand, Value] = {}

    # Variables and sizes

    def bind(self, variables: Iterable[Var], values: Iterable[Value]) -> None:
        """From now on, variables are these values."""
        for var, value in zip(variables, values, strict=True):
            self._values[var] = self.retyped(value, var.type)

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

    def size_value(self, dim: Dim) -> Value:
        """A size, as a scalar of the host."""
        if isinstance(dim, int):
            return self.constant(dim, DType.INT64)
        return Value(self.code.once(f"arith.index_cast {self.size(dim)} : index to i64"), (), DType.INT64, True)

    def dim(self, value: Value, axis: int) -> str:
        """The size of an axis, read off a tensor."""
        return self.code.once(f"tensor.dim {value.text}, {index_constant(self.code, axis)} : {value.type}")

    # Values

    def constant(self, value: complex, dtype: DType) -> Value:
        """A number, as a scalar."""
        made = Value("", (), dtype, is_scalar=True)
        suffix = "" if dtype == DType.BOOL else f" : {made.element}"
        return Value(self.code.once(f"arith.constant {literal_text(value, dtype)}{suffix}"), (), dtype, is_scalar=True)

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
        self.checks.settle()  # before anything is computed from what may be wrong
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

    def retyped(self, value: Value, type_: ArrayType) -> Value:
        """The same value with the sizes that a type has for it: other variables, or numbers that are known."""
        if value.is_scalar or value.shape == type_.shape:
            return value
        found = Value(value.text, type_.shape, value.dtype)
        if found.type == value.type:
            return found
        return Value(self.code.op(f"tensor.cast {value.text} : {value.type} to {found.type}"), *found.array)

    # Equations

    def equations(self, program: Program) -> None:
        """All equations of a Program, whose inputs are bound."""
        for equation in program.equations:
            self.bind(equation.outputs, self.equation(equation, [self.read(one) for one in equation.inputs]))

    def equation(self, equation: Equation, inputs: Sequence[Value]) -> Sequence[Value]:
        """The results of one equation."""
        name = equation.op.name
        row = ROWS.get(name)
        write: Callable[..., Any] | None = decomposed(name) if row is None else row.write
        if write is None:
            raise UnsupportedError(
                f"{equation.source or 'a Program'}: {name} has no native code, neither a row nor a decomposition; "
                "compute it with the torch backend."
            )
        call = Call(name, tuple(inputs), equation.outputs, equation.params, equation.source)
        self.checks.sizes(call)
        try:
            made = write(self, call)
        except UnsupportedError as error:
            if not equation.source or equation.source in str(error):
                raise
            raise UnsupportedError(f"{equation.source}: {error}") from None
        return [made] if isinstance(made, Value) else made

    def inline(self, program: Program, consts: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
        """All outputs of a nested Program, implicit sizes first."""
        own = rename(program, lambda var: var.name)  # with variables of its own wherever it is written
        self.bind((*own.consts, *own.inputs), (*consts, *inputs))
        self.equations(own)
        return [self.read(one) for one in own.outputs]

    @contextmanager
    def region(self) -> Iterator[None]:
        """Lines that may not run, or run several times: what they check is checked there."""
        with self.code.block(), self.checks.apart():
            yield


__all__ = ["Emitter", "Function", "Row", "emit", "module_text"]
