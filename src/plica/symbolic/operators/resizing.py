"""Circuits with fewer or more units in each layer: units are dropped, or copied.

Units that a product multiplies one by one are dropped or copied together: such layers are a *group*. Outputs keep their
units, and so do layers of other kinds than sums, products and input layers, with all that they read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, HistogramLayer, InputLayer, KroneckerLayer, Layer, SumLayer
from plica.symbolic.operators.selected_parameters import Selection
from plica.symbolic.parameters import MixingWeightParameter, Parameter, TensorParameter, dereferenced

Array: TypeAlias = NDArray[Any]

_FOR_ALL_UNITS: Mapping[type[Layer], Sequence[str]] = {HistogramLayer: ("edges",)}  # parameters that all units share


@final
@dataclass(slots=True, eq=False)
class Groups:
    """The layers of a circuit whose units are dropped or copied together.

    Attributes:
        circuit: The circuit.
        group_of: The number of the group of each layer.
        members: The layers of each group, in the circuit's order.
        whole: Whether the units of each group stay.
    """

    circuit: Circuit
    group_of: dict[Layer, int] = field(init=False)
    members: list[list[Layer]] = field(init=False)
    whole: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self._join()
        self.whole = [False] * len(self.members)
        edges: list[list[int]] = [[] for _ in self.members]  # from a group that stays whole to others that do then
        stay = list(self.circuit.outputs)
        for layer in self.circuit.layers:
            inputs = self.circuit.layer_inputs(layer)
            if isinstance(layer, KroneckerLayer):
                edges[self.group_of[layer]] += [self.group_of[child] for child in inputs]
                if len(self.members[self.group_of[layer]]) > 1:
                    stay.append(layer)
            elif not (isinstance(layer, HadamardLayer | SumLayer) or _is_by_units(layer)):
                stay += [layer, *inputs]
            if isinstance(layer, KroneckerLayer | SumLayer):  # its inputs are equally wide
                for first, second in pairwise(inputs):
                    ends = [self.group_of[first], self.group_of[second]]
                    if isinstance(first, KroneckerLayer) != isinstance(second, KroneckerLayer):
                        stay += [first, second]
                    edges[ends[0]].append(ends[1])
                    edges[ends[1]].append(ends[0])
        todo = [self.group_of[layer] for layer in stay]
        while todo:
            group = todo.pop()
            if not self.whole[group]:
                self.whole[group] = True
                todo += edges[group]

    def _join(self) -> None:
        layers = list(self.circuit.layers)
        numbers = {layer: number for number, layer in enumerate(layers)}
        parents = list(range(len(layers)))

        def root(number: int) -> int:
            while parents[number] != number:
                parents[number] = parents[parents[number]]
                number = parents[number]
            return number

        for layer in layers:
            if isinstance(layer, HadamardLayer) or (isinstance(layer, SumLayer) and layer.mixing):
                for child in self.circuit.layer_inputs(layer):
                    first, second = sorted((root(numbers[layer]), root(numbers[child])))
                    parents[second] = first
        groups: dict[int, list[Layer]] = {}
        for layer in layers:
            groups.setdefault(root(numbers[layer]), []).append(layer)
        self.members = list(groups.values())
        self.group_of = {layer: number for number, members in enumerate(self.members) for layer in members}


def resized(
    groups: Groups,
    units_of: Callable[[int], Array],
    values: Mapping[TensorParameter, Array],
    *,
    noise: float = 0.0,
    seed: int = 0,
) -> Circuit:
    """The circuit of chosen units.

    Args:
        groups: The groups of the circuit.
        units_of: For a group by its number, which units of its layers the new layers have, in order. It is not asked
            for groups that stay whole.
        values: The values of the tensors.
        noise: The standard deviation of noise of learned numbers.
        seed: The seed of the noise.

    Raises:
        InputError: All groups stay whole, or a tensor has no value.
    """
    circuit = groups.circuit
    if all(groups.whole):
        raise InputError(
            "the circuit has no units that could be dropped or copied: outputs keep their units, and so does what they "
            "multiply; put a SumLayer of one unit on top"
        )
    selection = Selection(values, noise, np.random.default_rng(seed))
    sources: dict[int, Array] = {}
    layers: dict[Layer, list[Layer]] = {}
    images: dict[Layer, Layer] = {}
    for layer in circuit.layers:
        group = groups.group_of[layer]
        inputs = circuit.layer_inputs(layer)
        if isinstance(layer, KroneckerLayer) and not groups.whole[group]:
            sources[group] = _pairs([sources[groups.group_of[child]] for child in inputs], layer.num_input_units)
        elif group not in sources:
            everything = np.arange(groups.members[group][0].num_output_units)
            sources[group] = everything if groups.whole[group] else units_of(group)
        images[layer] = _image(layer, sources[group], [sources[groups.group_of[child]] for child in inputs], selection)
        layers[images[layer]] = [images[child] for child in inputs]
    return Circuit(layers, layers, [images[layer] for layer in circuit.outputs])


def unit_flows(groups: Groups, flows: Mapping[Any, Any]) -> list[Array]:
    """The expected counts of each unit of each group: the sum over its layers.

    Args:
        groups: The groups of a circuit.
        flows: For each sum layer, or the tensor of its weight, the expected count of each weight: `(O, H*I)`; of a
            layer that mixes unit by unit `(K, H)` will do.

    Raises:
        InputError: A sum layer has no counts, or they are negative or not finite.
        ShapeError: Counts of another shape than the weight.
    """
    circuit = groups.circuit
    counts = {layer: np.zeros(layer.num_output_units) for layer in circuit.layers}
    for layer in reversed(circuit.layers):
        inputs = circuit.layer_inputs(layer)
        if isinstance(layer, SumLayer):
            of_weight = _flows_of(circuit, layer, flows)
            for number, child in enumerate(inputs):
                width = layer.num_input_units
                counts[child] += of_weight[:, number * width : (number + 1) * width].sum(axis=0)
        elif isinstance(layer, KroneckerLayer):
            table = counts[layer].reshape((layer.num_input_units,) * layer.arity)
            for axis, child in enumerate(inputs):
                counts[child] += table.sum(axis=tuple(other for other in range(layer.arity) if other != axis))
        else:
            for child in inputs:
                if child.num_output_units == layer.num_output_units:
                    counts[child] += counts[layer]
    totals = []
    for members in groups.members:
        total = np.zeros(members[0].num_output_units)
        for layer in members:
            total += counts[layer]
        totals.append(total)
    return totals


def _flows_of(circuit: Circuit, layer: SumLayer, flows: Mapping[Any, Any]) -> Array:
    """The expected counts `(O, H*I)` of the weights of a layer."""
    name = circuit.layer_name(layer)
    keys = [layer, *(dereferenced(leaf) for leaf in layer.weight.leaves)]
    key = next((key for key in keys if key in flows), None)
    if key is None:
        raise InputError(
            f"prune: there are no flows for {name}; pass those of all sum layers, as plica.learn.flows does"
        )
    counts = np.asarray(flows[key], dtype=np.float64)
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise InputError(f"prune: the flows of {name} are negative or not finite; expected counts are neither")
    if layer.mixing and counts.shape == (layer.num_output_units, layer.arity):
        return np.concatenate([np.diag(column) for column in counts.T], axis=1)
    if counts.shape != layer.weight.shape:
        raise ShapeError(f"prune: expected flows of shape {layer.weight.shape} for {name}, found {counts.shape}")
    return counts


def _is_by_units(layer: Layer) -> bool:
    """Whether an input layer can be made of some of its units: its parameters have an entry for each unit."""
    return (
        isinstance(layer, InputLayer)
        and not layer.sub_layers
        and not layer.opaque
        and "num_output_units" in layer.config
        and all(
            len(parameter.outputs) == 1 and parameter.shape[:1] == (layer.num_output_units,)
            for name, parameter in layer.params.items()
            if name not in _FOR_ALL_UNITS.get(type(layer), ())
        )
    )


def _pairs(sources: Sequence[Array], width: int) -> Array:
    """The units of a Kronecker product of some units, the first input slowest."""
    units = np.zeros(1, dtype=np.int64)
    for source in sources:
        units = (units[:, None] * width + source).ravel()
    return units


def _image(layer: Layer, source: Array, sources: Sequence[Array], selection: Selection) -> Layer:
    """The layer of some of the units of a layer, which reads some of the units of its inputs."""
    if isinstance(layer, HadamardLayer):
        return HadamardLayer(len(source), layer.arity)
    if isinstance(layer, KroneckerLayer):
        return KroneckerLayer(len(sources[0]), layer.arity)
    if isinstance(layer, SumLayer):
        weight = _mixing(layer, source, selection) if layer.mixing else _weight(layer, source, sources, selection)
        return SumLayer(len(sources[0]), len(source), layer.arity, weight)
    if not _is_by_units(layer):  # it stays whole
        return layer.with_params({name: selection.whole(parameter) for name, parameter in layer.all_params.items()})
    for_all = _FOR_ALL_UNITS.get(type(layer), ())
    params = {
        name: selection.whole(parameter) if name in for_all else selection.units(parameter, source)
        for name, parameter in layer.params.items()
    }
    return type(layer)(**{**layer.config, "num_output_units": len(source)}, **params)


def _weight(layer: SumLayer, source: Array, sources: Sequence[Array], selection: Selection) -> Parameter:
    width = layer.num_input_units
    columns = np.concatenate([number * width + units for number, units in enumerate(sources)])
    copies = np.bincount(columns, minlength=layer.arity * width)[columns].astype(np.float64)
    return selection.weight(layer.weight, source, columns, copies)


def _mixing(layer: SumLayer, source: Array, selection: Selection) -> Parameter:
    """Rows of the `(K, H)` weights of a layer that mixes unit by unit."""
    rows = selection.units(layer.evaluated_params["weight"], source)
    return Parameter.from_unary(MixingWeightParameter(rows.shape), rows)
