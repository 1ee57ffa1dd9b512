"""Programs: typed equations in order, as data. A Program holds no tensors; a `Bound` adds its leaves.

    program  ::= { lambda consts ; {sizes} arguments . let equations in ({sizes} results) }
    equation ::= variables = operation[params] operands

Programs are equal if their texts are; names of variables and source lines do not count.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any

from plica.forks import cached_property
from plica.ir.dtypes import FROM_SHORT, DType
from plica.ir.sizes import SIZE_ARITHMETIC, Dim, Size, as_size, atoms, is_light, substitute
from plica.ir.types import SCALAR_SIZE, ArrayType, DBIdx, InDBIdx, OutDBIdx, ShapedArray, array_type
from plica.notebooks import explorer_html


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

    def _repr_html_(self) -> str:
        """The explorer of the Program, for notebooks."""
        return explorer_html(self)


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

    A result whose size is not light stands for itself, so that no size grows without bound.
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
    if isinstance(value, WITHOUT_SIZES):  # most values by far
        return ()
    if isinstance(value, Size):
        return [atom for atom in atoms(value) if isinstance(atom, Var)]
    if isinstance(value, tuple):
        return [var for entry in value if not isinstance(entry, WITHOUT_SIZES) for var in size_variables(entry)]
    shape = None if isinstance(value, Program) else getattr(value, "shape", None)
    return () if shape is None else size_variables(shape)


WITHOUT_SIZES = (int, float, str, ShapedArray)


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


Note = Callable[[Sequence[Var]], str]
_PLAIN = (bool, int, float, complex, str, NoneType)


def print_program(program: Program, indent: str = "", note: Note | None = None) -> str:
    """The text of `program`; `note` gives the comment at the end of each line that defines variables."""
    consts = " ".join(map(_binder, program.consts))
    inputs = _group((f"{var.name}:{var.type}" for var in program.inputs), program.num_implicit_inputs, " ")
    lines = [f"{{ lambda {consts + ' ' if consts else ''}; {inputs + ' ' if inputs else ''}. let"]
    lines[0] += _comment(note, (*program.consts, *program.inputs))
    for equation in program.equations:
        lines.append(f"{indent}    {print_equation(equation, indent, note)}" + _comment(note, equation.outputs))
    results = _group(map(_operand, program.outputs), program.num_implicit_outputs, ", ")
    if len(program.outputs) == 1:
        results += ","
    return "\n".join(lines) + f"\n{indent}  in ({results}) }}"


def print_equation(equation: Equation, indent: str = "", note: Note | None = None) -> str:
    """The text of one equation."""
    outputs = " ".join(map(_binder, equation.outputs))
    inputs = "".join(f" {_operand(operand)}" for operand in equation.inputs)
    return f"{outputs} = {equation.op.name}{_params(equation.params, indent, note)}{inputs}"


def _comment(note: Note | None, variables: Sequence[Var]) -> str:
    return f"  # {note(variables)}" if note is not None and variables else ""


def _group(items: Iterable[str], implicit: int, separator: str) -> str:
    texts = list(items)
    return separator.join([f"{{{text}}}" for text in texts[:implicit]] + texts[implicit:])


def _binder(var: Var) -> str:
    return f"{{{var.name}:{var.type}}}" if var.is_size else f"{var.name}:{var.type}"


def _operand(operand: Operand) -> str:
    return f"{operand.value!r}:{operand.type}" if hasattr(operand, "value") else operand.name


def _params(params: Any, indent: str, note: Note | None) -> str:
    if not params:
        return ""
    return f"[{' '.join(f'{name}={_value(value, indent + chr(32) * 6, note)}' for name, value in params.items())}]"


def _value(value: Any, indent: str, note: Note | None) -> str:
    if isinstance(value, DType):
        return value.short
    if isinstance(value, tuple):
        inner = ",".join(_value(entry, indent, note) for entry in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Size):
        return str(value)
    return repr(value) if isinstance(value, _PLAIN) else print_program(value, indent, note)  # of a Program within
