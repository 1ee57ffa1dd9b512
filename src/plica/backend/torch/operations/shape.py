"""Rows of shapes, of packing, and of the making of arrays."""

from plica.backend.torch.operations.call import (
    Call,
    Row,
    Text,
    Unsigned,
    axis_source,
    bounds_source,
    dtype_source,
    shape_source,
    size_source,
)
from plica.backend.torch.operations.subscripts import parts_read, subscript


def _slice(call: Call) -> str:
    parts = parts_read([call.equation], str)
    assert parts is not None, "one slice is a subscript"
    return f"{call.tensor(0)}[{subscript(parts)}]"


def _full(call: Call) -> str:
    (fill,) = call.equation.inputs
    shape = shape_source(call.params["shape"])
    if call.is_host(0):
        return f"torch.full({shape}, {call.inputs[0]}, dtype={dtype_source(fill.type.dtype)}, device=device)"
    return f"{call.tensor(0)}.expand({shape})"


def _squeeze(call: Call) -> str:
    return f"{call.tensor(0)}.squeeze({call.params['axis']!r})"


def _method(name: str, param: str) -> Text:
    return lambda call: f"{call.tensor(0)}.{name}({shape_source(call.params[param])})"


def _joined(name: str) -> Text:
    return lambda call: f"{name}(({call.tensors},), {call.params['axis']})"


def _unstack(call: Call) -> str:
    axis = call.params["axis"]
    return f"torch.unbind({call.tensor(0)}, {axis})" + ("[0]" if len(call.equation.outputs) == 1 else "")


def _split(call: Call) -> str:
    sizes = shape_source(call.params["sizes"])
    parts = f"{call.tensor(0)}.split_with_sizes({sizes}, {call.params['axis']})"  # `split` is Python around it
    return parts + ("[0]" if len(call.equation.outputs) == 1 else "")


def _roll(call: Call) -> str:
    if not call.params["axis"]:  # torch would roll the flat array
        return call.tensor(0)
    return f"torch.roll({call.tensor(0)}, {bounds_source(call.params['shift'])}, {call.params['axis']!r})"


def _triangle(name: str) -> Text:
    return lambda call: f"{name}({call.tensor(0)}, {size_source(call.params['k'])})"


def _arange(call: Call) -> str:
    size, dtype = axis_source(call.params["size"]), dtype_source(call.params["dtype"])
    return f"torch.arange({size}, dtype={dtype}, device=device)"


def _packing(name: str) -> Text:
    """What is packed lies in memory as its kernel reads it."""

    def text(call: Call) -> str:
        params = ", ".join(f"{param}={value!r}" for param, value in call.params.items())
        return f"kernels.{name}({call.tensor(0)}, {params}).contiguous()"

    return text


def _assert_shape(call: Call) -> str:
    return f"kernels.assert_shape({call.tensor(0)}, {shape_source(call.params['shape'])}, {call.equation.source!r})"


SHAPE: dict[str, Row] = {
    "reshape": Row(_method("reshape", "shape")),
    "permute_dims": Row(_method("permute", "axes")),
    "broadcast_to": Row(_method("expand", "shape")),
    "expand_dims": Row(lambda call: f"{call.tensor(0)}.unsqueeze({call.params['axis']})"),
    "squeeze": Row(_squeeze),
    "concat": Row(_joined("torch.cat")),
    "stack": Row(_joined("torch.stack")),
    "unstack": Row(_unstack),
    "split": Row(_split),
    "roll": Row(_roll),
    "tril": Row(_triangle("torch.tril"), unsigned=Unsigned.MODULAR),
    "triu": Row(_triangle("torch.triu"), unsigned=Unsigned.MODULAR),
    "flip": Row(lambda call: f"torch.flip({call.tensor(0)}, {call.params['axis']!r})", unsigned=Unsigned.MODULAR),
    "slice": Row(_slice),
    "full": Row(_full),
    "arange": Row(_arange),
    "pack": Row(_packing("pack")),
    "unpack": Row(_packing("unpack")),
    "assert_shape": Row(_assert_shape),
}
