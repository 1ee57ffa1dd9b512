"""Rows of reading and writing at indices, and of searches."""

from plica.backend.torch.operations.call import Call, Row, Unsigned, bounds_source, indices
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim


def _scalar(call: Call, place: int) -> str:
    """One index: a Python number where generated code has one, else a tensor."""
    type_ = call.equation.inputs[place].type
    return call.inputs[place] if not type_.shape and type_.dtype == DType.INT64 else indices(call, place)


def _gather(call: Call) -> str:
    places = ", ".join(indices(call, place) for place in range(1, len(call.inputs)))
    axes = tuple(axis % _rank(call) for axis in call.params["axes"])
    return f"kernels.gather({call.tensor(0)}, {axes!r}, {places})"


def _index(call: Call) -> str:
    return f"kernels.index({call.tensor(0)}, {call.params['axis'] % _rank(call)}, {_scalar(call, 1)})"


def _rank(call: Call) -> int:
    return len(call.equation.inputs[0].type.shape)


def _update(call: Call) -> str:
    places = "".join(f", {_scalar(call, place)}" for place in range(2, len(call.inputs)))
    at = ", ".join(_place_source(place) for place in call.params["index"])
    return f"kernels.update({call.tensor(0)}, {call.tensor(1)}, {call.params['mode']!r}, [{at}]{places})"


def _place_source(place: str | tuple[Dim, ...] | None) -> str:
    return bounds_source(place) if isinstance(place, tuple) else repr(place)


def _unique(call: Call) -> str:
    return f"kernels.unique({call.tensor(0)}, {', '.join(map(repr, call.params['parts']))})"


INDEXING: dict[str, Row] = {
    "index": Row(_index, unsigned=Unsigned.MODULAR),
    "gather": Row(_gather, unsigned=Unsigned.MODULAR),
    "update": Row(_update, unsigned=Unsigned.MODULAR),
    "nonzero": Row(lambda call: f"kernels.nonzero({call.tensor(0)})", unsigned=Unsigned.MODULAR),
    "unique": Row(_unique),
    "take": Row(
        lambda call: f"{call.tensor(0)}.index_select({call.params['axis']}, {indices(call, 1)})",
        unsigned=Unsigned.MODULAR,
    ),
    "take_along_axis": Row(
        lambda call: f"{call.tensor(0)}.gather({call.params['axis']}, {indices(call, 1)})", unsigned=Unsigned.MODULAR
    ),
    "lookup": Row(lambda call: f"kernels.lookup({call.tensor(0)}, {indices(call, 1)})", unsigned=Unsigned.MODULAR),
    "search_cumulative": Row(
        lambda call: f"kernels.search_cumulative({call.tensor(0)}, {indices(call, 1)}, {call.tensor(2)})"
    ),
}
