"""Rows of control flow that are expressions; loops and branches are statements, which `emit.py` writes."""

from plica.backend.torch.operations.call import Row, shape_source

CONTROL: dict[str, Row] = {
    "assert_shape": Row(
        lambda call: (
            f"kernels.assert_shape({call.tensor(0)}, {shape_source(call.params['shape'])}, {call.equation.source!r})"
        )
    ),
}
