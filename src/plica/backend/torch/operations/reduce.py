"""Rows of reductions."""

from math import prod

from plica.backend.torch.huge_pages import LARGE
from plica.backend.torch.operations.call import Call, Row, Text, Unsigned, along, dtype_source, function, wide
from plica.ir.sizes import Size


def _reduction(name: str) -> Text:
    return lambda call: f"{name}({call.tensor(0)}, {call.params['axis']!r}, keepdim={call.params['keepdims']})"


def _extreme(name: str) -> Text:
    """A reduction that has no result for no entries, such as `max`: the text refuses an empty axis of symbolic size."""

    def row(call: Call) -> str:
        axis, text = call.params["axis"], call.tensor(0)
        axes = axis if isinstance(axis, tuple) else (axis,)
        if any(isinstance(call.equation.inputs[0].type.shape[index], Size) for index in axes):
            text = f"kernels.with_entries({text}, {axes!r}, {call.equation.source!r})"
        return f"{name}({text}, {axis!r}, keepdim={call.params['keepdims']})"

    return row


def _copy(call: Call) -> str:
    return f"{call.tensor(0)}.to({dtype_source(call.equation.outputs[0].type.dtype)}, copy=True)"


def _over_axes(name: str) -> Text:
    """A torch function that reduces one axis at a time: the last axis first, so that the others keep their numbers."""

    def row(call: Call) -> str:
        text, keep = call.tensor(0), call.params["keepdims"]
        if not call.params["axis"]:
            return _copy(call)
        for axis in sorted(call.params["axis"], reverse=True):
            text = f"{name}({text}, {axis}, keepdim={keep})"
        return text

    return row


def _none_or(axis_row: Text) -> Text:
    """The text of a reduction, or of a copy if it is over no axis: torch takes an empty tuple for all axes."""
    return lambda call: axis_row(call) if call.params["axis"] else _copy(call)


def _softmax(call: Call) -> str:
    # sizes of arguments are not known here: only softmaxes of parameters are asked whether they are large
    (type_,) = (output.type for output in call.equation.outputs)
    size = prod(dim for dim in type_.shape if isinstance(dim, int)) * type_.dtype.numpy.itemsize
    return along("kernels.softmax" if size >= LARGE else "torch.softmax")(call)


REDUCE: dict[str, Row] = {
    "sum": Row(wide(_none_or(_reduction("torch.sum")))),
    "mean": Row(_none_or(_reduction("torch.mean"))),
    "max": Row(_none_or(_extreme("torch.amax")), unsigned=Unsigned.ORDERED),
    "min": Row(_none_or(_extreme("torch.amin")), unsigned=Unsigned.ORDERED),
    "any": Row(_over_axes("torch.any")),
    "all": Row(_over_axes("torch.all")),
    "prod": Row(wide(_over_axes("torch.prod"))),
    "logsumexp": Row(
        _none_or(
            lambda call: f"kernels.logsumexp({call.tensor(0)}, {call.params['axis']!r}, {call.params['keepdims']})"
        )
    ),
    "argmax": Row(_extreme("torch.argmax"), unsigned=Unsigned.ORDERED),
    "argmin": Row(_extreme("torch.argmin"), unsigned=Unsigned.ORDERED),
    "softmax": Row(_softmax),
    "log_softmax": Row(along("torch.log_softmax")),
    "cumulative_sum": Row(wide(along("torch.cumsum"))),
    "cumulative_prod": Row(wide(along("torch.cumprod"))),
    "rescale": Row(function("kernels.rescale"), over=("kernels.rescale_({})",)),
}
