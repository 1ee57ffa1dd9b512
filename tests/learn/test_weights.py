"""Softmax weights as linear ones, and back."""

from typing import Any

import pytest
import torch

import plica
from plica.errors import UnsupportedError
from plica.learn import grow
from plica.learn.weights import to_linear, to_softmax
from plica.symbolic.layers import BernoulliLayer, CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, ReferenceParameter, SoftmaxParameter, dereferenced
from tests.harness.circuits import data


def shared_model(dtype):
    """Two sums that share a softmax, and one of its own."""
    coins = [BernoulliLayer([v], 2) for v in (0, 1)]
    first = SumLayer(2, 2)
    sums = [first, SumLayer(2, 2, weight=first.weight.ref())]
    product, root = HadamardLayer(2, 2), SumLayer(2, 1)
    edges: dict[Any, list[Any]] = {sums[0]: [coins[0]], sums[1]: [coins[1]], product: sums, root: [product]}
    model = plica.compile(plica.Circuit([*coins, *edges], edges, [root])).to(dtype)
    model.reset_parameters(seed=0)
    return model


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_values_are_equal_and_the_way_back_gives_the_same_weights(dtype, error):
    model = shared_model(dtype)
    linear = to_linear(model)
    back = to_softmax(linear)
    x = torch.as_tensor(data(model.symbolic, 8))
    for converted in (linear, back):
        assert converted.dtype == dtype
        torch.testing.assert_close(converted(x), model(x), rtol=error, atol=error)
    for key, value in model.state_dict().items():
        if key.endswith("weight"):
            torch.testing.assert_close(back.state_dict()[key].softmax(-1), value.softmax(-1), rtol=error, atol=error)
            torch.testing.assert_close(linear.state_dict()[f"{key}.linear"], value.softmax(-1), rtol=0, atol=error)
    again = to_linear(back).state_dict()
    for key, value in linear.state_dict().items():
        torch.testing.assert_close(again[key], value, rtol=error, atol=error)


def test_copies_share_no_memory_with_the_model():
    model = shared_model(torch.float64)
    linear, x = to_linear(model), torch.tensor([[0, 1]])
    before = linear(x).clone()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.zero_()
    torch.testing.assert_close(linear(x), before)


def test_leaves_that_start_with_logarithms_are_converted():
    """Such are those of circuits that were pruned or grown: as linear weights, these numbers would be negative."""
    model = plica.compile(grow(shared_model(torch.float64), 2, 0.0), dtype=torch.float64)
    linear, x = to_linear(model), torch.tensor([[0, 1], [1, 1]])
    torch.testing.assert_close(linear(x), model(x), rtol=1e-12, atol=1e-12)
    for converted in (linear, to_softmax(linear)):
        converted.reset_parameters(seed=1)
        coins = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        assert converted(coins).exp().sum().item() == pytest.approx(1.0, abs=1e-12)


def test_a_leaf_that_is_also_read_otherwise_is_kept():
    coins = CategoricalLayer([0], 2, num_categories=2)
    (shared,) = [dereferenced(leaf) for leaf in coins.params["logits"].leaves]
    mix = SumLayer(2, 2, weight=Parameter.from_unary(SoftmaxParameter((2, 2)), ReferenceParameter(shared)))
    root = SumLayer(2, 1)
    model = plica.compile(plica.Circuit([coins, mix, root], {mix: [coins], root: [mix]}, [root]), dtype=torch.float64)
    linear, x = to_linear(model), torch.tensor([[0], [1]])
    assert sorted(linear.state_dict()) == ["0.logits", "0.logits.linear", "2.weight.linear"]
    for converted in (linear, to_softmax(linear)):
        torch.testing.assert_close(converted(x), model(x), rtol=1e-12, atol=1e-12)


def test_copies_keep_what_is_fixed_and_the_mode():
    model = shared_model(torch.float64).eval()
    fixed = [name for name, tensor in model.named_parameters() if tensor.shape[-2:] == (1, 2)]
    assert len(fixed) == 1
    model.get_parameter(fixed[0]).requires_grad_(False)
    for converted in (to_linear(model), to_softmax(to_linear(model))):
        learned = [tensor.requires_grad for tensor in converted.parameters()]
        assert learned == [tensor.requires_grad for tensor in model.parameters()]
        assert not converted.training
    assert to_linear(model.train()).training


def test_a_state_of_one_form_is_refused_by_a_model_of_the_other():
    model = shared_model(torch.float32)
    linear = to_linear(model)
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*weight\.linear.*Unexpected key"):
        linear.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*Unexpected key.*weight\.linear"):
        model.load_state_dict(linear.state_dict())


def test_what_cannot_be_converted_is_refused():
    model = shared_model(torch.float32)
    with pytest.raises(UnsupportedError, match="to_softmax: no weight"):
        to_softmax(model)
    linear = to_linear(model)
    with pytest.raises(UnsupportedError, match="to_linear: no weight"):
        to_linear(linear)
    with pytest.raises(UnsupportedError, match="a compiled circuit, found Linear"):
        to_linear(torch.nn.Linear(1, 1))
    with torch.no_grad():
        for tensor in linear.parameters():
            tensor.mul_(2.0)
    with pytest.raises(UnsupportedError, match="does not sum to 1"):
        to_softmax(linear)


def test_weights_of_0_stay_finite():
    coin = BernoulliLayer([0], 2)
    model = plica.compile(plica.Circuit([coin, mix := SumLayer(2, 1)], {mix: [coin]}, [mix]))
    linear = to_linear(model)
    linear.load_state_dict(linear.state_dict() | {"1.weight.linear": torch.tensor([[0.0, 1.0]])})
    back = to_softmax(linear)
    assert back.state_dict()["1.weight"].isfinite().all()
    torch.testing.assert_close(back(torch.tensor([[1]])), linear(torch.tensor([[1]])))
