"""Operations on shapes, and new arrays."""

from plica.backend.native.stablehlo.call import Call, Row, of
from plica.backend.native.stablehlo.types import integers
from plica.backend.native.stablehlo.values import Value, joined, stacked
from plica.errors import ShapeError
from plica.ir.sizes import Dim

Axes = tuple[int, ...]
Bound = int | Value


def _unstack(call: Call) -> list[Value]:
    (x,), axis = call.inputs, call.params["axis"]
    return [x.part(axis, index, index + 1).drop(axis) for index in range(len(call.results))]


def _split(x: Value, *, axis: int, sizes: tuple[Dim, ...]) -> list[Value]:
    parts: list[Value] = []
    start: Dim = 0
    for size in sizes:
        parts.append(x.part(axis, start, start + size))
        start = start + size
    return parts


def _roll(x: Value, *, shift: tuple[Dim | Value, ...], axis: Axes) -> Value:
    for by, along in zip(shift, axis, strict=True):
        size = x.size(x.shape[along])
        moved = x.iota(0, (x.shape[along],)) - (by if isinstance(by, Value) else x.size(by))
        x = x.take((moved.map("remainder", size) + size).map("remainder", size), along)
    return x


def _triangle(lower: bool) -> Row:
    def triangle(x: Value, *, k: Dim | Value) -> Value:
        matrix_shape = x.shape[-2:]
        offsets = x.iota(1, matrix_shape) - x.iota(0, matrix_shape)
        last = k if isinstance(k, Value) else x.size(k)
        return (offsets <= last if lower else offsets >= last).where(x, 0)

    return of(triangle)


def _flip(x: Value, *, axis: Axes) -> Value:
    attributes = {"dimensions": integers([number % x.rank for number in axis])}
    return Value(x.code, x.code.apply("reverse", [x.tensor], x.shape, x.dtype, attributes)) if axis else x


def _slice(call: Call) -> Value:
    (x,), axis = call.inputs, call.params["axis"]
    start, stop, step = (call.params[name] for name in ("start", "stop", "step"))
    if not any(isinstance(bound, Value) for bound in (start, stop, step)):
        return x.part(axis, start, stop, step)
    # the start depends on data: read entries at computed indices
    offset, by = (bound if isinstance(bound, Value) else x.size(bound) for bound in (start, step))
    indices = x.iota(0, (call.shape[axis],))
    return x.take(indices * by + offset, axis)


def _arange(call: Call) -> Value:
    return Value(call.code, call.code.iota(call.shape, 0, call.dtype))


def _reshaped(call: Call) -> Value:
    return call.inputs[0].reshape(call.shape)


def _asserted(call: Call) -> Value:
    """An array, after a check of the sizes that are numbers; other sizes are known only when the code runs.

    Raises:
        ShapeError: The numbers that replace symbolic sizes contradict each other.
    """
    (x,) = call.inputs
    for actual, expected in zip(x.shape, call.shape, strict=True):
        if isinstance(actual, int) and isinstance(expected, int) and actual != expected:
            raise ShapeError(
                f"with the given sizes, expected an array of shape {call.shape}, found {x.shape}; give other sizes."
            )
    return _reshaped(call)


SHAPE: dict[str, Row] = {
    "arange": _arange,
    "assert_shape": _asserted,
    "broadcast_to": lambda call: call.inputs[0].spread(call.shape),
    "concat": of(lambda *parts, axis: joined(parts, axis)),
    "expand_dims": _reshaped,
    "flip": of(_flip),
    "full": lambda call: call.inputs[0].spread(call.shape),
    "permute_dims": of(lambda x, *, axes: x.transpose(axes)),
    "reshape": _reshaped,
    "roll": of(_roll),
    "slice": _slice,
    "split": of(_split),
    "squeeze": _reshaped,
    "stack": of(lambda *parts, axis: stacked(parts, axis)),
    "tril": _triangle(lower=True),
    "triu": _triangle(lower=False),
    "unstack": _unstack,
}
