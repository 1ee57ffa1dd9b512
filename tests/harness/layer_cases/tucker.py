"""The Tucker layer: a sum over a Kronecker product."""

from functools import partial
from typing import Any

from plica.symbolic.layers import LAYER_ROWS, TuckerLayer
from tests.harness.layer_cases import kronecker
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.layer_cases.numbers import weights
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """The weights times all products."""
    return space.weighted_sum(kronecker.reference(space, layer, params, inputs), params["weight"])


ROW = LAYER_ROWS[TuckerLayer]
CASES = tuple(
    InnerCase(
        f"tucker of {arity}",
        ROW,
        partial(TuckerLayer, 2, 3, arity),
        reference,
        parameters={"weight": weights(2**arity)},
    )
    for arity in (2, 3)
)
