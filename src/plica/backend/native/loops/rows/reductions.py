"""Helpers that rows of reductions share."""

from collections.abc import Callable, Sequence
from math import inf

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import Index, Site
from plica.backend.native.scalars.builder import Scalar
from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ops.reduce import NO_ENTRIES

Combine = Callable[[Scalar, Scalar], Scalar]


def least(dtype: DType) -> complex:
    """The number that is not above any entry."""
    return -inf if dtype.kind == "float" else dtype.limits[0]


def most(dtype: DType) -> complex:
    """The number that is not below any entry."""
    return inf if dtype.kind == "float" else dtype.limits[1]


def apply_of(block: Block, name: str) -> Combine:
    """A combination by an elementwise operation."""
    return lambda a, b: block.writer.apply(name, [a, b], a.dtype, {})


def whole_index(
    kept: Sequence[int], outer: Sequence[Index], axes: Sequence[int], inner: Sequence[Index]
) -> list[Index]:
    """The index of an entry, of its parts along two groups of axes."""
    numbers = dict(zip([*kept, *axes], [*outer, *inner], strict=True))
    return [numbers[axis] for axis in sorted(numbers)]


def operand(block: Block, value: Value) -> Array:
    """An array that is reduced, of one entry if it is a scalar."""
    if isinstance(value, Array):
        return value
    scalar = block.scalar(value)
    return Array((), scalar.dtype, lambda _: scalar, {}, flat=lambda _: scalar)


def target_of(block: Block, equation: Equation) -> Array | None:
    """Memory for the result, if it is an array."""
    var = equation.outputs[0]
    return block.new(var, block.dims(var.type)) if var.type.shape else None


def require_entries(block: Block, equation: Equation, x: Array, axes: Sequence[int]) -> None:
    """End the run where an axis without entries has no largest or smallest one."""
    writer = block.writer
    for axis in axes:
        if not isinstance(x.dims[axis], int):
            fine = writer.compare("less", 0, x.dims[axis])
            writer.check(fine, Site(equation.source, _no_entries))


def _no_entries(_: Sequence[int]) -> Exception:
    return InputError(NO_ENTRIES)
