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
    """The lowest number of a dtype: minus infinity of floats."""
    return -inf if dtype.kind == "float" else dtype.limits[0]


def most(dtype: DType) -> complex:
    """The largest number of a dtype: infinity of floats."""
    return inf if dtype.kind == "float" else dtype.limits[1]


def apply_of(block: Block, name: str) -> Combine:
    """A function that combines two scalars by an elementwise operation of this name."""
    return lambda a, b: block.writer.apply(name, [a, b], a.dtype, {})


def joined_index(
    other_axes: Sequence[int], outer: Sequence[Index], axes: Sequence[int], inner: Sequence[Index]
) -> list[Index]:
    """The index of an entry, from its parts along two groups of axes."""
    index_of_axis = dict(zip([*other_axes, *axes], [*outer, *inner], strict=True))
    return [index_of_axis[axis] for axis in sorted(index_of_axis)]


def operand(block: Block, value: Value) -> Array:
    """An operand that is reduced, as an array: a scalar as one of one entry."""
    if isinstance(value, Array):
        return value
    scalar = block.scalar(value)
    return Array((), scalar.dtype, lambda _: scalar, {}, flat=lambda _: scalar)


def target_of(block: Block, equation: Equation) -> Array | None:
    """Memory for the result, if it is an array."""
    var = equation.outputs[0]
    return block.new(var, block.dims(var.type)) if var.type.shape else None


def require_entries(block: Block, equation: Equation, x: Array, axes: Sequence[int]) -> None:
    """End the run if an axis has no entries, and thus no largest or smallest one."""
    writer = block.writer
    for axis in axes:
        if not isinstance(x.dims[axis], int):
            has_entries = writer.compare("less", 0, x.dims[axis])
            writer.check(has_entries, Site(equation.source, _no_entries))


def _no_entries(_: Sequence[int]) -> Exception:
    return InputError(NO_ENTRIES)
