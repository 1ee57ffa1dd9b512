"""What somebody derives from a class that is declared final means something else: no rule takes it for the class."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import UnsupportedError
from plica.queries import log_likelihood
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, CategoricalLayer, HadamardLayer, ProductRow, SumLayer
from plica.symbolic.parameters import ConstantParameter, LogParameter, Parameter, SoftmaxParameter

FLAGS: list[Any] = [{}, {"optimize": False}, {"fold": False, "optimize": False}]
HADAMARD: Any = LAYER_ROWS[HadamardLayer]


class Twice(HadamardLayer):  # type: ignore[misc]
    """The product of all inputs twice."""


class Exponential(SoftmaxParameter):  # type: ignore[misc]
    """Not divided by its sum."""

    def evaluate(self, xp: Any, *inputs: Any) -> Any:
        return xp.exp(inputs[0])


def _circuit(kind: type[HadamardLayer]) -> Circuit:
    tables = [[[0.5, 0.5], [0.25, 0.75]], [[0.125, 0.875], [0.5, 0.5]]]
    inputs = [
        CategoricalLayer([v], 2, num_categories=2, probs=ConstantParameter(2, 2, value=table))
        for v, table in enumerate(tables)
    ]
    product, total = kind(2, arity=2), SumLayer(2, 1, weight=ConstantParameter(1, 2, value=[[0.5, 0.5]]))
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_a_layer_is_computed_by_its_own_row(flags: Any) -> None:
    context = plica.PipelineContext(semiring="sum-product", dtype="float64", **flags)
    with pytest.raises(UnsupportedError, match="Twice"):
        context.compile(_circuit(Twice))

    def body(xp: Any, semiring: Any, layer: Any, parameters: Any, inputs: Any) -> Any:
        return HADAMARD.body(xp, semiring, layer, parameters, [*inputs, *inputs])

    context.add_layer_compilation_rule(ProductRow(Twice, body=body, route=HADAMARD.route))
    found = context.compile(_circuit(Twice))(torch.tensor([[0, 1]])).item()
    assert found == pytest.approx((0.5 * 0.875) ** 2 / 2 + (0.25 * 0.5) ** 2 / 2)
    plain = context.compile(_circuit(HadamardLayer))
    assert log_likelihood(plain, torch.tensor([[0, 1]])).exp().item() == pytest.approx((0.4375 + 0.125) / 2)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_parameter_is_computed_by_its_own_method(optimize: bool) -> None:
    x = np.array([[0.5, 1.0], [2.0, -1.0]])
    own = Parameter.from_unary(Exponential((2, 2)), ConstantParameter(2, 2, value=x))
    context = plica.PipelineContext(dtype="float64", optimize=optimize)
    for parameter, expected in ((own, np.exp(x)), (Parameter.from_unary(LogParameter((2, 2)), own), x)):
        np.testing.assert_allclose(context.compile_parameter(parameter)()[0].numpy(), expected, rtol=1e-12)
