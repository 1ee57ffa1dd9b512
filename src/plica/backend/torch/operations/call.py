"""Parts of registry entries: an equation with its operands as Python text; dtypes, sizes and shapes as text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim, Opaque, is_nonnegative


@dataclass(frozen=True, slots=True)
class Call:
    """An equation with its operands as Python text.

    Args:
        equation: The equation.
        inputs: Its operands.
        hosts: The places of operands that are Python numbers.
    """

    equation: Equation
    inputs: tuple[str, ...]
    hosts: frozenset[int]

    @property
    def params(self) -> Any:
        """The parameters of the equation."""
        return self.equation.params

    def is_host(self, index: int) -> bool:
        """Whether an operand is a Python number."""
        return index in self.hosts

    def tensor(self, index: int) -> str:
        """An operand where torch takes nothing but tensors: a Python number becomes one."""
        if self.is_host(index):
            return scalar_source(self.inputs[index], self.equation.inputs[index].type.dtype)
        return self.inputs[index]

    @property
    def tensors(self) -> str:
        """All operands as tensors, separated by commas."""
        return ", ".join(self.tensor(index) for index in range(len(self.inputs)))


Text = Callable[[Call], str]
"""From an equation to the text of a Python expression."""


class Unsigned(Enum):
    """How an operation that torch lacks for unsigned integers of 16, 32 and 64 bits is computed with int64."""

    MODULAR = "right modulo 2**64, and so for uint64 too"
    ORDERED = "right where the numbers fit int64: where their order counts, uint64 is refused"


@dataclass(frozen=True, slots=True)
class Row:
    """How one operation is written in torch.

    Args:
        text: Its text.
        host: Its text on Python numbers, to be filled with the operands, where it means there what it means on scalars
            of 64-bit integers and truth values; else None.
        unsigned: How it takes unsigned integers of 16, 32 and 64 bits; None where torch's function takes them, or
            refuses them itself.
        over: For some operands from the first on, its text where the result is written over that operand.
        transposed: The place of the operand whose last two axes are read the other way round, None where there is none.
    """

    text: Text
    host: str | None = None
    unsigned: Unsigned | None = None
    transposed: Callable[[Equation], int | None] = lambda equation: None  # noqa: ARG005
    over: Sequence[str] = ()


def dtype_source(dtype: DType) -> str:
    """The torch dtype as Python text; that in which numbers are moved that are only stored in their own."""
    return f"torch.{dtype.carrier.value}"


def number_source(value: complex) -> str:
    """A number as Python text; no sign of a zero gets lost, as it does in `1-0j`, and infinity has a name."""
    return f"complex({value.real!r}, {value.imag!r})" if isinstance(value, complex) else repr(value)


def scalar_source(value: str, dtype: DType) -> str:
    """A tensor of no dimension as Python text."""
    return f"torch.full((), {value}, dtype={dtype_source(dtype)}, device=device)"


def size_source(size: Dim) -> str:
    """A size as Python text over the names of its variables."""
    if isinstance(size, int):
        return str(size)
    terms = []
    for monomial, factor in size.terms:
        factors = sorted(
            f"{_atom_source(atom)}**{power}" if power > 1 else _atom_source(atom) for atom, power in monomial
        )
        terms.append(
            "*".join(factors if factor == 1 and factors else [*factors, str(factor) if factor > 0 else f"({factor})"])
        )
    return " + ".join(sorted(terms))


def _atom_source(atom: Any) -> str:
    if not isinstance(atom, Opaque):
        return str(atom.name)
    arguments = [f"({size_source(argument)})" for argument in atom.arguments]
    infix = {"floordiv": "//", "mod": "%"}
    if atom.function in infix:
        return f"({infix[atom.function].join(arguments)})"
    return f"{atom.function}({', '.join(arguments)})"


def axis_source(size: Dim) -> str:
    """The size of an axis as Python text, which refuses a negative one where that may be."""
    text = size_source(size)
    return text if is_nonnegative(size) else f"kernels.axis_size({text}, {str(size)!r})"


def bounds_source(bounds: tuple[Dim, ...]) -> str:
    """Sizes that are no axes, such as the bounds of a slice, as the text of a tuple."""
    return f"({', '.join(map(size_source, bounds))},)"


def shape_source(shape: tuple[Dim, ...]) -> str:
    """A shape as the text of a tuple."""
    inner = ", ".join(map(axis_source, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def indices(call: Call, index: int) -> str:
    """An operand of indices: torch reads only some integer types as such."""
    text = call.tensor(index)
    return text if call.equation.inputs[index].type.dtype == DType.INT64 else f"{text}.to(torch.int64)"


def wide(row: Text) -> Text:
    """Sums of unsigned integers are unsigned in the standard, and signed in torch."""
    unsigned = "{}.to(torch.uint64)".format
    return lambda call: unsigned(row(call)) if call.equation.outputs[0].type.dtype == DType.UINT64 else row(call)


def function(name: str) -> Text:
    """A function of all operands, as tensors."""
    return lambda call: f"{name}({call.tensors})"


def along(name: str) -> Text:
    """A function of one tensor and an axis."""
    return lambda call: f"{name}({call.tensor(0)}, {call.params['axis']})"
