"""Products, powers and logarithms of layers of one variable that has finitely many states: tables again.

Each layer gives the numbers of its units at these states as a parameter (`states.TabulatedLayer`). The states are those
that both layers have, since data of a product lies in the domains of both. Two tables of distributions give a
`CategoricalLayer`, whose units are not normalized; tables with numbers of any sign give an `EmbeddingLayer`.

>>> from plica.symbolic.layers import BernoulliLayer, CategoricalLayer
>>> multiply_tables(BernoulliLayer([3], 4), CategoricalLayer([3], 2, num_categories=5)).output.config
{'scope': Scope({3}), 'num_output_units': 8, 'num_categories': 2}
"""

from typing import Any

from plica.errors import InputError, UnsupportedError
from plica.symbolic.layers.blocks import check_equal_scopes
from plica.symbolic.layers.categorical import CategoricalLayer
from plica.symbolic.layers.embedding import EmbeddingLayer
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.states import StateTable, TabulatedLayer
from plica.symbolic.parameters import LogOnSupportParameter, Parameter, PowerOnSupportParameter


def multiply_tables(first: TabulatedLayer, second: TabulatedLayer) -> CircuitBlock:
    """The table of the products of all pairs of units.

    Raises:
        UnsupportedError: The variable does not have finitely many states from 0 on in both domains.
    """
    check_equal_scopes(first, second)
    names = f"multiply: {first!r} times {second!r}"
    try:
        states = first.domain.meet(second.domain).num_states
    except InputError as error:
        raise UnsupportedError(f"{names}: {error}.") from error
    if states is None:
        raise UnsupportedError(
            f"{names}: their product is no layer, since no rule is known for their classes and the variable does not "
            "have finitely many states from 0 on. Take layers of one family that is closed under products, such as "
            "Gaussian ones, or add a rule by `add_operator_rule`."
        )
    try:
        factor = first.state_table(states)
        table = factor.times(factor if second is first else second.state_table(states))
    except UnsupportedError as error:
        raise UnsupportedError(f"{names}: {error}") from error
    units = table.numbers.shape[0]
    if table.signed:
        return CircuitBlock.from_layer(EmbeddingLayer(first.scope, units, num_states=states, weight=table.linear()))
    parameter: dict[str, Any] = {"logits" if table.log_space else "probs": table.numbers}
    return CircuitBlock.from_layer(CategoricalLayer(first.scope, units, num_categories=states, **parameter))


def _logarithm(layer: TabulatedLayer) -> CircuitBlock:
    """The table of logarithms, 0 where a number is 0."""
    table, states = _own_table(layer)
    op = LogOnSupportParameter(table.numbers.shape, log_space=table.log_space)
    weight = Parameter.from_unary(op, table.numbers)
    return CircuitBlock.from_layer(EmbeddingLayer(layer.scope, weight.shape[0], num_states=states, weight=weight))


def _power(layer: TabulatedLayer, *, exponent: int) -> CircuitBlock:
    """The table of powers of positive numbers, 0 where a number is 0."""
    table, states = _own_table(layer)
    op = PowerOnSupportParameter(table.numbers.shape, exponent=exponent, log_space=table.log_space)
    powers = Parameter.from_unary(op, table.numbers)
    parameter: dict[str, Any] = {"logits" if table.log_space else "probs": powers}
    return CircuitBlock.from_layer(CategoricalLayer(layer.scope, powers.shape[0], num_categories=states, **parameter))


def _own_table(layer: TabulatedLayer) -> tuple[StateTable, int]:
    """The table of all states of a layer, and their number."""
    states = layer.domain.num_states
    if states is None:
        raise UnsupportedError(
            "there is no rule for the powers of its class, and its variable does not have finitely many states from 0 "
            "on; give a context rules of 'power' and 'expected_log' by `add_operator_rule`."
        )
    return layer.state_table(states), states


OPERATORS = (
    OperatorRow("multiply", (TabulatedLayer, TabulatedLayer), multiply_tables),
    OperatorRow("logarithm", (TabulatedLayer,), _logarithm),
    OperatorRow("power", (TabulatedLayer,), _power),
)
