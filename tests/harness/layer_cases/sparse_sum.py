"""The sparse sum layer: a sum whose weight is zero but at the units that its terms read."""

from functools import partial
from typing import Any

import numpy as np

from plica.symbolic.layers import LAYER_ROWS, SparseSumLayer, Term
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.layer_cases.numbers import weights
from tests.harness.spaces import WIDE, Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """The dense weight times the units of all inputs."""
    sums, size = len(layer.terms[0].units), layer.num_summed
    left, right = np.eye(layer.num_left, dtype=WIDE), np.eye(layer.num_right, dtype=WIDE)
    dense = np.zeros((*params["weight"].shape[:-2], sums, layer.arity, size), dtype=params["weight"].dtype)
    for number, term in enumerate(layer.terms):
        for row, unit in enumerate(term.units):
            if unit >= 0:
                dense[..., row, term.input, unit] += params["weight"][..., row, number]
    blocks = [np.kron(np.kron(left, dense[..., index, :]), right) for index in range(layer.arity)]
    return space.weighted_sum(np.concatenate(inputs, axis=-1), np.concatenate(blocks, axis=-1))


ROW = LAYER_ROWS[SparseSumLayer]
LAYERS: tuple[tuple[Any, ...], ...] = (
    (4, (Term(0, (3, 0, 1)), Term(0, (2, 2, 2)))),
    (4, (Term(0, (3, 0)), Term(1, (1, 3)))),
    (3, (Term(0, (2, 0)), Term(0, (1, -1))), 2, 2),
    (1, (Term(0, (0, 0)),)),
)
CASES = tuple(
    InnerCase(
        f"sparse-sum {number}",
        ROW,
        partial(SparseSumLayer, *arguments),
        reference,
        parameters={"weight": weights(len(arguments[1]))},
        multiplies_logs=True,
    )
    for number, arguments in enumerate(LAYERS)
)
