"""The loop: on the tables of circuits and on random ones, with other rules, strategies and limits; and its report."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import GraphError
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.graph.strategy import OptMatchStrategy
from plica.lower.leaves import leaf_keys
from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.lower.optimize.costs import Cost, layer_cost
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    CPTLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
    TensorDotLayer,
    TuckerLayer,
)
from plica.symbolic.parameters import (
    HadamardParameter,
    KroneckerParameter,
    LogParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
    softmax_normal,
)
from plica.templates.data_modalities import image_data
from tests.harness.circuits import CIRCUITS, chain, circuits, coin, data, mixture, product_then_sum
from tests.harness.pairwise import by_turns
from tests.harness.rewrites import assert_same, fired, kinds

SEMIRINGS = pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])


@pytest.mark.one_in(3)
@SEMIRINGS
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_of_the_table_compute_the_same(name: str, semiring: str) -> None:
    circuit = CIRCUITS[name]()
    assert_same(circuit, optimize_circuit(circuit), semiring=semiring)


@given(circuits())
def test_random_circuits_compute_the_same(circuit: Circuit) -> None:
    optimized = optimize_circuit(circuit)
    assert_same(circuit, optimized)
    assert optimize_circuit(optimized.circuit).circuit is optimized.circuit, "the loop had come to its end"


@given(circuits())
def test_structure_and_leaves_are_kept(circuit: Circuit) -> None:
    found = optimize_circuit(circuit).circuit
    assert found.scope == circuit.scope
    assert found.properties.smooth == circuit.properties.smooth
    assert found.properties.decomposable == circuit.properties.decomposable
    assert list(leaf_keys(found)) == [one for one in leaf_keys(circuit) if one in leaf_keys(found)]
    assert all(isinstance(tensor, TensorParameter) for tensor in leaf_keys(circuit))
    assert leaf_keys(found).keys() == leaf_keys(circuit).keys()


IMAGES = {
    # region graph, sum-product layer: layers before; after, by class
    ("quad-graph", "tucker"): (4163, {"Categorical": 784, "Tucker": 1560, "Sum": 259}),
    ("quad-graph", "cp-t"): (4163, {"Categorical": 784, "CPT": 1560, "Sum": 259}),
    ("quad-tree-2", "cp"): (3134, {"Categorical": 784, "Sum": 784, "CPT": 783}),
}


@pytest.mark.parametrize(("graph", "layer"), IMAGES)
def test_every_pair_of_a_large_circuit_is_fused(graph: str, layer: str) -> None:
    circuit = image_data(
        (1, 28, 28), graph, input_layer="categorical", num_input_units=2, sum_product_layer=layer, num_sum_units=2
    )
    optimized = optimize_circuit(circuit)
    before, after = IMAGES[graph, layer]
    assert len(circuit.layers) == before
    assert kinds(optimized.circuit) == after
    if layer != "cp":
        assert fired(optimized) == {{"tucker": "tucker", "cp-t": "cp-t"}[layer]: 1560}
        assert all(one.mixing for one in optimized.circuit.sum_layers)


def test_a_circuit_without_matches_is_itself() -> None:
    circuit = mixture(2)
    optimized = optimize_circuit(circuit)
    assert optimized.circuit is circuit
    assert optimized.report.text() == (
        "optimized: 3 layers became 3 in 1 step(s); stopped because no rule matched any more"
    )


def test_the_loop_stops_at_its_limit_and_says_so() -> None:
    leaves = [coin([variable], 2) for variable in range(5)]
    products: list[Any] = []
    below: Any = leaves[0]
    for leaf in leaves[1:]:
        products.append((HadamardLayer(2, 2), (below, leaf)))
        below = products[-1][0]
    circuit = Circuit([*leaves, *dict(products)], dict(products), [below])
    for limit, left in ((0, 4), (1, 2), (2, 1), (9, 1)):
        optimized = optimize_circuit(circuit, max_steps=limit)
        assert kinds(optimized.circuit)["Hadamard"] == left
        report = optimized.report
        assert report.steps == min(limit, 3)
        firing = " while hadamard-hadamard still fired" if limit else ""
        limited = f"the limit of {limit} step(s) was reached{firing}"
        assert report.stopped == ("no rule matched any more" if limit == 9 else limited)
        assert report.limit == (None if limit == 9 else limited)
        assert_same(circuit, optimized)


def pairs_to_one(name: str, *kinds_: type) -> Rule:
    """A rule that takes a chain of layers for one sum layer; only what matches counts."""
    return Rule(
        name,
        "for the test",
        Pattern.chain(*kinds_),
        lambda match: Replacement.chain(
            match["inputs"], SumLayer(2, 2, weight=match.root.weight if len(kinds_) > 1 else None)
        ),
        laws=ORDINARY,
    )


def test_strategies_choose() -> None:
    circuit = chain(coin([0], 2), HadamardLayer(2, 1), HadamardLayer(2, 1), SumLayer(2, 2))
    small = pairs_to_one("small", SumLayer, HadamardLayer)
    large = pairs_to_one("large", SumLayer, HadamardLayer, HadamardLayer)
    rules = Rules(fuse=(small, large))
    assert list(fired(optimize_circuit(circuit, rules, max_steps=1))) == ["large"]
    first = optimize_circuit(circuit, rules, max_steps=1, strategy=OptMatchStrategy.FIRST_RULE)
    assert list(fired(first)) == ["small"]


def test_rules_of_ones_own_come_first() -> None:
    circuit = product_then_sum(HadamardLayer(2, 2), [coin([0], 2), coin([1], 2)])
    own = Rule(
        "own",
        "W (a * b) -> CPT(W; b, a)",
        Pattern(Entry("sum", SumLayer, ("product",)), Entry("product", HadamardLayer, ("a", "b"))),
        lambda match: Replacement.chain([match["b"], match["a"]], CPTLayer(2, 1, 2, match["sum"].weight)),
        laws=ORDINARY,
    )
    rules = DEFAULT_RULES.adding(fuse=[own])
    optimized = optimize_circuit(circuit, rules)
    assert fired(optimized) == {"own": 1}
    assert_same(circuit, optimized)
    compiled = TorchCompiler(rules=rules).compile(circuit)
    assert "fuse own: W (a * b) -> CPT(W; b, a): once" in compiled.explain()


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="two rules are called 'tucker'; give yours another name"):
        DEFAULT_RULES.adding(fuse=[pairs_to_one("tucker", SumLayer)])


def test_default_rules_have_equations_and_sources() -> None:
    for rule in (*DEFAULT_RULES.parameters, *DEFAULT_RULES.shatter, *DEFAULT_RULES.fuse):
        assert "->" in rule.equation
        assert rule.source


def test_the_report_in_full() -> None:
    leaves = [coin([0], 2), coin([1], 2)]
    first, second = HadamardLayer(2, 2), HadamardLayer(2, 2)
    one, two, three = (SumLayer(2, 2) for _ in range(3))
    edges: dict[Any, Any] = {first: leaves, second: leaves, one: [first], two: [second], three: [second]}
    circuit = Circuit([*leaves, *edges], edges, [one, two, three])
    assert optimize_circuit(circuit).report.text() == (
        "optimized: 7 layers became 6 in 2 step(s); stopped because no rule matched any more\n"
        "  fuse cp-t: W (a * b * ...) -> CPT(W; a, b, ...): once, saved 0 FLOPs and 1,024 bytes written\n"
        "    at SumLayer(4, arity=1, 2 -> 2)\n"
        "saved in all, estimated for 128 rows in float32: 0 FLOPs and 1,024 bytes written\n"
        "near matches:\n"
        "  cp-t, 2 place(s): an interior node has another consumer\n"
        "    HadamardLayer(3, arity=2, 2 -> 2) is also read by SumLayer(6, arity=1, 2 -> 2); "
        "HadamardLayer(3, arity=2, 2 -> 2) is also read by SumLayer(5, arity=1, 2 -> 2)"
    )


def test_places_are_named_by_the_circuit_as_described() -> None:
    leaves = [coin([variable], 2) for variable in range(3)]
    inner, outer, total = HadamardLayer(2, 2), HadamardLayer(2, 2), SumLayer(2, 1)
    edges: dict[Any, Any] = {inner: leaves[:2], outer: [inner, leaves[2]], total: [outer]}
    report = optimize_circuit(Circuit([*leaves, *edges], edges, [total])).report
    assert [(one.rule, one.places) for one in report.fired] == [
        ("hadamard-hadamard", ("HadamardLayer(4, arity=2, 2 -> 2)",)),
        ("cp-t", ("SumLayer(5, arity=1, 2 -> 1)",)),
    ]


COSTS = [
    (HadamardLayer(4, 3), (8, 4)),
    (KroneckerLayer(2, 3), (12, 12)),
    (SumLayer(4, 3, 2, weight=None), (24, 3)),
    (TuckerLayer(2, 3, 3), (42, 3)),
    (CPTLayer(4, 3, 2), (16, 3)),
    (TensorDotLayer(2, 3, 4, 5), (120, 40)),
    (coin([0], 3), (0, 0)),
]


@pytest.mark.parametrize(("layer", "row"), COSTS, ids=lambda value: str(value))
def test_costs_of_layers(layer, row) -> None:
    assert layer_cost(layer).row == row


def test_costs_add_up() -> None:
    cost = Cost((1, 2), (3, 4)) + Cost((1, 1), (1, 1)) - Cost((0, 1), (1, 0))
    assert cost == Cost((2, 2), (3, 5))
    assert (cost.multiply_adds, cost.flops, cost.bytes) == (259, 518, 4 * 261)
    assert np.isfinite(cost.bytes)


def test_a_rule_that_drops_a_tensor_is_refused() -> None:
    circuit = chain(coin([0], 2), SumLayer(2, 2))
    forgets = pairs_to_one("forgets", SumLayer)
    with pytest.raises(GraphError, match=r"one of the rules forgets dropped the tensor '1\.weight'"):
        optimize_circuit(circuit, Rules(fuse=(forgets,)), max_steps=1)


def kronecker_weighted() -> Circuit:
    """Two variables, each through a sum layer whose weight is a Kronecker product, multiplied and summed."""

    def weight() -> Parameter:
        return Parameter.from_binary(KroneckerParameter((2, 3), (3, 2)), softmax_normal((2, 3)), softmax_normal((3, 2)))

    leaves = [coin([variable], 6, 3) for variable in range(2)]
    sums = [SumLayer(6, 6, weight=weight()) for _ in range(2)]
    product, total = KroneckerLayer(6, 2), SumLayer(36, 2)
    edges: dict[Any, Any] = {sums[0]: [leaves[0]], sums[1]: [leaves[1]], product: sums, total: [product]}
    return Circuit([*leaves, *edges], edges, [total])


@pytest.mark.one_in(3)
@by_turns(name=[*CIRCUITS, "kronecker weights"], semiring=["lse-sum", "sum-product"])
def test_flags_change_neither_values_nor_missing_values_nor_keys(name: str, semiring: str) -> None:
    circuit = kronecker_weighted() if name == "kronecker weights" else CIRCUITS[name]()
    x = torch.from_numpy(data(circuit, 6)).double()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.4] = torch.nan
    found = []
    for fold in (False, True):
        for optimize in (False, True):
            torch.manual_seed(1)
            compiled = TorchCompiler(semiring, fold=fold, optimize=optimize, dtype="float64").compile(circuit)
            found.append((compiled(x), list(compiled.state_dict())))
    for values, keys in found[1:]:
        torch.testing.assert_close(values, found[0][0], rtol=1e-9, atol=1e-9, equal_nan=True)
        assert keys == found[0][1]


def test_sums_merge_whose_weights_share_a_node_that_a_rule_gave_other_inputs() -> None:
    shape = (2, 2)
    logs = Parameter.from_unary(LogParameter(shape), softmax_normal(shape))
    shared = Parameter.from_unary(SoftmaxParameter(shape), logs)  # its input becomes a log-softmax in each weight
    weights = [Parameter.from_binary(HadamardParameter(shape, shape), shared, softmax_normal(shape)) for _ in range(2)]
    leaf, (low, high) = CategoricalLayer([0], 2, num_categories=3), (SumLayer(2, 2, 1, one) for one in weights)
    circuit = Circuit([leaf, low, high], {low: [leaf], high: [low]}, [high])
    compiled, plain = (TorchCompiler("sum-product", optimize=optimize).compile(circuit) for optimize in (True, False))
    plain.load_state_dict(compiled.state_dict())
    assert "fuse sum-sum" in compiled.explain()
    x = torch.arange(3)[:, None]
    assert torch.allclose(compiled(x), plain(x), atol=1e-5)
