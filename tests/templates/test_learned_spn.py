"""Sum-product networks learned from data: what they split, and the numbers they start from."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.templates import learn_spn
from tests.harness.oracle import Oracle, all_states, keys
from tests.harness.region_graphs import dependent_rows

COIN = {"name": "categorical", "args": {"num_categories": 2}}
MIXED: list[Any] = [{"name": "categorical"}, {"name": "gaussian"}, {"name": "poisson"}, {"name": "bernoulli"}]


def mixed_rows(count: int, seed: int = 0, missing: float = 0.2) -> np.ndarray:
    """Rows of four kinds of columns that depend on a hidden state."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=count)
    columns = [(z + (rng.random(count) < 0.2)) % 3, 5 * z + rng.normal(size=count), rng.poisson(1 + 4 * z), z > 0]
    rows = np.stack(columns, axis=1).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def oracle(circuit: Circuit, unknown: int = 0) -> Oracle:
    """The oracle of the values at which tensors start; `unknown` tensors are of columns without any value."""
    drawn = [leaf for leaf in keys(circuit) if not isinstance(leaf.initializer, ConstantTensorInitializer)]
    assert len(drawn) == unknown, "every other tensor starts from the data"
    rng = np.random.default_rng(0)
    return Oracle(circuit, {key: leaf.initializer.draw(rng, leaf.shape) for leaf, key in keys(circuit).items()})


def test_columns_that_are_independent_have_their_own_factors() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(3, size=500), rng.normal(7, 2, size=500), rng.integers(2, size=500)], axis=1)
    circuit = learn_spn(rows, input_layers=[{"name": "categorical"}, {"name": "gaussian"}, {"name": "bernoulli"}])
    assert [type(layer) for layer in circuit.inner_layers] == [HadamardLayer]
    values = oracle(circuit).log(rows)[:, 0, 0].astype(float)
    counts = np.bincount(rows[:, 0].astype(int))
    shares = (counts + (counts + 1 / 3) / 501) / 501  # an imaginary row, distributed as the column is
    success = (rows[:, 2].sum() + (rows[:, 2].sum() + 0.5) / 501) / 501
    ends = np.quantile(rows[:, 1], (1 / 6, 5 / 6), method="nearest")
    with_imaginary = np.concatenate([rows[:, 1], ends])
    spread = with_imaginary.std()
    expected = np.log(shares[rows[:, 0].astype(int)]) + np.where(rows[:, 2] == 1, np.log(success), np.log1p(-success))
    expected += stats.norm(with_imaginary.mean(), 1.01 * spread).logpdf(rows[:, 1])
    np.testing.assert_allclose(values, expected, atol=1e-9)


def test_clusters_are_weighted_by_their_rows() -> None:
    rows = np.array([[0, 0, 0]] * 30 + [[1, 1, 1]] * 10, float)
    circuit = learn_spn(rows, input_layers=COIN, min_rows=20, pseudocount=0.0)
    (total,) = circuit.sum_layers
    states = all_states(circuit)
    values = oracle(circuit).linear(states)[:, 0, 0].astype(float)
    expected = np.where((states == 0).all(axis=1), 0.75, np.where((states == 1).all(axis=1), 0.25, 0.0))
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert total.arity == 2


@pytest.mark.parametrize("seed", range(3))
def test_is_a_distribution_that_says_more_than_each_column_alone(seed: int) -> None:
    train, test = dependent_rows(1500, 6, 3, seed=seed)[:1000], dependent_rows(1500, 6, 3, seed=seed)[1000:]
    circuit = learn_spn(train, input_layers={"name": "categorical"}, min_rows=60)
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert {layer.num_output_units for layer in circuit.layers} == {1}
    scores = oracle(circuit)
    assert float(scores.linear(all_states(circuit)).sum()) == pytest.approx(1.0, abs=1e-9)
    alone = sum(np.log((np.bincount(train[:, v], minlength=3) + 1) / 1003)[test[:, v]].mean() for v in range(6))
    assert scores.log(test)[:, 0, 0].astype(float).mean() > alone + 0.3


def test_mixed_columns_with_missing_values() -> None:
    rows = mixed_rows(900)
    circuit = learn_spn(rows[:600], input_layers=MIXED, min_rows=60)
    scores = oracle(circuit)
    assert len(circuit.sum_layers) > 1
    assert float(scores.linear(np.full((1, 4), np.nan))[0, 0, 0]) == pytest.approx(1.0)
    factors = oracle(learn_spn(rows[:600], input_layers=MIXED, min_rows=601))
    held_out = rows[600:]
    known = held_out[~np.isnan(held_out).any(axis=1)]
    gain = scores.log(known).astype(float).mean() - factors.log(known).astype(float).mean()
    assert gain > 1.0


def test_the_seed_decides() -> None:
    rows = dependent_rows(400, 8, 3, seed=0)
    circuits = [learn_spn(rows, input_layers={"name": "categorical"}, seed=seed) for seed in (0, 0)]
    scopes = [[circuit.layer_scope(layer) for layer in circuit.layers] for circuit in circuits]
    assert scopes[0] == scopes[1]
    states = rows[:20]
    first, again = (oracle(circuit).log(states) for circuit in circuits)
    assert (first == again).all()


@pytest.mark.parametrize(
    "rows",
    [
        [[0.0, 2.5, 3.0, 1.0]],
        [[np.nan] * 4] * 60,
        [[1.0, 0.5, 3.0, 0.0]] * 200,
        np.repeat([[0.0, 1e-3, 0.0, 0.0], [1.0, 2e-3, 9.0, 1.0]], 100, axis=0),
        np.repeat([[0.0, np.nan, 0.0, 0.0], [1.0, np.nan, 9.0, 1.0]], 100, axis=0),
    ],
    ids=["one row", "nothing known", "constant", "two rows, often", "a column without values"],
)
def test_degenerate_data(rows) -> None:
    settings: list[Any] = [{"name": "categorical", "args": {"num_categories": 2}}, *MIXED[1:]]
    circuit = learn_spn(rows, input_layers=settings)
    means = sum(isinstance(layer, GaussianLayer) for layer in circuit.input_layers)
    scores = oracle(circuit, unknown=means if np.isnan(rows).all(axis=0)[1] else 0)
    assert np.isfinite(scores.log(np.nan_to_num(np.asarray(rows, float))).astype(float)).all()
    assert float(scores.linear(np.full((1, 4), np.nan))[0, 0, 0]) == pytest.approx(1.0)


def test_one_column_is_one_layer() -> None:
    circuit = learn_spn([[0], [1], [1]], input_layers=COIN, pseudocount=0.0)
    (layer,) = circuit.layers
    assert isinstance(layer, CategoricalLayer)
    np.testing.assert_allclose(oracle(circuit).linear(np.array([[0], [1]])).ravel().astype(float), [1 / 3, 2 / 3])


def test_a_function_makes_input_layers() -> None:
    def coin(scope, units):
        return CategoricalLayer(scope, units, num_categories=4)

    rows = dependent_rows(300, 4, 3, seed=1)
    circuit = learn_spn(rows, input_layers=coin)
    assert {layer.config["num_categories"] for layer in circuit.input_layers} == {4}
    assert any(isinstance(layer, SumLayer) for layer in circuit.layers)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"min_rows": 0}, ShapeError, "learn_spn: min_rows must be at least 1, found 0"),
        ({"num_clusters": 1}, ShapeError, "num_clusters must be at least 2, found 1"),
        ({"significance": 0.0}, InputError, "significance must lie between 0 and 1, found 0"),
        ({"significance": "a"}, DTypeError, "significance must be a number"),
        ({"pseudocount": -1}, InputError, "pseudocount must be at least 0 and finite, found -1"),
        ({"pseudocount": np.nan}, InputError, "pseudocount must be at least 0 and finite, found nan"),
        ({"seed": -3}, InputError, "seed must not be negative"),
        ({"input_layers": [COIN]}, ShapeError, "learn_spn: expected input_layers for 2 columns, found 1"),
        ({"input_layers": {"name": "cat"}}, InputError, "unknown input layer 'cat'"),
        ({"data": [[0, 5]]}, InputError, "row 0, column 1 .counted from 0. holds 5"),
        ({"data": [0, 1]}, ShapeError, r"expected data of shape \(rows, variables\)"),
    ],
)
def test_refuses(settings, error: type[Exception], message: str) -> None:
    arguments = {"data": [[0, 1], [1, 0]], "input_layers": COIN, **settings}
    with pytest.raises(error, match=message):
        learn_spn(arguments.pop("data"), **arguments)
