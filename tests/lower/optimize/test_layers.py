"""Rules on layers: what they make of circuits, and in which order; that they fire is tested by their cases."""

from typing import Any, cast

import pytest

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.lower.fold.groups import single_groups
from plica.lower.optimize import optimize_circuit
from plica.lower.queries.query import lower_query
from plica.lower.queries.sample import SAMPLING
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, SumLayer, TensorDotLayer, TuckerLayer
from plica.symbolic.parameters import (
    normal,
    softmax_normal,
)
from plica.symbolic.semirings import SUM_PRODUCT
from tests.harness.circuits import chain, coin, product_then_sum
from tests.harness.rewrites import assert_same, fired, kinds, missed, only
from tests.harness.rule_cases import inputs, kronecker

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
    total = SumLayer(2, 1, 2)
    edges: dict[Any, Any] = {product: leaves, first: [product], second: [product], total: [first, second]}
    optimized = optimize_circuit(Circuit([*leaves, *edges], edges, [total]))
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
        lower_query(SAMPLING, single_groups(fused), DType.FLOAT64)


def test_one_rule_alone() -> None:
    circuit = product_then_sum(KroneckerLayer(3, 2), inputs(2, 3))
    assert isinstance(optimize_circuit(circuit, only("tucker")).circuit.layers[-1], TuckerLayer)
    assert optimize_circuit(circuit, only("cp-t")).circuit is circuit
