"""Full expectation maximization: monotone, and the steps of scikit-learn on mixtures of normals."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

import plica
from plica.errors import InputError, UnsupportedError
from plica.learn.learners.base import Plan
from plica.learn.learners.full_em import FullEM
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    CategoricalLayer,
    DiagonalGaussianLayer,
    ExponentialLayer,
    GaussianLayer,
    HadamardLayer,
    MultivariateGaussianLayer,
    PoissonLayer,
    StudentTLayer,
    SumLayer,
)
from tests.harness.learned_circuits import draw_learned, evaluated, leaf
from tests.harness.pairwise import first_usual


def train(model, x, epochs, pseudocount=0.0, batches=1):
    """The mean log-likelihood before each update."""
    rows = torch.as_tensor(x, dtype=model.dtype)
    training = FullEM(pseudocount).training(model, Plan(len(rows), batches, epochs))
    history = []
    for _ in range(epochs):
        parts = torch.tensor_split(rows, batches)
        history.append(sum(float(training.step(part)) * len(part) for part in parts) / len(rows))
        training.end_epoch()
    return history


def check_monotone(seed):
    circuit, x = draw_learned(seed)
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=seed)
    history = train(model, x, epochs=5)
    assert np.diff(history).min() > -1e-9, (seed, history)
    assert history[-1] > history[0]


@pytest.mark.parametrize("seed", first_usual(range(10), 4))
def test_no_update_lowers_the_likelihood(seed):
    for number in range(3):
        check_monotone(3 * seed + number)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100))
def test_no_update_lowers_the_likelihood_of_a_thousand_circuits(seed):
    for number in range(10):
        check_monotone(1000 + 10 * seed + number)


@pytest.mark.parametrize("weights", ["softmax", "direct"])
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_one_update_of_a_mixture_of_normals_is_that_of_scikit_learn(kind, weights):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + rng.choice([-2, 2], size=(200, 1))
    layer = (MultivariateGaussianLayer if kind == "full" else DiagonalGaussianLayer)(range(3), 4)
    mix = SumLayer(4, 1, weight=leaf([[0.1, 0.2, 0.3, 0.4]]) if weights == "direct" else None)
    circuit = plica.Circuit([layer, mix], {mix: [layer]}, [mix])
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=1)

    def values():
        params = evaluated(circuit, {key: value.numpy() for key, value in model.state_dict().items()})
        normal = params[layer]
        if kind == "diag":
            return params[mix]["weight"][0], normal["mean"], normal["stddev"] ** 2
        factor = np.tril(normal["scale_tril"])
        return params[mix]["weight"][0], normal["mean"], factor @ factor.transpose(0, 2, 1)

    weight, mean, covariance = values()
    reference = GaussianMixture(
        4,
        covariance_type=kind,
        weights_init=weight / weight.sum(),
        means_init=mean,
        precisions_init=np.linalg.inv(covariance) if kind == "full" else 1 / covariance,
        max_iter=1,
        reg_covar=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one step does not converge
        reference.fit(x)
    train(model, x, epochs=1, batches=3)
    weight, mean, covariance = values()
    np.testing.assert_allclose(weight, reference.weights_, atol=1e-8)
    np.testing.assert_allclose(mean, reference.means_, atol=1e-8)
    np.testing.assert_allclose(covariance, reference.covariances_, atol=1e-8)


def mixed_table(dtype, rows=300, missing=0.3, units=3, seed=0):
    """A mixture of normal vectors and other columns, and rows with holes anywhere."""
    rng = np.random.default_rng(seed)
    z = rng.integers(units, size=rows)
    x = np.einsum("kij,nj,nk->ni", rng.normal(size=(units, 4, 4)), rng.normal(size=(rows, 4)), np.eye(units)[z])
    columns = [x + 3 * z[:, None], (z + rng.integers(2, size=rows))[:, None] % 4, rng.poisson(1 + z)[:, None]]
    table = np.concatenate([*columns, rng.exponential(1 + z)[:, None], rng.normal(size=(rows, 1)) - z[:, None]], 1)
    table[rng.random(table.shape) < missing] = np.nan
    table[0] = np.nan
    vectors = MultivariateGaussianLayer(range(4), units)
    others = [
        CategoricalLayer([4], units, num_categories=4),
        PoissonLayer([5], units),
        ExponentialLayer([6], units),
        GaussianLayer([7], units),
    ]
    inputs, product, mix = [vectors, *others], HadamardLayer(units, 5), SumLayer(units, 1)
    model = plica.compile(plica.Circuit([*inputs, product, mix], {product: inputs, mix: [product]}, [mix])).to(dtype)
    model.reset_parameters(seed=seed)
    return model, vectors, table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mixture_of_vectors_and_other_columns_learns_rows_with_holes(dtype):
    model, vectors, table = mixed_table(dtype)
    history = train(model, table, epochs=40, pseudocount=1.0)
    assert history[-1] > history[1] > history[0]
    assert abs(history[-1] - history[-2]) < 1e-3
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    factor = np.tril(evaluated(model.symbolic, state)[vectors]["scale_tril"])
    assert np.linalg.eigvalsh(factor @ factor.transpose(0, 2, 1)).min() > 0
    assert all(np.isfinite(value).all() for value in state.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pseudocount", [0.0, 1.0])
def test_covariances_stay_positive_definite_for_fewer_rows_than_variables_and_constant_columns(dtype, pseudocount):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 6))
    x[:, 0], x[:, 1] = 7.0, x[:, 2]
    layer, mix = MultivariateGaussianLayer(range(6), 3), SumLayer(3, 1)
    model = plica.compile(plica.Circuit([layer, mix], {mix: [layer]}, [mix])).to(dtype)
    model.reset_parameters(seed=0)
    history = train(model, x, epochs=10, pseudocount=pseudocount)
    assert np.isfinite(history).all()
    assert torch.isfinite(model(torch.as_tensor(x, dtype=dtype))).all()


def test_one_row_and_rows_without_values():
    for x in ([[1.0]], [[np.nan]], [[np.nan], [2.0]]):
        layer, mix = GaussianLayer([0], 2), SumLayer(2, 1)
        model = plica.compile(plica.Circuit([layer, mix], {mix: [layer]}, [mix]))
        assert np.isfinite(train(model, np.array(x), epochs=4, pseudocount=1.0)).all()


def test_units_that_nothing_chooses_keep_their_numbers():
    coin = BernoulliLayer([0], 2)
    mix = SumLayer(2, 1, weight=leaf([[0.0, 1.0]]))
    model = plica.compile(plica.Circuit([coin, mix], {mix: [coin]}, [mix])).double()
    before = model.state_dict()["0.logits"].clone()
    train(model, np.array([[0], [1], [1]]), epochs=2)
    assert model.state_dict()["0.logits"][0] == before[0]
    torch.testing.assert_close(model.state_dict()["0.logits"][1].sigmoid(), torch.tensor(2 / 3, dtype=torch.float64))


def test_leaves_without_a_closed_form_learn_by_adam():
    rng = np.random.default_rng(0)
    x = np.stack([rng.standard_t(3, 200) + 5, rng.normal(size=200)], 1)
    heavy, normal, product, mix = StudentTLayer([0], 2), GaussianLayer([1], 2), HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = plica.Circuit([heavy, normal, product, mix], {product: [heavy, normal], mix: [product]}, [mix])
    model = plica.compile(circuit)
    model.reset_parameters(seed=0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    history = train(model, x, epochs=10, batches=4)
    after = model.state_dict()
    assert all(not torch.equal(before[key], after[key]) for key in before)
    assert history[-1] > history[1] > history[0]


def test_models_without_any_closed_form_are_refused_by_name():
    layer = BetaLayer([0], 1)
    with pytest.raises(UnsupportedError, match=r"BetaLayer\(0.*learn it by Adam"):
        FullEM().training(plica.compile(plica.Circuit([layer], {}, [layer])), Plan(1, 1, 1))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", True])
def test_pseudocounts_that_are_none_are_refused(value):
    with pytest.raises(InputError, match="FullEM: pseudocount must be a finite number at least 0"):
        FullEM(value)


def test_training_goes_on_from_its_state():
    runs = []
    for interrupted in (False, True):
        model, _, table = mixed_table(torch.float64, rows=40)
        rows = torch.as_tensor(table)
        training = FullEM().training(model, Plan(40, 2, 1))
        training.step(rows[:20])
        if interrupted:
            state = training.state_dict()
            training = FullEM().training(model, Plan(40, 2, 1))
            training.load_state_dict(state)
        training.step(rows[20:])
        training.end_epoch()
        runs.append(model.state_dict())
    for key, value in runs[0].items():
        assert torch.equal(value, runs[1][key])
