"""Rows of shapes and of the making of arrays."""

from plica.backend.torch.operations.call import (
    Call,
    Row,
    axis_source,
    bounds_source,
    dtype_source,
    shape_source,
    size_source,
)
from plica.ir.sizes import Size


def _slice(call: Call) -> str:
    axis, start, stop, step = (call.params[name] for name in ("axis", "start", "stop", "step"))
    axis %= len(call.equation.inputs[0].type.shape)
    if any(isinstance(bound, Size) for bound in (start, stop, step, call.equation.inputs[0].type.shape[axis])):
        bounds = ", ".join(map(size_source, (start, stop) if step == 1 else (start, stop, step)))
        return f"kernels.slice_axis({call.tensor(0)}, {axis}, {bounds})"
    if step == 1:
        return f"{call.tensor(0)}.narrow({axis}, {start}, {stop - start})"
    return f"{call.tensor(0)}[{':, ' * axis}{start}:{stop}:{step}]"


def _full(call: Call) -> str:
    (fill,) = call.equation.inputs
    shape = shape_source(call.params["shape"])
    if call.is_host(0):
        return f"torch.full({shape}, {call.inputs[0]}, dtype={dtype_source(fill.type.dtype)}, device=device)"
    return f"{call.tensor(0)}.expand({shape})"


def _squeeze(call: Call) -> str:
    return f"{call.tensor(0)}.squeeze({call.params['axis']!r})"


def _method(name: str, param: str) -> Row:
    return lambda call: f"{call.tensor(0)}.{name}({shape_source(call.params[param])})"


def _joined(name: str) -> Row:
    return lambda call: f"{name}(({call.tensors},), {call.params['axis']})"


def _unstack(call: Call) -> str:
    axis = call.params["axis"]
    return f"torch.unbind({call.tensor(0)}, {axis})" + ("[0]" if len(call.equation.outputs) == 1 else "")


def _roll(call: Call) -> str:
    if not call.params["axis"]:  # torch would roll the flat array
        return call.tensor(0)
    return f"torch.roll({call.tensor(0)}, {bounds_source(call.params['shift'])}, {call.params['axis']!r})"


def _triangle(name: str) -> Row:
    return lambda call: f"{name}({call.tensor(0)}, {size_source(call.params['k'])})"


SHAPE: dict[str, Row] = {
    "reshape": _method("reshape", "shape"),
    "permute_dims": _method("permute", "axes"),
    "broadcast_to": _method("expand", "shape"),
    "expand_dims": lambda call: f"{call.tensor(0)}.unsqueeze({call.params['axis']})",
    "squeeze": _squeeze,
    "concat": _joined("torch.cat"),
    "stack": _joined("torch.stack"),
    "unstack": _unstack,
    "roll": _roll,
    "tril": _triangle("torch.tril"),
    "triu": _triangle("torch.triu"),
    "flip": lambda call: f"torch.flip({call.tensor(0)}, {call.params['axis']!r})",
    "slice": _slice,
    "full": _full,
    "arange": lambda call: (
        f"torch.arange({axis_source(call.params['size'])}, dtype={dtype_source(call.params['dtype'])}, device=device)"
    ),
}
