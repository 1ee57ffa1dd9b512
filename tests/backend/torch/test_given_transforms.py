"""Calls that give parameters under transforms of torch, and in functions that are traced."""

from typing import Any

import pytest
import torch
from torch import Tensor

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.symbolic.layers import CategoricalLayer, SumLayer
from tests.harness.circuits import chain
from tests.harness.given import MEANS, X, close, compiled_conditional


def test_second_derivatives_and_functional_calls() -> None:
    compiled = compiled_conditional()
    x, means = X[:2], MEANS[:2].clone().requires_grad_()

    def value(one: Tensor) -> Tensor:
        found: Tensor = compiled(x, parameters={"mean": one})
        return found

    assert torch.autograd.gradcheck(value, means)
    assert torch.autograd.gradgradcheck(value, means)
    own: dict[str, Tensor] = dict(compiled.named_parameters())
    found = torch.func.functional_call(compiled, own, (x,), {"parameters": {"mean": means}})
    assert torch.equal(found, value(means))


def test_vmap_over_given_parameters() -> None:
    compiled = TorchCompiler(dtype="float64").compile(chain(CategoricalLayer([0], 2, num_categories=3), SumLayer(2, 1)))
    x = torch.tensor([[0], [2]])
    logits = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = torch.func.vmap(lambda one: compiled(x, parameters={"0.logits": one}))(logits)
        for place in range(4):
            assert close(found[place], compiled(x, parameters={"0.logits": logits[place]}))


def test_torch_compile_makes_one_graph_for_every_number_of_rows() -> None:
    torch._dynamo.reset()
    compiled = TorchCompiler(dtype="float64").compile(chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1)))
    graphs = []

    def backend(graph: Any, example_inputs: Any) -> Any:  # noqa: ARG001
        graphs.append(graph)
        return graph.forward

    def density(x: Tensor, logits: Tensor) -> Tensor:
        found: Tensor = compiled(x, parameters={"0.logits": logits, "1.weight": logits[:, :1]})
        return found

    fast = torch.compile(density, fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 4):
        x, logits = torch.arange(rows)[:, None] % 2, torch.rand(rows, 2, 2, dtype=torch.float64, requires_grad=True)
        found, again = fast(x, logits), density(x, logits)
        torch.testing.assert_close(found, again)
        through, directly = (torch.autograd.grad(one.sum(), logits)[0] for one in (found, again))
        torch.testing.assert_close(through, directly)
    assert len(graphs) == 1


def test_a_tracer_cannot_be_given() -> None:
    compiled = TorchCompiler().compile(chain(CategoricalLayer([0], 2, num_categories=3), SumLayer(2, 1)))
    x, logits = torch.tensor([[0], [2]]), torch.zeros(2, 3)
    with pytest.raises(UnsupportedError, match="cannot give parameters to a circuit"):
        plica.jit(lambda x, logits: compiled(x, parameters={"0.logits": logits}))(x, logits)
