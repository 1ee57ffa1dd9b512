import math
from typing import Any

import pytest
import torch

from plica.errors import InputError, ShapeError
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer
from plica.symbolic.parameters import SoftmaxParameter, SoftplusParameter
from plica.templates.data_modalities import IMAGE_REGION_GRAPHS, image_data
from plica.templates.parameterization import Parameterization
from plica.templates.region_graph import ChowLiuTree
from tests.harness.region_graphs import dependent_rows
from tests.harness.together import grouped

SMALL: dict[str, Any] = {
    "input_layer": "categorical",
    "num_input_units": 2,
    "sum_product_layer": "cp",
    "num_sum_units": 2,
}


@pytest.mark.parametrize(
    ("region_graph", "sum_product", "layers"),
    [("quad-tree-2", "cp", 3134), ("quad-graph", "tucker", 4163), ("quad-tree-4", "cp-t", 784 + 265 * 2)],
)
def test_layer_counts_of_digits(region_graph: str, sum_product: str, layers: int) -> None:
    circuit = image_data((1, 28, 28), region_graph, **{**SMALL, "sum_product_layer": sum_product})
    assert len(circuit.layers) == layers
    assert circuit.input_layers[0].config["num_categories"] == 256


@grouped("region_graph", list(IMAGE_REGION_GRAPHS))
@grouped("input_layer", ["categorical", "gaussian"])
@grouped("sum_product", ["cp", "cp-t", "tucker"])
def test_every_choice_by_name(region_graph: str, input_layer: str, sum_product: str) -> None:
    settings = {**SMALL, "input_layer": input_layer, "sum_product_layer": sum_product}
    circuit = image_data((3, 3, 4), region_graph, num_classes=5, **settings)
    assert list(circuit.scope) == list(range(36))
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert circuit.outputs[0].num_output_units == 5
    expected = CategoricalLayer if input_layer == "categorical" else GaussianLayer
    assert all(isinstance(layer, expected) for layer in circuit.input_layers)


def test_defaults() -> None:
    circuit = image_data((1, 4, 4), **{**SMALL, "sum_product_layer": "tucker"}, num_values=7)
    assert {layer.config["num_categories"] for layer in circuit.input_layers} == {7}
    assert [list(layer.params) for layer in circuit.input_layers] == [["logits"]] * 16
    mixing = [layer for layer in circuit.sum_layers if layer.arity > 1]
    assert len(mixing) == 5
    assert all(layer.mixing for layer in mixing)
    assert all(isinstance(layer.evaluated_params["weight"].output, SoftmaxParameter) for layer in circuit.sum_layers)


def test_without_mixing_weights_sums_are_dense() -> None:
    circuit = image_data((1, 4, 4), **{**SMALL, "sum_product_layer": "tucker"}, use_mixing_weights=False)
    assert not any(layer.mixing for layer in circuit.sum_layers)


def test_parameters_as_asked() -> None:
    circuit = image_data(
        (1, 2, 2),
        "quad-tree-2",
        **SMALL,
        input_params={"probs": Parameterization("uniform", "softmax")},
        sum_weight_param=Parameterization("uniform", "softplus"),
    )
    probs = circuit.input_layers[0].params["probs"]
    assert isinstance(probs.output, SoftmaxParameter)
    weight = circuit.sum_layers[0].weight
    assert isinstance(weight.output, SoftplusParameter)
    assert isinstance(weight.leaves[0].config["initializer"], UniformInitializer)


@pytest.mark.parametrize(
    ("shape", "pieces"),
    [((1, 1, 1), (1, 1)), ((1, 1, 9), (1, 5)), ((3, 5, 6), (5, 6)), ((1, 16, 4), (8, 2)), ((1, 28, 28), (7, 7))],
)
def test_poon_domingos_cuts_the_longer_side_into_eight_at_most(
    shape: tuple[int, int, int], pieces: tuple[int, int]
) -> None:
    graph = IMAGE_REGION_GRAPHS["poon-domingos"](shape)
    rows, columns = (one * (one + 1) // 2 for one in pieces)
    assert len(graph.region_nodes) == rows * columns
    assert len(graph.inputs) == math.prod(pieces)


def test_trees_of_images() -> None:
    images = dependent_rows(200, 6, 256, seed=1).reshape(200, 1, 2, 3)
    cases: tuple[tuple[Any, dict[str, Any], dict[str, Any]], ...] = (
        (images, {}, {"num_categories": 256}),
        (
            torch.as_tensor(images).flatten(1),
            {"num_bins": 8, "mi_chunk_size": 2},
            {"num_categories": 256, "cat_bins": 8},
        ),
    )
    for given, settings, expected in cases:
        circuit = image_data((1, 2, 3), "chow-liu-tree", data=given, **SMALL, **settings)
        tree = ChowLiuTree(images.reshape(200, 6), "categorical", **expected)
        assert {circuit.layer_scope(layer) for layer in circuit.layers} == {one.scope for one in tree.region_nodes}
    reals = image_data((1, 2, 3), "chow-liu-tree", data=images, **{**SMALL, "input_layer": "gaussian"})
    tree = ChowLiuTree(images.reshape(200, 6), "gaussian")
    assert {reals.layer_scope(layer) for layer in reals.layers} == {one.scope for one in tree.region_nodes}
    assert len(image_data((1, 2, 3), "linear-tree", **SMALL).product_layers) == 5


def test_random_binary_trees_are_deterministic() -> None:
    first, again = (image_data((1, 4, 4), "random-binary-tree", **SMALL) for _ in range(2))
    assert [first.layer_scope(x) for x in first.layers] == [again.layer_scope(x) for x in again.layers]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"image_shape": (28,)}, ShapeError, r"image_data: expected an image shape .* found \(28,\)"),
        ({"region_graph": "quad"}, InputError, "unknown region graph 'quad'; expected one of quad-tree-2"),
        ({"region_graph": "chow-liu-tree"}, InputError, "a chow-liu-tree is made from data; pass data"),
        (
            {"region_graph": "chow-liu-tree", "data": [[0, 1, 2]]},
            ShapeError,
            r"expected data of 16 numbers for each image, found \(1, 3\)",
        ),
        ({"input_layer": "normal"}, InputError, "unknown input layer 'normal'; expected one of .*gaussian"),
        (
            {"sum_product_layer": "cp-s"},
            InputError,
            "unknown sum_product_layer 'cp-s'; expected one of cp, cp-t, tucker",
        ),
        (
            {"input_params": {"mean": Parameterization()}},
            InputError,
            "input layer 'categorical' has no parameter 'mean'; parameters that can be described are logits, probs",
        ),
        (
            {"input_params": {"probs": Parameterization(), "logits": Parameterization()}},
            InputError,
            "exclude each other",
        ),
    ],
)
def test_refuses(settings, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        image_data(**{"image_shape": (1, 4, 4), "region_graph": "quad-tree-2", **SMALL, **settings})
