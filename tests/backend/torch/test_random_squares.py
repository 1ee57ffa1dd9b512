"""Squares of random circuits against enumeration: likelihoods, boxes, posteriors and samples."""

import itertools
import math
import random

import numpy as np
import pytest
import torch

from plica.pipeline import PipelineContext
from plica.queries import cdf, log_likelihood, posterior, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import EmbeddingLayer, HadamardLayer, KroneckerLayer, Layer, OuterProductLayer, SumLayer
from plica.symbolic.parameters import normal
from plica.templates import squared
from tests.harness.statistics import assert_distribution, frequencies


def random_circuit(draw: random.Random, sizes: list[int]) -> Circuit:
    """A circuit that splits its variables at random, by products of all kinds, with weights of both signs."""
    edges: dict[Layer, list[Layer]] = {}

    def add(layer: Layer, *inputs: Layer) -> Layer:
        edges[layer] = list(inputs)
        return layer

    def node(variables: list[int], units: int) -> Layer:
        if len(variables) == 1:
            return add(EmbeddingLayer(variables, units, num_states=sizes[variables[0]], weight_factory=normal))
        draw.shuffle(variables)
        at = draw.randrange(1, len(variables))
        kind = draw.choice(["hadamard", "kronecker", "outer"])
        widths = {"hadamard": [units, units], "kronecker": [2, 2], "outer": [draw.randint(1, 3), draw.randint(1, 3)]}[
            kind
        ]
        parts = [node(part, width) for part, width in zip((variables[:at], variables[at:]), widths, strict=True)]
        product: Layer = OuterProductLayer(widths)
        if kind != "outer":
            product = (HadamardLayer if kind == "hadamard" else KroneckerLayer)(widths[0], 2)
        below = add(product, *parts)
        return add(SumLayer(below.num_output_units, units, weight_factory=normal), below)

    top = node(list(range(len(sizes))), 2)
    total = add(SumLayer(2, 1, weight_factory=normal), top)
    return Circuit(edges, {layer: inputs for layer, inputs in edges.items() if inputs}, [total])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 30))])
def test_random_squares(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    sizes = [draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
    circuit, states = random_circuit(draw, sizes), np.array(list(itertools.product(*map(range, sizes))))
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        values, square = context.compile(circuit), context.compile(squared(circuit))
    joint = values(torch.from_numpy(states)).detach().numpy()[:, 0, 0].reshape(sizes) ** 2
    shares = joint / joint.sum()
    rows = torch.from_numpy(states).double()
    np.testing.assert_allclose(log_likelihood(square, rows).exp().detach().numpy(), shares.ravel(), atol=1e-9)
    below = shares
    for axis in range(len(sizes)):
        below = below.cumsum(axis)
    np.testing.assert_allclose(cdf(square, rows).numpy(), below.ravel(), atol=1e-9)
    missing = torch.full((1, len(sizes)), math.nan, dtype=torch.float64)
    for variable, table in enumerate(posterior(square, missing).probabilities[0]):
        expected = shares.sum(tuple(axis for axis in range(len(sizes)) if axis != variable))
        np.testing.assert_allclose(table[: sizes[variable]].numpy(), expected, atol=1e-9)
    assert_distribution(frequencies(states, sample(square, 5000, seed=seed).numpy()), shares.ravel())
