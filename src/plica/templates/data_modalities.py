"""Circuits for kinds of data, from a few words.

>>> circuit = image_data((1, 4, 4), "quad-graph", input_layer="categorical", num_input_units=4,
...                      sum_product_layer="tucker", num_sum_units=4, num_values=2)
>>> circuit.num_variables, circuit.is_decomposable, circuit.is_structured_decomposable
(16, True, False)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from plica.arguments import known, shown
from plica.errors import InputError
from plica.symbolic.circuit import Circuit
from plica.templates.inputs import input_factory
from plica.templates.parameterization import Parameterization, sum_weight_factories
from plica.templates.region_graph import PoonDomingos, QuadGraph, QuadTree, RandomBinaryTree, RegionGraph
from plica.templates.region_graph.build import FAMILIES
from plica.templates.region_graph.quad import image_shape as checked_image_shape
from plica.templates.tabular import tabular_data

__all__ = ["IMAGE_REGION_GRAPHS", "image_data", "tabular_data"]


def _poon_domingos(shape: tuple[int, int, int]) -> RegionGraph:
    """Cuts that leave at most eight pieces of the longer side; what no cut goes through are independent pixels."""
    return PoonDomingos(shape, delta=math.ceil(max(shape[1:]) / 8))


IMAGE_REGION_GRAPHS: dict[str, Callable[[tuple[int, int, int]], RegionGraph]] = {
    "quad-tree-2": partial(QuadTree, num_patch_splits=2),
    "quad-tree-4": partial(QuadTree, num_patch_splits=4),
    "quad-graph": QuadGraph,
    "random-binary-tree": lambda shape: RandomBinaryTree(math.prod(shape)),
    "poon-domingos": _poon_domingos,
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
    num_values: int = 256,
) -> Circuit:
    """A circuit over the pixels of images; variable `c*height*width + row*width + column` is a channel of a pixel.

    Args:
        image_shape: (channels, height, width).
        region_graph: quad-tree-2, quad-tree-4, quad-graph, random-binary-tree or poon-domingos.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`, such as categorical, binomial or gaussian.
        num_input_units: The units of each input layer.
        sum_product_layer: cp, cp-t or tucker.
        num_sum_units: The units of each sum layer but the last.
        num_classes: The units of the output.
        input_params: How to make parameters of the input layers, by name, such as `{"logits": Parameterization()}`.
        sum_weight_param: How to make the weights of sums; softmax of normal draws by default.
        use_mixing_weights: Sum the partitions of a region unit by unit instead of all with all.
        num_values: The number of values of a pixel, for layers that count them.

    Raises:
        InputError: A name that is not known.
    """
    shape = checked_image_shape("image_data", image_shape)
    graph = _region_graph(region_graph)(shape)
    if not known(sum_product_layer, FAMILIES):
        raise InputError(f"unknown sum_product_layer {shown(sum_product_layer)}; expected one of {', '.join(FAMILIES)}")
    weights, mixing = sum_weight_factories(sum_weight_param, use_mixing_weights=use_mixing_weights)
    return graph.build_circuit(
        input_factory=input_factory(input_layer, params=input_params, num_values=num_values),
        sum_product=sum_product_layer,
        sum_weight_factory=weights,
        nary_sum_weight_factory=mixing,
        num_input_units=num_input_units,
        num_sum_units=num_sum_units,
        num_classes=num_classes,
    )


def _region_graph(name: str) -> Callable[[tuple[int, int, int]], RegionGraph]:
    if not known(name, IMAGE_REGION_GRAPHS):
        raise InputError(f"unknown region graph {shown(name)}; expected one of {', '.join(IMAGE_REGION_GRAPHS)}")
    return IMAGE_REGION_GRAPHS[name]
