"""Reading and writing tensors at indices and slices that are known only when the program runs.

On the CPU an index outside its axis is an error that names the user's line. On other devices nothing waits for the
values of indices: there such an index is an assertion of the device.
"""

import linecache
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from plica.backend.torch.logs import transforms_active
from plica.errors import BoundsError, ZeroDivisorError
from plica.ops.divisions import BY_ZERO
from plica.ops.indexing import outside_message
from plica.ops.slices import beyond_message

Place = str | tuple[int, int, int] | None

_COMBINED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "multiply": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
}
_SCATTERED = {"multiply": "prod", "min": "amin", "max": "amax"}


def index(x: Tensor, axis: int, position: int | Tensor) -> Tensor:
    """The part of `x` at one index along `axis`; a negative index counts from the end."""
    host = _on_host(position)
    if isinstance(host, Tensor):
        return x.index_select(axis, _wrapped(host, x.shape[axis]).reshape(1)).squeeze(axis)
    return x.select(axis, _checked(host, axis, x.shape[axis]))


def refuse_slice(axis: int, size: int, start: int, stop: int, step: int = 1) -> NoReturn:
    """Refuse a slice that does not lie within its axis.

    Raises:
        BoundsError: Always.
    """
    raise BoundsError(located(beyond_message(axis, size, start, stop, step)))


def gather(x: Tensor, axes: tuple[int, ...], *indices: Tensor) -> Tensor:
    """The parts of `x` at `indices` along `axes`: the common shape of the indices, then the other axes of `x`."""
    if len(axes) > 1:
        moved = x.movedim(axes, tuple(range(len(axes))))
        if not x.numel():  # torch looks at no index then
            _check(indices, axes, moved.shape)
        try:  # x[i] with a scalar tensor i would wait for its value
            return cast(Tensor, torch.ops.aten.index.Tensor(moved, indices))
        except IndexError:
            _check(indices, axes, moved.shape)
            raise
    (axis,), (positions,) = axes, indices
    if axis == 0 and positions.ndim == 1:
        return _selected(x, axis, positions)
    selected = _selected(x, axis, positions.reshape(-1))
    return selected.movedim(axis, 0).reshape(*positions.shape, *x.shape[:axis], *x.shape[axis + 1 :])


def take_along(x: Tensor, axis: int, indices: Tensor) -> Tensor:
    """`torch.gather`, whose indices are counted from the front.

    Raises:
        BoundsError: An index does not lie within the axis; checked on the CPU alone.
    """
    try:
        return x.gather(axis, indices)
    except RuntimeError:
        size = x.shape[axis]
        outside = indices[(indices < 0) | (indices >= size)]
        if not indices.is_cpu or not outside.numel():
            raise
    raise BoundsError(located(f"index {int(outside[0])} does not lie within an axis of size {size}."))


def _selected(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """Rows of `x`; several times as fast as indexing by a tensor, forward and backward, where no index is negative."""
    if not index.is_cpu:
        return x.index_select(axis, _wrapped(index, x.shape[axis]))
    if x.numel():
        try:
            return x.index_select(axis, index)
        except (IndexError, RuntimeError):  # an index that is negative, or lies outside
            pass
    return x.index_select(axis, _from_front(index, axis, x.shape[axis]))


# None has a public name; where a version of torch lacks one, arrays are copied.
_trace_recorded = getattr(torch._C, "_get_tracing_state", lambda: True)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_mode_of = getattr(torch._C, "_get_dispatch_mode", lambda _: True)
_RECORDERS = tuple(getattr(getattr(torch._C, "_TorchDispatchModeKey", None), "__members__", {"": None}).values())
"""The modes in which torch itself records operations, or makes up what they would give: other modes only watch."""


def may_write(*tensors: Tensor) -> bool:
    """Whether unshared arrays may be updated in place, given all tensors that may need gradients.

    Automatic differentiation keeps arrays for later, and the transforms of torch.func know nothing of it.
    """
    return not is_transformed() and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def is_transformed() -> bool:
    """Whether a transform of torch.func, or differentiation along the way, is at work."""
    return transforms_active() or getattr(forward_ad, "_current_level", 0) >= 0


def is_traced(*tensors: Tensor) -> bool:
    """Whether a tracer, transform or subclass follows operations on tensors, and so needs torch's own operations."""
    types = (Tensor, torch.nn.Parameter)
    is_recorded = torch.compiler.is_compiling() or _trace_recorded() is not None
    is_recorded = is_recorded or (bool(_dispatch_modes()) and any(_mode_of(mode) is not None for mode in _RECORDERS))
    return is_recorded or is_transformed() or any(type(tensor) not in types for tensor in tensors)


def update(
    x: Tensor, values: Tensor, mode: str, at: Sequence[Place], *indices: int | Tensor, in_place: bool = False
) -> Tensor:
    """`x` with other elements at `at`; see `plica.ops.update`. A copy, or with `in_place` the tensor `x` itself."""
    if len(indices) == 1 and at.count(None) == len(at) - 1:
        (position,), axis = indices, at.index("at")
        if mode == "add" and isinstance(position, Tensor) and position.ndim == 1:
            return _rows_added(x, axis, position, values, in_place=in_place)
        # Mapped by vmap, torch's select_scatter has wrong gradients.
        if mode == "set" and isinstance(position, int) and not in_place and not transforms_active():
            position = _checked(position, axis, x.shape[axis])
            return torch.select_scatter(x, values.expand((*x.shape[:axis], *x.shape[axis + 1 :])), axis, position)
    if transforms_active():
        x = _mapped_like(x, values, *indices)
    result = x if in_place else x.clone(memory_format=torch.contiguous_format)
    part, arrays, axes = _part(result, at, indices)
    if not arrays:
        old = _part(x, at, indices)[0] if mode in _COMBINED else part
        part.copy_(_COMBINED[mode](old, values) if mode in _COMBINED else values)
    elif mode in _SCATTERED:
        counted = [_from_front(index, axis, x.shape[axis]) for index, axis in zip(arrays, axes, strict=True)]
        part.copy_(_scattered(_part(x, at, indices)[0], values, counted, _SCATTERED[mode]))
    else:
        try:
            part.index_put_(tuple(arrays), values, accumulate=mode == "add")
        except IndexError:
            _check(arrays, axes, part.shape)
            raise
    if not part.numel():  # torch checks no index then
        _check(arrays, axes, part.shape)
    return result


def _mapped_like(x: Tensor, values: Tensor, *indices: int | Tensor) -> Tensor:
    """`x`, mapped over the axes over which vmap maps the others: an array that is written to must have them too."""
    arrays = [array for array in (values, *indices) if isinstance(array, Tensor)]
    if not all(array.numel() for array in arrays):
        return x
    never = torch.zeros((), dtype=torch.bool, device=x.device)
    for array in arrays:
        never = never & array.detach().flatten()[0].bool()
    return torch.where(never, x, x)


def _rows_added(x: Tensor, axis: int, rows: Tensor, values: Tensor, *, in_place: bool) -> Tensor:
    add = x.index_add_ if in_place else x.index_add
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    shape = (*rows.shape, *rest)
    given = values if values.shape == shape else values.expand(shape)
    given = given.movedim(0, axis) if axis else given
    if not rows.is_cpu:
        return add(axis, _wrapped(rows, x.shape[axis]), given)
    if given.numel():
        try:
            return add(axis, rows, given)
        except (IndexError, RuntimeError):  # an index that is negative, or lies outside
            pass
    return add(axis, _from_front(rows, axis, x.shape[axis]), given)


def _part(x: Tensor, at: Sequence[Place], indices: Sequence[int | Tensor]) -> tuple[Tensor, list[Tensor], list[int]]:
    """The view of `x` that is written to, the arrays of indices, and their axes, which come first in the view."""
    rest = iter(indices)
    moved, arrays, axes, axis = [], [], [], 0
    for number, part in enumerate(at):
        if isinstance(part, tuple):
            x = _slice(x, axis, *part)
        elif part is not None:
            host = _on_host(next(rest))
            if not isinstance(host, Tensor):
                x = x.select(axis, _checked(host, number, x.shape[axis]))
                continue
            moved.append(axis)
            arrays.append(host)
            axes.append(number)
        axis += 1
    first = list(range(len(moved)))
    return (x if moved == first else x.movedim(moved, first)), arrays, axes


def _slice(x: Tensor, axis: int, start: int, stop: int, step: int) -> Tensor:
    size = x.shape[axis]
    if not 0 <= start <= stop <= size or step < 1:
        refuse_slice(axis, size, start, stop, step)
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def _scattered(part: Tensor, values: Tensor, indices: list[Tensor], reduce: str) -> Tensor:
    """`part` with values reduced into its rows at `indices`; an index may come more than once."""
    count, row_shape = len(indices), part.shape[len(indices) :]
    rows = indices[0]
    for index, size in zip(indices[1:], part.shape[1:], strict=False):
        rows = rows * size + index
    flat = part.reshape(part.shape[:count].numel(), row_shape.numel())
    given = values.expand(*rows.shape, *row_shape).reshape(rows.numel(), row_shape.numel())
    rows = rows.reshape(-1)
    if given.is_complex():
        return _multiplied(flat, rows, given).reshape(part.shape)
    scattered = flat.scatter_reduce(0, rows.unsqueeze(1).expand_as(given), given, reduce, include_self=True)
    return scattered.reshape(part.shape)


def _multiplied(flat: Tensor, rows: Tensor, given: Tensor) -> Tensor:
    """`flat` with each row multiplied by all given rows of its index; devices scatter no products of complex numbers.

    In sorted order each given row collects the product of those before it of the same index, twice as many each time.

    Shapes: flat and result (S, N), rows (R,), given (R, N).
    """
    order = rows.argsort(stable=True)
    rows, given, step = rows[order], given[order], 1
    while step < rows.shape[0]:
        is_same = (rows[step:] == rows[:-step]).unsqueeze(1)
        given = torch.cat([given[:step], torch.where(is_same, given[step:] * given[:-step], given[step:])])
        step *= 2
    is_last = torch.cat([rows[1:] != rows[:-1], rows.new_ones(1, dtype=torch.bool)])[: rows.shape[0]]
    factors = flat.new_ones(flat.shape[0] + 1, flat.shape[1])  # one more, for those that are not the last of their row
    factors = factors.index_put((torch.where(is_last, rows, flat.shape[0]),), given)
    return flat * factors[:-1]


def _on_host(position: int | Tensor) -> int | Tensor:
    """A number where reading it waits for no device."""
    return int(position) if isinstance(position, Tensor) and position.ndim == 0 and position.is_cpu else position


def _checked(position: int, axis: int, size: int) -> int:
    if not -size <= position < size:
        raise BoundsError(located(outside_message(position, axis, size)))
    return position


def _check(all_positions: Sequence[Tensor], axes: Sequence[int], sizes: Sequence[int]) -> None:
    """Look for an index outside the leading axes, of these numbers and sizes, to say which it is."""
    for positions, axis, size in zip(all_positions, axes, sizes, strict=False):
        _from_front(positions, axis, size)


def _from_front(index: Tensor, axis: int, size: int) -> Tensor:
    """Indices counted from the front.

    Raises:
        BoundsError: An index does not lie within the axis; checked on the CPU alone.
    """
    if index.is_cpu and index.numel():
        low, high = torch.aminmax(index)
        for bound in (int(low), int(high)):
            _checked(bound, axis, size)
    return _wrapped(index, size)


def _wrapped(index: Tensor, size: int) -> Tensor:
    return torch.where(index < 0, index + size, index)


def user_error(error: Exception) -> Exception:
    """Plica's error, with the user's line, for an index that torch refuses or a division of integers by zero.

    Other errors are returned unchanged.
    """
    traceback: Any = error.__traceback__
    if isinstance(error, ZeroDivisionError) or str(error) == "ZeroDivisionError":
        if isinstance(error, ZeroDivisorError):
            return error
        return ZeroDivisorError(_behind_line(traceback.tb_frame, traceback.tb_lineno, BY_ZERO))
    match = None if isinstance(error, BoundsError) else re.search(_OUTSIDE, str(error))
    if match is None:
        return error
    index, axis, sizes = int(match["index"]), int(match["axis"] or match["at"]), match["sizes"]
    size = sizes.split(",")[axis].strip() if sizes else match["size"]
    return BoundsError(_behind_line(traceback.tb_frame, traceback.tb_lineno, outside_message(index, axis, size)))


# The messages of torch for `x[i]` and for `x.select(axis, i)`.
_OUTSIDE = (
    r"index (?P<index>-?\d+) (is out of bounds for dimension (?P<axis>\d+) with size (?P<size>\d+)"
    r"|out of range for tensor of size \[(?P<sizes>[\d, ]+)\] at dimension (?P<at>\d+))"
)


def located(message: str) -> str:
    """`message` behind the user's line."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<plica "):
        frame = frame.f_back
    return message if frame is None else _behind_line(frame, frame.f_lineno, message)


def _behind_line(frame: Any, line: int, message: str) -> str:
    """`message` behind the user's line, which generated code holds in the comment above its own line."""
    for number in range(line, 0, -1):
        text = linecache.getline(frame.f_code.co_filename, number).strip()
        if text.startswith("# "):
            return f"{text[2:]}: {message}" if ":" in text else message
    return message


def nonzero(x: Tensor) -> tuple[Any, ...]:
    """How many elements differ from zero, and their indices, one tensor for each axis."""
    indices = x.nonzero(as_tuple=True)
    return (indices[0].shape[0], *indices)


def unique(x: Tensor, *parts: str) -> tuple[Any, ...]:
    """How many distinct elements there are, and `parts` of what is known of them; see `plica.ops.search`."""
    first = x.requires_grad or "indices" in parts
    flat = torch.view_as_real(x.detach().reshape(-1)) if x.is_complex() else x.detach()
    values, inverse, counts = torch.unique(
        flat, return_inverse=True, return_counts=True, dim=0 if x.is_complex() else None
    )
    if x.is_complex():
        values, inverse = torch.view_as_complex(values), inverse.reshape(x.shape)
    results = {"values": values, "inverse": inverse, "counts": counts}
    if first:
        order = torch.arange(x.numel(), device=x.device)
        start = torch.full_like(counts, x.numel())
        results["indices"] = start.scatter_reduce(0, inverse.reshape(-1), order, "amin")
        results["values"] = x.reshape(-1)[results["indices"]]
    return (values.shape[0], *(results[part] for part in parts))


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Column `index[f, b]` of each fold's table.

    Shapes: table (F, K, C), index (F, B), result (F, B, K).
    """
    folds, units, states = table.shape
    is_learned = torch.is_grad_enabled() and table.requires_grad
    if is_learned and not torch.compiler.is_compiling() and 2 * states <= index.shape[1]:  # no graph for few rows
        # rows of units: both ways they move as whole rows, and few states make few rows to turn
        first = torch.arange(0, folds * states, states, device=index.device).unsqueeze(1)
        rows = table.mT.reshape(folds * states, units).index_select(0, (index + first).flatten())
        return rows.view(folds, -1, units)
    return table.gather(2, index.unsqueeze(1).expand(-1, units, -1)).mT
