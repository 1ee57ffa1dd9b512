"""Rows of packing: what is packed lies in memory as its kernel reads it."""

from plica.backend.torch.operations.call import Call, Row, Text

_PARAMS = ("outer_dims_perm", "inner_dims_pos", "inner_tiles")


def _of(name: str) -> Text:
    def text(call: Call) -> str:
        params = ", ".join(f"{param}={call.params[param]!r}" for param in _PARAMS)
        return f"kernels.{name}({call.tensor(0)}, {params}).contiguous()"

    return text


PACKING = {"pack": Row(_of("pack")), "unpack": Row(_of("unpack"))}
