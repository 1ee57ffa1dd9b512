"""Expected counts, against the enumeration of all induced trees."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, UnsupportedError
from plica.learn import flows
from plica.symbolic.layers import (
    BernoulliLayer,
    CategoricalLayer,
    GaussianLayer,
    MultivariateGaussianLayer,
    SumLayer,
)
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.parameters import MixingWeightParameter
from tests.harness import oracle
from tests.harness.circuits import constant
from tests.harness.learned_circuits import count_uses, draw_learned, evaluated, leaf


def compiled(circuit, seed=0):
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=seed)
    return model


def state_of(model):
    return {key: value.numpy() for key, value in model.state_dict().items()}


def key_of(circuit, layer):
    """The key of the only tensor of a sum's weight."""
    (tensor,) = {getattr(node, "parameter", node) for node in layer.params["weight"].leaves}
    return oracle.keys(circuit)[tensor]


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(5, 60))])
def test_counts_are_those_of_all_induced_trees(seed):
    circuit, x = draw_learned(seed, rows=5)
    model = compiled(circuit, seed)
    params = evaluated(circuit, state_of(model))
    counted = flows(model, torch.as_tensor(x))
    weights = {layer: np.zeros_like(params[layer]["weight"]) for layer in circuit.sum_layers}
    units = {layer: np.zeros((len(x), layer.num_output_units)) for layer in circuit.input_layers}
    log_likelihood: Any = 0.0
    for number, row in enumerate(x):
        total, uses = count_uses(circuit, params, row)
        log_likelihood += np.log(total)
        for (layer, *where), count in uses.items():
            if isinstance(layer, InputLayer):
                units[layer][number, where[0]] = count
            else:
                weights[layer][tuple(where)] += count
    assert counted.log_likelihood == pytest.approx(log_likelihood, abs=1e-9)
    expected: dict[str, Any] = {}
    for layer, count in weights.items():
        if isinstance(layer.weight.output, MixingWeightParameter):
            size = len(count)
            count = count.reshape(size, -1, size)[np.arange(size), :, np.arange(size)]
        key = key_of(circuit, layer)
        expected[key] = expected.get(key, 0.0) + count
    for key, count in expected.items():
        np.testing.assert_allclose(counted.counts[key].numpy(), count, atol=1e-9)
    for layer in circuit.input_layers:
        sharing: list[Any] = [
            other for other in counted.statistics if counted.statistics[other] is counted.statistics[layer]
        ]
        sums = counted.statistics[layer]
        if isinstance(layer, MultivariateGaussianLayer):
            check_vectors(layer, params, sums, sharing, units, x)
            continue
        number = np.sum([units[other].T @ ~np.isnan(x[:, list(other.scope)]) for other in sharing], axis=0)
        if "states" in sums:
            np.testing.assert_allclose(sums["states"].sum(-1).numpy(), number[:, 0], atol=1e-9)
        else:
            np.testing.assert_allclose(sums["count"].numpy().reshape(number.shape), number, atol=1e-9)


def check_vectors(layer, params, sums, sharing, units, x):
    """Conditional moments by the formulas of Ghahramani and Jordan, row by row."""
    assert sharing == [layer]
    mean, factor = params[layer]["mean"], np.tril(params[layer]["scale_tril"])
    rows = x[:, list(layer.scope)]
    for k in range(layer.num_output_units):
        covariance = factor[k] @ factor[k].T
        count, total, products = 0.0, np.zeros(rows.shape[1]), np.zeros((rows.shape[1],) * 2)
        for flow, row in zip(units[layer][:, k], rows, strict=True):
            lacks, known = np.isnan(row), ~np.isnan(row)
            if lacks.all():
                continue
            regression = covariance[np.ix_(lacks, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
            filled, left = row.copy(), np.zeros_like(covariance)
            filled[lacks] = mean[k][lacks] + regression @ (row[known] - mean[k][known])
            left[np.ix_(lacks, lacks)] = (
                covariance[np.ix_(lacks, lacks)] - regression @ covariance[np.ix_(known, lacks)]
            )
            count, total = count + flow, total + flow * filled
            products += flow * (np.outer(filled, filled) + left)
        np.testing.assert_allclose(float(sums["count"][k]), count, atol=1e-9)
        np.testing.assert_allclose(sums["sum"][k].numpy(), total, atol=1e-9)
        np.testing.assert_allclose(sums["products"][k].numpy(), products, atol=1e-9)


def test_counts_of_two_halves_add_up():
    circuit, x = draw_learned(3, rows=20)
    model = compiled(circuit)
    whole, halves = flows(model, x), flows(model, x[:7]) + flows(model, x[7:])
    assert whole.num_rows == halves.num_rows == 20
    assert whole.log_likelihood == pytest.approx(halves.log_likelihood, abs=1e-9)
    for key, count in whole.counts.items():
        np.testing.assert_allclose(halves.counts[key].numpy(), count.numpy(), atol=1e-9)
    for layer, sums in whole.statistics.items():
        for name, numbers in sums.items():
            np.testing.assert_allclose(halves.statistics[layer][name].numpy(), numbers.numpy(), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_that_are_0_count_nothing_though_they_would_explain_a_row_best(dtype):
    coin = CategoricalLayer([0], 2, num_categories=2, probs=leaf([[1.0, 0.0], [1e-37, 1.0]]))
    mix = SumLayer(2, 1, weight=leaf([[0.0, 1.0]]))
    model = plica.compile(plica.Circuit([coin, mix], {mix: [coin]}, [mix])).to(dtype)
    counted = flows(model, torch.tensor([[0], [0], [1]]))
    assert counted.counts["1.weight"].tolist() == [[0.0, 3.0]]
    assert counted.statistics[coin]["states"].tolist() == [[0.0, 0.0], [2.0, 1.0]]


def test_rows_without_any_value_count_weights_alone():
    circuit, x = draw_learned(1, rows=4)
    counted = flows(compiled(circuit), np.full_like(x, np.nan))
    root = key_of(circuit, circuit.outputs[0])
    assert counted.counts[root].sum() == pytest.approx(4.0)
    for sums in counted.statistics.values():
        assert all(not numbers.any() for numbers in sums.values())


def test_rows_of_probability_0_are_named():
    coin = CategoricalLayer([0], 1, num_categories=2, probs=leaf([[1.0, 0.0]]))
    model = plica.compile(plica.Circuit([coin], {}, [coin]))
    with pytest.raises(InputError, match="1 of 3 rows have probability 0, the first one is row 2"):
        flows(model, torch.tensor([[0], [0], [1]]))


def test_negative_weights_are_refused_by_name():
    coin = BernoulliLayer([0], 2)
    mix = SumLayer(2, 1, weight=leaf([[0.5, 0.5]]))
    model = plica.compile(plica.Circuit([coin, mix], {mix: [coin]}, [mix]))
    model.load_state_dict(model.state_dict() | {"1.weight": torch.tensor([[1.5, -0.5]])})
    with pytest.raises(UnsupportedError, match=r"SumLayer\(1.*not negative.*-0\.5"):
        flows(model, torch.tensor([[0]]))


def test_constant_weights_are_not_counted():
    coin = BernoulliLayer([0], 2)
    mix = SumLayer(2, 1, weight=constant([[0.25, 0.75]]))
    counted = flows(plica.compile(plica.Circuit([coin, mix], {mix: [coin]}, [mix])), torch.tensor([[1], [0]]))
    assert not counted.refused
    assert "1.weight" not in counted.counts
    assert counted.statistics[coin]["states"].sum() == pytest.approx(2.0)


def test_a_circuit_of_constants_counts_nothing():
    coin = CategoricalLayer([0], 1, num_categories=2, probs=constant([[0.25, 0.75]]))
    counted = flows(plica.compile(plica.Circuit([coin], {}, [coin])), torch.tensor([[1], [1]]))
    assert not counted.counts
    assert not counted.statistics
    assert counted.log_likelihood == pytest.approx(2 * np.log(0.75), rel=1e-6)


@pytest.mark.parametrize("rows", [np.zeros((0, 1)), np.zeros(3)])
def test_rows_of_another_shape_are_refused(rows):
    normal = GaussianLayer([0], 1)
    with pytest.raises(InputError, match="at least one"):
        flows(plica.compile(plica.Circuit([normal], {}, [normal])), rows)


def test_other_semirings_and_several_outputs_are_refused():
    coin = BernoulliLayer([0], 2)
    circuit = plica.Circuit([coin], {}, [coin])
    with pytest.raises(UnsupportedError, match="one output of one unit"):
        flows(plica.compile(circuit), torch.tensor([[0]]))
    with pytest.raises(UnsupportedError, match="sum-product"):
        flows(plica.compile(circuit, semiring="sum-product"), torch.tensor([[0]]))
    with pytest.raises(UnsupportedError, match="a compiled circuit, found Linear"):
        flows(torch.nn.Linear(1, 1), torch.tensor([[0]]))
