"""Flows found by derivatives, on circuits as they are computed; what they are is tested by `posterior`."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import expected
from plica.errors import StructuralPropertyError, UnsupportedError
from plica.ir.dtypes import DType
from plica.lower import cascade
from plica.lower.queries.expect import LATENTS, POSTERIOR
from plica.lower.queries.flowing import lower_flows
from plica.queries import posterior
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, HadamardLayer, SumLayer, SumRow
from plica.symbolic.parameters import Parameter
from plica.symbolic.semirings import Bound
from plica.symbolic.semirings.scaled import SCALED
from tests.harness.circuits import coin, constant, tensor
from tests.harness.own_layers import NEIGHBOURS, NeighbourSum
from tests.harness.queries import QUERIED


@pytest.mark.parametrize("name", QUERIED)
def test_layers_hand_derivatives_on_fused_or_not(name: str) -> None:
    compiled = TorchCompiler().compile(QUERIED[name]())
    lowered = lower_flows(POSTERIOR, compiled.folded, DType.FLOAT32, DType.FLOAT32, None, SCALED, by_derivatives=True)
    *_, proven = lowered.program.results
    assert proven.type.dtype == DType.BOOL
    assert not [one for one in lowered.program.equations if one.op.name == "log"]  # flows of described sums take some


def test_sums_as_described_are_not_found() -> None:
    folded = TorchCompiler().compile(QUERIED["shared"]()).folded
    with pytest.raises(UnsupportedError, match="the posterior of latent variables cannot be computed by derivatives"):
        lower_flows(LATENTS, folded, DType.FLOAT32, DType.FLOAT32, None, SCALED, by_derivatives=True)


def test_bodies_in_other_operations_share_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of one's own that reads slices of units: it is asked how it chooses instead."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(NEIGHBOURS)
    inputs = [coin([0], 3), coin([1], 3)]
    sums = [NeighbourSum(3, 1, Parameter.from_input(tensor([[0.3, 0.7], [1.0, 0.2], [0.5, 0.5]]))) for _ in inputs]
    product, root = HadamardLayer(3, 2), SumLayer(3, 1, weight=constant([[0.2, 0.3, 0.5]]))
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    with pytest.raises(UnsupportedError, match="the operation slice has no rule for derivatives"):
        lower_flows(POSTERIOR, compiled.folded, DType.FLOAT64, DType.FLOAT64, None, SCALED, by_derivatives=True)
    x = torch.full((2, 2), torch.nan, dtype=torch.float64)
    found = posterior(compiled, x).probabilities
    programs = {key: one for key, one in cast("Any", compiled.queries).items() if isinstance(one, expected.FlowProgram)}
    assert {semiring for _, semiring, *_ in programs} == {"scaled"}  # proven, so that nobody asked again
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 2**60)
    torch.testing.assert_close(found, posterior(compiled, x).probabilities, rtol=1e-12, atol=0)


@pytest.mark.parametrize("scaled_from", [0, 2**60])
def test_hidden_negative_weights_are_refused(scaled_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that does not say which of its parameters are weights; two negative ones may have a positive product."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, scaled_from)
    row = LAYER_ROWS[SumLayer]
    assert isinstance(row, SumRow)
    compiler = TorchCompiler(dtype="float64")
    hidden = replace(row, body=lambda xp, semiring, _, params, inputs: semiring.contract(xp, inputs, params["weight"]))
    compiler.add_layer_rule(hidden, override=True)
    inputs = [coin([0], 1), coin([1], 1)]
    sums = [SumLayer(1, 2, weight=tensor([[-1.0], [2.0]])) for _ in inputs]
    product, root = HadamardLayer(2, 2), SumLayer(2, 1, weight=tensor([[1.0, 1.0]]))
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    with pytest.raises(StructuralPropertyError, match="the posterior needs weights that are not negative"):
        posterior(compiled, torch.full((2, 2), torch.nan, dtype=torch.float64))
