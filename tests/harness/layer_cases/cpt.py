"""The CP-T layer: a sum over a Hadamard product."""

from functools import partial
from typing import Any

from plica.symbolic.layers import LAYER_ROWS, CPTLayer
from tests.harness.layer_cases import hadamard
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.layer_cases.numbers import weights
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """The weights times the products."""
    return space.weighted_sum(hadamard.reference(space, layer, params, inputs), params["weight"])


ROW = LAYER_ROWS[CPTLayer]
CASES = tuple(
    InnerCase(f"cp-t of {arity}", ROW, partial(CPTLayer, 3, 2, arity), reference, parameters={"weight": weights(3)})
    for arity in (2, 3)
)
