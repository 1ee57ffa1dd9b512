"""The emitter of one function, and the rows by which it writes equations.

The emitter stands below all rows: it takes the function that looks them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Checks, Fault
from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.literals import constant_text
from plica.backend.native.mlir.nested import with_sizes
from plica.backend.native.mlir.sizes import index_constant, write_size
from plica.backend.native.mlir.structured import apart, copied, indexed
from plica.backend.native.mlir.types import Value, tensor_type
from plica.backend.native.mlir.update_copies import copied_bases
from plica.backend.native.scalars import MlirScalars
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, Program, Var, size_variables
from plica.ir.sizes import Dim, Size, as_size
from plica.ops.divisions import BY_ZERO
from plica.ops.rules import real_dtype


class Emitter:
    """Writes one function: its lines, the values of its variables, and sizes.

    Attributes:
        code: The lines.
        scalars: The code of entries, written to the same lines.
        checks: Checks at run time.
        overwrites: Whether a part of an array was updated.

    Args:
        name: The name of the function.
        row_of: The row of an operation, by its name; None where it has none.
        are_indices_in_bounds: Whether all indices are known to lie within their axes.
        is_gpu: Whether graphics processors run the function.
        write_runs: Writes the equations of a Program, given a function that writes one of them on tensors. By default
            that function writes each.
    """

    def __init__(
        self,
        name: str,
        row_of: Callable[[str], Row | None],
        *,
        are_indices_in_bounds: bool = False,
        is_gpu: bool = False,
        write_runs: WriteRuns | None = None,
    ) -> None:
        self._row_of, self._write_runs = row_of, write_runs
        self.name, self.are_indices_in_bounds, self.is_gpu = name, are_indices_in_bounds, is_gpu
        self.code = Code()
        self.scalars = MlirScalars(self.code.lines)
        self.checks = Checks(self)
        self.overwrites = False
        self._values: dict[Operand, Value] = {}
        self._begun = Counter[tuple[str, int, str]]()
        self._depth = 0  # how many regions enclose the current line
        self._plain = set[str]()  # tensors that are computed from numbers alone

    # Variables and sizes

    def bind(self, variables: Iterable[Var], values: Iterable[Value]) -> None:
        """From now on, variables are these values."""
        for var, value in zip(variables, values, strict=True):
            value = value if value.is_scalar else self.shaped(value, var.type.shape)
            is_size = value.size is None and as_size(var) is not None
            self._values[var] = replace(value, size=Size.of(var)) if is_size else value

    def bind_size(self, var: Var, index: str) -> None:
        """From now on, a variable is a size: a value of type `index`."""
        self.code.known(Size.of(var), lambda: index)
        text = self.code.op(f"arith.index_cast {index} : index to i64")
        self._values[var] = Value(text, (), DType.INT64, is_scalar=True, size=Size.of(var))

    def read(self, operand: Operand) -> Value:
        """The value of an operand; that of a number of the Program is a scalar."""
        if isinstance(operand, Literal):
            return self.constant(operand.value, operand.type.dtype)
        return self._values[operand]

    def size(self, dim: Dim) -> str:
        """A size, as a value of type `index`."""
        return write_size(self.code, dim, lambda var: self.index(self._values[var]), self._divisor)

    def _divisor(self, index: str) -> str:
        """A divisor of a size; the function fails where it is 0."""
        zero = index_constant(self.code, 0)
        text = self.code.op(f"arith.cmpi ne, {index}, {zero} : index")
        self.checks.require(Value(text, (), DType.BOOL, is_scalar=True), Fault("ZeroDivisorError", BY_ZERO))
        return self.code.op(f"arith.select {text}, {index}, {index_constant(self.code, 1)} : index")

    def size_text(self, dim: Dim) -> str:
        """A size where MLIR takes numbers too."""
        return str(dim) if isinstance(dim, int) else self.size(dim)

    def size_value(self, dim: Dim) -> Value:
        """A size, as a scalar of the host."""
        if isinstance(dim, int):
            return self.constant(dim, DType.INT64)
        text = self.code.once(f"arith.index_cast {self.size(dim)} : index to i64")
        return Value(text, (), DType.INT64, is_scalar=True, size=dim)

    def dim(self, value: Value, axis: int) -> str:
        """The size of an axis, read off a tensor."""
        return self.code.once(f"tensor.dim {value.text}, {index_constant(self.code, axis)} : {value.type}")

    # Values

    def constant(self, value: complex, dtype: DType) -> Value:
        """A number, as a scalar."""
        scalar = Value("", (), dtype, is_scalar=True)
        text = self.code.once(constant_text(value, dtype))
        return replace(scalar, text=text, size=int(value.real) if dtype.kind == "int" else None)

    def result(self, operand: Operand) -> Value:
        """The result of the function for an operand.

        Where the function writes a part of an array, results are hidden from the compiler. It would write in place over
        an argument or another view of the entries, and then return that.
        """
        tensor, code = self.tensor(self.read(operand)), self.code
        if not self.overwrites or not tensor.shape:
            return tensor
        text = code.op(f"util.optimization_barrier {tensor.text} : {tensor.type}")
        sizes = [self.size(dim) for dim in tensor.shape if not isinstance(dim, int)]
        if sizes:
            text = code.op(f"flow.tensor.tie_shape {text} : {tensor.type}{{{', '.join(sizes)}}}")
        return replace(tensor, text=text)

    def tensor(self, value: Value) -> Value:
        """A value as a tensor: a scalar becomes one of no dimension."""
        if not value.is_scalar:
            return value
        if value.dtype.kind in ("bool", "complex"):  # of which IREE makes no tensor by its element
            return self.full((), value)
        text = self.code.once(f"tensor.from_elements {value.text} : {tensor_type((), value.dtype)}")
        return Value(text, (), value.dtype, size=value.size)

    def scalar(self, value: Value) -> Value:
        """A value of no dimension as a scalar of the host, which waits for it where it is a tensor."""
        if value.is_scalar:
            return value
        self.checks.settle()  # before anything is computed from values that may be wrong
        return replace(value, text=self.code.once(f"tensor.extract {value.text}[] : {value.type}"), is_scalar=True)

    def index(self, value: Value) -> str:
        """An integer of no dimension as a value of type `index`."""
        scalar = self.scalar(value)
        return self.code.once(f"arith.index_cast {scalar.text} : {scalar.element} to index")

    def empty(self, shape: Sequence[Dim], dtype: DType) -> Value:
        """An array whose entries are all written later."""
        sizes = ", ".join(self.size(dim) for dim in shape if not isinstance(dim, int))
        return Value(self.code.op(f"tensor.empty({sizes}) : {tensor_type(shape, dtype)}"), tuple(shape), dtype)

    def is_begun(self, out: Value, index: int, first: str) -> bool:
        """Whether an earlier array of the same type was begun by inserting a part of type `first` at this index."""
        key = (out.type, index, first)
        self._begun[key] += 1
        return self._begun[key] > 1

    def inserted(self, parts: Iterable[tuple[Value, str]], out: Value, *, is_begun: bool) -> Value:
        """An array into which parts are inserted.

        IREE 3.13 merges two arrays whose first insertions are equal. If one dispatch reads both, the second insertion
        into one overwrites that of the other. Sizes that IREE cannot see keep the arrays apart.

        Args:
            parts: Tensors, and their offsets, sizes and strides.
            out: A value of the type of the array.
            is_begun: Whether the first insertion may equal that of another array (`is_begun`).
        """
        type_, sizes = out.type, [self.size(dim) for dim in out.shape if not isinstance(dim, int)]
        if is_begun:
            symbolic = [dim for dim in out.shape[1:] if not isinstance(dim, int)]
            sizes = [
                self.code.op(f"util.optimization_barrier {self.size(dim)} : index") for dim in (out.shape[0], *symbolic)
            ]
            type_ = type_.replace(f"<{out.shape[0]}x", "<?x", 1) if isinstance(out.shape[0], int) else type_
        text = self.code.op(f"tensor.empty({', '.join(sizes)}) : {type_}")
        for part, slice_text in parts:
            text = self.code.op(f"tensor.insert_slice {part.text} into {text}{slice_text} : {part.type} into {type_}")
        if type_ != out.type:
            text = self.code.op(f"tensor.cast {text} : {type_} to {out.type}")
        return Value(text, *out.array)

    def full(self, shape: Sequence[Dim], fill: Value) -> Value:
        """An array whose entries are all equal to a scalar."""
        if fill.dtype.kind == "complex":
            return self._full_of_parts(shape, fill)
        out = self.empty(shape, fill.dtype)
        text = self.code.op(f"linalg.fill ins({fill.text} : {fill.type}) outs({out.text} : {out.type}) -> {out.type}")
        return Value(text, tuple(shape), fill.dtype)

    def _full_of_parts(self, shape: Sequence[Dim], fill: Value) -> Value:
        """An array of one complex number. Its parts are hidden: IREE fills no array with entries of 128 bits."""
        code, dtype = self.code, real_dtype(fill.dtype)
        parts = [Value(code.op(f"complex.{part} {fill.text} : {fill.type}"), (), dtype, True) for part in ("re", "im")]
        real, imag = (code.op(f"util.optimization_barrier {part.text} : {part.type}") for part in parts)

        def body(_: Sequence[str]) -> str:
            return code.op(f"complex.create {real}, {imag} : {fill.type}")

        return indexed(self, shape, fill.dtype, body)

    def of_pairs(self, pairs: Value) -> Value:
        """Complex numbers, of floats that lie as pairs along the last axis."""
        dtype = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}[pairs.dtype]
        tensor = Value("", pairs.shape[:-1], dtype)
        return replace(tensor, text=self.code.op(f"flow.tensor.bitcast {pairs.text} : {pairs.type} -> {tensor.type}"))

    def shaped(self, value: Value, shape: Sequence[Dim]) -> Value:
        """A tensor with equal sizes written differently in its type: `?` for numbers, or numbers for `?`.

        Not by `tensor.cast`, which MLIR folds into loops and into arguments. IREE then confuses the sizes of loops, and
        refuses arguments before any check of ours. Numbers that become `?` are hidden from both.
        """
        if value.shape == tuple(shape):
            return value
        reshaped = replace(value, shape=tuple(shape))
        if reshaped.type == value.type:
            return replace(reshaped, text=value.text)
        before, after = list[str](), list[str]()
        for dim, other in zip(value.shape, shape, strict=True):
            is_known = all(var in self._values for var in size_variables((dim,)))
            size = self.size(dim if is_known else other)  # results of a loop may have sizes of its body
            if not isinstance(dim, int):
                before.append(size)
            if not isinstance(other, int):
                hides = isinstance(dim, int)
                after.append(self.code.op(f"util.optimization_barrier {size} : index") if hides else size)
        source, result = (
            f"{tensor.type}{{{', '.join(dims)}}}" if dims else tensor.type
            for tensor, dims in ((value, before), (reshaped, after))
        )
        return replace(reshaped, text=self.code.op(f"flow.tensor.reshape {value.text} : {source} -> {result}"))

    # Equations

    def equations(self, program: Program, shared: Iterable[Operand] = ()) -> None:
        """Write all equations of a Program, whose inputs are bound; other Programs read `shared` and its captures."""
        bases = copied_bases(program, (*program.consts, *shared), is_nested=self._depth > 0)

        def write(equation: Equation) -> None:
            inputs = [self.read(operand) for operand in equation.inputs]
            if equation.op.name == "update" and equation.inputs[0] in bases:
                inputs[0] = copied(self, inputs[0])
            self.bind(equation.outputs, self.equation(equation, inputs))

        if self._write_runs is not None:
            self._write_runs(self, program, write)
            return
        for equation in program.equations:
            write(equation)

    def equation(self, equation: Equation, inputs: Sequence[Value]) -> Sequence[Value]:
        """The results of one equation."""
        name = equation.op.name
        row = self._row_of(name)
        if row is None:
            raise UnsupportedError(
                f"{equation.source or 'a Program'}: {name} has no native code, neither a row nor a decomposition; "
                "compute it with the torch backend."
            )
        if row.reads_memory:
            inputs = [
                apart(self, operand) if operand.text in self._plain and operand.shape else operand for operand in inputs
            ]
        call = Call(name, tuple(inputs), equation.outputs, equation.params, equation.source, equation.inputs)
        self.checks.sizes(call)
        try:
            written = row.write(self, call)
        except UnsupportedError as error:
            if not equation.source or equation.source in str(error):
                raise
            raise UnsupportedError(f"{equation.source}: {error}") from None
        results = [written] if isinstance(written, Value) else written
        if all(operand.is_scalar or operand.text in self._plain for operand in inputs):
            self._plain.update(value.text for value in results if not value.is_scalar)
        return results

    def inline(
        self, program: Program, consts: Sequence[Value], inputs: Sequence[Value], *, is_called: bool = False
    ) -> list[Value]:
        """All outputs of a nested Program, implicit sizes first; if `is_called`, others may read its inputs."""
        own = with_sizes(program, zip((*program.consts, *program.inputs), (*consts, *inputs), strict=True))
        self.bind((*own.consts, *own.inputs), (*consts, *inputs))
        self.equations(own, own.inputs if is_called else ())
        return [self.read(output) for output in own.outputs]

    @contextmanager
    def region(self) -> Iterator[None]:
        """Lines that may run never or several times: their checks are performed within them."""
        self._depth += 1
        with self.code.block(), self.checks.apart():
            yield
        self._depth -= 1

    def hidden(self, scalar: Value) -> Value:
        """A scalar that IREE does not know to be a constant within a region; nor are arrays filled with it constants.

        A loop may carry one array twice, and replace one of the two by a constant. IREE 3.13 would give both the memory
        of constants, and then refuse the code.
        """
        if not self._depth or scalar.dtype.kind == "complex":  # `full` hides the parts of those
            return scalar
        return replace(scalar, text=self.code.op(f"util.optimization_barrier {scalar.text} : {scalar.type}"))


Write = Callable[[Emitter, Call], Value | Sequence[Value]]
WriteRuns = Callable[[Emitter, Program, Callable[[Equation], None]], None]


@dataclass(frozen=True, slots=True)
class Row:
    """The writer of one operation.

    Args:
        write: `write(emitter, call)` writes the lines of an equation and returns its result, or a sequence of results.
            Each has the shape and the dtype of its type in `call.types`.
        reads_memory: Whether operands that are computed from numbers alone are written to memory first. Reductions
            need it: IREE 3.13 adds a known number once per vector.
    """

    write: Write
    reads_memory: bool = False
