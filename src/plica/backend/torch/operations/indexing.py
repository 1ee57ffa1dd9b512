"""Rows of reading and writing at indices, and of searches."""

from collections.abc import Callable
from dataclasses import replace

from plica.backend.torch.operations.call import Call, Row, Unsigned, bounds_source, indices
from plica.backend.torch.operations.subscripts import Part, parts_written, subscript
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.ops.update import AT


def _scalar(call: Call, index: int) -> str:
    """One index: a Python number where generated code has one, else a tensor."""
    type_ = call.equation.inputs[index].type
    return call.inputs[index] if not type_.shape and type_.dtype == DType.INT64 else indices(call, index)


def _gather(call: Call) -> str:
    index_texts = ", ".join(indices(call, index) for index in range(1, len(call.inputs)))
    axes = tuple(axis % _rank(call) for axis in call.params["axes"])
    return f"kernels.gather({call.tensor(0)}, {axes!r}, {index_texts})"


def _take(call: Call) -> str:
    return f"{call.tensor(0)}.index_select({call.params['axis']}, {indices(call, 1)})"


def is_python_index(call: Call) -> bool:
    """Whether an equation reads or writes `x[i]` for Python numbers `i`, as Python writes it: faster than a kernel."""
    if call.equation.op.name == "index":
        return call.is_host(1)
    return call.equation.op.name == "update" and AT in call.params["index"] and written(call) is not None


# How the part that is updated is written over.
_WRITTEN = {
    "set": "{} = {}",
    "add": "{}.add_({})",
    "multiply": "{}.mul_({})",
    "min": "{}.clamp_max_({})",
    "max": "{}.clamp_min_({})",
}


def written(call: Call) -> list[Part] | None:
    """The parts that an update writes to, where they are whole axes, slices and Python numbers; else None."""
    if not all(map(call.is_host, range(2, len(call.inputs)))):
        return None
    return parts_written(call.equation, call.inputs[2:])


def in_place(call: Call, result: str, text: Callable[[Dim], str], *, is_copied: bool) -> list[str]:
    """Lines that write over the array which is updated, and call it `result`.

    Args:
        call: The update.
        result: The name.
        text: The text of a bound.
        is_copied: Whether the values lie in that array too.
    """
    x, values = call.inputs[:2]
    parts = written(call)
    is_one = parts is not None and all(isinstance(part, str) for part in parts)
    if is_copied and not is_one:  # one element is the value itself, or lies apart from it
        values = f"{values}.clone()"
    if parts is None:
        return [f"{result} = {_update(replace(call, inputs=(x, values, *call.inputs[2:])), ', in_place=True')}"]
    return [_WRITTEN[call.params["mode"]].format(f"{x}[{subscript(parts, text)}]", values), f"{result} = {x}"]


def _index(call: Call) -> str:
    axis = call.params["axis"] % _rank(call)
    if is_python_index(call):
        return (
            f"{call.tensor(0)}[{call.inputs[1]}]" if axis == 0 else f"{call.tensor(0)}.select({axis}, {call.inputs[1]})"
        )
    return f"kernels.index({call.tensor(0)}, {axis}, {_scalar(call, 1)})"


def _rank(call: Call) -> int:
    return len(call.equation.inputs[0].type.shape)


def _update(call: Call, setting: str = "") -> str:
    index_texts = "".join(f", {_scalar(call, index)}" for index in range(2, len(call.inputs)))
    at = "".join(f"{_place_source(part)}, " for part in call.params["index"])
    return f"kernels.update({call.tensor(0)}, {call.tensor(1)}, {call.params['mode']!r}, ({at}){index_texts}{setting})"


def _place_source(part: str | tuple[Dim, ...] | None) -> str:
    return bounds_source(part) if isinstance(part, tuple) else repr(part)


def _unique(call: Call) -> str:
    return f"kernels.unique({call.tensor(0)}, {', '.join(map(repr, call.params['parts']))})"


INDEXING: dict[str, Row] = {
    "index": Row(_index, unsigned=Unsigned.MODULAR),
    "gather": Row(_gather, unsigned=Unsigned.MODULAR),
    "update": Row(_update, unsigned=Unsigned.MODULAR),
    "nonzero": Row(lambda call: f"kernels.nonzero({call.tensor(0)})", unsigned=Unsigned.MODULAR),
    "unique": Row(_unique),
    "take": Row(_take, unsigned=Unsigned.MODULAR),
    "take_along_axis": Row(
        lambda call: f"kernels.take_along({call.tensor(0)}, {call.params['axis']}, {indices(call, 1)})",
        unsigned=Unsigned.MODULAR,
    ),
    "lookup": Row(lambda call: f"kernels.lookup({call.tensor(0)}, {indices(call, 1)})", unsigned=Unsigned.MODULAR),
    "search_cumulative": Row(
        lambda call: f"kernels.search_cumulative({call.tensor(0)}, {indices(call, 1)}, {call.tensor(2)})"
    ),
}
