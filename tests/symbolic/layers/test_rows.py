"""Bodies of layers against plain numpy, in each semiring, at F=2 folds and a symbolic batch size."""

import math

import numpy as np
import pytest
from scipy import stats

from plica.errors import GraphError
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    CPTLayer,
    FusedRow,
    GaussianLayer,
    HadamardLayer,
    InputRow,
    KroneckerLayer,
    ProductRow,
    SumLayer,
    SumRow,
    TensorDotLayer,
    TuckerLayer,
    layer_table,
)
from plica.symbolic.parameters import ConstantParameter, TensorParameter, mixing_weight_factory, normal, softmax_normal
from plica.symbolic.semirings import SEMIRINGS, Params
from plica.tracing import namespace as xp

F, B, K = 2, 5, 3
REAL = {name: row for name, row in SEMIRINGS.items() if row.algebra.name == "real"}
SEMIRING_ROWS = pytest.mark.parametrize("semiring", list(REAL.values()), ids=list(REAL))


def input_values(run_rule, semiring, layer, params, x):
    """What the body gives for `x`, as ordinary numbers `(F, B, K)`."""
    names = list(params)

    def rule(data, *arrays):
        value = LAYER_ROWS[type(layer)].body(
            xp, semiring, layer, Params.of(xp, dict(zip(names, arrays, strict=True))), data
        )
        return semiring.to_linear(xp, value)

    return run_rule(rule, x, *params.values(), batch_axis={0: 1})


def marginal_values(run_rule, semiring, layer, params):
    names = list(params)

    def rule(*arrays):
        value = LAYER_ROWS[type(layer)].marginal(
            xp, semiring, layer, Params.of(xp, dict(zip(names, arrays, strict=True)))
        )
        return semiring.to_linear(xp, value)

    return run_rule(rule, *params.values())


def inner_values(run_rule, semiring, layer, params, inputs):
    names = list(params)

    def rule(*arrays):
        values = [semiring.from_linear(xp, array) for array in arrays[: len(inputs)]]
        found = LAYER_ROWS[type(layer)].body(
            xp, semiring, layer, Params.of(xp, dict(zip(names, arrays[len(inputs) :], strict=True))), values
        )
        return semiring.to_linear(xp, found)

    return run_rule(rule, *inputs, *params.values(), batch_axis=dict.fromkeys(range(len(inputs)), 1))


@SEMIRING_ROWS
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64"])
def test_categorical_from_logits(run_rule, semiring, dtype: str) -> None:
    rng = np.random.default_rng(0)
    layer = CategoricalLayer([0], K, num_categories=4, logits_factory=normal)
    logits, x = rng.normal(size=(F, K, 4)), rng.integers(0, 4, (F, B, 1)).astype(dtype)
    probs = np.exp(logits)
    expected = np.stack([probs[f][:, x[f, :, 0].astype(int)].T for f in range(F)])
    np.testing.assert_allclose(input_values(run_rule, semiring, layer, {"logits": logits}, x), expected, rtol=1e-12)
    np.testing.assert_allclose(marginal_values(run_rule, semiring, layer, {"logits": logits}), probs.sum(-1)[:, None])


@SEMIRING_ROWS
def test_categorical_from_probs_is_used_as_given(run_rule, semiring) -> None:
    rng = np.random.default_rng(1)
    layer = CategoricalLayer([0], K, num_categories=4, probs=ConstantParameter(K, 4, value=0.1))
    probs, x = rng.uniform(size=(F, K, 4)), rng.integers(0, 4, (F, B, 1))
    probs[0, 0, 0] = 0
    expected = np.stack([probs[f][:, x[f, :, 0]].T for f in range(F)])
    np.testing.assert_allclose(input_values(run_rule, semiring, layer, {"probs": probs}, x), expected, rtol=1e-12)
    total = probs.sum(-1)[:, None, :]
    np.testing.assert_allclose(marginal_values(run_rule, semiring, layer, {"probs": probs}), total, rtol=1e-12)


def test_extreme_logits_stay_finite(run_rule) -> None:
    layer = CategoricalLayer([0], 1, num_categories=2, logits_factory=normal)
    row = LAYER_ROWS[CategoricalLayer]

    def rule(x, logits):
        return row.body(xp, SEMIRINGS["lse-sum"], layer, Params.of(xp, {"logits": logits}), x)[0]

    logits = np.array([[[0.0, 5000.0]]])
    assert run_rule(rule, np.array([[[0], [1]]]), logits)[0, :, 0].tolist() == [0.0, 5000.0]


@SEMIRING_ROWS
@pytest.mark.parametrize("scaled", [False, True])
def test_gaussian(run_rule, semiring, scaled: bool) -> None:
    rng = np.random.default_rng(2)
    constant = ConstantParameter(K, value=0.3) if scaled else None
    layer = GaussianLayer([0], K, log_partition=constant)
    mean, stddev, x = rng.normal(size=(F, K)), rng.uniform(0.5, 2, (F, K)), rng.normal(size=(F, B, 1))
    params = {"mean": mean, "stddev": stddev}
    factor = np.ones((F, 1, K))
    if scaled:
        params["log_partition"] = rng.normal(size=(F, K))
        factor = np.exp(params["log_partition"])[:, None, :]
    expected = stats.norm.pdf(x, mean[:, None, :], stddev[:, None, :]) * factor
    np.testing.assert_allclose(input_values(run_rule, semiring, layer, params, x), expected, rtol=1e-12)
    np.testing.assert_allclose(marginal_values(run_rule, semiring, layer, params), factor, rtol=1e-12)


@SEMIRING_ROWS
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_products(run_rule, semiring, arity: int) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(size=(F, B, K)) for _ in range(arity)]
    hadamard = inner_values(run_rule, semiring, HadamardLayer(K, arity), {}, inputs)
    np.testing.assert_allclose(hadamard, np.prod(inputs, axis=0), rtol=1e-12)
    kronecker = inner_values(run_rule, semiring, KroneckerLayer(K, arity), {}, inputs)
    expected = inputs[0]
    for factor in inputs[1:]:
        expected = (expected[..., :, None] * factor[..., None, :]).reshape(F, B, -1)
    np.testing.assert_allclose(kronecker, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "layer", [HadamardLayer(3, 3), KroneckerLayer(3, 1), KroneckerLayer(3, 2), KroneckerLayer(3, 3)]
)
def test_routes_lead_to_the_factors_of_a_unit(run_rule, layer) -> None:
    rng = np.random.default_rng(4)
    row = LAYER_ROWS[type(layer)]
    inputs = [rng.uniform(size=(1, 1, 3)) for _ in range(layer.arity)]
    values = inner_values(run_rule, SEMIRINGS["sum-product"], layer, {}, inputs)[0, 0]
    units = np.arange(layer.num_output_units)[None, :]
    routes = run_rule(lambda chosen: row.route(xp, layer, chosen), units)
    routes = routes if isinstance(routes, tuple) else (routes,)
    assert len(routes) == layer.arity
    factors = [inputs[place][0, 0][route[0]] for place, route in enumerate(routes)]
    np.testing.assert_allclose(np.prod(factors, axis=0), values, rtol=1e-12)


@SEMIRING_ROWS
def test_dense_sum(run_rule, semiring) -> None:
    rng = np.random.default_rng(5)
    layer = SumLayer(K, 4, arity=2)
    inputs, weight = [rng.uniform(size=(F, B, K)) for _ in range(2)], rng.uniform(size=(F, 4, 2 * K))
    expected = np.einsum("fbi,foi->fbo", np.concatenate(inputs, axis=-1), weight)
    np.testing.assert_allclose(
        inner_values(run_rule, semiring, layer, {"weight": weight}, inputs), expected, rtol=1e-12
    )


@SEMIRING_ROWS
@pytest.mark.parametrize("arity", [1, 3])
def test_mixing_sum_equals_the_dense_one(run_rule, semiring, arity: int) -> None:
    rng = np.random.default_rng(6)
    weight = mixing_weight_factory((K, arity * K), param_factory=softmax_normal)
    layer = SumLayer(K, K, arity, weight=weight)
    assert layer.mixing
    inputs, mixing = [rng.uniform(size=(F, B, K)) for _ in range(arity)], rng.uniform(size=(F, K, arity))
    found = inner_values(run_rule, semiring, layer, {"weight": mixing}, inputs)
    expected = sum(inputs[h] * mixing[:, None, :, h] for h in range(arity))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    dense = run_rule(lambda array: weight.output.evaluate(xp, array), mixing)
    whole = inner_values(run_rule, semiring, SumLayer(K, K, arity), {"weight": dense}, inputs)
    np.testing.assert_allclose(found, whole, rtol=1e-12)


@SEMIRING_ROWS
@pytest.mark.parametrize("arity", [2, 3])
def test_tucker(run_rule, semiring, arity: int) -> None:
    rng = np.random.default_rng(8)
    inputs, weight = [rng.uniform(size=(F, B, K)) for _ in range(arity)], rng.uniform(size=(F, 4, K**arity))
    product = inputs[0]
    for factor in inputs[1:]:
        product = (product[..., :, None] * factor[..., None, :]).reshape(F, B, -1)
    expected = np.einsum("fbi,foi->fbo", product, weight)
    found = inner_values(run_rule, semiring, TuckerLayer(K, 4, arity), {"weight": weight}, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@SEMIRING_ROWS
@pytest.mark.parametrize("arity", [2, 3])
def test_cp_t(run_rule, semiring, arity: int) -> None:
    rng = np.random.default_rng(9)
    inputs, weight = [rng.uniform(size=(F, B, K)) for _ in range(arity)], rng.uniform(size=(F, 4, K))
    expected = np.einsum("fbi,foi->fbo", np.prod(inputs, axis=0), weight)
    found = inner_values(run_rule, semiring, CPTLayer(K, 4, arity), {"weight": weight}, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@SEMIRING_ROWS
@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 3, 4, 2), (2, 3, 1, 1), (1, 3, 1, 2), (1, 1, 1, 2), (2, 1, 1, 3)])
def test_tensor_dot_is_a_sum_with_a_kronecker_weight(run_rule, semiring, sizes) -> None:
    rng = np.random.default_rng(10)
    left, summed, right, sums = sizes
    value, weight = rng.uniform(size=(F, B, left * summed * right)), rng.uniform(size=(F, sums, summed))
    dense = [np.kron(np.kron(np.eye(left), one), np.eye(right)) for one in weight]
    expected = np.stack([one @ matrix.T for one, matrix in zip(value, dense, strict=True)])
    found = inner_values(run_rule, semiring, TensorDotLayer(*sizes), {"weight": weight}, [value])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_categorical_samples_follow_the_distribution(run_rule, kind: str) -> None:
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.ones(4), (F, K))
    given = {"probs": ConstantParameter(K, 4, value=0.25)} if kind == "probs" else {}
    layer = CategoricalLayer([0], K, num_categories=4, **given)
    table = probs if kind == "probs" else np.log(probs)
    units, uniforms = rng.integers(0, K, (F, 30_000)), rng.uniform(size=(F, 30_000, 1))
    drawn = run_rule(
        lambda array, chosen, u: LAYER_ROWS[CategoricalLayer].sample(xp, layer, {kind: array}, chosen, u),
        table,
        units,
        uniforms,
        batch_axis={1: 1, 2: 1},
    )
    assert drawn.shape == (F, 30_000, 1)
    for fold in range(F):
        for unit in range(K):
            counts = np.bincount(drawn[fold, units[fold] == unit, 0], minlength=4)
            np.testing.assert_allclose(counts / counts.sum(), probs[fold, unit], atol=0.02)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaussian_samples_are_quantiles_and_finite(run_rule, dtype: str) -> None:
    layer = GaussianLayer([0], 2)
    mean, stddev = np.array([[1.0, -2.0]], dtype), np.array([[0.5, 3.0]], dtype)
    levels = np.array([0.0, 0.01, 0.5, 0.99, np.nextafter(np.array(1, dtype), np.array(0, dtype))], dtype)
    drawn = run_rule(
        lambda m, s, units, u: LAYER_ROWS[GaussianLayer].sample(xp, layer, {"mean": m, "stddev": s}, units, u),
        mean,
        stddev,
        np.array([[0, 1, 0, 1, 0]]),
        levels[None, :, None],
    )
    assert drawn.shape == (1, 5, 1)
    assert np.isfinite(drawn).all()
    expected = stats.norm.ppf(levels[1:4], [-2.0, 1.0, -2.0], [3.0, 0.5, 3.0])
    np.testing.assert_allclose(drawn[0, 1:4, 0], expected, rtol=1e-5 if dtype == "float32" else 1e-9)


def test_every_layer_has_a_row_of_its_kind() -> None:
    assert all(row.layer is layer for layer, row in LAYER_ROWS.items())
    kinds = {layer.__name__: type(row) for layer, row in LAYER_ROWS.items()}
    assert kinds["CategoricalLayer"] is InputRow
    assert kinds["SumLayer"] is SumRow
    assert kinds["KroneckerLayer"] is ProductRow
    assert kinds["TuckerLayer"] is FusedRow


def test_two_rows_for_one_layer_are_refused() -> None:
    row = LAYER_ROWS[HadamardLayer]
    with pytest.raises(GraphError, match="two rows for HadamardLayer"):
        layer_table((row, row))


def test_weights_need_not_be_normalised(run_rule) -> None:
    layer = SumLayer(1, 1, weight=TensorParameter(1, 1, initializer=NormalInitializer()))
    found = inner_values(
        run_rule, SEMIRINGS["lse-sum"], layer, {"weight": np.full((1, 1, 1), 3.0)}, [np.ones((1, 1, 1))]
    )
    assert math.isclose(found[0, 0, 0], 3.0)
