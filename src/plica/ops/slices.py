"""Slices of one axis: start, stop and step may be sizes that are known only when the program runs.

A slice lies within its axis, 0 <= start <= stop <= size, and its step is positive: nothing is clipped and nothing
wraps. The Program's construction refuses a slice that is known to break this; the run checks others.
"""

from plica.errors import BoundsError
from plica.ir.sizes import Dim, floor_divide
from plica.ir.types import ArrayType
from plica.ops.rules import normal_axis


def slice_size(x: ArrayType, axis: int, start: Dim, stop: Dim, step: Dim) -> Dim:
    """The number of elements of the slice.

    Raises:
        BoundsError: The slice does not lie within the axis.
    """
    if any(
        isinstance(bound, int) and bound < 0 for bound in slice_bounds(x, axis=axis, start=start, stop=stop, step=step)
    ):
        raise BoundsError(f"slice {slice_text(start, stop, step)} does not lie within axis {axis} of {x}.")
    return stop - start if step == 1 else floor_divide(stop - start + step - 1, step)


def slice_bounds(x: ArrayType, *, axis: int, start: Dim, stop: Dim, step: Dim) -> tuple[Dim, ...]:
    """The sizes that are at least 0 if the slice lies within its axis."""
    size = x.shape[normal_axis(axis, len(x.shape))]
    return start, stop - start, size - stop, step - 1


def checked_slice(axis: int, size: int, start: int, stop: int, step: int) -> slice:
    """The slice of an axis of `size`.

    Raises:
        BoundsError: The slice does not lie within the axis.
    """
    if not 0 <= start <= stop <= size or step < 1:
        raise BoundsError(beyond_message(axis, size, start, stop, step))
    return slice(start, stop, step)


def beyond_message(axis: int, size: object, start: object, stop: object, step: object) -> str:
    """The error text for a slice that does not lie within its axis; numbers may be texts that stand for them."""
    return (
        f"slice {slice_text(start, stop, step)} does not lie within axis {axis} of size {size}; bounds that are known "
        "only at run time are 0 <= start <= stop <= size, and the step is positive: they are never clipped."
    )


def slice_text(start: object, stop: object, step: object) -> str:
    """The slice as Python writes it."""
    return f"{start}:{stop}" if step == 1 else f"{start}:{stop}:{step}"
