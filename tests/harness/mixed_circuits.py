"""Random circuits whose variables are of all families of input layers at once, for `tests.harness.comparison`.

compare(draw_mixed(3), WAYS)
"""

from typing import Any

import numpy as np
import torch

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.layers.multivariate_gaussian import MultivariateGaussianLayer
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.random_circuits import Draw

CASES = [case for case in LAYER_CASES if isinstance(case, InputCase) and case.num_variables == 1]
SIGNED = [case for case in LAYER_CASES if isinstance(case, InputCase) and case.signed]
PAIRS = [case for case in LAYER_CASES if isinstance(case, InputCase) and case.row.layer is MultivariateGaussianLayer]


def draw_mixed(seed: int) -> Draw:
    """The draw of one seed: one in six holds numbers of any sign, and no missing entries."""
    rng = np.random.default_rng(seed)
    signed = seed % 6 == 5
    known = [case for case in CASES if not case.signed]
    cases = [known[place] for place in rng.integers(len(known), size=int(rng.integers(1, 5)))]
    if signed:
        candidates = [case for case in SIGNED if case.num_variables == 1]
        cases[0] = candidates[rng.integers(len(candidates))]
    units, parts = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    pair = bool(rng.random() < 0.4)
    edges: dict[Any, list[Any]] = {}
    columns: list[Any] = []
    terms = []
    for _ in range(parts):
        factors = [case.build([v], units) for v, case in enumerate(cases)]
        if pair:
            factors.append(PAIRS[0].build([len(cases) + v for v in range(PAIRS[0].num_variables)], units))
        columns = columns or factors
        factors = [_summed(rng, edges, layer, units) for layer in factors]
        terms.append(_product(rng, edges, factors, units))
    total = SumLayer(units, int(rng.integers(1, 3)), parts)
    edges[total] = terms
    circuit = Circuit(_inputs_first(edges), {layer: inputs for layer, inputs in edges.items() if inputs}, [total])
    dtype = (torch.float32, torch.float64)[int(rng.integers(2))]
    folds = len(columns) * parts
    rows = int(rng.choice([0, 1, 2, folds, 9]))
    x = np.concatenate([_case(layer).draw(layer, rng, rows) for layer in columns], axis=1).astype(float)
    if not signed:
        x = np.where(rng.random(x.shape) < rng.choice([0.0, 0.3, 1.0]), np.nan, x)
    return Draw(f"mixed draw {seed}", seed, circuit, dtype, torch.from_numpy(x), signed=signed)


def _case(layer: Any) -> InputCase:
    """A case that draws data of the layer's class."""
    return next(case for case in [*CASES, *PAIRS] if case.row.layer is type(layer))


def _summed(rng: Any, edges: dict[Any, list[Any]], layer: Any, units: int) -> Any:
    """The layer, or a sum over its units."""
    edges[layer] = []
    if rng.random() < 0.5:
        return layer
    mixed = SumLayer(units, units, 1)
    edges[mixed] = [layer]
    return mixed


def _product(rng: Any, edges: dict[Any, list[Any]], factors: list[Any], units: int) -> Any:
    if len(factors) == 1:
        return factors[0]
    if len(factors) == 2 and rng.random() < 0.5:
        outer, mixed = KroneckerLayer(units, 2), SumLayer(units * units, units, 1)
        edges[outer], edges[mixed] = factors, [outer]
        return mixed
    product = HadamardLayer(units, len(factors))
    edges[product] = factors
    return product


def _inputs_first(edges: dict[Any, list[Any]]) -> list[Any]:
    return [*[layer for layer, inputs in edges.items() if not inputs], *[layer for layer in edges if edges[layer]]]
