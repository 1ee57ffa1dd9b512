"""The row of calls of objects: torch modules that circuits hold."""

from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.operations.call import Call, Row, dtype_source, shape_source


def _opaque(call: Call) -> str:
    params = call.params
    module = f"leaves.{attribute_of(params['name'])}"
    how = f"{params['method']!r}, {shape_source(params['shape'])}, {dtype_source(params['dtype'])}"
    return f"kernels.opaque({', '.join([module, how, *filter(None, [call.tensors])])})"


OPAQUE: dict[str, Row] = {"opaque": Row(_opaque)}
