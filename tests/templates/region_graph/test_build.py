from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch

import plica
from plica.errors import InputError
from plica.symbolic.layers import CategoricalLayer, CPTLayer, GaussianLayer, HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import mixing_weight_factory, softmax_normal
from plica.symbolic.scope import Scope
from plica.templates.region_graph import FullyFactorized, LinearTree, QuadGraph, QuadTree, RandomBinaryTree, RegionGraph
from tests.harness.pairwise import flagged

COIN = partial(CategoricalLayer, num_categories=2)
MIXING = partial(mixing_weight_factory, param_factory=softmax_normal)


def text(circuit) -> list[str]:
    return [repr(layer) for layer in circuit.layers]


def counts(circuit) -> dict[str, int]:
    return dict(Counter(type(layer).__name__ for layer in circuit.layers))


def test_cp_sums_each_part_before_the_product() -> None:
    circuit = FullyFactorized(2).build_circuit(
        input_factory=COIN, sum_product="cp", num_input_units=3, num_sum_units=4, num_classes=5
    )
    assert text(circuit) == [
        "CategoricalLayer(scope={0}, 3)",
        "CategoricalLayer(scope={1}, 3)",
        "SumLayer(arity=1, 3 -> 4)",
        "SumLayer(arity=1, 3 -> 4)",
        "HadamardLayer(arity=2, 4 -> 4)",
        "SumLayer(arity=1, 4 -> 5)",
    ]


@pytest.mark.parametrize(
    ("name", "product"), [("cp-t", "HadamardLayer(arity=2, 3 -> 3)"), ("tucker", "KroneckerLayer(arity=2, 3 -> 9)")]
)
def test_cp_t_and_tucker_sum_after_the_product(name: str, product: str) -> None:
    circuit = FullyFactorized(2).build_circuit(
        input_factory=COIN, sum_product=name, num_input_units=3, num_sum_units=4, num_classes=5
    )
    units = 9 if name == "tucker" else 3
    assert text(circuit)[2:] == [product, f"SumLayer(arity=1, {units} -> 5)"]


@pytest.mark.parametrize("name", ["cp", "cp-t", "tucker"])
def test_the_root_mixes_sums_of_as_many_units_as_classes(name: str) -> None:
    circuit = FullyFactorized(2, num_repetitions=3).build_circuit(
        input_factory=COIN, sum_product=name, num_sum_units=4, num_classes=5, nary_sum_weight_factory=MIXING
    )
    root: Any = circuit.outputs[0]
    assert repr(root) == "SumLayer(arity=3, 5 -> 5)"
    assert root.mixing
    assert root.evaluated_params["weight"].shape == (5, 3)


@pytest.mark.parametrize(
    ("graph", "name", "expected"),
    [
        (QuadTree((1, 28, 28)), "cp", {"CategoricalLayer": 784, "HadamardLayer": 783, "SumLayer": 1567}),
        (QuadGraph((1, 28, 28)), "cp", {"CategoricalLayer": 784, "HadamardLayer": 1560, "SumLayer": 3120 + 2 + 259}),
        (QuadGraph((1, 28, 28)), "tucker", {"CategoricalLayer": 784, "KroneckerLayer": 1560, "SumLayer": 1560 + 259}),
        (QuadGraph((1, 28, 28)), "cp-t", {"CategoricalLayer": 784, "HadamardLayer": 1560, "SumLayer": 1560 + 259}),
    ],
)
def test_layer_counts_of_digits(graph, name: str, expected: dict[str, int]) -> None:
    circuit = graph.build_circuit(input_factory=COIN, sum_product=name, num_input_units=2, num_sum_units=2)
    assert counts(circuit) == expected
    assert circuit.num_variables == 784


def test_pixels_of_several_channels_are_products_of_their_channels() -> None:
    graph = QuadTree((3, 1, 2))
    circuit = graph.build_circuit(input_factory=COIN, sum_product="cp", num_input_units=2, num_sum_units=2)
    first = circuit.product_layers[0]
    assert [circuit.layer_scope(layer) for layer in circuit.layer_inputs(first)] == [
        layer.scope for layer in circuit.input_layers[:3]
    ]
    assert list(circuit.layer_scope(first)) == [0, 2, 4]


def test_multivariate_inputs_can_be_left_to_the_factory() -> None:
    asked = []

    def factory(scope, units):
        asked.append(scope)
        return CategoricalLayer([min(scope)], units, num_categories=2)

    graph = QuadTree((2, 1, 2))
    graph.build_circuit(input_factory=factory, sum_product="cp", factorize_multivariate=False)
    assert asked == [region.scope for region in graph.inputs]


def test_factories_may_be_given_by_scope() -> None:
    def reals(scope, units):
        return GaussianLayer(scope, units)

    graph = QuadTree((2, 1, 2))  # input regions {0, 2} and {1, 3}
    by_scope: dict[Scope, Any] = {Scope([0, 2]): COIN, Scope([1]): reals, Scope([3]): COIN}
    circuit = graph.build_circuit(input_factory=by_scope, sum_product="cp", num_input_units=2, num_sum_units=2)
    kinds = {layer.scope: type(layer) for layer in circuit.input_layers}
    assert kinds == {Scope([v]): GaussianLayer if v == 1 else CategoricalLayer for v in range(4)}
    with pytest.raises(
        InputError, match=r"no entry for the input region \{1, 3\}; it has \{0, 2\}; the keys are scopes"
    ):
        graph.build_circuit(input_factory={Scope([0, 2]): COIN}, sum_product="cp")


@pytest.mark.parametrize("name", ["cp", "cp-t", "tucker"])
@pytest.mark.parametrize(
    "graph",
    [
        FullyFactorized(1),
        FullyFactorized(3),
        LinearTree(5, num_repetitions=2, randomize=True),
        QuadTree((1, 3, 5)),
        QuadTree((2, 3, 2), num_patch_splits=4),
        QuadGraph((1, 5, 3)),
        RandomBinaryTree(7, depth=2, num_repetitions=2),
    ],
    ids=repr,
)
def test_every_region_graph_gives_a_smooth_and_decomposable_circuit(name: str, graph) -> None:
    # different numbers of units, so that leaves and inner regions of one partition have to be aligned
    circuit = graph.build_circuit(
        input_factory=COIN,
        sum_product=name,
        num_input_units=2,
        num_sum_units=3,
        num_classes=4,
        nary_sum_weight_factory=MIXING,
    )
    assert circuit.scope == graph.scope
    assert circuit.properties.smooth
    assert circuit.properties.decomposable
    assert circuit.outputs[0].num_output_units == 4
    if len(graph.inputs) > 1:
        assert circuit.is_structured_decomposable == graph.is_structured_decomposable


def test_weights_come_from_the_factories() -> None:
    asked = []

    def factory(shape):
        asked.append(shape)
        return softmax_normal(shape)

    FullyFactorized(2, num_repetitions=2).build_circuit(
        input_factory=COIN, sum_product="cp-t", sum_weight_factory=factory, num_input_units=2, num_classes=3
    )
    assert asked == [(3, 2), (3, 2), (3, 6)]


def test_layers_of_ones_own() -> None:
    circuit = FullyFactorized(2).build_circuit(
        input_factory=COIN, sum_factory=SumLayer, prod_factory=KroneckerLayer, num_input_units=2
    )
    assert counts(circuit) == {"CategoricalLayer": 2, "KroneckerLayer": 1, "SumLayer": 1}


OWN_GRAPHS = [
    FullyFactorized(1),
    FullyFactorized(3, num_repetitions=2),
    QuadGraph((1, 2, 3)),
    QuadTree((2, 2, 2), num_patch_splits=4),
    RandomBinaryTree(5, depth=2, num_repetitions=2),
]


@flagged(
    product=[HadamardLayer, KroneckerLayer],
    weights=[None, softmax_normal],
    mixing=[None, softmax_normal, MIXING],
    graph=OWN_GRAPHS,
)
def test_factories_of_sums_and_products_work_with_those_of_weights(graph, product, weights, mixing) -> None:
    asked = []

    def total(inputs: int, outputs: int) -> SumLayer:
        asked.append((inputs, outputs))
        return SumLayer(inputs, outputs, weight_factory=softmax_normal)

    circuit = graph.build_circuit(
        input_factory=COIN,
        sum_factory=total,
        prod_factory=product,
        sum_weight_factory=weights,
        nary_sum_weight_factory=mixing,
        num_input_units=2,
        num_sum_units=3,
        num_classes=4,
    )
    single = [layer for layer in circuit.sum_layers if layer.arity == 1]
    assert [(layer.num_input_units, layer.num_output_units) for layer in single] == asked
    several = [layer for layer in circuit.sum_layers if layer.arity > 1]
    assert all(layer.mixing == (mixing is MIXING) for layer in several)
    assert len(several) == sum(len(graph.region_inputs(region)) > 1 for region in graph.region_nodes)
    assert {type(layer) for layer in circuit.product_layers} <= {product, HadamardLayer}  # inputs of several variables
    rows = torch.full((1, max(circuit.scope) + 1), float("nan"), dtype=torch.float64)
    totals = plica.compile(circuit, dtype=torch.float64)(rows)
    torch.testing.assert_close(totals, torch.zeros(1, 1, 4, dtype=torch.float64), atol=1e-9, rtol=0)


def test_a_sum_of_ones_own_class_is_one_of_the_circuit() -> None:
    circuit = FullyFactorized(3).build_circuit(
        input_factory=COIN,
        sum_factory=lambda inputs, outputs: CPTLayer(inputs, outputs, 1),
        prod_factory=HadamardLayer,
        num_input_units=2,
        num_classes=2,
    )
    assert isinstance(circuit.outputs[0], CPTLayer)
    compiled = plica.compile(circuit, dtype=torch.float64)
    assert compiled(torch.full((1, 3), float("nan"))).abs().max().item() < 1e-9


def test_what_the_caller_passes_is_never_changed() -> None:
    order, factories = [2, 0, 1], {Scope([variable]): COIN for variable in range(3)}
    graph = LinearTree(3, ordering=order, num_repetitions=2)
    nodes, outputs = list(graph.nodes), list(graph.outputs)
    inputs: dict[Any, Any] = {region: list(graph.region_inputs(region)) for region in graph.region_nodes}
    inputs |= {partition: list(graph.partition_inputs(partition)) for partition in graph.partition_nodes}
    before = (list(nodes), {node: list(parts) for node, parts in inputs.items()}, list(outputs))
    for _ in range(2):
        RegionGraph(nodes, inputs, outputs).build_circuit(input_factory=factories, sum_product="cp", num_sum_units=2)
    assert (nodes, inputs, outputs) == before
    assert order == [2, 0, 1]
    assert factories == {Scope([variable]): COIN for variable in range(3)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "pass sum_product .one of cp, cp-t, tucker., or both sum_factory and prod_factory"),
        ({"sum_factory": SumLayer}, "or both sum_factory and prod_factory"),
        ({"sum_product": "cp", "prod_factory": HadamardLayer}, "sum_product excludes sum_factory and prod_factory"),
        ({"sum_product": "cpt"}, "sum_product must be one of cp, cp-t, tucker; found 'cpt'"),
    ],
)
def test_refuses(settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FullyFactorized(2).build_circuit(input_factory=COIN, **settings)
