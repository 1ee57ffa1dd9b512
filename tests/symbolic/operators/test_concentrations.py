"""Products of gamma and of beta layers: values where there is no integral, and no order that matters."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate as quadrature
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import integrate, multiply, normalize
from plica.symbolic.layers import BetaLayer, GammaLayer
from tests.harness.circuits import tensor
from tests.harness.pairwise import first_usual

FAMILIES = {
    "gamma": (
        lambda a: GammaLayer([0], len(a), concentration=tensor(a), rate=tensor([1.5] * len(a))),
        lambda x, a: stats.gamma.pdf(x, a, scale=1 / 1.5),
    ),
    "beta": (
        lambda a: BetaLayer([0], len(a), alpha=tensor(a), beta=tensor([2.5 - 0.5 * one for one in a])),
        lambda x, a: stats.beta.pdf(x, a, 2.5 - 0.5 * a),
    ),
}


@pytest.mark.parametrize("semiring", first_usual(["lse-sum", "sum-product"]))
@pytest.mark.parametrize("family", first_usual(FAMILIES))
def test_concentrations_may_add_up_to_a_density_without_an_integral(family: str, semiring: str) -> None:
    """0.4 and 0.3 add up to x^-1.3, which has values and no integral; times one of 3 it has both, in any order."""
    build, density = FAMILIES[family]
    x = np.array([[1e-3], [0.3], [0.9]])
    ends = (1.0, 40.0) if family == "gamma" else (1.0,)
    total = sum(
        quadrature.quad(lambda t: np.prod([density(t, a) for a in (0.4, 0.3, 3.0)]), start, end)[0]
        for start, end in itertools.pairwise((0.0, 1e-3, *ends))
    )
    for order in itertools.permutations([0.4, 0.3, 3.0]):
        operands = [Circuit([layer], {}, [layer]) for layer in (build([a]) for a in order)]
        expected = np.prod([density(x, a) for a in order], axis=0)
        product = multiply(*operands)
        compiled_product = TorchCompiler(semiring, dtype="float64").compile(product)
        numbers_found: Any = compiled_product(torch.from_numpy(x))[:, 0]
        total_found: Any = TorchCompiler(semiring, dtype="float64").compile(integrate(product))()
        if semiring == "lse-sum":
            numbers_found, total_found = numbers_found.exp(), total_found.exp()
        np.testing.assert_allclose(numbers_found.detach(), expected, rtol=1e-9)
        assert total_found.item() == pytest.approx(total, rel=1e-7)
    first, second = (Circuit([layer], {}, [layer]) for layer in (build([0.4]), build([0.3])))
    product = multiply(first, second)
    compiled_product = TorchCompiler(semiring, dtype="float64").compile(product)
    found: Any = compiled_product(torch.from_numpy(x))[:, 0]
    found = found.exp() if semiring == "lse-sum" else found
    np.testing.assert_allclose(found.detach(), density(x, 0.4) * density(x, 0.3), rtol=1e-9)
    assert TorchCompiler(semiring, dtype="float64").compile(integrate(product))().isnan().all()
    assert TorchCompiler(semiring, dtype="float64").compile(normalize(product))(torch.from_numpy(x)).isnan().all()
    gradients = torch.autograd.grad(found[1].sum(), list(compiled_product.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_concentration_of_exactly_zero_has_derivatives(family: str) -> None:
    """Concentrations of 0.5 and 0.5 add up to 0: the density is x^-1 times what is left."""
    build, density = FAMILIES[family]
    layer = build([0.5, 0.75])
    square = multiply(*[Circuit([layer], {}, [layer])] * 2)
    compiled_square = TorchCompiler("sum-product", dtype="float64").compile(square)
    found = compiled_square(torch.tensor([[0.3]], dtype=torch.float64))[0, 0]
    numbers_ = np.array([density(0.3, 0.5), density(0.3, 0.75)])
    np.testing.assert_allclose(found.detach(), np.outer(numbers_, numbers_).ravel(), rtol=1e-9)
    tensors = list(compiled_square.parameters())
    gradients = torch.autograd.grad(found[0], tensors)
    step = 1e-6
    for parameter, gradient in zip(tensors, gradients, strict=True):
        with torch.no_grad():
            values_ = []
            for sign in (1, -1):
                parameter.view(-1)[0] += sign * step
                values_.append(compiled_square(torch.tensor([[0.3]], dtype=torch.float64))[0, 0, 0].item())
                parameter.view(-1)[0] -= sign * step
        assert gradient.flatten()[0].item() == pytest.approx((values_[0] - values_[1]) / (2 * step), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("kind", "name"), [(GammaLayer, "concentration"), (BetaLayer, "alpha")])
def test_a_negative_concentration_of_an_operand_is_nan(kind: Any, name: str) -> None:
    layer = kind([0], 1, **{name: tensor([-0.5])})
    square = multiply(*[Circuit([layer], {}, [layer])] * 2)
    compiled = TorchCompiler("lse-sum", dtype="float64").compile(square)
    assert compiled(torch.tensor([[0.3]], dtype=torch.float64)).isnan().all()
