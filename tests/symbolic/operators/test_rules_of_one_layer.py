"""The rules of operators for one input layer: integrals, derivatives and conjugates; also those of products.

Sums are over states, integrals are SciPy's quadrature of SciPy's densities.
"""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from plica.errors import UnsupportedError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    CircuitBlock,
    ConstantValueLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    EvidenceLayer,
    GaussianLayer,
    ModuleLayer,
    MultivariateGaussianLayer,
    PolynomialLayer,
)
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import tensor
from tests.harness.layer_cases import InputCase
from tests.harness.operator_rules import UNIVARIATE, Compiled, applied, compiled, integrated, outer
from tests.harness.oracle import finite_differences, gradients
from tests.harness.own_leaves import LowRank

SMALL = ("beta", "gamma")
ENDS = {
    "gamma": (0, np.inf),
    "exponential": (0, np.inf),
    "log-normal": (0, np.inf),
    "beta": (0, 1),
    "von": (-np.pi, np.pi),
}
"""Where densities are not 0; elsewhere, all real numbers."""


def complex_tensor(*shape: int) -> TensorParameter:
    rng = np.random.default_rng(sum(shape))
    numbers = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return TensorParameter(*shape, initializer=ConstantTensorInitializer(numbers), dtype=DataType.COMPLEX)


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
def test_integrals_of_layers(semiring: str) -> None:
    cases = [case for case in UNIVARIATE if case.name != "polynomial" and not (case.signed and semiring == "lse-sum")]
    layers = [case.build([variable], 3) for variable, case in enumerate(cases)]
    blocks = [applied("integrate", layer, scope=layer.scope) for layer in layers]
    assert all(isinstance(block.output, ConstantValueLayer) for block in blocks)
    run = compiled(blocks, semiring, layers)
    found = run()
    for number, (case, layer) in enumerate(zip(cases, layers, strict=True)):
        expected = case.totals(layer, run.params(layer))
        np.testing.assert_allclose(found[0, number], expected.astype(float), rtol=1e-12, err_msg=case.name)


def expected_integral(case: InputCase, run: Compiled, layers: Any) -> Any:
    """The integrals of the products of all pairs of units."""
    states = layers[0].domain.meet(layers[1].domain)
    if states.whole:
        x = np.arange(states.num_states or 4000.0)[:, None].repeat(max(layers[0].scope) + 1, axis=1)
        return outer(*(run.reference(layer, x) for layer in layers)).sum(axis=0)
    kinds = [case.distributions(layer, run.params(layer)) for layer in layers]
    scales = [case.totals(layer, run.params(layer)).astype(float)[None] for layer in layers]
    if case.name.startswith(("uniform", "histogram")):
        return np.array([_of_steps(f, g) for f in kinds[0] for g in kinds[1]]) * outer(*scales)[0]
    low, high = ENDS.get(case.name.split()[0], (-np.inf, np.inf))
    return np.array([_quadrature(f, g, low, high) for f in kinds[0] for g in kinds[1]]) * outer(*scales)[0]


def _quadrature(first: Any, second: Any, low: float, high: float) -> float:
    """The integral of a product of densities."""
    whole = integrate.quad(lambda x: first.pdf(x) * second.pdf(x), low, high, epsabs=0, epsrel=1e-11, limit=500)
    return float(whole[0])


def _of_steps(first: Any, second: Any) -> float:
    """The integral of a product of densities that are constant between their ends."""
    ends = np.unique([end for kind in (first, second) for end in getattr(kind, "_hbins", kind.support())])
    middles = 0.5 * (ends[1:] + ends[:-1])
    return float((first.pdf(middles) * second.pdf(middles) * np.diff(ends)).sum())


@pytest.mark.full
def test_integrals_of_products_within_a_family() -> None:
    """Also of a table, whose units are not normalized."""
    cases = [case for case in UNIVARIATE if case.name not in SMALL and not case.signed]
    cases = [
        case for case in cases if case.name.split()[0] not in ("laplace", "student-t", "poisson", "negative", "rounded")
    ]
    pairs = [(case.build([variable], 2), case.build([variable], 3)) for variable, case in enumerate(cases)]
    blocks = [integrated(applied("multiply", *pair), pair[0].scope) for pair in pairs]
    run = compiled(blocks, "lse-sum", [layer for pair in pairs for layer in pair])
    found = run()
    for number, (case, pair) in enumerate(zip(cases, pairs, strict=True)):
        expected = expected_integral(case, run, pair).astype(float)
        np.testing.assert_allclose(found[0, number], expected, rtol=1e-9, err_msg=case.name)


def test_powers_of_unnormalized_categoricals() -> None:
    """A third and a fourth power, and their sums, which are not those of normalized units."""
    layer = CategoricalLayer([0], 2, num_categories=4, logits=tensor(np.random.default_rng(0).normal(size=(2, 4)) + 1))
    square = applied("multiply", layer, layer).output
    powers = [applied("multiply", square, layer), applied("multiply", square, square)]
    for power, factors in zip(powers, (3, 4), strict=True):
        run, x = compiled([power], "lse-sum", [layer]), np.arange(4.0)[:, None]
        expected = run.reference(layer, x)
        for _ in range(factors - 1):
            expected = outer(expected, run.reference(layer, x))
        np.testing.assert_allclose(run(x)[:, 0], expected.astype(float), rtol=1e-12)
        total = compiled([integrated(power, Scope([0]))], "lse-sum", [layer])
        np.testing.assert_allclose(total()[0, 0], expected.sum(axis=0).astype(float), rtol=1e-12)


def test_a_product_of_gaussians_keeps_its_log_partition_when_it_is_conjugated_and_multiplied_again() -> None:
    layers = [GaussianLayer([0], 2, log_partition=tensor([0.5, -1.0])), GaussianLayer([0], 1)]
    square = applied("multiply", *layers).output
    conjugate = applied("conjugate", square).output
    assert sorted(conjugate.params) == ["log_partition", "mean", "stddev"]
    fourth = applied("multiply", square, conjugate)
    run, x = compiled([fourth, integrated(fourth, Scope([0]))], "lse-sum", layers), np.linspace(-40, 40, 8001)[:, None]
    values = outer(*(run.reference(layer, x) for layer in layers))
    expected, found = outer(values, values).astype(float), run(x)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9, atol=1e-200)
    # equidistant values of a smooth density sum to its integral
    np.testing.assert_allclose(found[0, 1], expected.sum(axis=0) * 0.01, rtol=1e-9)


@pytest.mark.parametrize("kind", [DiagonalGaussianLayer, MultivariateGaussianLayer])
def test_several_gaussian_variables(kind: Any) -> None:
    layers = [kind([0, 1, 2], units) for units in (2, 3)]
    block = applied("multiply", *layers)
    run = compiled([block, integrated(block, Scope([0, 1, 2]))], "lse-sum", layers)
    x = np.random.default_rng(1).normal(size=(6, 3))
    found, expected = run(x), outer(*(run.reference(layer, x) for layer in layers))
    np.testing.assert_allclose(found[:, 0], expected.astype(float), rtol=1e-9)
    means, covariances = zip(*(_moments(run.params(layer)) for layer in layers), strict=True)
    total = [
        stats.multivariate_normal(m, s + t).pdf(n)
        for m, s in zip(means[0], covariances[0], strict=True)
        for n, t in zip(means[1], covariances[1], strict=True)
    ]
    np.testing.assert_allclose(found[0, 1], total, rtol=1e-9)


def _moments(params: Any) -> tuple[Any, Any]:
    if "stddev" in params:
        return params["mean"].astype(float), np.stack([np.diag(row**2) for row in params["stddev"].astype(float)])
    factors = np.tril(params["scale_tril"].astype(float))
    return params["mean"].astype(float), factors @ factors.swapaxes(1, 2)


def test_a_part_of_a_diagonal_gaussian_is_integrated() -> None:
    layer = DiagonalGaussianLayer([1, 3, 4], 2)
    part = applied("integrate", layer, scope=Scope([3]))
    assert part.output.config["scope"] == Scope([1, 4])
    run, x = compiled([part], "lse-sum", [layer]), np.random.default_rng(0).normal(size=(4, 5))
    missing = x.copy()
    missing[:, 3] = np.nan
    np.testing.assert_allclose(run(x)[:, 0], run.reference(layer, missing).astype(float), rtol=1e-12)
    assert isinstance(applied("integrate", layer, scope=layer.scope).output, ConstantValueLayer)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_derivatives_of_polynomials(order: int) -> None:
    layer = PolynomialLayer([2], 2, degree=3)
    block = applied("differentiate", layer, variable=2, order=order)
    run, x = compiled([block], "sum-product", [layer]), np.linspace(-2, 2, 5)
    derivatives = [np.polynomial.Polynomial(row.astype(float)).deriv(order)(x) for row in run.params(layer)["coeff"]]
    found = run(np.stack([x] * 3, axis=1))[:, 0]
    np.testing.assert_allclose(found, np.stack(derivatives, axis=1), rtol=1e-12, atol=1e-12)


def test_layers_without_a_derivative_are_refused() -> None:
    for layer, why in (
        (CategoricalLayer([0], 2, num_categories=3), "the variable takes whole numbers"),
        (GaussianLayer([0], 2), "its derivative is no layer that Plica has"),
    ):
        with pytest.raises(UnsupportedError, match=f"differentiate: .* by variable 0: {why}.*Polynomial layers can"):
            applied("differentiate", layer, variable=0, order=1)


COMPLEX = [
    (CategoricalLayer([0], 2, num_categories=3, logits=complex_tensor(2, 3)), [0.0, 1.0, 2.0]),
    (CategoricalLayer([0], 2, num_categories=3, probs=complex_tensor(2, 3)), [0.0, 1.0, 2.0]),
    (EmbeddingLayer([0], 2, num_states=3, weight=complex_tensor(2, 3)), [0.0, 1.0, 2.0]),
    (EmbeddingLayer([0], 2, num_states=3, weight=LowRank(2, 3, rank=1)), [0.0, 1.0, 2.0]),
    (PolynomialLayer([0], 2, degree=2, coeff=complex_tensor(2, 3)), [-1.5, 0.0, 2.0]),
    (ConstantValueLayer(2, value=complex_tensor(2)), [0.0]),
    (ConstantValueLayer(2, value=complex_tensor(2), log_space=True), [0.0]),
    (EvidenceLayer(PolynomialLayer([0], 2, degree=2, coeff=complex_tensor(2, 3)), observation=0.5), [0.0]),
    (GaussianLayer([0], 2), [-1.5, 0.0, 2.0]),
]


@pytest.mark.parametrize("semiring", ["complex-lse-sum", "sum-product"])
@pytest.mark.parametrize(("layer", "x"), COMPLEX, ids=lambda item: type(item).__name__)
def test_conjugates_of_layers(layer: Any, x: Any, semiring: str) -> None:
    conjugate = applied("conjugate", layer)
    assert conjugate.output is not layer
    run = compiled([CircuitBlock.from_layer(layer), conjugate], semiring)
    found = run(np.array(x)[:, None])
    np.testing.assert_allclose(found[:, 1], found[:, 0].conj(), rtol=1e-12, atol=1e-14)
    is_complex = any(parameter.dtype == DataType.COMPLEX for parameter in layer.all_params.values())
    assert (np.abs(found.imag) > 1e-3).any() == is_complex


@pytest.mark.parametrize("layer", [layer for layer, x in COMPLEX[:3]], ids=["logits", "probs", "weight"])
def test_a_complex_table_times_its_conjugate(layer: Any) -> None:
    """Diagonal units are squares of absolute values; the sum over states is that of the products."""
    block = applied("multiply", layer, applied("conjugate", layer).output)
    x = np.arange(3.0)[:, None]
    values = compiled([CircuitBlock.from_layer(layer)], "complex-lse-sum")
    runs = (
        compiled([block], "complex-lse-sum", [layer]),
        compiled([integrated(block, Scope([0]))], "complex-lse-sum", [layer]),
    )
    for run in runs:
        run.circuit.load_state_dict(
            {run.names[leaf]: values.circuit.state_dict()[key] for leaf, key in values.names.items()}
        )
    found, total = runs[0](x)[:, 0], runs[1]()[0, 0]
    expected = outer(values(x)[:, 0], values(x)[:, 0].conj())
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[:, [0, 3]].imag, 0, atol=1e-14)
    np.testing.assert_allclose(total, expected.sum(axis=0), rtol=1e-12, atol=1e-13)


def test_layers_without_a_conjugate_are_refused() -> None:
    class Module:
        def forward(self, x: Any) -> Any:
            return x

    for layer, what in (
        (GaussianLayer([0], 2, mean=complex_tensor(2)), "has complex parameters"),
        (ModuleLayer([0], 2, module=Module()), "calls an object that may return complex numbers"),
        (EvidenceLayer(GaussianLayer([0], 2, mean=complex_tensor(2)), observation=0.0), "GaussianLayer.has_conjugate"),
    ):
        with pytest.raises(UnsupportedError, match=what):
            applied("conjugate", layer)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case",
    [
        case
        for case in UNIVARIATE
        if not case.signed
        and case.name.split()[0] in (*ENDS, "gaussian", "geometric", "categorical", "binomial")
        and case.name not in SMALL
    ],
    ids=str,
)
def test_gradients_of_squares(case: InputCase) -> None:
    """Of logarithms at data, by shared tensors, against differences of twice the logarithm of the layer."""
    layer = case.build([0], 2)
    run = compiled([applied("multiply", layer, layer)], "lse-sum", [layer])
    x = case.draw(layer, np.random.default_rng(3), 3).astype(float)
    logs = run.tensor(x)
    weights = np.cos(np.arange(logs.numel())).reshape(logs.shape)
    weights[~np.isfinite(logs.detach().numpy())] = 0
    (logs.nan_to_num(neginf=0.0) * logs.new_tensor(weights)).sum().backward()
    leaves = {run.names[leaf]: leaf for leaf in run.leaves}

    def function(values: Any) -> Any:
        unit = run.reference(layer, x, {leaves[key]: array for key, array in values.items()})
        with np.errstate(divide="ignore"):
            products = np.log(outer(unit, unit))[:, None]
        return (np.where(weights == 0, 0, products) * weights).sum()

    expected = finite_differences(function, {key: run.leaves[leaf] for key, leaf in leaves.items()})
    for key, gradient in gradients(run.circuit).items():
        np.testing.assert_allclose(gradient, expected[key], rtol=1e-6, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("name", ["categorical by logits", "geometric", "gaussian with log_partition", "log-normal"])
def test_gradients_of_integrals_of_squares(name: str) -> None:
    """Of logarithms, through tensors that both factors share, against differences of sums of the layer's values."""
    case = next(case for case in UNIVARIATE if case.name == name)
    layer = case.build([0], 2)
    run = compiled([integrated(applied("multiply", layer, layer), layer.scope)], "lse-sum", [layer])
    (run.tensor(np.zeros((1, 1)))[0, 0] * torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)).sum().backward()
    if layer.domain.whole:
        x, step = np.arange(layer.domain.num_states or 400.0), np.asarray(1.0)
    elif name == "log-normal":  # equidistant values of log(x), whose derivative is x
        x = np.exp(np.linspace(-30, 30, 2001))
        step = 0.03 * x[:, None]
    else:
        x, step = np.linspace(-40, 40, 4001), np.asarray(0.02)
    leaves = {run.names[leaf]: leaf for leaf in run.leaves}

    def function(values: Any) -> Any:
        unit = run.reference(layer, x[:, None], {leaves[key]: array for key, array in values.items()})
        return (np.log((outer(unit, unit) * step).sum(axis=0)) * [1.0, -2.0, 0.5, 3.0]).sum()

    expected = finite_differences(function, {key: run.leaves[leaf] for key, leaf in leaves.items()})
    for key, gradient in gradients(run.circuit).items():
        np.testing.assert_allclose(gradient, expected[key], rtol=1e-6, atol=1e-7, err_msg=key)
