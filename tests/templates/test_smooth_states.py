"""Inputs whose values move together where they are near."""

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.scope import Scope
from plica.templates import hclt
from plica.templates.smooth_states import kernel, smooth_categorical

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
    with pytest.raises(InputError, match="found 65536 states, expected at most 4096"):
        smooth_categorical(rows(), 65536)


def test_a_file_keeps_the_model(tmp_path):
    data = rows()
    model = plica.compile(hclt(data, 3, input_layers=smooth_categorical(data, STATES)))
    model.reset_parameters(seed=1)
    plica.save(model, tmp_path / "model.plica")
    again = plica.load(tmp_path / "model.plica")
    x = torch.from_numpy(data)
    assert torch.equal(model(x), again(x))
