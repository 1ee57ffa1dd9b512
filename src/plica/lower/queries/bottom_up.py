"""The bottom-up walk: the value of every group of layers, inputs first."""

from plica.lower.data import InputData
from plica.lower.fold.groups import FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import FusedRow, InputLayer, InputRow, ProductRow
from plica.symbolic.semirings import Value
from plica.tracing import namespace as xp


def layer_values(scope: LoweringScope, data: InputData | None) -> list[Value]:
    """The value of every group, in order: `(F, B, K)`, or `(F, 1, K)` without data, where no variable is known.

    Args:
        scope: The Program under construction; its semiring says what a sum and a product are, and what stands for
            variables that are not known: they are summed out, or take their largest value.
        data: What is known of the variables.
    """
    values: list[Value] = []
    for number, group in enumerate(scope.folded.groups):
        with scope.builder.at(describe(scope.folded.circuit, number, group)):
            value = _value(scope, data, group, values)
            # inputs and sums of what is in range stay there; products need not
            multiplies = isinstance(scope.folded.row(group.representative), ProductRow | FusedRow)
            values.append(scope.semiring.normalise(xp, value) if multiplies else value)
    return values


def describe(circuit: Circuit, number: int, group: FoldedLayer) -> str:
    """Where equations of a group come from, for messages and for comments in generated code."""
    name = circuit.layer_name(group.representative)
    return f"group {number}: {name}" if group.num_folds == 1 else f"group {number}: {group.num_folds} like {name}"


def _value(scope: LoweringScope, data: InputData | None, group: FoldedLayer, values: list[Value]) -> Value:
    layer, semiring = group.representative, scope.semiring
    row = scope.folded.row(layer)
    params = scope.parameters(group)
    if isinstance(row, InputRow):
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        return row.reduced(xp, semiring, layer, params) if data is None else data.value(row, group, params)
    inputs = [scope.read(values, [fold[place] for fold in group.in_fold_idx]) for place in range(layer.arity)]
    return row.body(xp, semiring, layer, params, inputs)
