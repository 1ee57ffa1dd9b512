"""The Hadamard layer."""

from functools import partial
from typing import Any

from plica.symbolic.layers import LAYER_ROWS, HadamardLayer
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:  # noqa: ARG001
    """The product, unit by unit."""
    result = inputs[0]
    for one in inputs[1:]:
        result = space.multiply(result, one)
    return result


ROW = LAYER_ROWS[HadamardLayer]
CASES = tuple(
    InnerCase(f"hadamard of {arity}", ROW, partial(HadamardLayer, 3, arity), reference, parameters={})
    for arity in (1, 2, 3)
)
