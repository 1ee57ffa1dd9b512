"""The Kronecker layer."""

import itertools
from functools import partial
from typing import Any

import numpy as np

from plica.symbolic.layers import LAYER_ROWS, KroneckerLayer
from tests.harness.layer_cases import hadamard
from tests.harness.layer_cases.case import InnerCase, Params
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:
    """All products of one unit of each input, the first input slowest."""
    columns = [[one[:, unit] for unit in range(one.shape[1])] for one in inputs]
    products = [hadamard.reference(space, layer, params, list(chosen)) for chosen in itertools.product(*columns)]
    return np.stack(products, axis=1)


ROW = LAYER_ROWS[KroneckerLayer]
CASES = tuple(
    InnerCase(f"kronecker of {arity}", ROW, partial(KroneckerLayer, units, arity), reference, parameters={})
    for arity, units in ((1, 3), (2, 3), (3, 2))
)
