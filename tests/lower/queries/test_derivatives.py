"""Flows found by derivatives, on circuits as they are computed; what they are is tested by `posterior`."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import expected
from plica.errors import InputError, StructuralPropertyError, UnsupportedError
from plica.ir.dtypes import DType
from plica.lower import cascade
from plica.lower.queries.expect import LATENTS, POSTERIOR
from plica.lower.queries.flowing import lower_flows
from plica.queries import posterior
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, HadamardLayer, KroneckerLayer, ProductRow, SumLayer, SumRow
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


def test_a_body_may_multiply_all_folds_by_one_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    row = LAYER_ROWS[HadamardLayer]
    assert isinstance(row, ProductRow)

    def halved(xp: Any, semiring: Any, layer: Any, params: Any, inputs: Any) -> Any:
        half = semiring.from_linear(xp, xp.full((1, 1, 1), 0.5, dtype="float64"))
        return semiring.product(xp, row.body(xp, semiring, layer, params, inputs), half)

    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(replace(row, body=halved), override=True)
    inputs = [coin([variable], 2) for variable in range(4)]
    products, both = [HadamardLayer(2, 2), HadamardLayer(2, 2)], KroneckerLayer(2, 2)
    root = SumLayer(4, 1, weight=tensor([[0.1, 0.2, 0.3, 0.4]]))
    edges: dict[Any, Any] = {products[0]: inputs[:2], products[1]: inputs[2:], both: products, root: [both]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    x = torch.tensor([[torch.nan, 1.0, torch.nan, 0.0]], dtype=torch.float64)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 2**60)
    expected = posterior(compiled, x).probabilities
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    torch.testing.assert_close(posterior(compiled, x).probabilities, expected)


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


@pytest.mark.parametrize("scaled_from", [0, 2**60])
def test_hidden_negative_products_are_refused(scaled_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of products of the opposite sign; a product of two of them is positive."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, scaled_from)
    row = LAYER_ROWS[HadamardLayer]
    assert isinstance(row, ProductRow)

    def negated(xp: Any, semiring: Any, layer: Any, params: Any, inputs: Any) -> Any:
        product = row.body(xp, semiring, layer, params, inputs)
        return semiring.contract(xp, [product], xp.full((product[0].shape[0], 1, 1), -1.0, dtype="float64"))

    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(replace(row, body=negated), override=True)
    inputs = [coin([variable], 1) for variable in range(4)]
    products, both = [HadamardLayer(1, 2), HadamardLayer(1, 2)], KroneckerLayer(1, 2)
    root = SumLayer(1, 1, weight=tensor([[1.0]]))
    edges: dict[Any, Any] = {products[0]: inputs[:2], products[1]: inputs[2:], both: products, root: [both]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    with pytest.raises(InputError, match="the logarithm of the probability of the given values is nan"):
        posterior(compiled, torch.full((2, 4), torch.nan, dtype=torch.float64))
