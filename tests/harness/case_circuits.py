"""Circuits around the layers of conformance cases, and data for them."""

from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.layers.rows import SumRow
from tests.harness.layer_cases import InputCase, LayerCase

Array = Any
UNITS = 3


def circuit_of(case: LayerCase) -> Circuit:
    """A small circuit around layers of a case, several of which fold."""
    if isinstance(case, InputCase):
        size = case.num_variables
        builders = [case.build, case.build, *case.alike[:1]]
        inputs = [build(range(place * size, place * size + size), UNITS) for place, build in enumerate(builders)]
        if not size:
            inputs.append(CategoricalLayer([0], UNITS, num_categories=2))
        product = HadamardLayer(UNITS, len(inputs))
        total = SumLayer(UNITS, 2)
        return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    layers = [case.build(), case.build()]
    edges: dict[Any, Any] = {}
    read: list[Any] = []
    for layer in layers:
        scopes = [[0 if isinstance(case.row, SumRow) else place] for place in range(layer.arity)]
        made = [
            CategoricalLayer(scope, width, num_categories=2)
            for scope, width in zip(scopes, layer.input_widths, strict=True)
        ]
        read, edges = read + made, {**edges, layer: made}
    return Circuit([*read, *layers], edges, layers)


def data_of(circuit: Circuit, cases: Any, rows: int, missing: float, seed: int = 0) -> Array:
    """Rows for a circuit, a share of whose entries is missing; all or none of the variables of one layer."""
    rng = np.random.default_rng(seed)
    known = {case.row.layer: case for case in cases if isinstance(case, InputCase)}
    x = np.zeros((rows, max(circuit.scope) + 1))
    for layer in circuit.input_layers:
        x[:, list(layer.scope)] = known[type(layer)].draw(layer, rng, rows)
    for layer in circuit.input_layers:
        if known[type(layer)].totals is not None:
            x[np.ix_(rng.random(rows) < missing, np.array(list(layer.scope), int))] = np.nan
    return x
