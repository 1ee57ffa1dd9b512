"""`Emitter`: writes the equations of Programs to one function of StableHLO.

Rows of operations that run nested Programs import this module, so their table is an argument of the emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.backend.native.stablehlo.call import Call
from plica.backend.native.stablehlo.code import Code, Shape, Tensor
from plica.backend.native.stablehlo.rows import ROWS
from plica.backend.native.stablehlo.scalars import write_entries
from plica.backend.native.stablehlo.values import Value
from plica.errors import ShapeError, UnsupportedError
from plica.ir.op import Array, Unsupported
from plica.ir.program import Equation, Literal, Operand, Program, Var, size_value
from plica.ir.sizes import Dim, Size, atoms, substitute
from plica.ir.types import SCALAR_SIZE, ArrayType, Spec, array_type
from plica.ops import OPS
from plica.tracing import namespace
from plica.tracing.decomposition import as_promised, refuse_captured
from plica.tracing.trace import trace


class Emitter:
    """Writes Programs, including nested ones.

    Attributes:
        code: The function.

    Args:
        code: The function.
        control: The row of each operation that runs Programs.
        dims: Numbers that replace symbolic sizes of the arguments.
    """

    def __init__(self, code: Code, control: Mapping[str, ControlRow], dims: Mapping[Hashable, Dim]) -> None:
        self.code = code
        self._control = control
        self._values: dict[Var, Value] = {}
        self._dims = dict(dims)  # of variables, in terms of the sizes of arguments

    def arguments(self, variables: Sequence[Var]) -> list[Value]:
        """The arguments of the function, from which sizes are read."""
        values = []
        for index, var in enumerate(variables):
            shape = tuple(self._substituted(dim) for dim in var.type.shape)
            value = Value(self.code, Tensor(f"%arg{index}", shape, var.type.dtype))
            for axis, dim in enumerate(shape):
                alone = [atom for atom in atoms(dim) if dim == Size.of(atom)]
                if alone and not self.code.measures(dim):
                    self.code.measure(alone[0], value.tensor, axis)
                    self._dims[alone[0]] = dim
            values.append(value)
        return values

    def _substituted(self, dim: Dim) -> Dim:
        """A size of an argument with the numbers that replace symbolic sizes."""
        return substitute(dim, lambda atom: self._dims.get(atom, Size.of(atom)))

    def constant(self, leaf: Array) -> Value:
        """An array whose numbers are in the text."""
        return Value(self.code, self.code.array(leaf))

    def size(self, dim: Dim) -> Value:
        """A size as a scalar."""
        return Value(self.code, self.code.size(dim))

    def bind(self, variables: Sequence[Var], values: Sequence[Value], dims: Sequence[Dim | None] | None = None) -> None:
        """Bind variables of a Program to values, and variables that are sizes to their sizes."""
        for var, dim in zip(variables, dims or [None] * len(variables), strict=True):
            if dim is not None:
                self._dims[var] = dim
        for var, value in zip(variables, values, strict=True):
            self._values[var] = self.as_type(value, var.type)

    def as_type(self, value: Value, type_: ArrayType) -> Value:
        """The value with the shape of a type, in terms of the sizes of arguments."""
        shape = self.shape(type_, "a nested Program")
        renamed = Tensor(value.tensor.text, shape, value.dtype)
        return Value(self.code, renamed) if renamed.type == value.tensor.type else value.reshape(shape)

    def known(self, dim: Dim) -> Dim | None:
        """A size in terms of the sizes of arguments; None if it depends on data."""
        if any(atom not in self._dims for atom in atoms(dim)):
            return None
        return substitute(dim, lambda atom: self._dims[atom])

    def known_operand(self, operand: Operand) -> Dim | None:
        """A scalar in terms of the sizes of arguments; None if it is no such size."""
        if operand.type != SCALAR_SIZE:
            return None
        return int(operand.value.real) if isinstance(operand, Literal) else self._dims.get(operand)

    def learn(self, var: Var, dim: Dim) -> None:
        """Record a size that an equation computes."""
        self._dims[var] = dim

    def shape(self, type_: ArrayType, where: str) -> Shape:
        """The shape of a type, in terms of the sizes of arguments.

        Raises:
            UnsupportedError: The shape depends on data.
        """
        shape = [self.known(dim) for dim in type_.shape]
        for dim, size in zip(type_.shape, shape, strict=True):
            if size is None:
                raise UnsupportedError(
                    f"{where}: the size {dim} of {type_} depends on the values of arrays; sizes in StableHLO follow "
                    "from the shapes of the arguments alone. Give it as the size of an argument, or export with "
                    "--to native."
                )
        return tuple(dim for dim in shape if dim is not None)

    def read(self, operand: Operand) -> Value:
        """The value of an operand."""
        if isinstance(operand, Literal):
            return Value(self.code, self.code.constant(operand.value, operand.type.dtype))
        if operand not in self._values:  # the result of an equation that is a size
            self._values[operand] = self.size(self._dims[operand])
        return self._values[operand]

    def run(self, program: Program) -> list[Value]:
        """All outputs of a Program whose consts and inputs are bound."""
        for equation in program.equations:
            size = self._size_of(equation)
            if size is None:
                self._write(equation)
            else:
                self._dims[equation.outputs[0]] = size
                self._values.pop(equation.outputs[0], None)
        return [self.read(output) for output in program.outputs]

    def _write(self, equation: Equation) -> None:
        name = equation.op.name
        where = f"{equation.source}: {name}" if equation.source else name
        if name in self._control:
            values = self._control[name](self, equation)
        else:
            call = Call(
                self.code,
                tuple(map(self.read, equation.inputs)),
                {key: self._param(value, where) for key, value in equation.params.items()},
                tuple((self.shape(output.type, where), output.type.dtype) for output in equation.outputs),
            )
            values = self._results(name, call, where)
        for var, value in zip(equation.outputs, values, strict=True):
            self._values[var] = self.as_type(value, var.type)

    def _results(self, name: str, call: Call, where: str) -> Sequence[Value]:
        try:
            if name in ROWS:
                values = ROWS[name](call)
                return [values] if isinstance(values, Value) else values
            entries = write_entries(name, call.inputs, call.shape, call.dtype, call.params)
        except (UnsupportedError, ShapeError) as error:
            raise type(error)(f"{where}: {error}") from None
        return [entries] if entries is not None else self._decomposed(name, call, where)

    def _size_of(self, equation: Equation) -> Dim | None:
        """The result of an equation in terms of the sizes of arguments; None if it is no such size."""
        return size_value(equation, self.known_operand)

    def _param(self, value: Any, where: str) -> Any:
        if isinstance(value, tuple):
            return tuple(self._param(entry, where) for entry in value)
        if not isinstance(value, Size):
            return value
        size = self.known(value)
        return self._computed(value, where) if size is None else size

    def _computed(self, dim: Size, where: str) -> Value:
        """A size that depends on data, for parameters that may: the start of a slice, for example."""
        total = self.size(0)
        for powers, factor in dim.ordered:
            term = self.size(factor)
            for atom, power in powers:
                if atom not in self._values:
                    raise UnsupportedError(
                        f"{where}: the size {dim} depends on the values of arrays and is no polynomial of them; sizes "
                        "in StableHLO follow from the shapes of the arguments. Give it as the size of an argument, or "
                        "export with --to native."
                    )
                for _ in range(power):
                    term = term * self._values[atom]
            total = total + term
        return total

    def _decomposed(self, name: str, call: Call, where: str) -> Sequence[Value]:
        decompose = DECOMPOSITIONS.get(name, OPS[name].decompose)
        if isinstance(decompose, Unsupported):
            raise UnsupportedError(
                f"{where} cannot be written in StableHLO; docs/native/stablehlo.md says which operations can. "
                "Export with --to native, or write it in terms of other operations."
            )
        names: dict[Dim, str] = {}
        for operand in call.inputs:
            for dim in operand.shape:
                if isinstance(dim, Size):
                    names.setdefault(dim, f"n{len(names)}")
        specs = [
            Spec(tuple(dim if isinstance(dim, int) else names[dim] for dim in value.shape), value.dtype)
            for value in call.inputs
        ]
        results = [array_type(shape, dtype) for shape, dtype in call.results]
        promised = as_promised(name, decompose, results, names)
        program = trace(lambda *arrays: promised(namespace, *arrays, **call.params), *specs)
        refuse_captured(name, program)
        sizes = {text: dim for dim, text in names.items()}
        implicit = program.inputs[: program.num_implicit_inputs]
        dims = [sizes[var.name] for var in implicit]
        self.bind(implicit, [self.size(dim) for dim in dims], dims)
        self.bind(program.arguments, call.inputs)
        return self.run(program)[program.num_implicit_outputs :]


ControlRow = Callable[[Emitter, Equation], Sequence[Value]]
"""Writes an equation that runs nested Programs, and returns its results."""
