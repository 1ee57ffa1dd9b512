"""Flat products: nested product layers as one product of layers that are no products, and where their units stand.

The units of a product are laid out on axes, the last one fastest. Each factor reads its own unit along some of the
axes. The factors of a Hadamard product share one axis; each factor of a Kronecker product has an axis of its own.

>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer, KroneckerLayer
>>> x, y, z = (CategoricalLayer([v], units, num_categories=2) for v, units in enumerate((2, 2, 4)))
>>> pair, product = KroneckerLayer(2), HadamardLayer(4)
>>> flat = flat_product(product, {pair: (x, y), product: (pair, z)}.__getitem__)
>>> flat.sizes, flat.axes
((2, 2), ((0,), (1,), (0, 1)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, final

from plica.symbolic.layers import HadamardLayer, KroneckerLayer, Layer, OuterProductLayer, ProductLayer, TransposeLayer

Axes: TypeAlias = tuple[int, ...]
Layout: TypeAlias = tuple[tuple[int, ...], tuple[Axes, ...]]
"""The sizes of a product's axes, and the axes of each of its inputs."""


@final
@dataclass(frozen=True, slots=True)
class FlatProduct:
    """A product of factors; unit `e` of it multiplies unit `[e[axis] for axis in axes[i]]` of each factor i.

    Args:
        sizes: The sizes of the axes of its units, the last axis fastest.
        factors: The layers that are multiplied.
        axes: The axes along which the units of each factor are laid out, in this order.
    """

    sizes: tuple[int, ...]
    factors: tuple[Layer, ...]
    axes: tuple[Axes, ...]

    @property
    def num_output_units(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    def part(self, chosen: Sequence[int]) -> tuple[Operand, Axes]:
        """The product of some factors alone, and the axes of this product along which its units are laid out."""
        if len(chosen) == 1:
            return self.factors[chosen[0]], self.axes[chosen[0]]
        kept = tuple(sorted(dict.fromkeys(axis for at in chosen for axis in self.axes[at])))
        number = {axis: index for index, axis in enumerate(kept)}
        axes = tuple(tuple(number[axis] for axis in self.axes[at]) for at in chosen)
        part = FlatProduct(tuple(self.sizes[axis] for axis in kept), tuple(self.factors[at] for at in chosen), axes)
        return part, kept


Operand: TypeAlias = Layer | FlatProduct
"""What is multiplied: a layer that is no product, or a product that need not be a layer of the circuit."""


def _hadamard(layer: HadamardLayer) -> Layout:
    return (layer.num_input_units,), ((0,),) * layer.arity


def _outer(layer: KroneckerLayer | OuterProductLayer) -> Layout:
    return layer.input_widths, tuple((index,) for index in range(layer.arity))


def _transpose(layer: TransposeLayer) -> Layout:
    order = layer.axes
    return tuple(layer.sizes[axis] for axis in order), (tuple(order.index(axis) for axis in range(len(order))),)


LAYOUTS: dict[type[ProductLayer], Callable[[Any], Layout]] = {
    HadamardLayer: _hadamard,
    KroneckerLayer: _outer,
    OuterProductLayer: _outer,
    TransposeLayer: _transpose,
}
"""The layouts of product layers; a product of another class is never taken apart."""


def operand_of(layer: Layer, inputs: Callable[[Layer], Sequence[Layer]]) -> Operand:
    """A product layer as its flat product; any other layer itself."""
    if type(layer) not in LAYOUTS:
        return layer
    flat = flat_product(layer, inputs)
    is_one = len(flat.factors) == 1 and flat.axes[0] == tuple(range(len(flat.sizes)))
    return flat.factors[0] if is_one else flat


def flat_product(layer: Layer, inputs: Callable[[Layer], Sequence[Layer]]) -> FlatProduct:
    """A product layer with the products that it multiplies, and those that these multiply, taken apart.

    A product within stays whole if its axes and those of the product around it have no common refinement: an axis of 6
    units before one of 6, and an axis of 4 before one of 9.
    """
    sizes, axes = _without_ones(*LAYOUTS[type(layer)](layer))  # type: ignore[index]
    factors = list(zip(inputs(layer), axes, strict=True))
    at = 0
    while at < len(factors):
        factor, place = factors[at]
        if type(factor) not in LAYOUTS:
            at += 1
            continue
        inner_sizes, inner_axes = _without_ones(*LAYOUTS[type(factor)](factor))  # type: ignore[index]
        outer_sizes = tuple(sizes[axis] for axis in place)
        refined = _refinement(outer_sizes, inner_sizes)
        if refined is None:
            at += 1
            continue
        outer_runs, inner_runs, parts = refined
        if parts != outer_sizes:
            sizes, factors, place = _split(sizes, factors, place, outer_runs, parts)
        placed = [tuple(place[part] for axis in axes for part in inner_runs[axis]) for axes in inner_axes]
        factors[at : at + 1] = zip(inputs(factor), placed, strict=True)
    return FlatProduct(sizes, tuple(layer for layer, _ in factors), tuple(place for _, place in factors))


def _without_ones(sizes: tuple[int, ...], axes: tuple[Axes, ...]) -> Layout:
    """The layout without axes of size 1."""
    if 1 not in sizes:
        return sizes, axes
    kept = [axis for axis, size in enumerate(sizes) if size > 1]
    number = {axis: index for index, axis in enumerate(kept)}
    return tuple(sizes[axis] for axis in kept), tuple(
        tuple(number[axis] for axis in place if axis in number) for place in axes
    )


_Runs: TypeAlias = list[list[int]]


def _refinement(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[_Runs, _Runs, tuple[int, ...]] | None:
    """Sizes of axes that split both; for each axis of both, the new axes that replace it. None if there are none."""
    if first == second:
        alone = [[axis] for axis in range(len(first))]
        return alone, alone, first
    rests = [list(reversed(first)), list(reversed(second))]  # of each side, what is not split yet; the next axis last
    runs: list[_Runs] = [[[]], [[]]]
    parts: list[int] = []
    while rests[0]:
        part, larger = sorted(rest[-1] for rest in rests)
        if larger % part:
            return None
        for rest, run in zip(rests, runs, strict=True):
            run[-1].append(len(parts))
            rest[-1] //= part
            if rest[-1] == 1:
                rest.pop()
                run.append([])
        parts.append(part)
    return runs[0][:-1], runs[1][:-1], tuple(parts)


def _split(
    sizes: tuple[int, ...],
    factors: list[tuple[Layer, Axes]],
    place: Axes,
    runs: _Runs,
    parts: tuple[int, ...],
) -> tuple[tuple[int, ...], list[tuple[Layer, Axes]], Axes]:
    """Axes replaced by several: the new sizes, the factors on the new axes, and the new axes of `place`, in order."""
    run_of = dict(zip(place, runs, strict=True))
    new_sizes: list[int] = []
    new_axes: list[tuple[int, ...]] = []
    for axis, size in enumerate(sizes):
        split = [parts[part] for part in run_of[axis]] if axis in run_of else [size]
        new_axes.append(tuple(range(len(new_sizes), len(new_sizes) + len(split))))
        new_sizes += split

    def moved(axes: Axes) -> Axes:
        return tuple(new for axis in axes for new in new_axes[axis])

    return tuple(new_sizes), [(layer, moved(axes)) for layer, axes in factors], moved(place)
