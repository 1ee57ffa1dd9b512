"""Builds a circuit from a region graph: an input layer for each input region, a few layers for each partition.

>>> from plica.symbolic.layers import CategoricalLayer
>>> from plica.templates.region_graph import QuadTree
>>> def coin(scope, units):
...     return CategoricalLayer(scope, units, num_categories=2)
>>> QuadTree((1, 2, 2)).build_circuit(input_factory=coin, sum_product="tucker", num_input_units=2, num_sum_units=3)
Circuit(10 layers, 4 variables, 1 output(s) of 1 unit(s))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from plica.arguments import found, function, known, shown
from plica.errors import DTypeError, InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, InputLayer, KroneckerLayer, Layer, SumLayer
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.parameterization import InputFactory
from plica.templates.region_graph.nodes import RegionNode

LayerFactory: TypeAlias = Callable[[int, int], Layer]


@dataclass(frozen=True, slots=True)
class Family:
    """The layers that a partition becomes.

    Args:
        product: Makes the product layer from the number of input units and the arity.
        sum: Makes a sum layer from the numbers of input and output units.
        sums_first: Whether there is a sum for each part before the product, instead of one sum after it.
    """

    product: LayerFactory
    sum: LayerFactory
    sums_first: bool


# name: (product layer, sums before the product)
FAMILIES: dict[str, tuple[LayerFactory, bool]] = {
    "cp": (HadamardLayer, True),
    "cp-t": (HadamardLayer, False),
    "tucker": (KroneckerLayer, False),
}


def choose_family(
    sum_product: str | None,
    sum_factory: LayerFactory | None,
    prod_factory: LayerFactory | None,
    sum_weight_factory: ParameterFactory | None,
) -> Family:
    """The family of that name, or that of the given factories, whose sum follows the product."""
    if sum_product is None:
        if sum_factory is None or prod_factory is None:
            raise InputError(
                f"build_circuit: pass sum_product (one of {', '.join(FAMILIES)}), or both sum_factory and prod_factory"
            )
        sums = function("build_circuit", "sum_factory", sum_factory)
        return Family(function("build_circuit", "prod_factory", prod_factory), sums, sums_first=False)
    if sum_factory is not None or prod_factory is not None:
        raise InputError("build_circuit: sum_product excludes sum_factory and prod_factory; pass one or the other")
    if not known(sum_product, FAMILIES):
        raise InputError(f"build_circuit: sum_product must be one of {', '.join(FAMILIES)}; found {shown(sum_product)}")
    product, sums_first = FAMILIES[sum_product]
    return Family(product, partial(SumLayer, weight_factory=sum_weight_factory), sums_first)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of `RegionGraph.build_circuit`."""

    input_factory: InputFactory | Mapping[Scope, InputFactory]
    family: Family
    sum_weight_factory: ParameterFactory | None
    nary_sum_weight_factory: ParameterFactory | None
    num_input_units: int
    num_sum_units: int
    num_classes: int
    factorize_multivariate: bool


def build_circuit(
    partitions: Mapping[RegionNode, Sequence[Sequence[RegionNode]]], roots: Sequence[RegionNode], options: BuildOptions
) -> Circuit:
    """The circuit of a region graph, its layers in the order of the regions.

    Args:
        partitions: For each region, after its parts, the parts of each of its partitions.
        roots: The regions whose layers are the outputs.
        options: How regions and partitions become layers.
    """
    stack = _Stack(options)
    layers: dict[RegionNode, Layer] = {}
    for region, splits in partitions.items():
        inputs = [[layers[part] for part in parts] for parts in splits]
        root = region in roots
        if not inputs:
            layers[region] = stack.input_region(region.scope, root)
        elif options.family.sums_first:
            layers[region] = stack.sums_first_region(inputs, root)
        else:
            layers[region] = stack.product_first_region(inputs, root)
    return Circuit(stack.in_layers, stack.in_layers, [layers[root] for root in roots])


@dataclass(slots=True)
class _Stack:
    """The layers made so far, with their inputs."""

    options: BuildOptions
    in_layers: dict[Layer, tuple[Layer, ...]] = field(default_factory=dict)

    def push(self, layer: Layer, *inputs: Layer) -> Layer:
        if not isinstance(layer, Layer):
            raise DTypeError(f"build_circuit: sum_factory and prod_factory make layers, {found(layer)}")
        self.in_layers[layer] = inputs
        return layer

    def input_region(self, scope: Scope, root: bool) -> Layer:
        """An input layer, or a product of one for each variable; at the root, with a sum above it."""
        units = self.options.num_input_units
        if self.options.factorize_multivariate and len(scope) > 1:
            inputs = [self.input_layer(Scope([variable]), scope) for variable in scope]
            layer = self.push(HadamardLayer(units, len(inputs)), *inputs)
        else:
            layer = self.input_layer(scope, scope)
        return self.summed(layer, self.options.num_classes) if root else layer

    def input_layer(self, scope: Scope, region: Scope) -> Layer:
        """The input layer of a scope within an input region, made by the factory of the scope, else of the region."""
        factory = self.options.input_factory
        if isinstance(factory, Mapping):
            chosen = factory.get(scope) or factory.get(region)
            if chosen is None:
                raise InputError(
                    f"build_circuit: input_factory has no entry for the input region {region!s}; it has "
                    f"{', '.join(map(str, factory)) or 'none'}; the keys are scopes, as in {{Scope([0]): ...}}"
                )
            factory = chosen
        layer = function("build_circuit", "input_factory", factory)(scope, self.options.num_input_units)
        if not isinstance(layer, InputLayer):
            raise DTypeError(f"build_circuit: input_factory gave {layer!r} for {scope!s}; expected an input layer")
        if not layer.scope <= scope:
            raise InputError(
                f"build_circuit: input_factory was asked for an input layer of {scope!s} and gave {layer}; pass on the "
                "scope that it is given"
            )
        return self.push(layer)

    def sums_first_region(self, partitions: list[list[Layer]], root: bool) -> Layer:
        """For each partition a Hadamard product of sums, at the root with another sum; and a sum over partitions."""
        units = self.options.num_sum_units
        products = [self.product([self.summed(part, units) for part in parts]) for parts in partitions]
        return self.mixed(
            [self.summed(product, self.options.num_classes) for product in products] if root else products
        )

    def product_first_region(self, partitions: list[list[Layer]], root: bool) -> Layer:
        """A product and a sum for each partition, and a sum over several partitions."""
        units = self.options.num_classes if root else self.options.num_sum_units
        return self.mixed([self.summed(self.product(self.aligned(parts)), units) for parts in partitions])

    def aligned(self, parts: list[Layer]) -> list[Layer]:
        """The parts, with sums to `num_sum_units` units added if their numbers of units differ."""
        units = self.options.num_sum_units
        if len({part.num_output_units for part in parts}) == 1:
            return parts
        return [part if part.num_output_units == units else self.summed(part, units) for part in parts]

    def product(self, parts: Sequence[Layer]) -> Layer:
        return self.push(self.options.family.product(parts[0].num_output_units, len(parts)), *parts)

    def summed(self, layer: Layer, units: int) -> Layer:
        return self.push(self.options.family.sum(layer.num_output_units, units), layer)

    def mixed(self, layers: list[Layer]) -> Layer:
        """The sum of several layers into as many units; a single layer is returned unchanged."""
        if len(layers) == 1:
            return layers[0]
        units, factory = layers[0].num_output_units, self.options.nary_sum_weight_factory
        return self.push(SumLayer(units, units, len(layers), weight_factory=factory), *layers)
