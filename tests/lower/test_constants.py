"""Constants that the dtype of a circuit does not hold are refused by name; learned ends that meet give NaN."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError
from plica.queries import cdf, sample
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    ConstantValueLayer,
    EvidenceLayer,
    GaussianLayer,
    HistogramLayer,
    PolynomialLayer,
    UniformLayer,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    Parameter,
    TensorParameter,
)
from tests.harness.circuits import chain, constant

BIG = 1e300
REFUSED: dict[str, tuple[Any, str]] = {
    "one number": (
        lambda: UniformLayer([0], 2, low=[0.0, 1e9], high=[1.0, 1e9 + 1]),
        r"UniformLayer\(0.*its low and high have 1000000000.0 and 1000000001.0, which are one number in float32",
    ),
    "wide": (lambda: UniformLayer([0], 1, low=-3e38, high=3e38), "infinitely far apart in float32"),
    "edges": (
        lambda: HistogramLayer([0], 1, edges=[0.0, 1e9, 1e9 + 1]),
        r"HistogramLayer\(0.*its edges have 1000000000.0 and 1000000001.0, which are one number",
    ),
    "wide bin": (lambda: HistogramLayer([0], 1, edges=[-3e38, 3e38]), "infinitely far apart in float32"),
    "number": (lambda: GaussianLayer([0], 1, mean=ConstantParameter(1, value=BIG)), r"1e\+300 in its mean is too"),
    "array": (lambda: GaussianLayer([0], 2, mean=constant([0.0, -BIG])), r"-1e\+300 in its mean is too large"),
    "held": (
        lambda: EvidenceLayer(PolynomialLayer([0], 1, degree=1), observation=BIG),
        r"EvidenceLayer\(0.*1e\+300 in its observation is too large for float32",
    ),
    "complex": (lambda: ConstantValueLayer(1, value=1j * BIG), r"1e\+300 in its value is too large for float32"),
    "within": (
        lambda: GaussianLayer([0], 1, mean=Parameter.from_unary(ExpParameter((1,)), constant([BIG]))),
        "in its mean is too large",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_constants_that_float32_does_not_hold_are_refused(case: str) -> None:
    layer, message = REFUSED[case]
    circuit = chain(layer())
    semiring = "complex-lse-sum" if case in ("held", "complex") else "lse-sum"
    with pytest.raises(InputError, match=rf"(?s){message}.*compile with dtype='float64', or rescale"):
        TorchCompiler(semiring, dtype="float32").compile(circuit)
    if case == "within":
        return
    compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
    x = () if not circuit.scope else (torch.tensor([[0.5], [1e9]], dtype=torch.float64),)
    assert not compiled(*x).isnan().any()
    with pytest.raises(InputError, match=message):  # as soon as it is computed with
        compiled.float()(*x)


def test_in_float64_nothing_is_wider() -> None:
    with pytest.raises(InputError, match=r"infinitely far apart in float64; rescale the numbers"):
        TorchCompiler(dtype="float64").compile(chain(UniformLayer([0], 1, low=-1.7e308, high=1.7e308)))


def test_infinite_constants_and_tiny_ones_are_no_matter() -> None:
    circuit = chain(HistogramLayer([0], 1, edges=[0.0, 1.0, 2.0], probs=constant([[1e-60, 0.5]])))
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    found = compiled(torch.tensor([[0.5], [1.5]])).flatten()
    np.testing.assert_allclose(found, np.log([1e-60, 0.5]), rtol=1e-6)
    circuit = chain(HistogramLayer([0], 1, edges=[0.0, 1.0, 2.0], logits=constant([[-np.inf, 0.0]])))
    assert TorchCompiler(dtype="float32").compile(circuit)(torch.tensor([[0.5]])).item() == -np.inf


def test_learned_ends_that_meet_have_no_density() -> None:
    def learned(*values: float) -> TensorParameter:
        return TensorParameter(len(values), initializer=ConstantTensorInitializer(np.array(values)))

    layer = UniformLayer([0], 4, low=learned(0.0, 1.0, 2.0, -3e38), high=learned(2.0, 1.0, 1.0, 3e38))
    compiled = TorchCompiler(dtype="float32").compile(chain(layer))
    found = compiled(torch.tensor([[1.0], [5.0]]))
    assert found[:, 0, 0].tolist() == [pytest.approx(-np.log(2)), -np.inf]
    assert found[:, 0, 1:].isnan().all()
    found[0, 0, 0].backward()
    assert [one.grad[0].tolist() for one in compiled.parameters() if one.grad is not None] == [
        [0.5, 0, 0, 0],
        [-0.5, 0, 0, 0],
    ]
    for place in range(1, 4):
        low, high = ([one[place]] for one in ([0.0, 1.0, 2.0, -3e38], [2.0, 1.0, 1.0, 3e38]))
        alone = TorchCompiler(dtype="float32").compile(
            chain(UniformLayer([0], 1, low=learned(*low), high=learned(*high)))
        )
        assert sample(alone, 3).isnan().all()
        assert cdf(alone, torch.tensor([[0.0]])).isnan().all()
