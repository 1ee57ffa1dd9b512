"""Blocks of the rules of operators: applied, compiled together in float64, and what they are made of, in numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    OPERATOR_ROWS,
    CircuitBlock,
    ConstantValueLayer,
    HadamardLayer,
    InputLayer,
    OperatorKey,
    OperatorRow,
    rule_of,
)
from plica.symbolic.parameters import Parameter
from tests.harness.layer_cases import LAYER_CASES, InputCase, references
from tests.harness.oracle import evaluate, keys, numbers, wide
from tests.harness.spaces import LINEAR

Array = Any
REFERENCES = references(LAYER_CASES)

UNIVARIATE = [
    case
    for case in LAYER_CASES
    if isinstance(case, InputCase) and case.num_variables == 1 and not case.name.startswith("module")
]


class BuiltIn:
    """The registry of the built-in rows."""

    @staticmethod
    def find(key: OperatorKey) -> OperatorRow | None:
        return OPERATOR_ROWS.get(key)


def applied(operator: str, *layers: Any, **settings: Any) -> CircuitBlock:
    """The block of the built-in rule for some layers."""
    row = rule_of(BuiltIn, operator, *layers)
    assert row is not None, f"{operator} has no row for {layers}"
    return row.rule(*layers, **settings)


def integrated(block: CircuitBlock, scope: Any) -> CircuitBlock:
    """The integral of a block: an input layer, or the product of one and constants.

    A layer without a rule, the multivariate Gaussian one, is normalized.
    """
    inputs = block.in_layers.get(block.output)
    if inputs is None:
        return CircuitBlock.from_layer(_total(block.output, scope))
    totals: list[Any] = [layer if isinstance(layer, ConstantValueLayer) else _total(layer, scope) for layer in inputs]
    return CircuitBlock.from_nary_layer(HadamardLayer(block.output.num_output_units, len(totals)), *totals)


def _total(layer: Any, scope: Any) -> Any:
    row = rule_of(BuiltIn, "integrate", layer)
    return row.rule(layer, scope=scope).output if row else ConstantValueLayer(layer.num_output_units, value=1.0)


@dataclass(frozen=True)
class Compiled:
    """Blocks that are outputs of one compiled circuit, in float64, and the values of their tensors.

    Args:
        circuit: The compiled circuit.
        logarithmic: Whether its results are logarithms.
        leaves: The tensors.
        names: Their names in the state dict.
    """

    circuit: Any
    logarithmic: bool
    leaves: Mapping[Any, Array]
    names: Mapping[Any, str]

    def __call__(self, x: Array | None = None) -> Array:
        """Ordinary numbers `(B, blocks, units)`; one row where no variable is read."""
        result = self.tensor(np.zeros((1, 1)) if x is None else x).detach().numpy()
        return np.exp(result) if self.logarithmic else result

    def tensor(self, x: Array) -> Any:
        """What the circuit returns; a first axis of one row where no variable is read."""
        if not self.circuit.scope:
            result = self.circuit()
            return result.reshape(-1, *result.shape[-2:])
        columns = max(self.circuit.scope, default=0) + 1
        return self.circuit(torch.from_numpy(np.asarray(x, float)[:, :columns]))

    def parameter(self, parameter: Parameter, leaves: Mapping[Any, Array] | None = None) -> Array:
        """The value of a parameter, in extended precision."""
        return evaluate(parameter, self.leaves if leaves is None else leaves)

    def params(self, layer: InputLayer, leaves: Mapping[Any, Array] | None = None) -> dict[str, Array]:
        """The values of the parameters of a layer."""
        return {name: self.parameter(parameter, leaves) for name, parameter in layer.all_params.items()}

    def reference(self, layer: InputLayer, x: Array, leaves: Mapping[Any, Array] | None = None) -> Array:
        """The units of a layer at data, in ordinary numbers: `(B, K)`."""
        return REFERENCES[type(layer)](LINEAR, layer, self.params(layer, leaves), np.asarray(x, np.longdouble))


def compiled(blocks: Sequence[CircuitBlock], semiring: str, operands: Sequence[Any] = ()) -> Compiled:
    """Blocks of equal numbers of units, and the layers whose tensors they share."""
    layers = dict.fromkeys(layer for block in blocks for layer in block.layers)
    edges: dict[Any, Any] = {layer: tuple(inputs) for block in blocks for layer, inputs in block.in_layers.items()}
    circuit = Circuit([*layers, *operands], edges, [block.output for block in blocks])
    result = PipelineContext(semiring=semiring).compile(circuit).to(torch.float64)
    names, values = keys(circuit), numbers(result)
    leaves = {leaf: wide(values[key]) for leaf, key in names.items() if key in values}
    return Compiled(result, semiring != "sum-product", leaves, names)


def outer(first: Array, second: Array) -> Array:
    """Products of all pairs of units, `(B, K1 * K2)`, those of the second fastest."""
    return np.einsum("bi,bj->bij", first, second).reshape(len(first), -1)
