"""Circuits of layers that rules fuse and shatter, or nearly do."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, SumLayer, TensorDotLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    MixingWeightParameter,
    Parameter,
    softmax_normal,
)
from tests.harness.circuits import chain, coin, constant
from tests.harness.layer_cases.sum import mixing
from tests.harness.rule_cases.case import fixed, kronecker, of


def inputs(count: int, units: int) -> list[Any]:
    """Input layers over variables of their own."""
    return [coin([variable], units, 3) for variable in range(count)]


def two_readers(product: Any) -> Circuit:
    """Two sums read one product."""
    leaves = inputs(2, product.num_input_units)
    first, second = (SumLayer(product.num_output_units, 2) for _ in range(2))
    total = SumLayer(2, 1, 2)
    edges: dict[Any, Any] = {product: leaves, first: [product], second: [product], total: [first, second]}
    return Circuit([*leaves, *edges], edges, [total])


def product_is_output(product: Any) -> Circuit:
    """A product under a sum is an output as well."""
    leaves, units = inputs(2, product.num_input_units), product.num_output_units
    total = SumLayer(units, units)
    edges: dict[Any, Any] = {product: leaves, total: [product]}
    return Circuit([*leaves, *edges], edges, [total, product])


def mixed_products(product: Callable[[], Any]) -> Circuit:
    """A mixing sum over two products."""
    leaves, first, second = inputs(2, 3), product(), product()
    units = first.num_output_units
    total = SumLayer(units, units, 2, weight_factory=mixing)
    edges: dict[Any, Any] = {first: leaves, second: leaves, total: [first, second]}
    return Circuit([*leaves, *edges], edges, [total])


def mixed_sums_of_products() -> Circuit:
    """A mixing sum over two dense sums, each over a product."""
    leaves, products, sums = inputs(2, 3), [HadamardLayer(3, 2) for _ in range(2)], [SumLayer(3, 3) for _ in range(2)]
    total = mixes(2)
    edges: dict[Any, Any] = dict.fromkeys(products, leaves)
    edges |= {one: [product] for one, product in zip(sums, products, strict=True)} | {total: sums}
    return Circuit([*leaves, *edges], edges, [total])


def one_mixed_product(product: Any) -> Circuit:
    """A mixing sum over one product."""
    leaves, units = inputs(2, product.num_input_units), product.num_output_units
    total = SumLayer(units, units, 1, weight_factory=mixing)
    return Circuit([*leaves, product, total], {product: leaves, total: [product]}, [total])


def sums_over_two() -> Circuit:
    """A sum of one sum of two inputs."""
    leaves = [coin([0], 3, 3) for _ in range(2)]
    inner, outer = SumLayer(3, 4, 2), SumLayer(4, 1)
    return Circuit([*leaves, inner, outer], {inner: leaves, outer: [inner]}, [outer])


def laid_out(*layers: Any) -> Circuit:
    """A sum of some layers one after another, the first of which reads input layers of the widths it expects."""
    first, *others = layers
    leaves = [coin([variable], units, 3) for variable, units in enumerate(first.input_widths)]
    total = SumLayer(layers[-1].num_output_units, 2)
    edges: dict[Any, Any] = {first: leaves}
    for above, below in zip((*others, total), layers, strict=True):
        edges[above] = [below]
    return Circuit([*leaves, *edges], edges, [total])


def over(outer: Any, *inner: Any) -> Circuit:
    """A layer over others, each of which, unless it is an input layer, reads input layers of its own."""
    edges: dict[Any, Any] = {}
    for layer in inner:
        if isinstance(layer, SumLayer):
            edges[layer] = [coin([0], layer.num_input_units, 3) for _ in range(layer.arity)]
        elif layer.arity:
            edges[layer] = inputs(layer.arity, layer.num_input_units)
    leaves = [leaf for read in edges.values() for leaf in read]
    edges[outer] = inner
    return Circuit([*leaves, *(one for one in inner if not one.arity), *edges], edges, [outer])


def sum_over(*inner: Any, units: int = 2, weight: Any = None) -> Circuit:
    """A sum over others."""
    return over(SumLayer(inner[0].num_output_units, units, len(inner), weight), *inner)


def mixes(arity: int, weight: float | None = None) -> SumLayer:
    """A mixing sum of 3 units, with one weight throughout where it is given."""
    if weight is None:
        return SumLayer(3, 3, arity, weight_factory=mixing)
    return SumLayer(3, 3, arity, of(fixed(weight, (3, arity)), MixingWeightParameter((3, arity))))


def nested_products(output: bool = False) -> Circuit:
    """Products of products, the inner one an output as well where asked for."""
    leaves = inputs(5, 2)
    first, second, third = HadamardLayer(2, 2), HadamardLayer(2, 2), HadamardLayer(2, 3)
    edges: dict[Any, list[Any]] = {
        first: leaves[:2],
        second: [leaves[2], first],
        third: [leaves[3], second, leaves[4]],
    }
    return Circuit([*leaves, *edges], edges, [third, first, second] if output else [third])


def identity_of_two() -> Circuit:
    """The identity over the units of two inputs."""
    leaves = [coin([0], 2) for _ in range(2)]
    total = SumLayer(2, 4, 2, weight=constant(np.eye(4)))
    return Circuit([*leaves, total], {total: leaves}, [total])


def mixing_constant(value: float) -> Parameter:
    """One number for each unit of one input."""
    return Parameter.from_unary(MixingWeightParameter((3, 1)), ConstantParameter(3, 1, value=value))


def dot(*factors: Parameter, left: int = 2, right: int = 3) -> Circuit:
    """A tensor-dot layer with a Kronecker weight."""
    weight = kronecker(*factors)
    sums, units = weight.shape
    layer = TensorDotLayer(left, units, right, sums, weight)
    return chain(coin([0], layer.num_input_units, 3), layer)


def shared_blocks(arity: int, first: tuple[int, int], second: tuple[int, int]) -> Circuit:
    """A sum of several inputs with a Kronecker weight."""
    weight = kronecker(softmax_normal(first), softmax_normal(second))
    sums, total = weight.shape
    return over(SumLayer(total // arity, sums, arity, weight), *(coin([0], total // arity, 3) for _ in range(arity)))
