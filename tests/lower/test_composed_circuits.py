"""Folding, rules and lowering together, on random circuits of `tests/harness/composed_circuits.py`."""

from typing import Any

import numpy as np
import pytest
import torch

from plica import PipelineContext
from plica.graph.strategy import OptMatchStrategy
from plica.lower.optimize import cost_guided
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import ReferenceParameter, TensorParameter
from tests.harness.composed_circuits import ROWS, Composer, reference

STRATEGIES: tuple[Any, ...] = (OptMatchStrategy.LARGEST_MATCH, OptMatchStrategy.FIRST_RULE, cost_guided)
DRAWS = [
    *range(4),
    117,  # a table entry of 1.7e-41 in float32, whose logarithm is an ordinary number
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 120) if seed != 117),
]


@pytest.mark.parametrize("seed", DRAWS)
def test_values_and_gradients_are_those_of_the_definition(seed: int) -> None:
    composer = Composer(seed)
    circuit, x = composer.circuit(), composer.data()
    rng = np.random.default_rng(seed)
    directions = {one: rng.normal(size=one.shape) for one in tensors(circuit)}
    values, slopes = reference(circuit, x, directions)
    for dtype, tolerance in ((torch.float32, 3e-4), (torch.float64, 1e-9)):
        semiring = "lse-sum" if composer.scale > 5 or rng.random() < 0.6 else "sum-product"
        context = PipelineContext(
            semiring=semiring,
            fold=bool(rng.random() < 0.7),
            optimize=bool(rng.random() < 0.8),
            strategy=STRATEGIES[rng.integers(len(STRATEGIES))],
            dtype=dtype,
        )
        for row in ROWS:
            context.add_layer_compilation_rule(row)
        if rng.random() < 0.3:  # another circuit of the context made some of the tensors
            context.compile(circuit.subgraph(circuit.layers[int(rng.integers(len(circuit.layers)))]))
        found = context.compile(circuit)(torch.tensor(x, dtype=dtype))
        logs = found.log() if semiring == "sum-product" else found
        expected = np.log(values).astype(float)
        seen = expected > -60 if semiring == "sum-product" else np.isfinite(expected)
        where = f"{seed}, {dtype}, {semiring}"
        assert np.allclose(logs.detach().numpy()[seen], expected[seen], tolerance, tolerance), where
        if not directions or not seen.any() or not logs.requires_grad:
            continue
        factors = rng.normal(size=expected.shape) * seen
        logs.backward(torch.tensor(factors, dtype=dtype))
        slope, size = slope_of(context, directions)
        assert abs(slope - float((factors * np.where(seen, slopes, 0)).sum())) <= 50 * tolerance * (1e-3 + size), where


def tensors(circuit: Circuit) -> list[TensorParameter]:
    """The tensors that the parameters name themselves: those of composed leaves are not among them."""
    nodes = [one for layer in circuit.layers for parameter in layer.all_params.values() for one in parameter.nodes]
    targets = [one.deref() if isinstance(one, ReferenceParameter) else one for one in nodes]
    return list(dict.fromkeys(one for one in targets if isinstance(one, TensorParameter)))


def slope_of(context: PipelineContext, directions: dict[TensorParameter, Any]) -> tuple[float, float]:
    """What the gradients say of a step in the directions, and how large the numbers are that were added."""
    terms = []
    for one, direction in directions.items():
        held, fold = context._compiler.tensor_of(one)
        if held.grad is not None:
            terms.append((held.grad[fold].numpy() * direction).ravel())
    joined = np.concatenate(terms) if terms else np.zeros(1)
    return float(joined.sum()), float(np.abs(joined).sum())
