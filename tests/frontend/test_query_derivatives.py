"""Derivatives of queries by parameters against differences in float64: ordinary parameters, ends, and weights of 0."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from plica import queries
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, StudentTLayer, SumLayer
from tests.harness.flat_units import leaf
from tests.harness.pairwise import flagged
from tests.harness.tables.queries import NEEDS

X = torch.tensor([[1.0, 0.5, np.nan], [np.nan, np.nan, 2.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
LAST = torch.tensor([[False, False, True]]).expand(3, 3)
# What each query that has gradients (docs/queries.md) gives of a circuit.
ASKED: dict[str, Callable[[Any], Tensor]] = {
    "log_likelihood": lambda model: queries.log_likelihood(model, X),
    "conditional_log_likelihood": lambda model: queries.conditional_log_likelihood(model, X, LAST),
    "IntegrateQuery": lambda model: IntegrateQuery(model)(torch.nan_to_num(X), integrate_vars=X.isnan()),
}
_OF_FLOWS = "it is computed without gradients"
WITHOUT = {
    "cdf": "boxes have no gradients",
    "probability": "boxes have no gradients",
    "quantile": "a search",
    "sample": "draws",
    "mpe": "choices",
    "mpe_bounds": "choices",
    **dict.fromkeys(("posterior", "latent_posterior", "mean", "variance", "covariance"), _OF_FLOWS),
}
# Ordinary numbers; a weight and a probability that are exactly 0; units far apart, of very different widths.
POINTS: dict[str, dict[str, Any]] = {
    "ordinary": {"probs": [[0.3, 0.7], [0.6, 0.4]], "mean": [0.1, 1.2], "stddev": [1.0, 0.6], "weight": [[0.4, 0.6]]},
    "zeros": {"probs": [[0.0, 1.0], [0.3, 0.7]], "mean": [0.0, 1.0], "stddev": [1.0, 0.5], "weight": [[0.0, 1.0]]},
    "apart": {
        "probs": [[1e-9, 1.0], [0.5, 0.5]],
        "mean": [-300.0, 40.0],
        "stddev": [2.0, 30.0],
        "weight": [[1e-6, 2.0]],
    },
}


def model_of(point: dict[str, Any], semiring: str) -> Any:
    """A mixture of two products of three variables."""
    inputs = [
        CategoricalLayer([0], 2, num_categories=2, probs=leaf(point["probs"])),
        GaussianLayer([1], 2, mean=leaf(point["mean"]), stddev=leaf(point["stddev"])),
        StudentTLayer([2], 2, df=leaf([3.5, 30.0]), loc=leaf([0.0, 2.0]), scale=leaf([1.0, 0.5])),
    ]
    product, total = HadamardLayer(2, 3), SumLayer(2, 1, weight=leaf(point["weight"]))
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    return TorchCompiler(semiring, dtype="float64").compile(circuit)


def test_every_query_is_asked_or_has_a_reason() -> None:
    names = {needs.function for needs in NEEDS}
    assert names == {*ASKED, *WITHOUT}


@pytest.mark.one_in(3)
@flagged(name=list(ASKED), point=list(POINTS), semiring=["lse-sum", "sum-product"])
def test_derivatives_of_queries(name: str, point: str, semiring: str) -> None:
    model = model_of(POINTS[point], semiring)
    leaves = list(model.parameters())
    rng = np.random.default_rng(0)
    known = ASKED[name](model).detach().isfinite()
    share = torch.from_numpy(rng.uniform(0.5, 1.5, known.shape))
    along = [torch.from_numpy(rng.uniform(0.5, 1.5, one.shape)) for one in leaves]

    def computed() -> tuple[Tensor, Tensor]:
        """The answer, and its derivative along a direction."""
        total = torch.where(known, ASKED[name](model), 0.0).mul(share).sum()
        slopes = torch.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)
        return total, torch.stack([(one * step).sum() for one, step in zip(slopes, along, strict=True)]).sum()

    def both() -> Any:
        return np.array([one.item() for one in computed()])

    # each of a graph of its own: differences move the parameters
    slopes = [torch.autograd.grad(computed()[order], leaves, materialize_grads=True) for order in range(2)]
    for number, parameter in enumerate(leaves):
        for place in range(parameter.numel()):
            truth, error = _difference(both, parameter, place)
            found = np.array([float(of_order[number].reshape(-1)[place]) for of_order in slopes])
            wrong = ~(abs(found - truth) <= 1e-5 * abs(truth) + error + 1e-7)
            assert not wrong.any(), (wrong, number, place, found, truth)


def _difference(function: Callable[[], Any], parameter: Tensor, place: int) -> tuple[Any, Any]:
    """Derivatives by an entry, and how far rounding may take them: from 0 to one side, since no weight is negative."""
    flat = parameter.detach().reshape(-1)
    number = float(flat[place])
    step, values = 1e-5 * abs(number) if number else 1e-7, []
    for offset in (-1.0, 0.0, 1.0) if number else (0.0, 1.0, 2.0):
        flat[place] = number + offset * step
        values.append(function())
    flat[place] = number
    low, middle, high = values
    rounding = 2e-13 * (1 + np.abs(values).max(axis=0)) / step
    return ((high - low) if number else 4 * middle - high - 3 * low) / (2 * step), rounding
