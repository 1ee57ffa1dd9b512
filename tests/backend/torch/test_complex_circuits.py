"""Circuits with complex parameters: values and gradients in every way of compiling, dtypes, states, files, refusals."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.lower.arrays import initial_arrays
from plica.lower.compiled import CircuitCompiler
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import (
    CategoricalLayer,
    EvidenceLayer,
    GaussianLayer,
    SumLayer,
)
from plica.symbolic.parameters import (
    normal,
)
from tests.harness.complex_circuits import circuit, complex_, data
from tests.harness.oracle import Oracle, numbers

Array = Any
CARRIERS = ("sum-product", "complex-lse-sum")
WAYS = [*itertools.product(CARRIERS, (True, False), (True, False))]


def linear(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    """The values as ordinary numbers."""
    found: torch.Tensor = compiled(x)
    return found.exp() if compiled.semiring.logarithmic else found


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("semiring", "fold", "optimize"), WAYS)
def test_values_and_gradients(semiring: str, fold: bool, optimize: bool) -> None:
    described, x = circuit(), data()
    gradients = []
    for name in (semiring, "sum-product"):
        compiled = TorchCompiler(name, fold=fold, optimize=optimize, dtype="float64").compile(described)
        compiled.reset_parameters(seed=1)
        value = linear(compiled, x)
        expected = Oracle(described, numbers(compiled)).linear(x.numpy()).astype(complex)
        np.testing.assert_allclose(value.detach(), expected, rtol=1e-9)
        value.abs().square().sum().backward()
        gradients.append([one.grad for one in compiled.parameters()])
        with torch.no_grad():
            torch.testing.assert_close(linear(compiled.eval(), x), value)
    for found, one in zip(*gradients, strict=True):
        torch.testing.assert_close(found, one)


@pytest.mark.parametrize("semiring", CARRIERS)
def test_the_gradient_is_that_of_differences(semiring: str) -> None:
    compiled = TorchCompiler(semiring, dtype="float64").compile(circuit())
    names, tensors = zip(*compiled.named_parameters(), strict=True)

    def value(*values: torch.Tensor) -> torch.Tensor:
        found = torch.func.functional_call(compiled, dict(zip(names, values, strict=True)), data(3))
        return torch.view_as_real(found)

    given = tuple(one.detach().requires_grad_() for one in tensors)
    assert torch.autograd.gradcheck(value, given, fast_mode=True)


@pytest.mark.parametrize("semiring", CARRIERS)
@pytest.mark.parametrize("fold", [True, False])
def test_dtypes_change_in_width_alone(semiring: str, fold: bool) -> None:
    compiled = TorchCompiler(semiring, fold=fold).compile(circuit())
    narrow = {key: value.clone() for key, value in compiled.state_dict().items()}
    before = compiled(data())
    assert before.dtype == torch.complex64
    for widen in (lambda: compiled.to(torch.float64), compiled.double, lambda: compiled.to(torch.complex128)):
        compiled.float()
        widen()
        assert {one.dtype for one in compiled.parameters()} == {torch.float64, torch.complex128}
        found = compiled(data())
        assert found.dtype == torch.complex128
        torch.testing.assert_close(found.to(torch.complex64), before, rtol=1e-3, atol=1e-3)
    compiled.float()
    for key, value in compiled.state_dict().items():
        assert torch.equal(value, narrow[key])
    with pytest.raises(DTypeError, match=r"complex64 or complex128, and none are as narrow as torch\.bfloat16"):
        compiled.to(torch.bfloat16)


def test_states_and_files(tmp_path: Path) -> None:
    described = circuit()
    first, second = (plica.compile(described, semiring="complex-lse-sum", fold=fold) for fold in (True, False))
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second(data()), first(data()))
    save_model(tmp_path / "m.plica", described, numbers(first), {"semiring": "complex-lse-sum"})
    file = load_model(tmp_path / "m.plica")
    third = plica.compile(file.circuit, semiring=file.options["semiring"])
    third.load_state_dict({key: torch.from_numpy(value) for key, value in file.tensors.items()})
    torch.testing.assert_close(third(data()), first(data()))


def test_leaves_start_complex_and_alike_in_every_backend(tmp_path: Path) -> None:
    described = circuit()
    initial = {
        member: array[fold]
        for leaf, array in initial_arrays(CircuitCompiler("sum-product").compile(described), seed=3).leaves
        for fold, member in enumerate(leaf.members)
    }
    assert any(array.dtype.kind == "c" for array in initial.values())
    states = []
    for fold in (True, False):
        compiled = plica.compile(described, semiring="sum-product", fold=fold)
        compiled.reset_parameters(seed=3)
        states.append(numbers(compiled))
        for tensor, key in compiled.compiled.keys.items():
            np.testing.assert_array_equal(states[-1][key], initial[tensor])
            if tensor.dtype == DataType.COMPLEX:
                assert (states[-1][key].imag != 0).all()
    plica.save(compiled, tmp_path / "m.plica")
    loaded = numbers(plica.load(tmp_path / "m.plica"))
    assert loaded.keys() == states[0].keys()
    for key, array in loaded.items():
        np.testing.assert_array_equal(array, states[0][key])


def test_complex_numbers_do_not_become_real_ones() -> None:
    def weighted(factory: Any) -> Circuit:
        layer, total = CategoricalLayer([0], 2, num_categories=3), SumLayer(2, 1, weight_factory=factory)
        return Circuit([layer, total], {total: [layer]}, [total])

    real, other = (plica.compile(weighted(one), semiring="sum-product") for one in (normal, complex_))
    with pytest.raises(RuntimeError, match=r"kind mismatch for 1.weight: expected real numbers, found torch.complex64"):
        real.load_state_dict(other.state_dict())
    other.load_state_dict(real.state_dict())
    torch.testing.assert_close(other(torch.tensor([[1.0]])).real, real(torch.tensor([[1.0]])))
    for ask in (sample, lambda compiled: mpe(compiled, torch.tensor([[math.nan]]))):
        with pytest.raises(UnsupportedError, match=r"SumLayer\(1.* its weight has complex numbers, which "):
            ask(other)


@pytest.mark.parametrize("semiring", ["lse-sum", "signed-lse-sum", "max-product", "max-sum", "min-plus", "boolean"])
def test_who_does_not_carry_complex_numbers_says_so(semiring: str) -> None:
    with pytest.raises(UnsupportedError, match=f"its weight has complex numbers, which {semiring} cannot represent"):
        plica.compile(circuit(), semiring=semiring)


def test_layers_of_real_numbers_say_so() -> None:
    layer = GaussianLayer([0], 2, mean=complex_((2,)))
    with pytest.raises(
        UnsupportedError, match="its mean has complex numbers, but a GaussianLayer takes real ones alone"
    ):
        plica.compile(Circuit([layer], {}, [layer]), semiring="sum-product")
    evidence = EvidenceLayer(layer, observation=0.0)
    with pytest.raises(UnsupportedError, match=r"its layer\.mean has complex numbers"):
        plica.compile(Circuit([evidence], {}, [evidence]), semiring="complex-lse-sum")
