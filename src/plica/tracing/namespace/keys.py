"""Keys of arrays, the expressions in the brackets of `x[key]`, with one entry for each axis of `x`.

Slices whose bounds are Python integers mean what they mean in numpy, on axes of unknown size too: they are clipped. A
bound that is a tracer is never clipped and does not wrap: 0 <= start <= stop <= size is checked at run time, and the
size is `stop - start`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.errors import BoundsError, DTypeError, ShapeError, TraceError
from plica.ir.dtypes import DType
from plica.ir.program import Literal
from plica.ir.sizes import Dim, Size, floor_divide, opaque, same
from plica.ops.indexing import outside_message
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import as_dim, as_tracer, cast, is_array, size_of
from plica.tracing.scope import record, record_all, scope_of
from plica.tracing.tracer import Tracer, literal


@dataclass(frozen=True, slots=True)
class NewAxis:
    """A new axis of size 1; takes no axis of `x`."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An ellipsis that stands for no axis: it separates arrays of indices all the same."""


@dataclass(frozen=True, slots=True)
class Range:
    """Elements `start` to `stop`, in reverse order if `backwards`, and of those every `step`-th."""

    start: Dim
    stop: Dim
    step: Dim = 1
    backwards: bool = False

    @property
    def ascending(self) -> tuple[Dim, Dim, Dim]:
        """The same elements as a slice with a positive step."""
        if not self.backwards or self.step == 1:
            return self.start, self.stop, self.step
        first = self.stop - 1 - (_count(self) - 1) * self.step
        return opaque("min", first, self.stop), self.stop, self.step


@dataclass(frozen=True, slots=True)
class Scalar:
    """One index: a Python integer, or a tracer that counts from the end where it is negative."""

    index: int | Tracer


@dataclass(frozen=True, slots=True)
class Indices:
    """An array of indices."""

    indices: Tracer


@dataclass(frozen=True, slots=True)
class Mask:
    """An array of truths, which takes as many axes as it has."""

    truths: Tracer


Entry = NewAxis | Gap | Range | Scalar | Indices | Mask


def parse(x: Tracer, key: Any) -> list[Entry]:
    """The entries of `x[key]`; axes that `key` does not name are whole ranges at its ellipsis or at the end.

    Raises:
        TraceError: Something in `key` is no index.
        ShapeError: There are two ellipses.
        DTypeError: An array of indices holds neither integers nor truths.
        BoundsError: There are more indices than axes, an integer is known to lie outside its axis, or a mask to have
            other sizes than its axes.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    ellipses = [position for position, part in enumerate(keys) if part is Ellipsis]
    if len(ellipses) > 1:
        raise ShapeError(f"{user_line()}: {_shown(key)} has {len(ellipses)} ellipses, expected at most one.")
    readers = [_read(part) for part in keys]
    missing = x.ndim - sum(_axes_of(reader) for reader in readers)
    if missing < 0:
        raise BoundsError(f"{user_line()}: {_shown(key)} indexes {x.ndim - missing} axes, but {x.aval} has {x.ndim}.")
    position = ellipses[0] if ellipses else len(keys)
    readers_between: list[Any] = [slice(None)] * missing or [Gap()] * len(ellipses)
    readers[position : position + 1] = readers_between
    return list(_entries(x, readers))


def _read(key: Any) -> Any:
    """A key on its own: a slice, None, an integer, a tracer of integers or truths."""
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    if isinstance(key, list):
        key = _listed(key)
    if isinstance(key, bool | np.bool_):
        key = bool(key)
    elif isinstance(key, np.integer):
        key = int(key)
    if isinstance(key, bool | Tracer) or is_array(key):
        return _of_array(as_tracer("indexing", key))
    try:
        return operator.index(key)
    except TypeError:
        raise TraceError(
            f"{user_line()}: {key!r} is no index; indices are integers, slices, None, ..., "
            "and arrays of integers or booleans."
        ) from None


def _listed(key: list[Any]) -> Any:
    try:
        array = np.asarray(key)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{user_line()}: the list {key!r} is no index ({error}); use plica.numpy.stack.") from None
    return array if array.size else array.astype("int64")


def _of_array(key: Tracer) -> Any:
    if key.dtype.kind not in ("int", "bool"):
        raise DTypeError(
            f"{user_line()}: indices are integers or booleans, found {key.aval}; convert with astype(x, 'int64')."
        )
    size = size_of(key) if key.ndim == 0 else None
    return size if isinstance(size, int) else key


def _axes_of(key: Any) -> int:
    if key is None or key is Ellipsis:
        return 0
    return key.ndim if isinstance(key, Tracer) and key.dtype.kind == "bool" else 1


def _entries(x: Tracer, keys: Sequence[Any]) -> Iterator[Entry]:
    axis = 0
    for key in keys:
        if key is None:
            yield NewAxis()
        elif isinstance(key, Gap):
            yield key
        elif isinstance(key, slice):
            yield _range(x, axis, key)
        elif isinstance(key, int):
            yield Scalar(_within(x, axis, key))
        elif key.dtype.kind == "bool":
            yield _mask(x, axis, key)
        else:
            yield Indices(key) if key.ndim else Scalar(cast(key, DType.INT64))
        axis += 0 if isinstance(key, Gap) else _axes_of(key)


def _within(x: Tracer, axis: int, key: int) -> int:
    size = x.dims[axis]
    if isinstance(size, int) and not -size <= key < size:
        raise BoundsError(f"{user_line()}: {outside_message(key, axis, size)} The array is {x.aval}.")
    return key


def _mask(x: Tracer, axis: int, key: Tracer) -> Mask:
    """A mask of the sizes of the axes that it takes; by the standard an axis of size 0 fits each, and takes nothing."""
    message = f"{user_line()}: the mask {key.aval} does not fit axes {axis} to {axis + key.ndim - 1} of {x.aval}."
    wanted = x.dims[axis : axis + key.ndim]
    if any(given != 0 and same(size, given) is False for size, given in zip(wanted, key.dims, strict=True)):
        raise BoundsError(message)
    if key.dims == wanted:
        return Mask(key)
    if 0 in key.dims:
        return Mask(record("full", literal(False, DType.BOOL), shape=wanted))
    scope_of(key).builder.equalities.extend(zip(wanted, key.dims, strict=True))
    return Mask(record("assert_shape", key, shape=wanted))


# Slices


def _range(x: Tracer, axis: int, key: slice) -> Range:
    size = x.dims[axis]
    start, stop, step = (None if bound is None else _bound(bound) for bound in (key.start, key.stop, key.step))
    step = 1 if step is None else step
    if step == 0:
        raise ShapeError(f"{user_line()}: the step of a slice is not 0.")
    if isinstance(start, Size) or isinstance(stop, Size) or isinstance(step, Size):
        return _exact(size, start, stop, step)
    return _clipped(size, start, stop, step)


def _bound(value: Any) -> Dim:
    return as_dim(as_tracer("a slice", value) if is_array(value) and not isinstance(value, np.integer) else value)


def _exact(size: Dim, start: Dim | None, stop: Dim | None, step: Dim) -> Range:
    """Bounds that are known only at run time; Python integers below 0 count from the end."""
    start, stop = (size + bound if isinstance(bound, int) and bound < 0 else bound for bound in (start, stop))
    if isinstance(step, int) and step < 0:
        return Range(0 if stop is None else stop + 1, size if start is None else start + 1, -step, backwards=True)
    return Range(0 if start is None else start, size if stop is None else stop, step)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound `offset` elements after the front, or before the end, which is clipped to the axis."""

    offset: int
    from_end: bool = False

    def clipped(self, size: Dim) -> Dim:
        if self.offset == 0:
            return size if self.from_end else 0
        return opaque("max", size - self.offset, 0) if self.from_end else opaque("min", self.offset, size)


_FRONT, _END = _Bound(0), _Bound(0, from_end=True)


def _clipped(size: Dim, start: int | None, stop: int | None, step: int) -> Range:
    """Python integers, with the meaning that they have in numpy."""
    if step > 0:
        return Range(*_interval(size, _before(start, _FRONT), _before(stop, _END)), step)
    # x[start:stop:-1] is x[stop + 1 : start + 1] backwards
    return Range(*_interval(size, _after(stop, _FRONT), _after(start, _END)), -step, backwards=True)


def _before(index: int | None, default: _Bound) -> _Bound:
    """The bound before the element at `index`."""
    if index is None:
        return default
    return _Bound(index) if index >= 0 else _Bound(-index, from_end=True)


def _after(index: int | None, default: _Bound) -> _Bound:
    """The bound behind the element at `index`."""
    if index is None:
        return default
    return _Bound(index + 1) if index >= 0 else _Bound(-index - 1, from_end=True)


def _interval(size: Dim, start: _Bound, stop: _Bound) -> tuple[Dim, Dim]:
    """From `start` to `stop`; nothing where `stop` comes first.

    One length is written in one way where it can be, so that types are equal. With P(s) = max(s, 0), the length of
    x[a:-b] is P(n-a-b), that of x[a:b] P(n-a) - P(n-b), and that of x[-a:-b] P(n-b) - P(n-a).
    """
    first, last = start.clipped(size), stop.clipped(size)
    if start.from_end == stop.from_end:
        is_empty = start.offset >= stop.offset if not start.from_end else start.offset <= stop.offset
        return (first, first) if is_empty else (first, last)
    if stop.from_end:
        length = opaque("max", size - start.offset - stop.offset, 0) if start.offset or stop.offset else size
    else:
        length = opaque("max", last - first, 0)
    return first, first + length


def _count(part: Range) -> Dim:
    length = part.stop - part.start
    return length if part.step == 1 else floor_divide(length + part.step - 1, part.step)


def axes_of(entry: Entry) -> int:
    """How many axes of the array an entry takes."""
    if isinstance(entry, Mask):
        return entry.truths.ndim
    return 0 if isinstance(entry, NewAxis | Gap) else 1


def block_start(entries: Sequence[Entry]) -> int:
    """How many axes of the result come before the common axes of the arrays of indices.

    They replace the first index that is no slice if all such indices stand side by side; else they come first.
    """
    is_slice = [isinstance(entry, NewAxis | Gap | Range) for entry in entries]
    first = is_slice.index(False)
    last = len(is_slice) - 1 - is_slice[::-1].index(False)
    return sum(not isinstance(entry, Gap) for entry in entries[:first]) if not any(is_slice[first:last]) else 0


def nonzero_indices(mask: Tracer) -> tuple[Tracer, ...]:
    """The indices where a mask holds: one array for each axis, and one for a mask without axes."""
    return record_all("nonzero", mask if mask.ndim else record("reshape", mask, shape=(1,)))[1:]


def as_operand(index: int | Tracer) -> Tracer | Literal:
    """An index as the operand of an operation."""
    return literal(index, DType.INT64) if isinstance(index, int) else index


def _shown(key: Any) -> str:
    return f"[{', '.join(_key_text(part) for part in (key if isinstance(key, tuple) else (key,)))}]"


def _key_text(key: Any) -> str:
    if isinstance(key, slice):
        bounds = [("" if bound is None else str(bound)) for bound in (key.start, key.stop)]
        return ":".join(bounds if key.step is None else [*bounds, str(key.step)])
    return "..." if key is Ellipsis else str(key.aval if isinstance(key, Tracer) else key)
