"""Rows of random numbers."""

from plica.backend.torch.operations.call import Call, Row, Text, axis_source, dtype_source, function, shape_source


def _uniform(call: Call) -> str:
    shape, dtype = shape_source(call.params["shape"]), dtype_source(call.params["dtype"])
    digits, interval = call.params["digits"], call.params["interval"]
    return f"kernels.random.uniform({call.tensor(0)}, {shape}, {digits}, {interval!r}, {dtype})"


def _bits(call: Call) -> str:
    return f"kernels.random.bits({call.tensor(0)}, {shape_source(call.params['shape'])}, {call.params['width']})"


def _sized(name: str, param: str) -> Text:
    return lambda call: f"kernels.random.{name}({call.tensor(0)}, {axis_source(call.params[param])})"


RANDOM: dict[str, Row] = {
    "random_key": Row(function("kernels.random.key")),
    "random_split": Row(_sized("split", "num")),
    "random_fold_in": Row(function("kernels.random.fold_in")),
    "random_bits": Row(_bits),
    "random_uniform": Row(_uniform),
    "random_permutation": Row(_sized("permutation", "size")),
}
