"""The parts of new circuits: layers that are copied by reference, blocks of rules, and products laid out on axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import final

from plica.errors import ShapeError
from plica.graph.order import topological_order
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import (
    CircuitBlock,
    ConstantValueLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    OuterProductLayer,
    TransposeLayer,
)
from plica.symbolic.operators.flat_products import Axes, Operand
from plica.symbolic.scope import Scope

Factor = tuple[Layer, Axes]
"""A layer, and the axes along which its units are laid out, in this order."""


Factored = tuple[tuple[Circuit, Operand], tuple[Circuit, Operand]]
"""The two operands whose units a layer multiplies (`Circuit.factors`)."""


@final
@dataclass(slots=True)
class Builder:
    """The layers of a new circuit, each after its inputs.

    Attributes:
        inputs: The inputs of each layer.
        factors: The operands of layers that are products (`Circuit.factors`).
    """

    inputs: dict[Layer, tuple[Layer, ...]] = field(default_factory=dict)
    factors: dict[Layer, Factored] = field(default_factory=dict)
    _copies: dict[tuple[Circuit, Layer], Layer] = field(default_factory=dict)
    _ones: dict[int, Layer] = field(default_factory=dict)

    def add(self, layer: Layer, *inputs: Layer) -> Layer:
        """A new layer and the layers that it reads."""
        self.inputs[layer] = inputs
        return layer

    def add_block(self, block: CircuitBlock, inputs: Sequence[Layer] = ()) -> Layer:
        """The layers of a block, whose open inner layer reads some inputs; the output of the block.

        Raises:
            ShapeError: The block leaves another number of inner layers open.
        """
        opened = block.inputs
        if len(opened) != bool(inputs):
            raise ShapeError(
                f"the block that a rule gave leaves {len(opened)} inner layer(s) without inputs, expected "
                f"{int(bool(inputs))}; list the inputs of the others in its in_layers"
            )
        edges = {**block.in_layers, **dict.fromkeys(opened, inputs)}
        for layer in block.layers:
            self.add(layer, *edges.get(layer, ()))
        return block.output

    def copy(self, circuit: Circuit, layer: Layer) -> Layer:
        """The copy of a layer of a circuit with all that it reads; a second call returns the same one."""

        def uncopied(layer: Layer) -> Sequence[Layer]:
            return () if (circuit, layer) in self._copies else circuit.layer_inputs(layer)

        for found in topological_order([layer], uncopied):
            if (circuit, found) not in self._copies:
                inputs = [self._copies[circuit, child] for child in circuit.layer_inputs(found)]
                self._copies[circuit, found] = self.add(found.copyref(), *inputs)
                self.keep_factors(circuit, found, self._copies[circuit, found])
        return self._copies[circuit, layer]

    def keep_factors(self, circuit: Circuit, layer: Layer, image: Layer) -> None:
        """Remember the operands of a layer for its image, which has the same value."""
        if layer in circuit.factors:
            self.factors.setdefault(image, circuit.factors[layer])

    def circuit(
        self, outputs: Iterable[Layer], operation: CircuitOperation, data_scope: Scope | None = None
    ) -> Circuit:
        """The circuit of all that the outputs read."""
        kept = list(outputs)
        layers = topological_order(kept, self.inputs.__getitem__)
        edges = {layer: self.inputs[layer] for layer in layers if self.inputs[layer]}
        factors = {layer: self.factors[layer] for layer in layers if layer in self.factors}
        return Circuit.from_operation(layers, edges, kept, operation=operation, data_scope=data_scope, factors=factors)

    def product(self, factors: Sequence[Factor], sizes: Sequence[int]) -> Layer:
        """The product of some factors, whose units are laid out on the axes `0 .. len(sizes) - 1` in order.

        Factors with the same axes are multiplied unit by unit, those without a common axis by an outer product. A
        factor that lacks some axes of another one is first repeated along them.
        """
        kept = [axis for axis, size in enumerate(sizes) if size > 1]
        groups: dict[Axes, list[Layer]] = {}
        for layer, axes in factors:
            in_order = self._transposed((layer, tuple(axis for axis in axes if axis in kept)), sizes)
            groups.setdefault(in_order[1], []).append(in_order[0])
        rest = [(self._hadamard(layers), axes) for axes, layers in groups.items()]
        apart: list[Factor] = []
        while rest:
            together, rest = _overlapping(rest)
            apart.append(self._spread(together, sizes) if len(together) > 1 else together[0])
        return self._transposed(self._outer(sorted(apart, key=lambda factor: factor[1])), sizes)[0]

    def _hadamard(self, layers: Sequence[Layer]) -> Layer:
        if len(layers) == 1:
            return layers[0]
        return self.add(HadamardLayer(layers[0].num_output_units, len(layers)), *layers)

    def _outer(self, factors: Sequence[Factor]) -> Factor:
        """The outer product of factors without a common axis; its axes in their order."""
        if len(factors) == 1:
            return factors[0]
        layers = [layer for layer, _ in factors]
        widths = [layer.num_output_units for layer in layers]
        alike = len(dict.fromkeys(widths)) == 1
        product = KroneckerLayer(widths[0], len(widths)) if alike else OuterProductLayer(widths)
        return self.add(product, *layers), tuple(axis for _, axes in factors for axis in axes)

    def _transposed(self, factor: Factor, sizes: Sequence[int]) -> Factor:
        """A factor with its axes in ascending order."""
        layer, axes = factor
        order = tuple(sorted(axes))
        if axes == order:
            return factor
        runs = _runs(axes)  # axes that stay neighbours are one axis
        places = sorted(range(len(runs)), key=lambda run: runs[run][0])
        run_sizes = [prod(sizes[axis] for axis in run) for run in runs]
        return self.add(TransposeLayer(run_sizes, places), layer), order

    def _spread(self, factors: Sequence[Factor], sizes: Sequence[int]) -> Factor:
        """Factors that share axes, each on all axes of any, multiplied unit by unit."""
        every = tuple(sorted(dict.fromkeys(axis for _, axes in factors for axis in axes)))
        rest, layers = list(factors), []
        while rest:
            first, *rest = rest
            lacking = [axis for axis in every if axis not in first[1]]
            joined = [first]
            for factor in list(rest):
                if factor[1] and all(axis in lacking for axis in factor[1]):  # instead of numbers 1
                    joined.append(factor)
                    rest.remove(factor)
                    lacking = [axis for axis in lacking if axis not in factor[1]]
            if lacking:
                joined.append((self._constant_ones(prod(sizes[axis] for axis in lacking)), tuple(lacking)))
            layers.append(self._transposed(self._outer(joined), sizes)[0])
        return self._hadamard(layers), every

    def _constant_ones(self, units: int) -> Layer:
        if units not in self._ones:
            self._ones[units] = self.add(ConstantValueLayer(units, value=1.0))
        return self._ones[units]


def _overlapping(factors: Sequence[Factor]) -> tuple[list[Factor], list[Factor]]:
    """The factors that share axes with the first one, by way of others or not, and the rest."""
    first, *rest = factors
    together, axes = [first], dict.fromkeys(first[1])
    while True:
        near = [factor for factor in rest if any(axis in axes for axis in factor[1])]
        if not near:
            return together, rest
        together += near
        axes |= dict.fromkeys(axis for factor in near for axis in factor[1])
        rest = [factor for factor in rest if factor not in near]


def _runs(axes: Axes) -> list[list[int]]:
    """The axes in runs, each of axes that are neighbours in ascending order among these axes too."""
    order = {axis: index for index, axis in enumerate(sorted(axes))}
    runs: list[list[int]] = []
    for axis in axes:
        if runs and order[axis] == order[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs
