"""The value of an evidence layer as a parameter: operators that divide by it have a rule to ask.

>>> from plica.symbolic.layers import CategoricalLayer
>>> _constant(EvidenceLayer(CategoricalLayer([3], 4, num_categories=5), observation=2)).output
ConstantValueLayer(scope={}, 4)
"""

import numpy as np

from plica.errors import UnsupportedError
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.declared import UnivariateLayer
from plica.symbolic.layers.evidence import EvidenceLayer
from plica.symbolic.layers.formula_parameters import units_at
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.states import TabulatedLayer
from plica.symbolic.parameters import ConstantParameter, IndexParameter, Parameter, ReduceSumParameter, dereferenced


def _constant(layer: EvidenceLayer) -> CircuitBlock:
    observed = layer.layer
    if isinstance(observed, UnivariateLayer):
        units = units_at(observed, value=layer.observation.ref())
        value = ConstantValueLayer(observed.num_output_units, log_space=observed.log_masses, value=units)
        return CircuitBlock.from_layer(value)
    state = dereferenced(layer.observation.output)
    num_states = observed.domain.num_states
    if not isinstance(observed, TabulatedLayer) or num_states is None or not isinstance(state, ConstantParameter):
        raise UnsupportedError(
            f"the value of {layer!r}, which observes {observed!r}, is no parameter; add a rule ('constant', "
            "(EvidenceLayer,)) by `add_operator_rule`, or observe layers of states and declared distributions."
        )
    table = observed.state_table(num_states)
    chosen = IndexParameter(table.numbers.shape, indices=[int(np.asarray(state.value).item())], axis=-1)
    column = Parameter.from_unary(ReduceSumParameter(chosen.shape), Parameter.from_unary(chosen, table.numbers))
    value = ConstantValueLayer(observed.num_output_units, log_space=table.log_space, value=column)
    return CircuitBlock.from_layer(value)


OPERATORS = (OperatorRow("constant", (EvidenceLayer,), _constant),)
