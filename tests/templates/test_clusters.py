"""Clusters of rows, and the hidden trees that start from them."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from plica.errors import InputError
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import DISTRIBUTIONS
from plica.symbolic.parameters import TensorParameter
from plica.templates import hclt
from plica.templates.clusters import cluster_labels
from plica.templates.parameterization import Parameterization
from tests.harness.oracle import Oracle, keys
from tests.harness.region_graphs import dependent_rows


def blobs(count: int = 300, seed: int = 0, missing: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three kinds of columns around two centres, and the centre of each."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(2, size=count)
    columns = [1e200 * (centre + 0.05 * rng.normal(size=count)), 2 * centre, 100 + centre, np.full(count, 3.0)]
    rows = np.stack(columns, axis=1)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, centre


def start_values(circuit, seed: int = 0) -> Oracle:
    rng = np.random.default_rng(seed)
    return Oracle(circuit, {key: leaf.initializer.draw(rng, leaf.shape) for leaf, key in keys(circuit).items()})


def test_clusters_of_columns_of_any_kind_and_scale() -> None:
    rows, centre = blobs()
    labels = cluster_labels(rows, [None, 3, 5000, None], 2, seed=0)
    known = ~np.isnan(rows[:, :3]).all(axis=1)
    right = (labels == centre)[known].mean()
    assert max(right, 1 - right) > 0.97


@pytest.mark.parametrize(
    "rows", [[[1.0, 2.0]], [[np.nan, np.nan]] * 5, [[1.0, np.nan]] * 4], ids=["one", "none", "equal"]
)
def test_rows_that_are_equal_share_a_cluster(rows) -> None:
    assert cluster_labels(np.array(rows), [None, 3], 4, seed=0).tolist() == [0] * len(rows)


def test_infinite_values_lie_at_the_mean() -> None:
    rows = np.array([[0.0, 5.0], [np.inf, 5.0], [2.0, 1.0], [2.1, 1.1], [0.1, 5.2], [-np.inf, 1.0]])
    labels = cluster_labels(rows, [None, None], 2, seed=0)
    assert (labels == labels[[0, 0, 2, 2, 0, 2]]).all()
    assert labels[0] != labels[2]


def test_few_different_rows_are_the_clusters() -> None:
    rows = np.array([[0.0], [5.0], [0.0], [7.0]])
    assert len(set(cluster_labels(rows, [None], 8, seed=0).tolist())) == 3


def test_units_start_from_the_rows_of_a_cluster() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.integers(3, size=400)
    rows = np.stack([hidden, rng.random(400) < 0.3 + 0.3 * hidden, rng.normal(10 * hidden, 1.0)], axis=1)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    layers = [{"name": "categorical"}, {"name": "bernoulli"}, {"name": "gaussian"}]
    circuit = hclt(rows, 3, input_layers=layers, start="data", seed=5)
    labels = cluster_labels(rows, [3, 2, None], 3, seed=5)
    oracle = start_values(circuit)
    by_variable = {min(layer.scope): layer for layer in circuit.input_layers}
    shares = softmax(oracle.parameter(by_variable[0].params["logits"]).astype(float), axis=1)
    success = expit(oracle.parameter(by_variable[1].params["logits"]).astype(float))
    means, spreads = (oracle.parameter(by_variable[2].params[name]).astype(float) for name in ("mean", "stddev"))
    columns = [column[~np.isnan(column)] for column in rows.T]
    whole = (np.bincount(columns[0].astype(int)) + 1 / 3) / (len(columns[0]) + 1)
    ends = np.quantile(columns[2], (1 / 6, 5 / 6), method="nearest")
    for unit in range(3):
        of_unit = [column[~np.isnan(column)] for column in rows[labels == unit].T]
        counts = np.bincount(of_unit[0].astype(int), minlength=3) + 5 * whole
        np.testing.assert_allclose(shares[unit], counts / counts.sum(), atol=1e-9)
        half = (columns[1].sum() + 0.5) / (len(columns[1]) + 1)
        np.testing.assert_allclose(success[unit], (of_unit[1].sum() + 5 * half) / (len(of_unit[1]) + 5), atol=1e-9)
        around = np.concatenate([of_unit[2], np.repeat(ends, 5)])
        np.testing.assert_allclose([means[unit], spreads[unit]], [around.mean(), 1.01 * around.std()], rtol=1e-9)
    for layer in circuit.sum_layers:
        weight = oracle.parameter(layer.weight).astype(float)
        np.testing.assert_allclose(weight.sum(axis=1), 1.0)
        assert layer in circuit.outputs or (weight.argmax(axis=1) == np.arange(3)).all()


def test_each_tree_is_that_of_a_cluster() -> None:
    """Column 1 repeats column 0 in one half of the rows, and column 2 in the other half."""
    rng = np.random.default_rng(0)
    half = np.repeat([0, 1], 200)
    zero, two = rng.integers(2, size=(2, 400))
    rows = np.stack([zero, np.where(half == 0, zero, two), two, *[half] * 8], axis=1)
    circuit = hclt(rows, 2, num_trees=2, start="clusters", seed=3)
    labels = cluster_labels(rows, [2] * 11, 2, seed=3)
    assert abs(np.corrcoef(labels, half)[0, 1]) > 0.99
    expected = []
    for label in (0, 1):
        others = np.flatnonzero(labels != label)[::10]
        alone = hclt(rows[np.concatenate([np.flatnonzero(labels == label), others])], 2)
        expected += [alone.layer_scope(layer) for layer in alone.layers if layer not in set(alone.outputs)]
    scopes = [circuit.layer_scope(layer) for layer in circuit.layers if layer not in set(circuit.outputs)]
    assert sorted(map(tuple, scopes)) == sorted(map(tuple, expected))
    oracle = start_values(circuit)
    logits = [layer.params["logits"] for layer in circuit.input_layers if min(layer.scope) == 5]
    ones = [softmax(oracle.parameter(parameter).astype(float), axis=1)[:, 1] for parameter in logits]
    assert sorted(share.mean().round(1) for share in ones) == [0.0, 1.0]


@pytest.mark.parametrize("share", [False, True])
def test_a_start_from_data_is_nearer_to_the_data(share: bool) -> None:
    rows = dependent_rows(400, 8, 3, seed=3)
    draws, data, again = (
        start_values(hclt(rows, 4, num_trees=2, share_inputs=share, start=start)).log(rows[:100]).astype(float)
        for start in ("draws", "data", "data")
    )
    assert data.mean() > draws.mean() + 0.5
    assert (data == again).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_starts_from_data(name: str) -> None:
    domain = DISTRIBUTIONS[name].domain(4)
    least, most = max(domain.least, 0.0), min(domain.most, 3.0)
    reals = np.random.default_rng(0).uniform(least + 0.01, most, size=(60, 3))
    rows = np.round(reals) if domain.whole else reals
    rows[:, 2] = rows[0, 2]
    rows[::7, 1] = np.nan
    circuit = hclt(rows, 3, input_layers={"name": name}, start="data")
    assert {layer.num_output_units for layer in circuit.input_layers} == {3}
    values = start_values(circuit).linear(rows[~np.isnan(rows).any(axis=1)]).astype(float)
    assert (np.isfinite(values) & (values != 0)).all()
    if DISTRIBUTIONS[name].fitted is not None and name != "histogram":  # densities: every tensor starts from data
        leaves = [leaf for layer in circuit.input_layers for p in layer.params.values() for leaf in p.leaves]
        tensors = [leaf for leaf in leaves if isinstance(leaf, TensorParameter)]
        assert all(isinstance(leaf.initializer, ConstantTensorInitializer) for leaf in tensors)


def test_an_outlier_has_a_cluster_where_other_rows_differ_by_roundings() -> None:
    rows = np.arange(50.0)[:, None]
    rows[7] = 1e12
    labels = cluster_labels(rows, [None], 5, seed=0)
    assert (labels == labels[7]).sum() == 1
    assert labels.min() >= 0
    assert labels.max() < 5


@pytest.mark.parametrize(
    "rows", [[[0.0, 1.5]], [[np.nan] * 2] * 4, [[1.0, 0.5]] * 20], ids=["one row", "nothing known", "constant"]
)
def test_little_data(rows) -> None:
    circuit = hclt(rows, 3, input_layers=[{"name": "bernoulli"}, {"name": "gaussian"}], start="data")
    oracle = start_values(circuit)
    assert np.isfinite(oracle.log(np.nan_to_num(np.asarray(rows))).astype(float)).all()
    assert float(oracle.linear(np.full((1, 2), np.nan))[0, 0, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": "kmeans"}, "hclt: unknown start 'kmeans'; expected one of draws, data, clusters"),
        (
            {"start": "data", "weight_param": Parameterization()},
            "transitions that start from data have no weight_param",
        ),
    ],
)
def test_refuses(settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hclt([[0, 1], [1, 0]], 2, **settings)
