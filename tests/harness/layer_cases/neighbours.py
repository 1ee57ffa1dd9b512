"""A sum layer of a user's own, which says how it chooses."""

from typing import Any

import numpy as np

from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.layer_cases.numbers import signed_weights
from tests.harness.own_layers import NEIGHBOURS, NeighbourSum
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """The squares of the root at the places of a dense weight."""
    units = layer.num_input_units
    dense = np.zeros((units, layer.arity * units), params["root"].dtype)
    for unit, place, step in np.ndindex(units, layer.arity, 2):
        dense[unit, place * units + (unit + step) % units] += params["root"][unit, 2 * place + step] ** 2
    return space.weighted_sum(np.concatenate(inputs, axis=1), dense)


CASES = (
    InnerCase(
        "neighbour sum of two",
        NEIGHBOURS,
        lambda: NeighbourSum(3, 2, normal((3, 4))),
        reference,
        parameters={"root": signed_weights(4)},
        multiplies_logs=True,
    ),
)
