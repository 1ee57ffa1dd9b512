"""Pieces of type rules that several tables share: broadcasting, axes, and checks of kinds."""

import operator
from collections.abc import Sequence

from plica.errors import AxisError, DTypeError, ShapeError, UndecidedSizeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, same
from plica.ir.types import ArrayType


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The common shape of `shapes` by the standard's rule; a symbolic size is never taken to be 1.

    Raises:
        ShapeError: Two sizes differ, or may differ.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        size: Dim = 1
        for shape in shapes:
            if -axis <= len(shape):
                size = _meet(size, shape[axis], shapes)
        result.append(size)
    return tuple(result)


def _meet(first: Dim, second: Dim, shapes: Sequence[Sequence[Dim]]) -> Dim:
    if first == second or second == 1:
        return first
    if first == 1:
        return second
    shown = " and ".join(map(shape_text, shapes))
    require_equal_sizes(first, second, f"the shapes {shown} do not broadcast: {first} against {second}.")
    return first if isinstance(first, int) else second


def require_equal_sizes(first: Dim, second: Dim, message: str, axis: int | None = None, operand: int = 0) -> None:
    """Check that two sizes are equal; the second is that of axis `axis` of the operand of index `operand`, if given.

    Raises:
        ShapeError: The sizes differ; the text is `message`.
        UndecidedSizeError: It depends on the run; where a Program is being built, this becomes a check at run time.
    """
    equal = same(first, second)
    if equal is None:
        raise UndecidedSizeError(first, second, message, axis, operand)
    if not equal:
        raise ShapeError(message)


def require_operands(types: Sequence[ArrayType], least: int, most: int | None = None) -> None:
    """Check how many operands there are; without `most`, any number from `least` on.

    Raises:
        VerifyError: There are too few or too many.
    """
    if len(types) < least or (most is not None and len(types) > most):
        wanted = f"at least {least}" if most is None else str(least)
        raise VerifyError(f"the operation takes {wanted} operand(s), found {len(types)}.")


def require_kind(types: Sequence[ArrayType], kinds: Sequence[str]) -> None:
    """Check that each dtype is of one of `kinds`.

    Raises:
        DTypeError: A dtype is of another kind.
    """
    for type_ in types:
        if type_.dtype.kind not in kinds:
            raise DTypeError(f"found {type_.dtype.value}, expected {' or '.join(kinds)}; convert with astype.")


def require_same_dtype(*types: ArrayType) -> DType:
    """The dtype that all of `types` have.

    Raises:
        DTypeError: The dtypes differ.
    """
    if any(type_.dtype != types[0].dtype for type_ in types):
        raise DTypeError(f"dtypes differ: {', '.join(str(type_) for type_ in types)}; convert with astype.")
    return types[0].dtype


def shape_text(shape: Sequence[Dim]) -> str:
    """A shape as messages show it, such as `(n, 3)`."""
    return f"({', '.join(map(str, shape))})"


def normal_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        AxisError: There is no such axis.
        ShapeError: `axis` is no integer that is known before the program runs.
    """
    try:
        number = operator.index(axis)
    except TypeError:
        raise ShapeError(f"an axis is an integer that is known before the program runs, found {axis!r}.") from None
    if not -rank <= number < rank:
        raise AxisError(f"axis {number} does not exist in an array of {rank} dimension(s).")
    return number % rank


def normal_axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, ascending; `None` means all.

    Raises:
        AxisError: An axis does not exist.
        ShapeError: An axis is named twice, or is no integer that is known before the program runs.
    """
    if axis is None:
        return tuple(range(rank))
    axes = sorted(normal_axis(number, rank) for number in (axis if isinstance(axis, Sequence) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis is named twice: {axis}.")
    return tuple(axes)


def real_dtype(dtype: DType) -> DType:
    """The dtype of the parts of a complex number; another dtype itself."""
    parts = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
    return parts.get(dtype, dtype)


def given_shape(*_: ArrayType, shape: tuple[Dim, ...], **__: object) -> tuple[Dim, ...]:
    """The sizes of a result that is given its shape, none of which is negative."""
    return shape
