"""Inputs whose values move together where they are near."""

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, ShapeError
from plica.learn.graphs import Tensors
from plica.queries import log_likelihood
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from plica.symbolic.scope import Scope
from plica.templates import hclt
from plica.templates.smooth_states import kernel, smooth_categorical
from plica.templates.softened import soften

STATES = 7


def rows(number: int = 40, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(0).binomial(STATES - 1, 0.4, (number, columns))


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def expected_start(data: np.ndarray, column: int) -> np.ndarray:
    """The shares of a column, whose inner ones are those of all columns."""
    pooled = np.array([(data == state).sum() + 1.0 for state in range(STATES)])
    pooled /= pooled.sum()
    own = np.array([(data[:, column] == state).sum() for state in range(STATES)]) + 50.0 * pooled
    inner = own[1:-1].sum() * pooled[1:-1] / pooled[1:-1].sum()
    return np.log(np.array([own[0], *inner, own[-1]]) / own.sum())


def test_probabilities_are_those_of_the_equation() -> None:
    data = rows()
    layer = smooth_categorical(data, STATES)(Scope([1]), 4)
    (learned,) = (leaf for leaf in layer.params["logits"].leaves if isinstance(leaf, TensorParameter))
    mixture = SumLayer(4, 1)
    model = plica.compile(Circuit([layer, mixture], {mixture: [layer]}, [mixture])).double()
    model.reset_parameters(seed=3)
    tensors = {tuple(value.shape[-2:]): value.detach().numpy() for value in model.parameters()}
    moved, weights = tensors[learned.shape].reshape(4, STATES), tensors[(1, 4)].reshape(1, 4)
    table = log_softmax(expected_start(data, 1) + moved @ kernel(STATES))
    expected = np.log(np.exp(log_softmax(weights)) @ np.exp(table))[0]
    states = np.zeros((STATES, 2), dtype=np.int64)
    states[:, 1] = np.arange(STATES)
    np.testing.assert_allclose(model(torch.from_numpy(states))[:, 0, 0].detach().numpy(), expected, atol=1e-9)
    missing = torch.full((1, 2), float("nan"), dtype=torch.float64)
    assert abs(model(missing).item()) < 1e-9


def test_units_start_near_the_shares_of_their_column_with_holes() -> None:
    data = rows(2000).astype(float)
    holes = data.copy()
    holes[::2, 0] = np.nan
    layer = smooth_categorical(holes, STATES)(Scope([0]), 1)
    model = plica.compile(Circuit([layer], {}, [layer])).double()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    shares = model(torch.arange(STATES)[:, None]).exp().flatten().detach().numpy()
    known = data[1::2, 0]
    assert abs(shares[0] - (known == 0).mean()) < 0.02
    np.testing.assert_allclose(shares.sum(), 1.0, atol=1e-12)


def test_a_step_by_one_value_moves_its_neighbours_and_no_end() -> None:
    matrix = kernel(17)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diff(matrix[8, 1:9]) > 0).all()
    assert not matrix[0, 1:].any()
    assert not matrix[16, :16].any()
    assert np.linalg.matrix_rank(matrix) == 17  # any logits can be learned


@pytest.mark.parametrize("num_states", [1, 2, 3])
def test_few_values_move_alone(num_states: int) -> None:
    assert not (kernel(num_states) - np.diag(np.diag(kernel(num_states)))).any()


def test_more_states_than_a_table_has_are_refused() -> None:
    with pytest.raises(InputError, match="found 65536 states, expected 1 to 4096"):
        smooth_categorical(rows(), 65536)


def test_a_file_keeps_the_model(tmp_path):
    data = rows()
    model = plica.compile(hclt(data, 3, input_layers=smooth_categorical(data, STATES)))
    model.reset_parameters(seed=1)
    plica.save(model, tmp_path / "model.plica")
    again = plica.load(tmp_path / "model.plica")
    x = torch.from_numpy(data)
    assert torch.equal(model(x), again(x))


@pytest.mark.parametrize("seed", range(6))
def test_mixtures_are_those_of_sums_over_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, units, share = (int(rng.integers(*ends)) for ends in ((2, 40), (1, 4), (0, 2)))
    data = rng.integers(number, size=(30, 3)).astype(np.float32 if seed % 2 else np.float64)
    data[:, 1], data[::3, 0] = number // 2, np.nan
    data[:, seed % 3] = np.nan if seed < 3 else data[:, seed % 3]
    inputs = [smooth_categorical(data, number)(Scope([column]), units) for column in range(3)]
    product, mixture = HadamardLayer(units, 3), SumLayer(units, 1)
    edges: dict[Layer, list[Layer]] = {product: [*inputs], mixture: [product]}
    circuit = soften(Circuit([*inputs, product, mixture], edges, [mixture]), 0.2 * share)
    model = plica.compile(circuit, dtype=torch.float64).eval()
    tensors = Tensors(model)

    def stored(parameter: Parameter) -> np.ndarray:
        learned = [leaf for leaf in parameter.leaves if isinstance(leaf, TensorParameter) and tensors.is_learned(leaf)]
        return tensors.slot(learned).read(model.leaves)[0].numpy()

    pooled = np.array([(data == state).sum() + 1.0 for state in range(number)])
    pooled /= pooled.sum()
    tables = []
    for column, layer in enumerate(inputs):
        start = np.array([(data[:, column] == state).sum() for state in range(number)]) + 50.0 * pooled
        if number > 2:
            start[1:-1] = start[1:-1].sum() * pooled[1:-1] / pooled[1:-1].sum()
        logits = np.log(start / start.sum()) + stored(layer.params["logits"]) @ kernel(number)
        tables.append((1 - 0.2 * share) * np.exp(log_softmax(logits)) + 0.2 * share / number)
    asked = rng.integers(number, size=(20, 3)).astype(float)
    asked[rng.random(asked.shape) < 0.3] = np.nan
    weight = np.exp(log_softmax(stored(mixture.weight)))[0]
    of_unit = [
        [np.ones(units) if np.isnan(cell) else table[:, int(cell)] for cell, table in zip(row, tables, strict=True)]
        for row in asked
    ]
    expected = np.log(np.prod(of_unit, axis=1) @ weight)
    x = torch.from_numpy(asked)
    np.testing.assert_allclose(log_likelihood(model, x).detach(), expected, atol=1e-10)
    model.train()
    model(x).sum().backward()
    assert all(bool(value.grad.isfinite().all()) for value in model.parameters() if value.grad is not None)


@pytest.mark.parametrize(
    ("data", "number", "error", "message"),
    [
        ([[0, 5]], 3, InputError, r"row 0, column 1 \(counted from 0\) holds 5, which is none of the 3 states 0 to 2"),
        ([[0, -1]], 3, InputError, "holds -1"),
        ([[0.5, 1]], 3, InputError, "holds 0.5"),
        ([[np.inf, 1]], 3, InputError, "holds inf"),
        ([0, 1], 3, ShapeError, r"expected rows of shape \(N, D\), found \(2,\)"),
        ([[0, 1]], 0, InputError, "found 0 states, expected 1 to 4096"),
    ],
)
def test_rows_of_other_states_are_refused(data, number, error, message) -> None:
    with pytest.raises(error, match=message):
        smooth_categorical(np.array(data), number)
