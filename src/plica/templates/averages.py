"""Averages of circuits: ensembles, whose members a learner with `apart=True` trains each by itself.

>>> import numpy as np
>>> from plica.templates.hidden_trees import hclt
>>> bits = np.random.default_rng(0).integers(0, 2, (50, 3))
>>> average([hclt(bits, 2, seed=seed) for seed in range(3)])
Circuit(22 layers, 3 variables, 1 output(s) of 1 unit(s))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plica.arguments import elements, found, shown
from plica.errors import DTypeError, InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter


def average(circuits: Sequence[Circuit]) -> Circuit:
    """The average of circuits of one output of one unit over the same variables; its weights are equal and not learned.

    Raises:
        DTypeError: An entry is no circuit.
        InputError: There is no circuit, or one has several outputs, an output of several units, or other variables.

    Source: Breiman, "Bagging predictors", 1996; of densities Smyth and Wolpert, "Linearly combining density estimators
        via stacking", 1999.
    """
    members = elements("average", "circuits", circuits)
    for circuit in members:
        if not isinstance(circuit, Circuit):
            raise DTypeError(f"average: expected circuits of plica.symbolic.circuit, {found(circuit)}")
    if len({circuit.scope for circuit in members}) != 1:
        raise InputError(
            f"average: expected at least one circuit, all of the same variables, found {len(members)} with the "
            f"variables {shown([str(circuit.scope) for circuit in members])}"
        )
    for circuit in members:
        units = [output.num_output_units for output in circuit.outputs]
        if units != [1]:
            raise InputError(
                f"average: each circuit must have one output of one unit, found outputs of {shown(units)} units; end "
                "each in a SumLayer of one unit"
            )
    layers = {layer: circuit.layer_inputs(layer) for circuit in members for layer in circuit.layers}
    return average_of(layers, [circuit.outputs[0] for circuit in members])


def average_of(layers: Mapping[Layer, Sequence[Layer]], terms: Sequence[Layer]) -> Circuit:
    """The circuit of layers, each with its inputs, whose output is the average of some of them of one unit."""
    weight = Parameter.from_input(ConstantParameter(1, len(terms), value=1.0 / len(terms)))
    output = SumLayer(1, 1, len(terms), weight=weight)
    edges = {**layers, output: terms}
    return Circuit(edges, edges, [output])
