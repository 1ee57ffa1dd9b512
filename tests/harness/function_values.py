"""What is known of the values of a random function: their dtypes, symbolic sizes and ranges, and how Python says them.

Sizes are polynomials over `Atom`s: integers that are known when the function runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product as pairs
from math import prod

from plica.ir.sizes import Dim, Opaque, Size, atoms, product, same, sorted_terms

MOST_ELEMENTS = 300  # of one value
MOST_AXES = 4


@dataclass(frozen=True, slots=True)
class Atom:
    """An integer that is known when the function runs: a size, an argument, the index of a loop.

    Args:
        name: The Python that says it.
        low: The least value that it can have.
        high: The largest.
        below: A size that it is always below, if there is one.
        is_argument: Whether it is one from the start, or the index of a loop: no other atom ever equals it for sure.
    """

    name: str
    low: int
    high: int
    below: Dim | None = field(default=None, compare=False)
    is_argument: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """A variable.

    Args:
        text: The Python that says it.
        dtype: The dtype; that of a Python number is the one which it has among other numbers.
        dims: The sizes.
        low: The least element.
        high: The largest.
        number: Whether it is a Python number where nothing is traced.
        dim: What it is, if it is a Python integer.
        finite: Whether it has no NaN.
        noisy: Whether it is rounded, so that no comparison may hang on it.
    """

    text: str
    dtype: str
    dims: tuple[Dim, ...] = ()
    low: float = -1.0
    high: float = 1.0
    number: bool = False
    dim: Dim | None = None
    finite: bool = True
    noisy: bool = False

    @property
    def kind(self) -> str:
        """Which kind of elements it has."""
        return self.dtype.rstrip("0123456789")

    @property
    def size(self) -> float:
        """The largest magnitude of its elements."""
        return max(abs(self.low), abs(self.high))


def integer(text: str, dim: Dim) -> Value:
    """A Python integer."""
    low, high = limits(dim)
    return Value(text, "int64", (), low, high, number=True, dim=dim)


# Sizes


def limits(dim: Dim) -> tuple[int, int]:
    """An interval that holds all values of a size."""
    if isinstance(dim, int):
        return dim, dim
    low, high = 0, 0
    for found, factor in sorted_terms(dim):
        term = (factor, factor)
        for atom in found:
            term = times(term, _atom_limits(atom))  # type: ignore[assignment]
        low, high = low + int(term[0]), high + int(term[1])
    return low, high


def times(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """The interval of products."""
    found = [a * b for a, b in pairs(first, second)]
    return min(found), max(found)


def _atom_limits(atom: object) -> tuple[int, int]:
    if isinstance(atom, Atom):
        return atom.low, atom.high
    assert isinstance(atom, Opaque), "a size is made of atoms"
    (low, high), second = (limits(argument) for argument in atom.arguments)
    match atom.function:
        case "max":
            return max(low, second[0]), max(high, second[1])
        case "floordiv":
            assert second[0] > 0, "random functions divide by what is positive"
            found = [a // b for a, b in pairs((low, high), second)]
            return min(found), max(found)
        case "mod":
            assert second[0] > 0, "random functions divide by what is positive"
            return 0, second[1] - 1
    raise AssertionError(f"no size of a random function is a {atom.function}")


def most_elements(dims: Iterable[Dim]) -> int:
    """The largest number of elements of an array of these sizes."""
    return prod(max(limits(dim)[1], 0) for dim in dims)


def least_elements(dims: Iterable[Dim]) -> int:
    """The least number of elements of an array of these sizes."""
    return prod(max(limits(dim)[0], 0) for dim in dims)


def fits(dims: Sequence[Dim]) -> bool:
    """Whether arrays of these sizes are small enough."""
    return len(dims) <= MOST_AXES and most_elements(dims) <= MOST_ELEMENTS


def is_within(dim: Dim, known: Iterable[Atom]) -> bool:
    """Whether a size is one of these atoms alone."""
    names = list(known)
    return all(atom in names for atom in atoms(dim))


def is_argument(dim: Dim) -> bool:
    """Whether a size is made of arguments alone."""
    return all(isinstance(atom, Atom) and atom.is_argument for atom in atoms(dim))


# Python text of sizes


def say(dim: Dim, values: Sequence[Value], *, by_shape: bool = True) -> str | None:
    """Python for a size; None if it cannot be said.

    Args:
        dim: The size.
        values: The variables that are there.
        by_shape: Whether the shape of a variable is taken even where arithmetic says it.
    """
    if isinstance(dim, int):
        return str(dim)
    ways = (_shape_text, _sum) if by_shape else (_sum, _shape_text)
    return next((text for text in (way(dim, values) for way in ways) if text is not None), None)


def _shape_text(dim: Dim, values: Sequence[Value]) -> str | None:
    for value in reversed(values):
        if value.dim == dim:
            return value.text
        for axis, one in enumerate(value.dims):
            if one == dim:
                return f"{value.text}.shape[{axis}]"
    return None


def _sum(dim: Size, values: Sequence[Value]) -> str | None:
    result = ""
    for found, factor in sorted_terms(dim):
        texts = [_atom_text(atom, values) for atom in found]
        if any(text is None for text in texts):
            return None
        parts = [text for text in texts if text is not None]
        if abs(factor) != 1 or not parts:
            parts.insert(0, str(abs(factor)))
        term = " * ".join(parts)
        sign = ("-" if factor < 0 else "") if not result else (" - " if factor < 0 else " + ")
        result += sign + term
    return result


def _atom_text(atom: object, values: Sequence[Value]) -> str | None:
    if isinstance(atom, Atom):
        return atom.name
    assert isinstance(atom, Opaque), "a size is made of atoms"
    if atom.function == "max":
        return _shape_text(Size.of(atom), values)
    first, second = (say(argument, values) for argument in atom.arguments)
    if first is None or second is None:
        return None
    return f"(({first}) {'//' if atom.function == 'floordiv' else '%'} ({second}))"


# Shapes


def meeting(*shapes: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The shape in which arrays meet; None if they do not for sure."""
    rank = max(len(shape) for shape in shapes)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if -axis <= len(shape)]
        wide = [size for size in sizes if size != 1]
        if any(not same(size, wide[0]) for size in wide):
            return None
        result.append(wide[0] if wide else 1)
    return tuple(result)


def without(dims: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """A shape whose `axes` are reduced."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in axes)


def replaced(dims: Sequence[Dim], axis: int, dim: Dim) -> tuple[Dim, ...]:
    """A shape with another size along `axis`."""
    return (*dims[:axis], dim, *dims[axis + 1 :])


def elements(dims: Iterable[Dim]) -> Dim:
    """How many elements an array has."""
    return product(dims)
