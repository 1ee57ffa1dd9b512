"""Whether constants prove that a circuit is deterministic: at no row are two terms of one sum both above zero.

Learned numbers may have any value. So a unit of an input layer is known to be zero only at a state where a constant is
zero (indicators, above all), and a term of a sum where its weight is a constant zero. From these follows a box for each
unit: one set of states for each variable, outside of which the unit is zero. Two terms are never above zero together if
their boxes have no common state of some variable.

Terms whose boxes overlap are compared further. A unit excludes a sum if it excludes all its terms, and a product if it
excludes one of its factors. This decides all cases where products split their variables alike, as in sentential
decision diagrams. The answer is sound: circuits that it calls deterministic are. Others may be too, for example if the
proof takes more than a fixed number of comparisons.

Source: Darwiche, "A logical approach to factoring belief networks", 2002; Choi and Darwiche, "On relaxing determinism
in arithmetic circuits", 2017.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.eager import namespace
from plica.ir.dtypes import DType
from plica.ir.interpret import interpret_program
from plica.ir.op import Unsupported
from plica.lower.fold.groups import FoldedCircuit, single_groups
from plica.lower.leaves import Constant
from plica.lower.lowering import LoweringScope
from plica.lower.queries.units import num_states
from plica.ops import OPS
from plica.symbolic.layers import Choice, InputLayer, InputRow, Layer, ProductRow, SumRow
from plica.symbolic.parameters import ConstantParameter, dereferenced
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import LSE_SUM
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

Masks: TypeAlias = NDArray[np.bool_]
Boxes: TypeAlias = dict[int, Masks]  # by variable, at which states each unit may be above zero: (K, C)
Unit: TypeAlias = tuple[Layer, int]

_MAX_COMPARISONS = 100_000  # of pairs of units; these take about half a second
_MAX_DEPTH = 300  # nested comparisons: Python limits recursion


def is_deterministic(folded: FoldedCircuit) -> bool:
    """Whether constants prove that every sum that an output depends on is deterministic.

    Args:
        folded: The circuit as it was described.
    """
    return first_not_deterministic(folded) is None


def first_not_deterministic(folded: FoldedCircuit) -> Layer | None:
    """The first layer that constants do not prove to be deterministic; None if there is none.

    Args:
        folded: The circuit as it was described.
    """
    circuit = folded.circuit
    layers = circuit.live.layers
    for layer in layers:
        if not isinstance(folded.row(layer), SumRow | ProductRow | InputRow):
            return layer
    known = _known(folded, layers)
    boxes: dict[Layer, Boxes] = {}
    exclusion = _Exclusion(boxes, {layer: circuit.layer_scope(layer) for layer in layers})
    for layer in layers:
        inputs = [boxes[input_layer] for input_layer in circuit.layer_inputs(layer)]
        row = folded.row(layer)
        if isinstance(layer, InputLayer):
            boxes[layer] = {min(layer.scope): known[layer]} if layer in known else {}
        elif isinstance(row, ProductRow):
            if isinstance(row.route, Unsupported):
                return layer
            units = np.arange(layer.num_output_units)[None]
            routes = [np.asarray(route)[0] for route in row.route(namespace, layer, units)]
            boxes[layer] = {
                variable: mask[route]
                for box, route in zip(inputs, routes, strict=True)
                for variable, mask in box.items()
            }
            factors = list(zip(circuit.layer_inputs(layer), routes, strict=True))
            exclusion.products[layer] = [
                [(input_layer, int(route[unit])) for input_layer, route in factors] for unit in units[0]
            ]
        else:
            layer_boxes = _sum(layer, row, circuit.layer_inputs(layer), exclusion, known.get(layer))
            if layer_boxes is None:
                return layer
            boxes[layer] = layer_boxes
    return None


class _Exclusion:
    """Comparisons of units by their factors and terms: whether two are never above zero together.

    Args:
        boxes: The boxes of the layers so far.
        scopes: The variables of layers.
    """

    def __init__(self, boxes: Mapping[Layer, Boxes], scopes: Mapping[Layer, Scope]) -> None:
        self.boxes = boxes
        self.products: dict[Layer, list[list[Unit]]] = {}  # the factors of each unit
        self.sums: dict[Layer, list[list[Unit]]] = {}  # the terms of each unit that may be above zero
        self._scopes = scopes
        self._known: dict[tuple[Unit, Unit], bool] = {}

    def excludes(self, first: Unit, second: Unit, depth: int = 0) -> bool:
        """Whether two units are never above zero together; False also where the proof takes too long."""
        key = (first, second)
        if key not in self._known:
            if len(self._known) >= _MAX_COMPARISONS or depth > _MAX_DEPTH:
                return False
            self._known[key] = False
            self._known[key] = self._compared(first, second, depth + 1)
        return self._known[key]

    def _compared(self, first: Unit, second: Unit, depth: int) -> bool:
        (layer, unit), (other, number) = first, second
        first_box, second_box = self.boxes[layer], self.boxes[other]
        for variable in first_box.keys() & second_box.keys():
            pair = zip(first_box[variable][unit].tolist(), second_box[variable][number].tolist(), strict=False)
            if not any(in_first and in_second for in_first, in_second in pair):
                return True
        if layer in self.sums:
            return all(self.excludes(term, second, depth) for term in self.sums[layer][unit])
        if other in self.sums:
            return all(self.excludes(first, term, depth) for term in self.sums[other][number])
        if layer not in self.products and other not in self.products:
            return False
        factors = self.products[layer][unit] if layer in self.products else [first]
        others = self.products[other][number] if other in self.products else [second]
        return any(
            self.excludes(factor, other_factor, depth)
            for factor in factors
            for other_factor in others
            if not self._scopes[factor[0]].isdisjoint(self._scopes[other_factor[0]])
        )


def _sum(
    layer: Layer, row: object, layers: Sequence[Layer], exclusion: _Exclusion, possible: Masks | None
) -> Boxes | None:
    """The boxes of sums; None where one is not known to be deterministic.

    Args:
        layer: The layer.
        row: Its row.
        layers: Its inputs.
        exclusion: Their boxes, and comparisons of their units; the terms of this layer are added to it.
        possible: Which weights may be above zero, `(O, N)`; None where all may.
    """
    assert isinstance(row, SumRow), "what is no input and no product is a sum"
    if not isinstance(row.choose, Choice):
        return None
    outputs, inputs = layer.num_output_units, [exclusion.boxes[input_layer] for input_layer in layers]
    units = [(input_layer, unit) for input_layer in layers for unit in range(input_layer.num_output_units)]
    terms: list[list[Unit]] = []
    reads = np.asarray(row.choose.reads(layer))
    reads = np.broadcast_to(reads, (outputs, reads.shape[1]))
    common = [variable for variable in inputs[0] if all(variable in box for box in inputs)]
    widths = {variable: max(box[variable].shape[1] for box in inputs) for variable in common}
    masks = {v: np.concatenate([_padded(box[v], widths[v]) for box in inputs]) for v in common}
    boxes = {variable: np.zeros((outputs, width), bool) for variable, width in widths.items()}
    for unit in range(outputs):
        read = reads[unit] if possible is None else reads[unit][possible[unit]]
        may_overlap = ~np.eye(len(read), dtype=bool)
        for variable in common:
            mask = masks[variable][read]
            boxes[variable][unit] = mask.any(axis=0)
            may_overlap &= mask.astype(np.float32) @ mask.T.astype(np.float32) > 0
        terms.append([units[index] for index in read])
        if not common and may_overlap.any():  # nothing is known of any unit
            return None
        for first, second in np.argwhere(np.triu(may_overlap)):
            if not exclusion.excludes(terms[-1][first], terms[-1][second]):
                return None
    exclusion.sums[layer] = terms
    return boxes


def _padded(mask: Masks, width: int) -> Masks:
    return np.pad(mask, ((0, 0), (0, width - mask.shape[1])))


def _known(folded: FoldedCircuit, layers: Iterable[Layer]) -> dict[Layer, Masks]:
    """For each layer of constants alone: the states of its variable `(K, C)`, or weights `(O, N)`, that are not 0."""
    fixed = [layer for layer in layers if _is_fixed(folded, layer)]
    if not fixed:
        return {}
    alone = single_groups(folded.circuit, folded.described, rows=folded.rows)
    groups = {group.representative: group for group in alone.groups}
    scope = LoweringScope(alone, LSE_SUM, DType.FLOAT64)
    with scope.trace.active():
        results = []
        for layer in fixed:
            params, row = scope.parameters(groups[layer]), folded.row(layer)
            if isinstance(row, InputRow) and isinstance(layer, InputLayer):
                states = xp.reshape(xp.arange(num_states(layer) or 0), (1, num_states(layer) or 0, 1))
                logs = LSE_SUM.to_log(xp, row.body(xp, LSE_SUM, layer, params, states))
                results.append(xp.matrix_transpose(logs))
            else:
                assert isinstance(row, SumRow), "nothing else is fixed"
                assert isinstance(row.choose, Choice), "nothing else is fixed"
                results.append(row.choose.log_weights(xp, layer, params))
    return dict(zip(fixed, _values(scope, results), strict=True))


def _values(scope: LoweringScope, results: Sequence[Tracer]) -> list[Masks]:
    program = scope.build(results)
    consts = [captured.value for captured in scope.captured if isinstance(captured, Constant)]
    assert len(consts) == len(program.consts), "constants need no tensors"
    return [np.asarray(value)[0] != -np.inf for value in interpret_program(program, OPS, [], consts)]


def _is_fixed(folded: FoldedCircuit, layer: Layer) -> bool:
    row = folded.row(layer)
    can_be_fixed = isinstance(row, SumRow) and isinstance(row.choose, Choice)
    if isinstance(row, InputRow) and isinstance(layer, InputLayer):
        can_be_fixed = bool(layer.num_variables) and num_states(layer) is not None
    return can_be_fixed and all(
        len(parameter.outputs) == 1 and isinstance(dereferenced(parameter.output), ConstantParameter)
        for parameter in layer.all_evaluated_params.values()
    )
