"""Blocks that several rules of operators give: constants, totals of tables, layers times constants; and a check.

>>> from plica.symbolic.layers import GaussianLayer
>>> ones(GaussianLayer([0], 4)).output
ConstantValueLayer(scope={}, 4)
"""

from plica.errors import UnsupportedError
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.hadamard import HadamardLayer
from plica.symbolic.layers.operator_rows import CircuitBlock
from plica.symbolic.layers.states import StateTable
from plica.symbolic.parameters import Parameter, ReduceLSEParameter, ReduceSumParameter, is_real


def ones(layer: InputLayer) -> CircuitBlock:
    """The integral of a layer whose units are normalized."""
    return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, value=1.0))


def constants(logs: Parameter) -> CircuitBlock:
    """Constants `(K,)` that are given as logarithms."""
    return CircuitBlock.from_layer(ConstantValueLayer(logs.shape[0], log_space=True, value=logs))


def total_of_table(table: StateTable) -> CircuitBlock:
    """The sums of the units of a table over its states."""
    shape = table.numbers.shape
    if table.log_space and is_real(table.numbers):
        return constants(Parameter.from_unary(ReduceLSEParameter(shape, axis=-1), table.numbers))
    total = Parameter.from_unary(ReduceSumParameter(shape, axis=-1), table.linear())
    return CircuitBlock.from_layer(ConstantValueLayer(shape[0], value=total))


def weighted(layer: InputLayer, logs: Parameter) -> CircuitBlock:
    """The units of a layer, each multiplied by a constant that is given as a logarithm: `(K,)`."""
    product = HadamardLayer(layer.num_output_units, arity=2)
    return CircuitBlock.from_nary_layer(product, layer, constants(logs).output)


def check_equal_scopes(first: InputLayer, second: InputLayer) -> None:
    """Refuse two layers to multiply that have different variables, an UnsupportedError."""
    if first.scope != second.scope:
        raise UnsupportedError(
            f"multiply: {first!r} times {second!r}: a rule multiplies such layers of equal scopes alone; take layers "
            "of the same variables in both circuits, or one layer for each variable under a HadamardLayer."
        )
