"""Writing at indices: `x.at[key].set(values)` is a new array; `x` stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.errors import DTypeError, ShapeError, TraceError, UndecidedSizeError
from plica.ir.dtypes import DType
from plica.ir.program import Literal
from plica.ir.sizes import same
from plica.ir.types import ArrayType
from plica.ops.update import AT, MODES, AxisIndex, indexed_dims
from plica.tracing.locations import user_line
from plica.tracing.namespace.elementwise import astype, where
from plica.tracing.namespace.keys import (
    Entry,
    Gap,
    Indices,
    Mask,
    NewAxis,
    Range,
    Scalar,
    as_operand,
    block_start,
    nonzero_indices,
    parse,
)
from plica.tracing.namespace.operands import Array, as_tracer, is_number, result_dtype
from plica.tracing.namespace.shapes import broadcast_to, expand_dims, flip, permute_dims, squeeze
from plica.tracing.scope import record, scope_of
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Updates:
    """`x.at`; in brackets it takes every key that reading takes.

    Args:
        x: The array.
        apply: `apply(x, key, values, mode)`, the function `update` of a namespace.
    """

    x: Any
    apply: Callable[[Any, Any, Any, str], Any]

    def __getitem__(self, key: Any) -> UpdatesAt:
        return UpdatesAt(self.x, self.apply, key)


@dataclass(frozen=True, slots=True)
class UpdatesAt:
    """`x.at[key]`. Values broadcast to the shape of `x[key]` and are cast to the dtype of `x` within its kind."""

    x: Any
    apply: Callable[[Any, Any, Any, str], Any]
    key: Any

    def set(self, values: Any) -> Any:
        """`x` with `values` at `key`; which of several values one element gets that `key` names twice is left open."""
        return self.apply(self.x, self.key, values, "set")

    def add(self, values: Any) -> Any:
        """`x` with `values` added at `key`, as often as `key` names an element."""
        return self.apply(self.x, self.key, values, "add")

    def multiply(self, values: Any) -> Any:
        """`x` multiplied by `values` at `key`, as often as `key` names an element."""
        return self.apply(self.x, self.key, values, "multiply")

    def min(self, values: Any) -> Any:
        """`x` with the smaller of its elements and `values` at `key`."""
        return self.apply(self.x, self.key, values, "min")

    def max(self, values: Any) -> Any:
        """`x` with the larger of its elements and `values` at `key`."""
        return self.apply(self.x, self.key, values, "max")


def updates(x: Array) -> Updates:
    """`updates(x)[key].set(values)` and `.add`, `.multiply`, `.min`, `.max`: what `x.at[key]` is for a tracer."""
    return Updates(x, update)


def at(x: Array) -> Updates:
    """`at(x)[key].set(values)` and `.add`, `.multiply`, `.min`, `.max`: what `x.at[key]` is for a tracer."""
    return Updates(x, update)


def update(x: Array, key: Any, values: Array, mode: str = "set") -> Tracer:
    """`x` with other elements at `key`: `values`, or what `mode` ("add", "multiply", "min", "max") makes of both.

    Raises:
        DTypeError: `values` would lose their kind (a float put into integers).
        ShapeError: `values` do not broadcast to the shape of `x[key]`.
    """
    if mode not in MODES:
        raise TraceError(f"{user_line()}: there is no update {mode!r}; there are {', '.join(MODES)}.")
    x = as_tracer("update", x)
    given = _of_dtype(x, values)
    entries = parse(x, key)
    masked = _only_mask(x, entries)
    if masked is not None and given.ndim <= x.ndim - masked[0] - masked[1].ndim:
        return _choose(x, *masked, given, mode)
    return _write(x, entries, given, mode)


def _of_dtype(x: Tracer, values: Any) -> Tracer:
    array = as_tracer("update", values)
    if array.weak:
        fits = result_dtype([x, values if is_number(values) else array]) == x.dtype
    else:
        # numpy asks no kind of bfloat16, which float16 stands for here
        first, second = (DType.FLOAT16 if dtype == DType.BFLOAT16 else dtype for dtype in (array.dtype, x.dtype))
        fits = np.can_cast(first.value, second.value, "same_kind")
    if not fits:
        raise DTypeError(
            f"{user_line()}: values of dtype {array.dtype.value} do not fit an array of {x.dtype.value}; convert the "
            f"array with astype(x, {array.dtype.value!r}), or the values with astype(values, {x.dtype.value!r})."
        )
    return astype(array, x.dtype)


def _only_mask(x: Tracer, entries: list[Entry]) -> tuple[int, Tracer] | None:
    """The first axis of a mask and the mask, where all other axes are whole."""
    axis, masked = 0, None
    for entry in entries:
        if isinstance(entry, Mask) and masked is None:
            masked = (axis, entry.truths)
            axis += entry.truths.ndim
        elif isinstance(entry, Range) and entry == Range(0, x.dims[axis]):
            axis += 1
        elif not isinstance(entry, Gap):
            return None
    return masked


def _choose(x: Tracer, axis: int, mask: Tracer, values: Tracer, mode: str) -> Tracer:
    """The update where values do not tell masked elements apart, so that their number need not be known."""
    after = axis + mask.ndim
    values = broadcast_to(values, x.dims[after:])
    for _ in x.dims[after:]:
        mask = expand_dims(mask, axis=mask.ndim)
    if mode == "multiply":  # an infinite value does not reach the derivatives of the elements that it leaves alone
        chosen = where(mask, values, astype(as_tracer("update", 1), x.dtype))
        return record("multiply", x, chosen)
    return where(mask, record(_FUNCTIONS[mode], x, values) if mode in _FUNCTIONS else values, x)


_FUNCTIONS = {"add": "add", "min": "minimum", "max": "maximum"}


def _write(x: Tracer, entries: list[Entry], values: Tracer, mode: str) -> Tracer:
    index: list[AxisIndex] = []
    operands: list[Tracer | Literal] = []
    for entry in entries:
        if isinstance(entry, Range):
            whole = (entry.start, entry.stop, entry.step) == (0, x.dims[len(index)], 1)
            index.append(None if whole else entry.ascending)
            continue
        indices = _index_operands(entry)
        index += [AT] * len(indices)
        operands += indices
    block = max((operand.ndim for operand in operands if isinstance(operand, Tracer)), default=0)
    given = _arranged(values, entries, block) if values.ndim else values
    given = _fitted(
        x, given, [operand.aval if isinstance(operand, Tracer) else operand.type for operand in operands], index
    )
    return record("update", x, given, *operands, mode=mode, index=tuple(index))


def _fitted(x: Tracer, values: Tracer, indices: list[ArrayType], index: list[AxisIndex]) -> Tracer:
    """Values with the sizes of the part that is updated, checked at run time where that is not known before."""
    try:
        dims = indexed_dims(x.aval, indices, index)
    except UndecidedSizeError:  # of the indices among each other, which the operation sees to
        return values
    pairs = list(zip(values.dims, dims[max(0, len(dims) - values.ndim) :], strict=False))
    wanted = [updated if size != 1 and same(size, updated) is None else size for size, updated in pairs]
    if len(wanted) != values.ndim or tuple(wanted) == values.dims:
        return values
    scope_of(values).builder.equalities.extend(pair for pair in pairs if pair[0] != 1 and same(*pair) is None)
    return record("assert_shape", values, shape=tuple(wanted))


def _index_operands(entry: Entry) -> tuple[Tracer | Literal, ...]:
    """The operands of `update` for one entry of the key."""
    if isinstance(entry, Scalar):
        return (as_operand(entry.index),)
    if isinstance(entry, Indices):
        return (entry.indices,)
    if not isinstance(entry, Mask):
        return ()
    if not entry.truths.ndim:
        raise TraceError(
            f"{user_line()}: the mask of an update needs at least one axis, found a scalar; use plica.numpy.where."
        )
    return nonzero_indices(entry.truths)


def _arranged(values: Tracer, entries: list[Entry], block: int) -> Tracer:
    """Values in the shape of `x[key]` as the operation takes them.

    That is the `block` axes of the arrays of indices first, no new axes, and every slice upwards.
    """
    parts: list[NewAxis | Range] = [entry for entry in entries if isinstance(entry, NewAxis | Range)]
    start = block_start(entries) if block else 0
    if not start and not any(isinstance(entry, NewAxis) or entry.backwards for entry in parts):
        return values
    if values.ndim > block + len(parts):
        raise ShapeError(
            f"{user_line()}: values {values.aval} have more dimensions than the {block + len(parts)} that are updated."
        )
    for _ in range(block + len(parts) - values.ndim):
        values = expand_dims(values, axis=0)
    values = permute_dims(values, (*range(start, start + block), *range(start), *range(start + block, values.ndim)))
    backwards = [block + at for at, entry in enumerate(parts) if isinstance(entry, Range) and entry.backwards]
    new = [block + at for at, entry in enumerate(parts) if isinstance(entry, NewAxis)]
    if backwards:
        values = flip(values, axis=tuple(backwards))
    return squeeze(values, tuple(new)) if new else values
