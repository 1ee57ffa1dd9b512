"""Builds circuits for images and tables from names and settings.

>>> circuit = image_data((1, 4, 4), "quad-graph", input_layer="categorical", num_input_units=4,
...                      sum_product_layer="tucker", num_sum_units=4, num_values=2)
>>> circuit.num_variables, circuit.is_decomposable, circuit.is_structured_decomposable
(16, True, False)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.arguments import known, shown
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.scope import Scope
from plica.templates.inputs import input_factory
from plica.templates.parameterization import Parameterization, sum_weight_factories
from plica.templates.region_graph import (
    ChowLiuTree,
    LinearTree,
    PoonDomingos,
    QuadGraph,
    QuadTree,
    RandomBinaryTree,
    RegionGraph,
)
from plica.templates.region_graph.build import FAMILIES
from plica.templates.region_graph.quad import image_shape as checked_image_shape
from plica.templates.tabular import tabular_data

__all__ = ["IMAGE_REGION_GRAPHS", "image_data", "tabular_data"]


def _poon_domingos(shape: tuple[int, int, int]) -> RegionGraph:
    """A graph with cuts into at most eight pieces of the longer side; the pixels of a piece are independent."""
    return PoonDomingos(shape, delta=math.ceil(max(shape[1:]) / 8))


_FROM_DATA = "chow-liu-tree"  # the region graph that is made from data

IMAGE_REGION_GRAPHS: dict[str, Callable[[tuple[int, int, int]], RegionGraph]] = {
    "quad-tree-2": partial(QuadTree, num_patch_splits=2),
    "quad-tree-4": partial(QuadTree, num_patch_splits=4),
    "quad-graph": QuadGraph,
    "random-binary-tree": lambda shape: RandomBinaryTree(math.prod(shape)),
    "poon-domingos": _poon_domingos,
    "linear-tree": lambda shape: LinearTree(math.prod(shape)),
}


def image_data(
    image_shape: Sequence[int],
    region_graph: str = "quad-graph",
    *,
    input_layer: str,
    num_input_units: int,
    sum_product_layer: str,
    num_sum_units: int,
    num_classes: int = 1,
    input_params: Mapping[str, Parameterization] | None = None,
    sum_weight_param: Parameterization | None = None,
    use_mixing_weights: bool = True,
    data: Any = None,
    num_bins: int | None = None,
    mi_chunk_size: int | None = None,
    num_values: int = 256,
) -> Circuit:
    """A circuit over the pixels of images; variable `c*height*width + row*width + column` is a channel of a pixel.

    Args:
        image_shape: (channels, height, width).
        region_graph: quad-tree-2, quad-tree-4, quad-graph, random-binary-tree, poon-domingos, linear-tree, or
            chow-liu-tree, which needs data: by the pixels' mutual information where their values are counted, by their
            correlations elsewhere.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`, such as categorical, binomial or gaussian.
        num_input_units: The units of each input layer.
        sum_product_layer: cp, cp-t or tucker.
        num_sum_units: The units of each sum layer but the last.
        num_classes: The units of the output.
        input_params: How to make parameters of the input layers, by name, such as `{"logits": Parameterization()}`.
        sum_weight_param: How to make the weights of sums; softmax of normal draws by default.
        use_mixing_weights: Sum the partitions of a region unit by unit instead of all with all.
        data: Images for a chow-liu-tree, `(N, channels, height, width)` or rows `(N, variables)`.
        num_bins: Values that a chow-liu-tree counts: neighbouring ones joined, `num_values // num_bins` to a bin.
        mi_chunk_size: How many pairs of pixels a chow-liu-tree counts at once.
        num_values: The number of values of a pixel, for layers that count them.

    Raises:
        InputError: A name is not known, data for a chow-liu-tree is missing, or a value is none of a pixel.
        ShapeError: The image shape is none, or that of the data differs.
    """
    shape = checked_image_shape("image_data", image_shape)
    inputs = input_factory(input_layer, params=input_params, num_values=num_values)
    if known(region_graph, (_FROM_DATA,)):
        states = inputs(Scope([0]), 1).domain.num_states
        graph = _chow_liu_tree(_rows(data, math.prod(shape)), states, num_bins, mi_chunk_size)
    else:
        graph = _region_graph(region_graph)(shape)
    if not known(sum_product_layer, FAMILIES):
        raise InputError(f"unknown sum_product_layer {shown(sum_product_layer)}; expected one of {', '.join(FAMILIES)}")
    weights, mixing = sum_weight_factories(sum_weight_param, use_mixing_weights=use_mixing_weights)
    return graph.build_circuit(
        input_factory=inputs,
        sum_product=sum_product_layer,
        sum_weight_factory=weights,
        nary_sum_weight_factory=mixing,
        num_input_units=num_input_units,
        num_sum_units=num_sum_units,
        num_classes=num_classes,
    )


def _region_graph(name: str) -> Callable[[tuple[int, int, int]], RegionGraph]:
    if not known(name, IMAGE_REGION_GRAPHS):
        expected = ", ".join((*IMAGE_REGION_GRAPHS, _FROM_DATA))
        raise InputError(f"unknown region graph {shown(name)}; expected one of {expected}")
    return IMAGE_REGION_GRAPHS[name]


def _rows(data: Any, num_variables: int) -> NDArray[Any]:
    """A row for each image."""
    if data is None:
        raise InputError("image_data: a chow-liu-tree is made from data; pass data, or choose another region graph")
    images = np.asarray(data)
    if images.ndim < 2 or math.prod(images.shape[1:]) != num_variables:
        raise ShapeError(f"image_data: expected data of {num_variables} numbers for each image, found {images.shape}")
    return images.reshape(len(images), num_variables)


def _chow_liu_tree(
    rows: NDArray[Any], num_states: int | None, num_bins: int | None, chunk_size: int | None
) -> RegionGraph:
    if num_states is None:
        return ChowLiuTree(rows, "gaussian", chunk_size=chunk_size, num_bins=num_bins)
    return ChowLiuTree(rows, "categorical", chunk_size=chunk_size, num_categories=num_states, cat_bins=num_bins)
