"""Upper bounds of the values of circuits of any signs: no sum is larger than that of the sizes of its terms.

Every parameter and every unit of an input layer is replaced by its absolute value, and a variable that is not known
takes the largest size that each unit has.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.layer_numbers import Node, Numbers, Scaled, defined, scaled_of
from plica.eager import namespace as xp
from plica.symbolic.semirings import COMPLEX_LSE_SUM


def largest_size(circuit: TorchCircuit, numbers: Numbers, x: Tensor) -> Tensor:
    """The logarithm of an upper bound of the absolute values of all completions of rows `x (B, D)`: `(B,)`.

    Args:
        circuit: The circuit.
        numbers: What its layers compute with.
        x: Rows, float64, with NaN where an entry is missing.

    Raises:
        UnsupportedError: An input layer does not define its largest value.
    """
    graph, sizes = numbers.graph, numbers.absolute(circuit)
    values: dict[Node, Scaled] = {}
    for node, children in graph.children.items():  # each after its inputs
        if not children:
            values[node] = _of_input(numbers, node, x)
        else:
            values[node] = _absolute(sizes.inner(node, [values[child] for child in children]))
    output = values[graph.output]
    return (output.mantissa.log() + output.log_scale)[:, 0].expand(len(x))


def _of_input(numbers: Numbers, node: Node, x: Tensor) -> Scaled:
    """The sizes of the units of an input layer at known values, and the largest ones where there is none."""
    layer, row = numbers.graph.input_of(node)
    if not numbers.graph.scopes[node]:
        return _absolute(numbers.total(node))
    if numbers.has_table(node):
        table, size = numbers.table(node)
        largest = Scaled.of(table.abs().amax(0, keepdim=True), size)
    else:
        rule = defined(numbers, node, row.maximum)
        largest = _absolute(scaled_of(rule(xp, COMPLEX_LSE_SUM, layer, numbers.params(node)), numbers.dtype))
    column = x[:, numbers.graph.scopes[node].bit_length() - 1]
    known = column.isnan().logical_not_()[:, None]
    own = _absolute(numbers.at(node, torch.where(known[:, 0], column, float(layer.domain.inside))))
    return Scaled(*(torch.where(known, *pair) for pair in zip(own, largest, strict=True)))


def _absolute(scaled: Scaled) -> Scaled:
    return scaled._replace(mantissa=scaled.mantissa.abs())
