"""Arrays that a parameter operation of one's own closes over: constants of the circuit, in its dtype."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery
from plica.errors import TraceError
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from plica.symbolic.parameters.nodes import UnaryOp
from plica.symbolic.scope import Scope

Evaluate = Callable[[Any, Any], Any]

SCALES = np.asarray([1.0, 2.0, 3.0])
TENSOR = torch.tensor([1.0, 2.0, 3.0])
WAYS: dict[str, Evaluate] = {
    "a numpy array on the right": lambda _, x: x * SCALES,
    "a numpy array as an argument": lambda xp, x: xp.multiply(x, SCALES),
    "asarray, twice": lambda xp, x: 2 * (x * xp.asarray(SCALES)) - x * xp.asarray(SCALES),
    "a numpy array of another dtype": lambda xp, x: x * xp.asarray(SCALES.astype("int32")),
    "a torch tensor": lambda xp, x: xp.multiply(x, TENSOR),
    "a list": lambda xp, x: x * xp.asarray([1.0, 2.0, 3.0]),
    "an array that is made there": lambda xp, x: x * (xp.arange(3) + xp.ones(3)),
}


def compiled(evaluate: Evaluate, *, fold: bool = True) -> TorchCircuit:
    """Two categorical layers whose logits are `evaluate` of (1, 1, 1), multiplied and summed."""

    @dataclass(frozen=True, slots=True, eq=False)
    class Own(UnaryOp):
        def infer_shape(self) -> tuple[int, ...]:
            return self.in_shape

        def evaluate(self, xp: Any, *arrays: Any) -> Any:
            return evaluate(xp, arrays[0])

    def logits() -> Parameter:
        ones = TensorParameter(1, 3, initializer=ConstantTensorInitializer(1.0))
        return Parameter.from_unary(Own((1, 3)), Parameter.from_input(ones))

    leaves = [CategoricalLayer(Scope([v]), 1, num_categories=3, logits=logits()) for v in range(2)]
    product, total = HadamardLayer(1, 2), SumLayer(1, 1, weight=ConstantParameter(1, 1, value=1.0))
    circuit = Circuit([*leaves, product, total], {product: leaves, total: [product]}, [total])
    return TorchCompiler(fold=fold).compile(circuit)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_values(way: str, fold: bool) -> None:
    circuit, x = compiled(WAYS[way], fold=fold), torch.tensor([[0, 2], [1, 1]])
    expected = compiled(lambda _, x: x * torch.tensor([1.0, 2.0, 3.0]), fold=fold)
    found = circuit(x).flatten() - circuit(torch.tensor([[0, 0]])).flatten()
    torch.testing.assert_close(found, torch.tensor([2.0, 2.0]))
    torch.testing.assert_close(circuit(x), expected(x))
    torch.testing.assert_close(plica.jit(lambda rows: circuit(rows))(x), circuit(x))
    assert SamplingQuery(circuit)(3)[0].shape == (3, 2)
    double = circuit.double()(x)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), expected(x))


def test_what_is_learned_is_refused() -> None:
    learned = torch.ones(3, requires_grad=True)
    with pytest.raises(TraceError, match=r"test_captured.py:\d+: .* make an array that is learned"):
        compiled(lambda _, x: x * learned)
