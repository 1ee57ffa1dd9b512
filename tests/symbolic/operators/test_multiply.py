"""The product of circuits, against products of their values in numpy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.functional import multiply, power
from plica.symbolic.layers import (
    CircuitBlock,
    CPTLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    OperatorRow,
    OuterProductLayer,
    ProductLayer,
    SumLayer,
    TransposeLayer,
)
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import (
    BlockKroneckerParameter,
    KroneckerParameter,
    MixingWeightParameter,
    TensorParameter,
    dereferenced,
    mixing_weight_factory,
    normal,
)
from plica.templates import pgms
from plica.templates.data_modalities import image_data
from tests.harness.operator_circuits import (
    NO_RULES,
    Rules,
    circuit,
    close,
    leaf,
    numbers,
    pair,
    products,
    rows,
    tree_of,
    values,
)
from tests.harness.oracle import Oracle, keys


def check_product(*operands: Circuit, seed: int = 0) -> Circuit:
    """The product of circuits has the products of their values, and is smooth and decomposable."""
    rng = np.random.default_rng(seed)
    result, leaves, x = multiply(*operands), numbers(rng, *operands), rows(rng, 4)
    expected = values(operands[0], leaves, x)
    for operand in operands[1:]:
        expected = products(expected, values(operand, leaves, x))
    close(values(result, leaves, x), expected)
    assert result.is_smooth
    assert result.is_decomposable
    assert result.operation is not None
    assert (result.operation.operator, result.operation.operands) == ("multiply", operands)
    assert all(leaf in leaves for leaf in tensors(result)), "tensors are those of the operands"
    return result


def tensors(circuit: Circuit) -> list[Any]:
    nodes = [dereferenced(node) for layer in circuit.layers for one in layer.all_params.values() for node in one.leaves]
    return [node for node in nodes if isinstance(node, TensorParameter)]


def check_pair(seed: int) -> bool:
    """A random pair is multiplied, or refused where its circuits are not compatible; whether it was multiplied."""
    first, second = pair(seed)
    if not are_compatible(first, second):
        with pytest.raises(StructuralPropertyError, match="multiply needs compatible circuits"):
            multiply(first, second)
        assert not are_compatible(second, first), "compatibility is symmetric"
        return False
    assert are_compatible(second, first), "compatibility is symmetric"
    check_product(first, second, seed=seed)
    return True


def test_random_pairs_are_multiplied_exactly_where_they_are_compatible() -> None:
    multiplied = [check_pair(seed) for seed in range(80)]
    assert 8 < multiplied.count(False) < 40, "the draws have both kinds"


@pytest.mark.full
@pytest.mark.parametrize("start", range(80, 2080, 250))
def test_more_random_pairs(start: int) -> None:
    for seed in range(start, start + 250):
        check_pair(seed)


def built(edges: dict[Layer, list[Layer]], *outputs: Layer) -> Circuit:
    """The circuit of some layers and what they read."""
    layers = dict.fromkeys([*(child for inputs in edges.values() for child in inputs), *edges, *outputs])
    return Circuit(layers, edges, outputs)


def two_parts(tops: Any, low: tuple[int, int] = (0, 1), high: int = 2, units: int = 2, arity: int = 1) -> Circuit:
    """A sum over products of a sum over `low` and an input over `high`."""
    edges: dict[Layer, list[Layer]] = {}
    terms: list[Layer] = []
    for _ in range(arity):
        inner, mixed, top = HadamardLayer(2), SumLayer(2, 2, weight_factory=normal), tops(2)
        edges |= {inner: [leaf(low[0], 2), leaf(low[1], 2)], mixed: [inner], top: [leaf(high, 2), mixed]}
        terms.append(top)
    total = SumLayer(terms[0].num_output_units, units, arity, weight_factory=normal)
    edges[total] = terms
    return built(edges, total)


@pytest.mark.parametrize(
    "tops", [(HadamardLayer, HadamardLayer), (KroneckerLayer,) * 2, (HadamardLayer, KroneckerLayer)]
)
@pytest.mark.parametrize("arities", [(1, 1), (1, 3), (3, 1), (2, 3)])
def test_sums_of_any_arity_over_products_of_any_kind(tops: Any, arities: tuple[int, int]) -> None:
    first, second = (two_parts(top, units=3, arity=arity) for top, arity in zip(tops, arities, strict=True))
    result = check_product(first, second)
    weight = result.outputs[0].params["weight"].output
    assert isinstance(weight, KroneckerParameter if arities[1] == 1 else BlockKroneckerParameter)
    check_product(second, first)


def test_circuits_that_split_variables_differently_may_be_compatible() -> None:
    first, second = two_parts(HadamardLayer, (0, 1), 2), two_parts(HadamardLayer, (0, 2), 3)
    assert are_compatible(first, second)
    check_product(first, second)  # ((01)2) x ((02)3)
    third = two_parts(HadamardLayer, (1, 2), 0)
    assert not are_compatible(first, third)
    with pytest.raises(StructuralPropertyError) as error:
        multiply(first, third)
    assert str(error.value) == (
        "multiply needs compatible circuits, but factors of two products share variables crosswise: "
        "EmbeddingLayer(3, scope={2}, 2) with scope {2}; SumLayer(4, arity=1, 2 -> 2) with scope {0, 1} of the first "
        "circuit, EmbeddingLayer(3, scope={0}, 2) with scope {0}; SumLayer(4, arity=1, 2 -> 2) with scope {1, 2} of "
        "the second. Build both so that their products split variables alike, for example from one region graph that "
        "is structured decomposable."
    )


def test_circuits_without_a_common_variable() -> None:
    result = check_product(two_parts(HadamardLayer, (0, 1), 2, units=2), two_parts(HadamardLayer, (3, 4), 5, units=3))
    assert isinstance(result.outputs[0], OuterProductLayer)


def test_kronecker_products_are_permuted_by_a_transpose_and_no_matrix() -> None:
    first, second = (built({product: [leaf(0, 3), leaf(1, 3)]}, product) for product in map(KroneckerLayer, (3, 3)))
    result = check_product(first, second)
    kinds = [type(layer) for layer in result.inner_layers]
    assert kinds == [KroneckerLayer, TransposeLayer]
    assert result.outputs[0].config == {"sizes": (3, 3, 3, 3), "axes": (0, 2, 1, 3)}


def test_mixing_weights_stay_mixing_weights() -> None:
    def mixed(arity: int) -> Circuit:
        terms: list[Layer] = [leaf(0, 3) for _ in range(arity)]
        total = SumLayer(3, 3, arity, weight_factory=lambda shape: mixing_weight_factory(shape, param_factory=normal))
        return built({total: terms}, total)

    result = check_product(mixed(2), mixed(3))
    (total,) = result.sum_layers
    assert total.mixing
    (source,) = total.weight.node_inputs(total.weight.output)
    assert isinstance(total.weight.output, MixingWeightParameter)
    assert isinstance(source, KroneckerParameter)


def test_layers_that_several_read_interior_outputs_and_dead_layers() -> None:
    x, y, product = leaf(0, 2), leaf(1, 2), HadamardLayer(2)
    sums: list[Layer] = [SumLayer(2, 2, weight_factory=normal) for _ in range(3)]
    total, dead = SumLayer(2, 2, 2, weight_factory=normal), SumLayer(2, 5)
    edges: dict[Layer, list[Layer]] = {product: [x, y], **{one: [product] for one in sums}, total: list(sums[:2])}
    first = Circuit([x, y, product, dead, *sums, total], {**edges, dead: [x]}, [total, product, sums[2]])
    result = check_product(first, two_parts(KroneckerLayer, (0, 1), 2))
    assert len(result.outputs) == 3
    squared = check_product(first, first)
    assert len(squared.outputs) == 9
    assert len(squared.live_layers) == len(squared.layers)
    shared = [layer for layer in squared.product_layers if len(squared.layer_outputs(layer)) > 1]
    assert shared, "the product of products is made once"


def test_several_circuits_and_powers() -> None:
    rng = np.random.default_rng(3)
    tree = tree_of(rng, [4, 1, 3])
    operands = [circuit(rng, tree) for _ in range(3)]
    check_product(*operands)
    leaves, x = numbers(rng, *operands), rows(rng)
    expected = values(operands[0], leaves, x)
    for exponent in range(1, 4):
        result = power(operands[0], exponent)
        close(values(result, leaves, x), expected)
        assert result.operation is not None
        assert (result.operation.operator, result.operation.metadata) == ("power", {"n": exponent})
        assert result.operation.operands == (operands[0],)
        expected = products(expected, values(operands[0], leaves, x))


def test_a_product_of_products_that_have_no_common_axes() -> None:
    edges: dict[Layer, list[Layer]] = {}
    inner, other = OuterProductLayer((6, 6)), OuterProductLayer((4, 9))
    edges |= {inner: [leaf(0, 6), leaf(1, 6)], other: [leaf(2, 4), leaf(3, 9)]}
    top = HadamardLayer(36)
    first = built({**edges, top: [inner, other]}, top)
    whole = HadamardLayer(2, 4)
    check_product(first, built({whole: [leaf(variable, 2) for variable in range(4)]}, whole))


@pytest.mark.parametrize("kind", ["cp", "cp-t", "tucker"])
def test_squares_of_images(kind: str) -> None:
    image = image_data(
        (1, 2, 4), "quad-tree-2", input_layer="embedding", num_input_units=2, sum_product_layer=kind, num_sum_units=2,
        input_params=None, num_values=2,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    leaves, x = numbers(rng, image), rng.integers(0, 2, (4, 8))
    expected = values(image, leaves, x)
    close(values(multiply(image, image), leaves, x), expected**2)


def test_a_square_of_a_quad_graph_is_refused() -> None:
    graph = image_data(
        (1, 4, 4), "quad-graph", input_layer="embedding", num_input_units=2, sum_product_layer="cp", num_sum_units=2
    )
    assert not are_compatible(graph, graph)
    with pytest.raises(StructuralPropertyError, match="share variables crosswise: SumLayer"):
        multiply(graph, graph)


@pytest.mark.full
def test_a_chain_of_5000_variables() -> None:
    chain = pgms.hmm(
        range(5000), input_layer="categorical", num_latent_states=2, input_layer_kwargs={"num_categories": 2}
    )
    assert are_compatible(chain, chain)
    square = multiply(chain, chain)
    assert len(square.layers) == len(chain.layers)
    rng = np.random.default_rng(0)
    leaves, x = numbers(rng, chain), rng.integers(0, 2, (1, 5000))
    logs = [Oracle(one, {key: leaves[found] for found, key in keys(one).items()}).log(x) for one in (chain, square)]
    np.testing.assert_allclose(logs[1].astype(float), 2 * logs[0].astype(float), rtol=1e-9)


@dataclass(frozen=True, eq=False)
class Cubed(FieldsLayer, ProductLayer):
    """A product layer of one's own."""

    num_input_units: int
    arity: int = 2

    @property
    def num_output_units(self) -> int:
        return self.num_input_units


def test_layers_that_cannot_be_taken_apart_are_refused_by_name_where_they_are_met() -> None:
    for layer, reason in ((Cubed(2), "a layer of your own"), (CPTLayer(2, 2), "made by the optimizer")):
        first = built({layer: [leaf(0, 2), leaf(1, 2)]}, layer)
        total = SumLayer(2, 2, weight_factory=normal)
        other = built({total: [leaf(0, 2)]}, total)
        with pytest.raises(UnsupportedError, match=rf"{type(layer).__name__}\(2, .*with scope \{{0, 1\}}.*{reason}"):
            multiply(first, other)
        assert are_compatible(first, other), "the structure would let it"
        assert multiply(first, built({}, leaf(3, 2))).is_decomposable


def test_refusals() -> None:
    x, y, total = leaf(0, 2), leaf(1, 2), SumLayer(2, 1, 2)
    rough = built({total: [x, y]}, total)
    with pytest.raises(StructuralPropertyError, match=r"multiply needs a smooth circuit, but SumLayer\(2"):
        multiply(rough, rough)
    assert not are_compatible(rough, rough)
    twice = HadamardLayer(2)
    with pytest.raises(StructuralPropertyError, match="multiply needs a decomposable circuit"):
        multiply(built({twice: [leaf(0, 2), leaf(0, 2)]}, twice), rough)
    lone = built({}, leaf(0, 2))
    with pytest.raises(UnsupportedError, match=r"no rule for the product of EmbeddingLayer\(0, .*add_operator_rule"):
        multiply(lone, lone, registry=NO_RULES)
    with pytest.raises(DTypeError, match="expected a circuit"):
        multiply(lone, 3)  # type: ignore[arg-type]
    wrong = OperatorRow("multiply", (EmbeddingLayer, EmbeddingLayer), lambda a, _: CircuitBlock.from_layer(a.copyref()))
    with pytest.raises(ShapeError, match="expected 4 units: one for each pair"):
        multiply(lone, lone, registry=Rules({("multiply", wrong.layers): wrong}))
    with pytest.raises(ShapeError, match="n must be at least 1"):
        power(lone, 0)


def test_the_structure_alone_tells_layers_of_several_variables() -> None:
    def gaussians(*variables: int) -> Circuit:
        return built({}, DiagonalGaussianLayer(variables, 2))

    assert are_compatible(gaussians(0, 1), gaussians(0, 1))
    assert are_compatible(gaussians(0, 1), gaussians(2, 3))
    assert not are_compatible(gaussians(0, 1), gaussians(1, 2))
    product = HadamardLayer(2)
    split = built({product: [GaussianLayer([0], 2), GaussianLayer([1], 2)]}, product)
    assert not are_compatible(gaussians(0, 1), split)
    with pytest.raises(StructuralPropertyError, match="a product splits the variables of an input layer"):
        multiply(gaussians(0, 1), split)
