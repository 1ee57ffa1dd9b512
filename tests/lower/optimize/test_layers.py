"""Rules on layers: what they make of circuits, and in which order; that they fire is tested by their cases."""

from typing import Any, cast

import numpy as np
import pytest

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.lower.fold.groups import single_groups
from plica.lower.optimize import optimize_circuit
from plica.lower.queries.choosing import lower_choices
from plica.lower.queries.sample import SAMPLING
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, SumLayer, TensorDotLayer, TuckerLayer
from plica.symbolic.parameters import (
    MixingWeightParameter,
    Parameter,
    normal,
    softmax_normal,
)
from plica.symbolic.semirings import SUM_PRODUCT
from tests.harness.circuits import chain, coin, constant, product_then_sum
from tests.harness.rewrites import assert_same, fired, kinds, missed, only
from tests.harness.rule_cases.case import fixed, kronecker, of
from tests.harness.rule_cases.circuits import inputs, shared_blocks, sum_over

SEMIRINGS = pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])


@SEMIRINGS
@pytest.mark.parametrize("arity", [2, 3, 4])
def test_a_sum_of_a_kronecker_product_is_a_tucker_layer(semiring: str, arity: int) -> None:
    circuit = product_then_sum(KroneckerLayer(3, arity), inputs(arity, 3))
    optimized = optimize_circuit(circuit)
    assert fired(optimized) == {"tucker": 1}
    assert kinds(optimized.circuit) == {"Categorical": arity, "Tucker": 1}
    last: Any = optimized.circuit.layers[-1]
    assert last.weight is circuit.layers[-1].params["weight"]
    assert_same(circuit, optimized, semiring=semiring)


@pytest.mark.parametrize("product", [HadamardLayer(3, 2), KroneckerLayer(3, 2)])
def test_a_product_that_two_sums_read_stays(product) -> None:
    leaves = inputs(2, 3)
    first, second = (SumLayer(product.num_output_units, 2) for _ in range(2))
    edges: dict[Any, Any] = {product: leaves, first: [product], second: [product]}
    optimized = optimize_circuit(Circuit([*leaves, *edges], edges, [first, second]))
    assert optimized.circuit.layers[2] is product
    assert set(missed(optimized).values()) == {"an interior node has another consumer"}
    assert "SumLayer(4" in optimized.report.text()


@pytest.mark.parametrize("product", [HadamardLayer(3, 2), KroneckerLayer(3, 2)])
def test_a_product_that_is_an_output_stays(product) -> None:
    leaves = inputs(2, 3)
    total = SumLayer(product.num_output_units, product.num_output_units)
    edges: dict[Any, Any] = {product: leaves, total: [product]}
    optimized = optimize_circuit(Circuit([*leaves, *edges], edges, [total, product]))
    assert not fired(optimized)
    assert set(missed(optimized).values()) == {"an interior node is an output"}


def test_the_inner_sum_may_have_several_inputs() -> None:
    leaves = [coin([0], 3, 3) for _ in range(2)]
    inner, outer = SumLayer(3, 4, 2), SumLayer(4, 1)
    circuit = Circuit([*leaves, inner, outer], {inner: leaves, outer: [inner]}, [outer])
    optimized = optimize_circuit(circuit)
    assert optimized.circuit.layers[-1].config == {"num_input_units": 3, "num_output_units": 1, "arity": 2}
    assert_same(circuit, optimized)


def names_of(parameter: Parameter) -> list[str]:
    return [type(node).__name__.removesuffix("Parameter") for node in parameter.nodes]


@SEMIRINGS
def test_a_sum_of_two_sums_has_their_weights_side_by_side(semiring: str) -> None:
    circuit = sum_over(SumLayer(3, 6), SumLayer(3, 6, 2))
    optimized = optimize_circuit(circuit)
    last: Any = optimized.circuit.layers[-1]
    assert fired(optimized) == {"sum-of-sums": 1}
    assert last.config == {"num_input_units": 3, "num_output_units": 2, "arity": 3}
    assert names_of(last.weight)[-1] == "Concat"
    assert names_of(last.weight).count("MatMul") == 2
    assert_same(circuit, optimized, semiring=semiring)


def test_a_sum_of_a_thousand_sums_needs_no_recursion() -> None:
    optimized = optimize_circuit(sum_over(*(SumLayer(3, 6) for _ in range(1100))))
    assert fired(optimized) == {"sum-of-sums": 1}


@SEMIRINGS
def test_two_sums_of_the_same_inputs_are_one_above_the_other(semiring: str) -> None:
    """V (W x, U x) = V [W; U] x: x is read once, and no column of V has to be chosen."""
    leaves = [coin([0], 4, 3) for _ in range(2)]
    same, other = [SumLayer(4, 6, 2) for _ in range(2)], SumLayer(4, 6)
    outer = SumLayer(6, 2, 3)
    for inner in ((*same, other), (same[0], other, same[1])):
        edges: dict[Any, Any] = {same[0]: leaves, same[1]: leaves, other: leaves[:1], outer: inner}
        circuit = Circuit([*leaves, *edges], edges, [outer])
        optimized = optimize_circuit(circuit)
        last: Any = optimized.circuit.layers[-1]
        assert optimized.circuit.layer_inputs(last) == (*leaves, leaves[0])
        assert names_of(last.weight).count("MatMul") == 2
        assert_same(circuit, optimized, semiring=semiring)
    edges = {same[0]: leaves, same[1]: leaves, (two := SumLayer(6, 2, 2)): same}
    last = optimize_circuit(Circuit([*leaves, *edges], edges, [two])).circuit.layers[-1]
    assert last.arity == 2
    assert "Index" not in names_of(last.weight)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_sum_over_kronecker_products_is_contractions_added(count: int) -> None:
    circuit = sum_over(*(KroneckerLayer(3, 2) for _ in range(count)))
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 2 * count, "Tucker": count, "Sum": 1}
    last: Any = optimized.circuit.layers[-1]
    assert last.mixing
    assert last.arity == count
    assert names_of(last.weight) == ["Constant", "MixingWeight"]
    tuckers = [layer for layer in optimized.circuit.layers if isinstance(layer, TuckerLayer)]
    assert all(names_of(layer.weight) == ["Tensor", "Softmax", "Index"] for layer in tuckers)
    assert len(dict.fromkeys(layer.weight.nodes[1] for layer in tuckers)) == 1, "the softmax is computed once"
    for semiring in ("lse-sum", "sum-product"):
        assert_same(circuit, optimized, semiring=semiring)


def test_what_sums_merge_to_is_taken_apart_without_a_trace() -> None:
    """V (W (a (x) b), U (c (x) d)): products of weights belong to Tucker layers; none is joined, none cut."""
    inner = [SumLayer(9, 12) for _ in range(2)]
    leaves = inputs(4, 3)
    products = [KroneckerLayer(3, 2) for _ in range(2)]
    outer = SumLayer(12, 2, 2)
    edges: dict[Any, Any] = {products[0]: leaves[:2], products[1]: leaves[2:]}
    edges |= {inner[0]: products[:1], inner[1]: products[1:], outer: inner}
    circuit = Circuit([*leaves, *edges], edges, [outer])
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 4, "Tucker": 2, "Sum": 1}
    for layer in optimized.circuit.layers:
        if isinstance(layer, TuckerLayer):
            assert names_of(layer.weight)[-1] == "MatMul"
            assert "Concat" not in names_of(layer.weight)
    assert_same(circuit, optimized)


def test_long_chains_of_sums_are_one() -> None:
    circuit = chain(coin([0], 4, 3), SumLayer(4, 5), SumLayer(5, 6), SumLayer(6, 5), SumLayer(5, 4), SumLayer(4, 1))
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 1, "Sum": 1}
    assert_same(circuit, optimized)


IDENTITIES = {
    "one": lambda units: SumLayer(units, units, weight=constant(np.eye(units))),
    "mixing": lambda units: SumLayer(
        units, units, weight=of(fixed(1.0, (units, 1)), MixingWeightParameter((units, 1)))
    ),
    "one axis of units": lambda units: TensorDotLayer(1, units, 1, units, constant(np.eye(units))),
    "a product of one": lambda units: HadamardLayer(units, 1),
}


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=list(IDENTITIES))
def test_layers_that_do_nothing_are_gone_before_anything_is_fused_with_them(identity: Any) -> None:
    leaves = inputs(2, 3)
    product, total, between = KroneckerLayer(3, 2), SumLayer(9, 2), [identity(9), identity(9)]
    edges: dict[Any, Any] = {product: leaves, between[0]: [product], between[1]: between[:1], total: between[1:]}
    circuit = Circuit([*leaves, *edges], edges, [total])
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 2, "Tucker": 1}
    assert cast(Any, optimized.circuit.layers[-1]).weight is total.weight, "no product with an identity"
    assert_same(circuit, optimized)
    edges = {product: leaves, between[0]: [product]}
    alone = optimize_circuit(Circuit([*leaves, *edges], edges, between[:1])).circuit
    assert list(alone.layers) == [*leaves, product], "and no Tucker layer with the identity as its core"


def test_an_identity_among_the_factors_of_a_weight_is_no_contraction() -> None:
    weight = kronecker(softmax_normal((2, 3)), Parameter.from_input(constant(np.eye(4))))
    circuit = chain(coin([0], 12, 3), SumLayer(12, 8, weight=weight))
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 1, "TensorDot": 1}
    assert_same(circuit, optimized)


def test_the_factor_that_all_inputs_share_is_applied_to_their_sum_where_that_is_less() -> None:
    narrows, widens = shared_blocks(2, (2, 6), (5, 5)), shared_blocks(2, (8, 2), (3, 9))
    for circuit, expected in ((narrows, 3), (widens, 4)):
        optimized = optimize_circuit(circuit)
        assert kinds(optimized.circuit) == {"Categorical": 2, "TensorDot": expected, "Sum": 1}
        assert_same(circuit, optimized)


def test_two_sums_stay_where_their_product_is_more_work() -> None:
    circuit = chain(coin([0], 8, 3), SumLayer(8, 1), SumLayer(1, 8))  # a bottleneck: 16 multiply-adds, merged 64
    optimized = optimize_circuit(circuit)
    assert optimized.circuit is circuit
    (miss,) = optimized.report.missed
    # before: (8 + 8) a row and two softmaxes of 8; after: 64 a row, 64 for the product, the softmaxes stay
    assert miss.details == (
        "SumLayer(2, arity=1, 1 -> 8): one sum layer costs no less than two at 128 rows: 8,272 multiply-adds, the "
        "product of the weights among them, against 2,064",
    )


def test_products_of_products_become_one() -> None:
    leaves = inputs(5, 2)
    first, second, third = HadamardLayer(2, 2), HadamardLayer(2, 2), HadamardLayer(2, 3)
    edges: dict[Any, Any] = {first: leaves[:2], second: [leaves[2], first], third: [leaves[3], second, leaves[4]]}
    circuit = Circuit([*leaves, *edges], edges, [third])
    optimized = optimize_circuit(circuit)
    assert fired(optimized) == {"hadamard-hadamard": 2}
    product = optimized.circuit.layers[-1]
    order = [leaves[3], leaves[2], leaves[0], leaves[1], leaves[4]]
    assert list(optimized.circuit.layer_inputs(product)) == order
    assert_same(circuit, optimized)


@SEMIRINGS
@pytest.mark.parametrize("shapes", [((2, 3), (4, 2)), ((5, 2), (2, 5)), ((2, 2), (3, 2), (2, 3))])
def test_a_kronecker_weight_is_shattered(semiring: str, shapes) -> None:
    weight = kronecker(*map(softmax_normal, shapes))
    sums, units = weight.shape
    circuit = chain(coin([0], units, 3), SumLayer(units, sums, weight=weight))
    optimized = optimize_circuit(circuit)
    assert kinds(optimized.circuit) == {"Categorical": 1, "TensorDot": len(shapes)}
    assert all(len(layer.params["weight"].nodes) == 2 for layer in optimized.circuit.layers[1:])  # no product is left
    assert_same(circuit, optimized, semiring=semiring)


def test_the_cheaper_contraction_comes_first() -> None:
    widens, narrows = softmax_normal((6, 2)), softmax_normal((2, 6))
    for weight in (kronecker(widens, narrows), kronecker(narrows, widens)):
        circuit = chain(coin([0], 12, 3), SumLayer(12, 12, weight=weight))
        first, second = (cast(TensorDotLayer, one) for one in optimize_circuit(circuit).circuit.layers[1:])
        assert (first.num_sums, second.num_sums) == (2, 6)


def test_factors_that_may_be_negative_are_shattered_in_linear_space_alone() -> None:
    weight = kronecker(normal((2, 3)), normal((4, 2)))
    circuit = chain(coin([0], 6, 3), SumLayer(6, 8, weight=weight))
    in_log_space = optimize_circuit(circuit)
    assert not fired(in_log_space)
    why = "a factor of the weight may be negative, where logarithms are carried"
    assert missed(in_log_space) == {"kronecker-sum": why}
    linear = optimize_circuit(circuit, semiring=SUM_PRODUCT)
    assert fired(linear) == {"kronecker-sum": 1}
    assert_same(circuit, linear, semiring="sum-product")


def test_fused_layers_know_whether_they_are_decomposable() -> None:
    for product in (HadamardLayer(3, 2), KroneckerLayer(3, 2)):
        for leaves in (inputs(2, 3), [coin([0], 3), coin([0], 3)]):
            total = SumLayer(product.num_output_units, 1)
            circuit = Circuit([*leaves, product, total], {product: leaves, total: [product]}, [total])
            fused = optimize_circuit(circuit).circuit
            assert len(fused.layers) == 3
            assert fused.is_decomposable == circuit.is_decomposable
            assert fused.is_smooth == circuit.is_smooth
            assert fused.properties == circuit.properties


def test_fused_circuits_split_their_scopes_as_before() -> None:
    leaves = inputs(4, 2)
    pairs = [HadamardLayer(2, 2) for _ in range(2)]
    sums = [SumLayer(2, 2) for _ in range(2)]
    top, total = HadamardLayer(2, 2), SumLayer(2, 1)
    edges: dict[Any, Any] = {
        pairs[0]: leaves[:2],
        pairs[1]: leaves[2:],
        sums[0]: [pairs[0]],
        sums[1]: [pairs[1]],
        top: sums,
        total: [top],
    }
    circuit = Circuit([*leaves, *edges], edges, [total])
    fused = optimize_circuit(circuit).circuit
    assert kinds(fused) == {"Categorical": 4, "CPT": 3}
    assert fused.properties == circuit.properties
    assert not fused.is_omni_compatible
    assert are_compatible(fused, circuit)


def test_a_circuit_of_fused_layers_is_not_sampled() -> None:
    fused = optimize_circuit(product_then_sum(KroneckerLayer(3, 2), inputs(2, 3))).circuit
    with pytest.raises(
        UnsupportedError, match=r"TuckerLayer\(2, .* is both at once; build the circuit of a product layer"
    ):
        lower_choices(SAMPLING, single_groups(fused), DType.FLOAT64)


def test_one_rule_alone() -> None:
    circuit = product_then_sum(KroneckerLayer(3, 2), inputs(2, 3))
    assert isinstance(optimize_circuit(circuit, only("tucker")).circuit.layers[-1], TuckerLayer)
    assert optimize_circuit(circuit, only("cp-t")).circuit is circuit
