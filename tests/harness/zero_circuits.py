"""Random circuits with learned numbers that are exactly 0, and their derivatives in ordinary arithmetic.

    draw = draw_zeros(3)
    draw.circuit, draw.x, draw.positive, draw.reference.slopes()

The reference is the logarithm of what `sum-product` computes in float64, neither folded nor optimized, where a row's
total is positive. `check_reference` compares that with central differences of the oracle.
"""

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plica.backend.torch.compiler import TorchCompiler
from tests.harness.layer_cases.joint import JOINT_ROW, JointLayer, reference
from tests.harness.oracle import Oracle, finite_differences, numbers
from tests.harness.random_circuits import Draw, Family, draw_circuit
from tests.harness.random_parameters import ZEROS

Array = Any
Slopes = dict[str, Array]

_INPUTS = (*(f"probs, {name}" for name in ZEROS), "embedding of zeros", "embedding of zeros", "joint of zeros")
ZERO_FAMILY = Family(
    weights=(*ZEROS, "softmax", "direct"),
    inputs=(*_INPUTS, "joint", "logits"),
    missing=0.2,
    data=("int64", "float32", "float64"),
)


@dataclass(frozen=True)
class ZeroDraw:
    """A circuit, rows of data, and a number by which each result counts.

    Args:
        draw: The circuit and the data.
        shares: `(B, outputs, units)`.
    """

    draw: Draw
    shares: Tensor

    def compile(self, semiring: str = "lse-sum", **settings: Any) -> Any:
        """The circuit, compiled."""
        compiler = TorchCompiler(semiring, **settings)
        compiler.add_layer_rule(JOINT_ROW)
        return compiler.compile(self.draw.circuit)

    def data(self, model: Any) -> Tensor:
        """The data, whole or of the model's dtype."""
        x = self.draw.x
        return x.to(model.dtype) if x.is_floating_point() else x

    @cached_property
    def reference(self) -> Any:
        """The circuit in ordinary arithmetic."""
        return self.compile("sum-product", fold=False, optimize=False, dtype="float64")

    @cached_property
    def totals(self) -> Tensor:
        """What the circuit computes."""
        totals: Tensor = self.reference(self.data(self.reference)).detach()
        return totals

    @cached_property
    def positive(self) -> Tensor:
        """Where a total is no zero, `(B, outputs, units)`."""
        return self.totals > 1e-280

    def loss(self, results: Tensor) -> Tensor:
        """The logarithms of positive totals, each times its share."""
        return torch.where(self.positive, self.shares.to(results.dtype) * results, 0.0).sum()

    def reference_loss(self, totals: Tensor) -> Tensor:
        """`loss` of totals in ordinary arithmetic."""
        return self.loss(torch.where(self.positive, totals, 1.0).log())

    @cached_property
    def expected(self) -> tuple[Slopes, Slopes]:
        """`slopes` of the reference."""
        model = self.reference
        return slopes(model, self.reference_loss(model(self.data(model))))


def draw_zeros(seed: int) -> ZeroDraw:
    """The first draw from a seed on that has rows and learns something."""
    for number in itertools.count(100 * seed):
        draw = draw_circuit("learned zeros", number, ZERO_FAMILY)
        shape = len(draw.x), len(draw.circuit.outputs), draw.circuit.outputs[0].num_output_units
        zeros = ZeroDraw(draw, torch.from_numpy(np.random.default_rng([seed, 5]).uniform(0.5, 1.5, shape)))
        if len(draw.x) and zeros.reference(zeros.data(zeros.reference)).requires_grad:
            return zeros
    raise AssertionError("seeds have no end")


def slopes(model: Any, loss: Tensor) -> tuple[Slopes, Slopes]:
    """The derivatives of a loss, and those of the sum of these, by the keys of the state dict."""
    parameters = list(model.parameters())
    first = _gradients(loss, parameters, create_graph=True)
    total = torch.stack([one.sum() for one in first]).sum()
    second = _gradients(total, parameters) if total.requires_grad else [torch.zeros_like(one) for one in parameters]
    return by_key(model, first), by_key(model, second)


def _gradients(loss: Tensor, parameters: Sequence[Tensor], *, create_graph: bool = False) -> list[Tensor]:
    found = torch.autograd.grad(loss, parameters, create_graph=create_graph, allow_unused=True)
    return [torch.zeros_like(of) if one is None else one for one, of in zip(found, parameters, strict=True)]


def by_key(model: Any, tensors: Sequence[Tensor]) -> Slopes:
    """Tensors in the order of a model's parameters, by the keys of its state dict."""
    other = copy.deepcopy(model)
    for mine, tensor in zip(other.parameters(), tensors, strict=True):
        mine.data = tensor.detach()
    return {key: value.astype(float) for key, value in numbers(other).items()}


def assert_close(found: Mapping[str, Array], expected: Mapping[str, Array], rounding: float) -> None:
    """Raise unless derivatives of logarithms agree, to a rounding of the largest of them or of 1."""
    assert found.keys() == expected.keys()
    largest = max([1.0, *(np.abs(one).max() for one in expected.values() if one.size)])
    for key, one in expected.items():
        np.testing.assert_allclose(found[key], one, rtol=rounding, atol=rounding * largest, err_msg=key)


def check_reference(zeros: ZeroDraw) -> None:
    """Compare the first derivatives with central differences of the oracle in extended precision."""
    positive, shares = zeros.positive.numpy(), zeros.shares.numpy()
    x = zeros.data(zeros.reference).numpy()

    def loss(values: Mapping[str, Array]) -> Array:
        totals = Oracle(zeros.draw.circuit, values, {JointLayer: reference}).linear(x)
        return (shares * np.log(np.where(positive, totals, 1.0))).sum()

    differences: Callable[..., Slopes] = finite_differences
    assert_close(zeros.expected[0], differences(loss, numbers(zeros.reference), 3e-8), 1e-7)
