"""Rows of sorting and searching."""

from plica.backend.torch.operations.call import Call, Row, Unsigned


def _sort(call: Call) -> str:
    axis, descending = call.params["axis"], call.params["descending"]
    return f"torch.sort({call.tensor(0)}, dim={axis}, descending={descending}, stable=True).values"


def _argsort(call: Call) -> str:
    axis, descending = call.params["axis"], call.params["descending"]
    return f"torch.argsort({call.tensor(0)}, dim={axis}, descending={descending}, stable=True)"


SORTING: dict[str, Row] = {
    "sort": Row(_sort),
    "argsort": Row(_argsort),
    "searchsorted": Row(
        lambda call: f"kernels.searchsorted({call.tensors}, {call.params['side']!r})", unsigned=Unsigned.ORDERED
    ),
}
