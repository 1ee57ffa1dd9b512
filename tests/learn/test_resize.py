"""Circuits with fewer and with more units, against the oracle, which evaluates them from their values."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, InputError, ShapeError
from plica.learn import flows
from plica.learn.resize import grow, prune
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import BernoulliLayer, CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    Parameter,
    SoftmaxParameter,
    SoftplusParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope
from plica.templates import hclt
from plica.templates.pgms import hmm
from tests.harness.circuits import CIRCUITS, INPUTS, chain, coin, data, product_then_sum, tensor
from tests.harness.oracle import Oracle, all_states, keys
from tests.harness.region_graphs import dependent_rows


def filled(circuit: Circuit, seed: int = 0) -> Circuit:
    """The circuit with an array of normal draws in the initializer of each tensor."""
    rng = np.random.default_rng(seed)
    for leaf in keys(circuit):
        leaf.initializer = ConstantTensorInitializer(rng.normal(size=leaf.shape))
    return circuit


def oracle(circuit: Circuit) -> Oracle:
    return Oracle(
        circuit, {key: np.broadcast_to(leaf.initializer.value, leaf.shape) for leaf, key in keys(circuit).items()}
    )


def assert_same(first: Circuit, second: Circuit, rows: np.ndarray) -> None:
    expected, values = (oracle(circuit).linear(rows).astype(float) for circuit in (first, second))
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-300)


def equal_flows(circuit: Circuit) -> dict:
    return {layer: np.ones(layer.weight.shape) for layer in circuit.sum_layers}


WEIGHTS: dict[str, Any] = {
    "softmax": lambda shape: Parameter.from_unary(SoftmaxParameter(shape), tensor(draws(shape))),
    "a tensor": lambda shape: tensor(np.abs(draws(shape))),
    "clamped": lambda shape: Parameter.from_unary(ClampParameter(shape, vmin=0.1), tensor(draws(shape))),
    "softplus": lambda shape: Parameter.from_unary(SoftplusParameter(shape), tensor(draws(shape))),
    "softmax of columns": lambda shape: Parameter.from_unary(SoftmaxParameter(shape, axis=0), tensor(draws(shape))),
    "softmax of a clamp": lambda shape: Parameter.from_unary(
        SoftmaxParameter(shape), Parameter.from_unary(ClampParameter(shape, vmin=-1.0), tensor(draws(shape)))
    ),
}


def draws(shape) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name in CIRCUITS if name not in ("one input", "probs")])
def test_copies_without_noise_leave_the_function_unchanged(name: str, factor: int) -> None:
    circuit = filled(CIRCUITS[name]())
    rows = data(circuit, 6)
    if name in ("mixing", "many outputs"):  # all layers are outputs, or multiplied or mixed unit by unit with these
        with pytest.raises(InputError, match="no units that could be dropped or copied"):
            grow(circuit, factor, 0.0)
        return
    larger = grow(circuit, factor, noise=0.0)
    assert_same(circuit, larger, rows)
    assert_same(circuit, prune(circuit, equal_flows(circuit), 1.0), rows)
    counts = [sum(layer.num_output_units for layer in each.layers) for each in (circuit, larger)]
    assert counts[1] > counts[0] if factor > 1 else counts[1] == counts[0]


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_layer(name: str) -> None:
    inputs = [INPUTS[name](Scope([0]), 2), coin([1], 2)] if INPUTS[name](Scope([0]), 1).num_variables == 1 else None
    if inputs is None:
        inputs = [INPUTS[name](Scope([0, 1]), 2), coin([2], 2)]
    circuit = filled(product_then_sum(HadamardLayer(2, 2), inputs))
    rows = data(circuit, 5)
    if any(layer.sub_layers for layer in inputs):  # it keeps its units, and so do those beside it
        with pytest.raises(InputError, match="no units that could be dropped or copied"):
            grow(circuit, 2)
        return
    assert_same(circuit, grow(circuit, 2, noise=0.0), rows)
    (total,) = circuit.sum_layers
    smaller = prune(circuit, {total: np.array([[1.0, 2.0]])}, 0.5)
    # by hand: the second unit of each input layer, with a weight of 1 since the softmax has no other
    first, second = (oracle(circuit.subgraph(layer)).linear(rows)[:, 0, 1] for layer in circuit.input_layers)
    assert [layer.num_output_units for layer in smaller.input_layers] == [1, 1]
    values = oracle(smaller).linear(rows)[:, 0, 0].astype(float)
    np.testing.assert_allclose(values, (first * second).astype(float), rtol=1e-9)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("arity", [1, 2])
def test_every_kind_of_weight(weight: str, arity: int) -> None:
    inputs = [coin([0], 3, 3) for _ in range(arity)]
    middle = SumLayer(3, 2, arity, weight_factory=WEIGHTS[weight])
    top = SumLayer(2, 1, weight_factory=WEIGHTS[weight])
    circuit = Circuit([*inputs, middle, top], {middle: inputs, top: [middle]}, [top])
    for leaf in keys(circuit):
        if not isinstance(leaf.initializer, ConstantTensorInitializer):
            leaf.initializer = ConstantTensorInitializer(draws(leaf.shape))
    rows = np.arange(3)[:, None]
    assert_same(circuit, grow(circuit, 3, noise=0.0), rows)
    flows = {middle: np.tile([3.0, 1.0, 2.0], (2, arity)), top: np.array([[1.0, 5.0]])}
    smaller = prune(circuit, flows, 0.6)
    before, after = oracle(circuit), oracle(smaller)
    weights = before.parameter(middle.weight).astype(float), before.parameter(top.weight).astype(float)
    columns = np.concatenate([h * 3 + np.array([0, 2]) for h in range(arity)])
    # both units of the layer in the middle stay: 0.6 of two, rounded up
    kept = weights[0][:, columns]
    if weight in ("softmax", "a tensor", "softmax of a clamp"):
        kept = kept * (weights[0].sum(axis=1) / kept.sum(axis=1))[:, None]
    values = np.concatenate([before.part(layer).linear(rows)[:, 0][:, [0, 2]] for layer in inputs], axis=1).astype(
        float
    )
    np.testing.assert_allclose(after.linear(rows)[:, 0, 0].astype(float), values @ kept.T @ weights[1][0], rtol=1e-9)


def test_units_that_no_row_uses_are_dropped_without_any_change() -> None:
    weights = (
        np.array([[0.3, 0.0, 0.7, 0.0]]),
        np.array([[0.5, 0.5, 0.0, 0.0], [0, 0, 0, 1.0], [0.2, 0, 0.8, 0], [1, 0, 0, 0]]),
    )
    x, y = coin([0], 4, 3), coin([1], 4, 3)
    message, product = SumLayer(4, 4, weight=tensor(weights[1])), HadamardLayer(4, 2)
    top = SumLayer(4, 1, weight=tensor(weights[0]))
    edges: dict[Any, Any] = {message: [y], product: [x, message], top: [product]}
    circuit = Circuit([x, y, *edges], edges, [top])
    for leaf in keys(circuit):
        if isinstance(leaf.initializer, ConstantTensorInitializer):
            continue
        leaf.initializer = ConstantTensorInitializer(draws(leaf.shape))
    rows = all_states(circuit)
    # expected counts by hand: the posterior of each unit, and of each weight
    values = oracle(circuit)
    of_x, of_message = (values.part(layer).linear(rows)[:, 0].astype(float) for layer in (x, message))
    of_y = values.part(y).linear(rows)[:, 0].astype(float)
    joint = weights[0][0] * of_x * of_message
    posterior = joint / joint.sum(axis=1, keepdims=True)
    inner = posterior[:, :, None] * weights[1][None] * of_y[:, None] / of_message[:, :, None]
    flows = {top: posterior.sum(axis=0)[None], message: inner.sum(axis=0)}
    smaller = prune(circuit, flows, 0.5)
    assert [layer.num_output_units for layer in smaller.input_layers] == [2, 2]
    np.testing.assert_allclose(flows[message].sum(axis=1), flows[top][0])
    half = weights[1][:, [0, 2]] / weights[1][:, [0, 2]].sum(axis=1, keepdims=True).clip(1e-300)
    expected = (weights[0][0] * of_x * (of_y[:, [0, 2]] @ half.T))[:, [0, 2]].sum(axis=1)
    np.testing.assert_allclose(oracle(smaller).linear(rows)[:, 0, 0].astype(float), expected, rtol=1e-9)
    larger = grow(circuit, 2, noise=0.0)  # half of the copies carry nothing, once their partners have all
    assert_same(circuit, larger, rows)


def test_noise_keeps_rows_normalized_and_follows_the_seed() -> None:
    rows = dependent_rows(50, 4, 3, seed=0)
    circuit = filled(hclt(rows, 2, num_trees=2, share_inputs=True))
    first, again, other = (grow(circuit, 2, 0.3, seed=seed) for seed in (0, 0, 1))
    states = all_states(circuit)
    values = [oracle(each).linear(states).astype(float) for each in (first, again, other, circuit)]
    assert (values[0] == values[1]).all()
    assert np.abs(values[0] - values[2]).max() > 1e-4
    assert np.abs(values[0] - values[3]).max() > 1e-4
    np.testing.assert_allclose([value.sum() for value in values], 1.0, rtol=1e-9)
    plain = chain(coin([0], 2), SumLayer(2, 1, weight=tensor([[0.25, 0.75]])))
    noisy = oracle(grow(filled_inputs(plain), 4, 0.5))
    weights = noisy.parameter(next(iter(noisy.circuit.sum_layers)).weight).astype(float)
    assert weights.sum() == pytest.approx(1.0)
    assert len(np.unique(weights.round(12))) == 8


def filled_inputs(circuit: Circuit) -> Circuit:
    for layer in circuit.input_layers:
        for leaf in layer.params["logits"].leaves:
            assert isinstance(leaf, TensorParameter)
            leaf.initializer = ConstantTensorInitializer(draws(leaf.shape))
    return circuit


def test_probabilities_that_a_layer_reads_as_they_are_get_no_noise() -> None:
    probs = BernoulliLayer([0], 2, probs=tensor([0.999, 0.5]))
    larger = grow(chain(probs, SumLayer(2, 1, weight=tensor([[0.5, 0.5]]))), 3, 0.9)
    (layer,) = larger.input_layers
    (leaf,) = layer.params["probs"].leaves
    assert isinstance(leaf, TensorParameter)
    assert isinstance(leaf.initializer, ConstantTensorInitializer)
    assert np.ravel(leaf.initializer.value).tolist() == [0.999, 0.5] * 3


def test_shared_tensors_stay_shared() -> None:
    circuit = filled(hmm(range(6), num_latent_states=3, input_layer_kwargs={"num_categories": 2}, homogeneous=True))
    larger = grow(circuit, 2, 0.1)
    assert [leaf.shape for leaf in keys(larger)] == [(6, 2), (6, 6), (1, 6)]


def test_compiled_circuits_give_their_tensors() -> None:
    dtype = torch.float32
    rows = torch.as_tensor(dependent_rows(40, 5, 2, seed=0))
    model = plica.compile(hclt(rows.numpy(), 3), dtype=dtype)
    model.reset_parameters(seed=3)
    before = model(rows).detach()
    circuit = grow(model, 2, noise=0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # the new circuit has its own memory
    larger = plica.compile(circuit, dtype=dtype)
    torch.testing.assert_close(larger(rows).detach(), before)
    smaller = plica.compile(prune(larger, equal_flows(circuit), 0.5), dtype=dtype)
    assert {tuple(tensor.shape) for tensor in smaller.state_dict().values()} == {(3, 2), (3, 3), (1, 3)}
    missing = torch.full((1, 5), float("nan"), dtype=dtype)
    torch.testing.assert_close(smaller(missing).exp().detach(), torch.ones(1, 1, 1, dtype=dtype))


def test_a_chain_of_many_layers_needs_no_recursion() -> None:
    length = 1500
    layers: list[Any] = [CategoricalLayer([0], 2, num_categories=2, logits=tensor(np.zeros((2, 2))))]
    layers += [
        SumLayer(2, 2 if i < length else 1, weight=tensor(np.full((2 if i < length else 1, 2), 0.5)))
        for i in range(1, length + 1)
    ]
    circuit = chain(*layers)
    assert sum(layer.num_output_units for layer in grow(circuit, 2, 0.0).layers) == 4 * length + 1


COIN_SUM = chain(coin([0], 2), SumLayer(2, 1, weight=tensor([[0.5, 0.5]])))
(TOP,) = COIN_SUM.sum_layers


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: prune(COIN_SUM, {}, 0.5), InputError, "there are no flows for SumLayer"),
        (
            lambda: prune(COIN_SUM, {TOP: [[1.0]]}, 0.5),
            ShapeError,
            r"expected flows of shape \(1, 2\) .* found \(1, 1\)",
        ),
        (lambda: prune(COIN_SUM, {TOP: [[1.0, -1.0]]}, 0.5), InputError, "negative or not finite"),
        (lambda: prune(COIN_SUM, {TOP: [[1.0, np.nan]]}, 0.5), InputError, "negative or not finite"),
        (lambda: prune(COIN_SUM, {TOP: [[1.0, 1.0]]}, 0.0), InputError, "keep must be above 0 and at most 1, found 0"),
        (lambda: prune(COIN_SUM, {TOP: [[1.0, 1.0]]}, 0.5), InputError, "has no value; pass the compiled circuit"),
        (lambda: prune(3, {}, 0.5), DTypeError, "prune: expected a compiled circuit, or a Circuit, found 3"),
        (lambda: grow(COIN_SUM, 0), ShapeError, "grow: factor must be at least 1, found 0"),
        (lambda: grow(COIN_SUM, 2, -1.0), InputError, "noise must be at least 0 and finite, found -1"),
        (lambda: grow(COIN_SUM, 2, seed=-1), InputError, "grow: seed must not be negative"),
        (lambda: grow(chain(coin([0], 2)), 2), InputError, "no units that could be dropped or copied"),
    ],
)
def test_refuses(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_flows_may_be_named_by_the_tensor_of_a_weight() -> None:
    circuit = filled_inputs(chain(coin([0], 2), SumLayer(2, 1, weight=tensor([[0.5, 0.5]]))))
    (total,) = circuit.sum_layers
    (leaf,) = total.weight.leaves
    assert isinstance(leaf, TensorParameter)
    by_layer, by_leaf, by_key = (prune(circuit, {key: [[1.0, 2.0]]}, 0.5) for key in (total, leaf, keys(circuit)[leaf]))
    states = all_states(circuit)
    assert_same(by_layer, by_leaf, states)
    assert_same(by_layer, by_key, states)


def test_flows_are_taken_as_they_are_counted() -> None:
    rows = dependent_rows(60, 4, 2, 0)
    model = plica.compile(hclt(rows, 4), dtype=torch.float64)
    model.reset_parameters(seed=0)
    counted = flows(model, rows)
    x = torch.as_tensor(rows)
    of_object, of_counts = (
        plica.compile(prune(model, given, 0.5), dtype=torch.float64)(x) for given in (counted, counted.counts)
    )
    assert torch.equal(of_object, of_counts)
    with pytest.raises(DTypeError, match=r"flows must be those of plica.learn.flows, or a mapping, found None"):
        prune(model, None, 0.5)  # type: ignore[arg-type]
