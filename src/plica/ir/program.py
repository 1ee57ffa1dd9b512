"""Programs: typed equations in order, as data. A Program holds no tensors; a `Bound` adds its leaves.

    program  ::= { lambda consts ; {sizes} arguments . let equations in ({sizes} results) }
    equation ::= variables = operation[params] operands

Programs are compared by meaning of the text: names of variables and source lines do not count.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from plica.forks import cached_property
from plica.ir.dtypes import FROM_SHORT
from plica.ir.printing import print_program
from plica.ir.sizes import SIZE_ARITHMETIC, Dim, Size, as_size, atoms, is_light, substitute
from plica.ir.types import SCALAR_SIZE, ArrayType, DBIdx, InDBIdx, OutDBIdx, ShapedArray, array_type


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Var:
    """A variable: defined once, compared by identity.

    Args:
        name: Its name, of its own within a Program.
        type: Its type.
        is_size: Whether it is the size of an axis, and so never negative.
    """

    name: str
    type: ArrayType
    is_size: bool = False

    def __repr__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A scalar written in the Program itself."""

    value: bool | int | float | complex
    type: ShapedArray

    def __repr__(self) -> str:
        return f"{self.value}:{self.type}"


Operand = Var | Literal

RESERVED = frozenset({"lambda", "let", "in", "True", "False", "None", "inf", "nan", "infj", "nanj", *FROM_SHORT})


def is_name(text: str, *, reserved: bool = True) -> bool:
    """Whether `text` may name a variable; without `reserved`, words of the grammar count too."""
    return text.isascii() and text.isidentifier() and not (reserved and text in RESERVED)


@dataclass(frozen=True, slots=True)
class OpRef:
    """An operation, by name; a reader finds it in a table of operations."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """One application of an operation; `source` says where it comes from and does not count in comparisons."""

    op: OpRef
    inputs: tuple[Operand, ...]
    outputs: tuple[Var, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """A pure function as a list of equations.

    Args:
        consts: Variables for captured leaves: parameters and index arrays.
        inputs: Implicit sizes first, then the arguments.
        equations: In order of execution.
        outputs: Implicit sizes first, then the results.
        num_implicit_inputs: How many leading inputs are sizes read off the arguments' shapes.
        num_implicit_outputs: How many leading outputs are sizes.
    """

    consts: tuple[Var, ...]
    inputs: tuple[Var, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Operand, ...]
    num_implicit_inputs: int = 0
    num_implicit_outputs: int = 0

    @property
    def arguments(self) -> tuple[Var, ...]:
        """The explicit inputs."""
        return self.inputs[self.num_implicit_inputs :]

    @property
    def results(self) -> tuple[Operand, ...]:
        """The explicit outputs."""
        return self.outputs[self.num_implicit_outputs :]

    @property
    def input_type(self) -> tuple[tuple[ArrayType, bool], ...]:
        """Pairs of (type, explicit) of the consts and the inputs; sizes are `DBIdx` into the same tuple."""
        variables = (*self.consts, *self.inputs)
        first = len(variables) - len(self.arguments)
        references = {var: DBIdx(index) for index, var in enumerate(variables)}
        return tuple((_refer(var.type, {}, references), index >= first) for index, var in enumerate(variables))

    @property
    def output_type(self) -> tuple[tuple[ArrayType, bool], ...]:
        """Pairs of (type, explicit); sizes are `OutDBIdx` where the result list has them, else `InDBIdx`.

        `InDBIdx` counts the consts and the inputs, `OutDBIdx` the outputs.
        """
        references = {var: InDBIdx(index) for index, var in enumerate((*self.consts, *self.inputs))}
        entries: dict[Dim, OutDBIdx] = {}
        for index, operand in enumerate(self.outputs[: self.num_implicit_outputs]):
            entries.setdefault(self.size_of(operand), OutDBIdx(index))
        explicit = [index >= self.num_implicit_outputs for index in range(len(self.outputs))]
        return tuple(
            (_refer(operand.type, entries, references), shown)
            for operand, shown in zip(self.outputs, explicit, strict=True)
        )

    @cached_property
    def size_values(self) -> Mapping[Operand, Dim]:
        """For each scalar that equations compute from sizes, the size that it stands for."""
        values: dict[Operand, Dim] = {}
        for equation in self.equations:
            value = size_value(equation, lambda operand: values[operand] if operand in values else as_size(operand))
            if value is not None:
                values[equation.outputs[0]] = value
        return values

    def size_of(self, operand: Operand) -> Dim:
        """The size that a scalar integer stands for, in terms of the consts and inputs where that is known."""
        size = self.size_values.get(operand)
        size = as_size(operand) if size is None else size
        assert size is not None, f"{operand} is a scalar integer of 64 bits"
        return size

    @cached_property
    def key(self) -> Hashable:
        """The structure that equal Programs share: variables are numbered in order of definition."""
        return _key(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.key == other.key

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)  # a tuple computes its hash anew at each call

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        return {
            attribute.name: getattr(self, attribute.name) for attribute in fields(self)
        }  # other processes have other hashes

    def __str__(self) -> str:
        return print_program(self)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A Program with the leaf of each of its consts, in the form that a backend keeps, in the order of the consts.

    Args:
        program: The Program.
        leaves: The leaves.
        run_time: The names of arguments that have one value for many calls.
    """

    program: Program
    leaves: tuple[Any, ...]
    run_time: tuple[str, ...] = ()


def _refer(type_: ArrayType, entries: Mapping[Dim, Hashable], references: Mapping[Any, Any]) -> ArrayType:
    """A type whose sizes are references: whole sizes to `entries`, variables to `references`."""
    if isinstance(type_, ShapedArray):
        return type_
    dims = (
        Size.of(entries[dim]) if dim in entries else substitute(dim, lambda atom: Size.of(references.get(atom, atom)))
        for dim in type_.shape
    )
    return array_type(dims, type_.dtype)


def size_value(equation: Equation, size_of: Callable[[Operand], Dim | None]) -> Dim | None:
    """The size that the result of an equation stands for, if it is arithmetic on scalars that are sizes.

    One that is not light stands for itself, so that no size grows without bound.
    """
    function = SIZE_ARITHMETIC.get(equation.op.name)
    if function is None or len(equation.outputs) != 1 or equation.outputs[0].type != SCALAR_SIZE:
        return None
    operands = [size_of(operand) for operand in equation.inputs]
    if any(operand is None for operand in operands) or (equation.op.name in _DIVISIONS and operands[1] == 0):
        return None
    size = function(*operands)
    return size if is_light(size) else None


_DIVISIONS = ("floor_divide", "remainder")


def nested(params: Mapping[str, Any]) -> Iterator[Program]:
    """The Programs among the values of `params`, in order."""
    for value in params.values():
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, Program):
                yield entry


def size_variables(value: Any) -> Iterable[Var]:
    """The variables that the sizes within a type or a parameter value refer to, in order; repeats possible."""
    if isinstance(value, _WITHOUT_SIZES):  # most values by far
        return ()
    if isinstance(value, Size):
        return [atom for atom in atoms(value) if isinstance(atom, Var)]
    if isinstance(value, tuple):
        return [var for entry in value if not isinstance(entry, _WITHOUT_SIZES) for var in size_variables(entry)]
    shape = None if isinstance(value, Program) else getattr(value, "shape", None)
    return () if shape is None else size_variables(shape)


_WITHOUT_SIZES = (int, float, str, ShapedArray)


def _key(program: Program) -> Hashable:
    numbers: dict[Var, int] = {}
    known: dict[Size, Dim] = {}

    def define(variables: tuple[Var, ...]) -> Hashable:
        for var in variables:
            numbers[var] = len(numbers)
        return tuple(type_key(var.type) for var in variables)

    def number(atom: Any) -> Size:
        return Size.of(numbers.get(atom, atom))

    def type_key(type_: ArrayType) -> Hashable:
        return (value_key(type_.shape), type_.dtype)

    def value_key(value: Any) -> Hashable:
        if isinstance(value, Size):
            return substitute(value, number, known)
        if isinstance(value, tuple):
            return tuple(value_key(entry) for entry in value)
        if isinstance(value, float | complex):  # NaN equals NaN here, and 0.0 differs from -0.0
            return (type(value).__name__, repr(value))
        return value.key if isinstance(value, Program) else (type(value).__name__, value)

    def use(operands: tuple[Operand, ...]) -> Hashable:
        return tuple(
            numbers[operand] if isinstance(operand, Var) else (repr(operand.value), operand.type.dtype)
            for operand in operands
        )

    consts, inputs = define(program.consts), define(program.inputs)
    body = []
    for equation in program.equations:
        used = use(equation.inputs)
        params = tuple((name, value_key(value)) for name, value in sorted(equation.params.items()))
        body.append((equation.op.name, used, params, define(equation.outputs)))
    implicit = (program.num_implicit_inputs, program.num_implicit_outputs)
    return (consts, inputs, tuple(body), use(program.outputs), implicit)


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
        if isinstance(value, _WITHOUT_SIZES):
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
