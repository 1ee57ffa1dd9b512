"""Settings that are arrays: of operations and of layers of one's own, compared by all that they hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, ProductLayer, ProductRow
from plica.symbolic.parameters import ConstantParameter, Parameter, UnaryOp, setting_key
from tests.harness.circuits import constant

LONG = 2000  # numpy shortens what it prints of so many


@dataclass(frozen=True, eq=False)
class Shifted(UnaryOp):
    """The input plus an array."""

    by: Any = field(kw_only=True)

    def infer_shape(self) -> tuple[int, ...]:
        return self.in_shape

    def evaluate(self, xp: Any, *arrays: Any) -> Any:  # noqa: ARG002
        return arrays[0] + self.by


@dataclass(frozen=True, eq=False)
class Scaled(ProductLayer):
    """Its one input times a constant for each unit."""

    num_input_units: int
    by: np.ndarray
    arity = 1

    @property
    def num_output_units(self) -> int:
        return self.num_input_units

    @property
    def config(self) -> dict[str, Any]:
        return {"num_input_units": self.num_input_units, "by": self.by}


def _scaled(xp: Any, semiring: Any, layer: Scaled, _params: Any, inputs: Sequence[Any]) -> Any:
    numbers = xp.asarray(layer.by.reshape(1, 1, -1).astype("float32"))
    return semiring.product(xp, inputs[0], semiring.from_linear(xp, numbers))


def shifts() -> list[np.ndarray]:
    """Arrays that differ in the middle, which numpy does not print."""
    found = [np.zeros(LONG) for _ in range(2)]
    found[1][LONG // 2] = 1.0
    return found


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("optimize", [True, False])
def test_operations_whose_arrays_differ_stay_apart(fold: bool, optimize: bool) -> None:
    layers = [
        CategoricalLayer(
            [place],
            1,
            num_categories=LONG,
            logits=Parameter.from_unary(Shifted((1, LONG), by=by), constant(np.zeros((1, LONG)))),
        )
        for place, by in enumerate(shifts())
    ]
    product = HadamardLayer(1, 2)
    circuit = Circuit([*layers, product], {product: layers}, [product])
    compiled = TorchCompiler("sum-product", fold=fold, optimize=optimize).compile(circuit)
    middle = compiled(torch.tensor([[0, 0], [LONG // 2, 0], [0, LONG // 2]])).flatten()
    torch.testing.assert_close(middle, torch.tensor([1.0, 1.0, np.e], dtype=middle.dtype))


@pytest.mark.parametrize("fold", [True, False])
def test_layers_may_have_arrays_among_their_settings(fold: bool) -> None:
    inputs = [CategoricalLayer([v], 2, num_categories=2, probs=constant([[0.5, 0.5]] * 2)) for v in range(3)]
    numbers = [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]
    scaled = [Scaled(2, np.asarray(one)) for one in numbers]
    product = HadamardLayer(2, 3)
    edges: dict[Any, Any] = {layer: [one] for layer, one in zip(scaled, inputs, strict=True)}
    edges[product] = scaled
    context = PipelineContext(semiring="sum-product", fold=fold)
    context.add_layer_compilation_rule(ProductRow(Scaled, body=_scaled, route=lambda _xp, _layer, units: (units,)))
    compiled = context.compile(Circuit([*inputs, *scaled, product], edges, [product]))
    assert compiled(torch.zeros(1, 3, dtype=torch.int64)).flatten().tolist() == [0.125 * 3.0, 0.125 * 16.0]
    assert sum(group.num_folds for group in compiled.layers if isinstance(group.representative, Scaled)) == 3
    assert sum(isinstance(group.representative, Scaled) for group in compiled.layers) == (2 if fold else 3)


def test_keys_of_settings() -> None:
    assert setting_key(np.zeros(3)) == setting_key(np.zeros(3))
    assert setting_key(np.zeros(3)) != setting_key(np.zeros(3, "float32"))
    assert setting_key(0.0) != setting_key(-0.0)
    assert setting_key(float("nan")) == setting_key(float("nan"))
    assert setting_key({"a": [1, (2,)]}) == setting_key({"a": [1, (2,)]})
    assert setting_key(1) != setting_key(True)
    alone = bytearray(b"x")
    assert setting_key(alone) == setting_key(alone) != setting_key(bytearray(b"x"))
    assert setting_key(ConstantParameter(2, value=np.ones(2)).config["value"]) == setting_key(np.ones(2))
