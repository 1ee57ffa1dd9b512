"""The tensor-dot layer: a sum with the weight I kron W kron I."""

from functools import partial
from typing import Any

import numpy as np

from plica.symbolic.layers import LAYER_ROWS, TensorDotLayer
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.layer_cases.numbers import weights
from tests.harness.spaces import WIDE, Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """The dense weight times the units."""
    left, right = np.eye(layer.num_left, dtype=WIDE), np.eye(layer.num_right, dtype=WIDE)
    return space.weighted_sum(inputs[0], np.kron(np.kron(left, params["weight"]), right))


ROW = LAYER_ROWS[TensorDotLayer]
SIZES = [(2, 3, 4, 5), (1, 3, 4, 2), (2, 3, 1, 1), (1, 3, 1, 2), (1, 1, 1, 2), (2, 1, 1, 3)]
CASES = tuple(
    InnerCase(
        f"tensor-dot {sizes}",
        ROW,
        partial(TensorDotLayer, *sizes),
        reference,
        parameters={"weight": weights(TensorDotLayer(*sizes).num_summed)},
    )
    for sizes in SIZES
)
