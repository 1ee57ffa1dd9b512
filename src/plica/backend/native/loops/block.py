"""`Block`: the equations of a Program, nested or not, become statements, each by its row.

The result of a row stays a computation of entries (`arrays.py`) where one equation reads it. Where several do, it is
written to memory. A block *owns* a buffer that the nest allocated and that only variables of the block read. An update
that is the last to read an owned array may write over it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from plica.backend.native.circuits.operations import NATIVE_OPS
from plica.backend.native.loops.arrays import Array, Value, fill, solid
from plica.backend.native.loops.nest import Allocate, Buffer, Cell, Free, GetPointer, Index, PutPointer, Site
from plica.backend.native.loops.support import bytes_of, is_on_stack
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.errors import InputError, UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, Program
from plica.ir.sizes import Dim, Opaque, Size, is_nonnegative_by_cases
from plica.ir.types import ArrayType

Row = Callable[["Block", Equation, list[Value]], Any]
_FUNCTIONS = {"floordiv": "floor_divide", "mod": "remainder"}


@dataclass(slots=True, eq=False)
class Block:
    """A Program whose equations are being written.

    Args:
        writer: Appends the statements.
        rows: The row of each operation.
        program: The Program.
        env: The values of its variables; those of its consts and inputs are there already.
        owned: Buffers that it may write over.
        destinations: The memory that a variable gets if it is written to memory.
        capacities: Buffers that may grow, and how many entries each can hold.
        temporaries: Memory that this block frees at its end.
        leaving: Variables whose memory outlives the block.
        has_blas: Whether products of matrices are those of BLAS.
        position: The position of the equation that is being written.
    """

    writer: Writer
    rows: Mapping[str, Row]
    program: Program
    env: dict[Operand, Value]
    owned: set[Buffer] = field(default_factory=set)
    destinations: dict[Operand, Array] = field(default_factory=dict)
    capacities: dict[Buffer, Cell] = field(default_factory=dict)
    temporaries: list[Allocate] = field(default_factory=list)
    leaving: set[Operand] = field(default_factory=set)
    has_blas: bool = True
    position: int = 0
    _last: dict[Operand, int] = field(default_factory=dict)
    _uses: dict[Operand, int] = field(default_factory=dict)

    def run(self) -> None:
        """Write all equations."""
        equations = self.program.equations
        for index, equation in enumerate(equations):
            for operand in equation.inputs:
                self._last[operand] = index
                self._uses[operand] = self._uses.get(operand, 0) + (2 if NATIVE_OPS[equation.op.name].repeats else 1)
        for operand in self.program.outputs:
            self._last[operand] = len(equations)
            self._uses[operand] = self._uses.get(operand, 0) + 1
        for index, equation in enumerate(equations):
            self.position = index
            self._equation(equation)
        self.position = len(equations)

    def _equation(self, equation: Equation) -> None:
        if any(var in self.env for var in equation.outputs):
            return  # the row of another equation has written these results too
        row = self.rows.get(equation.op.name)
        if row is None:
            where = f"{equation.source}: " if equation.source else ""
            raise UnsupportedError(
                f"{where}the native backend of jit has no loop nest for the operation {equation.op.name!r}; use "
                'backend="torch".'
            )
        self._check_sizes(equation)
        written = row(self, equation, [self.value(operand) for operand in equation.inputs])
        results = written if isinstance(written, tuple) else (written,)
        for var, value in zip(equation.outputs, results, strict=True):
            if isinstance(value, Array) and value.buffer is None and not value.is_cheap and self._uses.get(var, 0) > 1:
                value = self.in_memory(value, var)
            self.env[var] = value

    def _check_sizes(self, equation: Equation) -> None:
        """Check sizes that may be negative."""
        op = NATIVE_OPS[equation.op.name]
        if op.name in ("slice", "update", "assert_shape"):
            return  # their rows raise errors that say more
        types = [operand.type for operand in equation.inputs]
        self.require_sizes(op.nonnegative(*types, **equation.params), equation)

    def require_sizes(self, dims: Iterable[Dim], equation: Equation) -> None:
        """End the run with an error if one of these sizes is negative."""
        for dim in dims:
            if not is_nonnegative_by_cases(dim):
                self._require_size(dim, equation)

    def _require_size(self, dim: Dim, equation: Equation) -> None:
        name = str(dim)

        def error(numbers: Sequence[int]) -> Exception:
            meaning = "" if isinstance(dim, int) else f"{name} = "
            return InputError(f"the size {meaning}{numbers[0]} is negative; take 0 or more.")

        number = self.size(dim)
        self.writer.check(self.writer.compare("less_equal", 0, number), Site(equation.source, error), number)

    # Values

    def value(self, operand: Operand) -> Value:
        """The value of an operand."""
        if not isinstance(operand, Literal):
            return self.env[operand]
        if operand.type.dtype == DType.INT64 and isinstance(operand.value, int):
            return operand.value
        return self.writer.number(operand.value, operand.type.dtype)

    def scalar(self, value: Value) -> Scalar:
        """The value of a scalar; a Python number becomes a constant."""
        assert not isinstance(value, Array), "a scalar is no array"
        return self.writer.value(value)

    def index(self, value: Value) -> Index:
        """The value of a scalar of 64 bits, as an index."""
        assert not isinstance(value, Array), "an index is a scalar"
        return value

    def size(self, dim: Dim) -> Index:
        """A size of a type as an index: a polynomial of the sizes in `env`, computed."""
        if not isinstance(dim, Size):
            return dim
        total: Index = 0
        for powers, factor in dim.ordered:
            term: Index = factor
            for atom, power in powers:
                value = self._atom(atom)
                for _ in range(power):
                    term = self.writer.multiply(term, value)
            total = self.writer.add(total, term)
        return total

    def _atom(self, atom: Any) -> Index:
        if not isinstance(atom, Opaque):
            return self.index(self.env[atom])
        first, second = (self.size(argument) for argument in atom.arguments)
        if atom.function in ("max", "min"):
            return (self.writer.maximum if atom.function == "max" else self.writer.minimum)(first, second)
        name, operands = _FUNCTIONS[atom.function], [self.writer.value(first), self.writer.value(second)]
        return self.writer.apply(name, operands, DType.INT64, {})

    def dims(self, type_: ArrayType) -> tuple[Index, ...]:
        """The sizes of a type."""
        return tuple(map(self.size, type_.shape))

    # Memory

    def new(self, var: Operand, dims: Sequence[Index], *, leaves: bool = False) -> Array:
        """Memory for a variable."""
        leaves = leaves or var in self.leaving
        if not leaves and var in self.destinations:
            return self.destinations.pop(var)
        buffer = self.writer.buffer(var.type.dtype)
        self._allocate(Allocate(buffer, self.writer.room(dims), leaves))
        return solid(self.writer, buffer, dims)

    def temporary(self, dtype: DType, dims: Sequence[Index]) -> Array:
        """Memory that belongs to no variable."""
        buffer = self.writer.buffer(dtype)
        self._allocate(Allocate(buffer, self.writer.room(dims)))
        return solid(self.writer, buffer, dims)

    def _allocate(self, statement: Allocate) -> None:
        if is_on_stack(statement):
            assert isinstance(statement.count, int), "arrays on the stack have known sizes"
            self.writer.free_stack -= statement.count * bytes_of(statement.buffer.dtype)
            statement = replace(statement, stack_is_full=self.writer.free_stack < 0)
        self.writer.put(statement)
        self.temporaries.append(statement)
        self.owned.add(statement.buffer)

    def bind(self, buffer: Buffer, var: Operand, dims: Sequence[Index], equation: Equation) -> Array:
        """Memory for a variable, in a buffer that statements already use, though they run after the allocation.

        The checks of sizes within those statements come too late for this allocation.
        """
        if var in self.leaving or var not in self.destinations:
            self.require_sizes(var.type.shape, equation)
        array = self.new(var, dims)
        self.alias(buffer, array)
        return array

    def alias(self, buffer: Buffer, array: Array) -> None:
        """Let `buffer` be another name for the memory of an array."""
        assert array.buffer is not None, "it lies in memory"
        cell = self.writer.pointer(buffer.dtype)
        self.writer.put(PutPointer(cell, array.buffer, array.start))
        self.writer.put(GetPointer(buffer, cell))

    def in_memory(self, value: Array, var: Operand | None = None) -> Array:
        """The array itself if it is solid, else a copy in memory."""
        if value.buffer is not None:
            return value
        target = self.temporary(value.dtype, value.dims) if var is None else self.new(var, value.dims)
        fill(self.writer, target, value)
        return target

    def free_temporaries(self, exceptions: Iterable[Buffer] = ()) -> None:
        """Free the temporaries of this block, with exceptions."""
        exempt = dict.fromkeys(exceptions)
        for statement in self.temporaries:
            if statement.buffer not in exempt:
                self.writer.put(Free(statement.buffer))
        self.temporaries = []

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """A context at whose end the temporaries that it allocated are freed."""
        outside, self.temporaries = self.temporaries, []
        yield
        self.free_temporaries()
        self.temporaries = outside

    def may_leave(self, value: Array) -> bool:
        """Whether an array is all of a heap allocation of this block, so that its memory may outlive the block."""
        return value.start == 0 and any(
            temporary.buffer is value.buffer and temporary.leaves for temporary in self.temporaries
        )

    # Readers of variables

    def is_live(self, operand: Operand) -> bool:
        """Whether a later equation reads a variable, or it is an output."""
        return self._last.get(operand, -1) > self.position

    def may_write(self, operand: Operand, value: Array) -> bool:
        """Whether this equation may write over an operand: it owns the memory, and no later equation reads it.

        Arrays that would be computed from the operand later are written to memory first.
        """
        buffer = value.buffer
        if buffer is None or buffer not in self.owned or value.start != 0 or self.is_live(operand):
            return False
        readers = [
            (variable, array)
            for variable, array in self.env.items()
            if variable is not operand and isinstance(array, Array) and buffer in array.reads and self.is_live(variable)
        ]
        if any(array.buffer is not None for _, array in readers):
            return False
        for reader, array in readers:
            self.env[reader] = self.in_memory(array)
        return True

    def dying(self, operands: Iterable[Operand]) -> set[Buffer]:
        """The owned buffers of these operands that no later equation reads."""
        read_later = {
            buffer
            for variable, array in self.env.items()
            if isinstance(array, Array) and self.is_live(variable)
            for buffer in array.reads
        }
        buffers = set()
        for operand in operands:
            value = self.env.get(operand)
            if isinstance(value, Array) and value.buffer is not None and value.start == 0:
                buffers.add(value.buffer)
        return (buffers & self.owned) - read_later

    def inner(self, program: Program, env: dict[Operand, Value], owned: Iterable[Buffer] = ()) -> "Block":
        """A Program within this one."""
        return Block(self.writer, self.rows, program, env, set(owned), has_blas=self.has_blas)
