import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings

import plica
from plica.errors import DTypeError, GraphError, InputError, ShapeError
from plica.queries import mpe, sample
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import CategoricalLayer
from plica.symbolic.parameters import ConstantParameter, TensorParameter
from plica.symbolic.scope import Scope
from plica.templates.logic import (
    SDD,
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalCircuit,
    NegatedLiteralNode,
    TopNode,
)
from tests.harness.formulas import VARIABLES, diagram, formulas, rows_of, truth

ROWS = rows_of(VARIABLES)
NAN = torch.full((1, VARIABLES), float("nan"), dtype=torch.float64)


def implication() -> LogicalCircuit:
    """x0 -> x1, as (x0 and x1) or not x0."""
    x, not_x, y, both, either = (
        LiteralNode(0),
        NegatedLiteralNode(0),
        LiteralNode(1),
        ConjunctionNode(),
        DisjunctionNode(),
    )
    return LogicalCircuit([either, both, y, not_x, x], {both: [x, y], either: [both, not_x]}, [either])


def random_diagram(seed: int, path: Any) -> LogicalCircuit:
    """A deterministic formula over four variables with about half of the rows as models."""
    generator = np.random.default_rng(seed)
    table = generator.random(2**VARIABLES) < 0.5
    path.write_text(diagram(table.tolist(), generator.permutation(VARIABLES).tolist()))
    return SDD.load(path)


def values(formula: LogicalCircuit, rows: Any = ROWS, **flags: Any) -> np.ndarray:
    compiled = plica.compile(formula.build_circuit(scope=range(VARIABLES)), dtype=torch.float64, **flags)
    return compiled(torch.as_tensor(rows)).detach().numpy()[:, 0, 0]


# The graph


def test_nodes_and_scopes() -> None:
    formula = implication()
    either = formula.outputs[0]
    assert [type(node).__name__ for node in formula.nodes] == [
        "LiteralNode", "LiteralNode", "ConjunctionNode", "NegatedLiteralNode", "DisjunctionNode",
    ]  # fmt: skip
    assert formula.node_scope(either) == formula.scope == Scope([0, 1])
    assert [len(formula.node_scope(one)) for one in formula.node_inputs(either)] == [2, 1]
    assert formula.num_variables == 2
    assert (formula.is_smooth, formula.is_decomposable, formula.is_deterministic) == (False, True, True)


def test_inputs_that_may_be_true_at_once_are_not_deterministic() -> None:
    x, y, either = LiteralNode(0), LiteralNode(1), DisjunctionNode()
    formula = LogicalCircuit([x, y, either], {either: [x, y]}, [either])
    assert not formula.is_deterministic
    assert LogicalCircuit([x, y, either], {either: [x, y]}, [either], is_deterministic=True).prune().is_deterministic


@given(formulas())
def test_what_is_said_to_be_deterministic_is(formula: LogicalCircuit) -> None:
    if formula.is_deterministic:
        for node in formula.nodes:
            if isinstance(node, DisjunctionNode):
                parts = [LogicalCircuit(formula.nodes, in_nodes(formula), [one]) for one in formula.node_inputs(node)]
                assert (sum(truth(one, ROWS).astype(int) for one in parts) <= 1).all()


def in_nodes(formula: LogicalCircuit) -> dict[Any, Any]:
    return {node: formula.node_inputs(node) for node in formula.nodes if formula.node_inputs(node)}


@given(formulas())
def test_pruning_keeps_the_truth_table_and_removes_constants(formula: LogicalCircuit) -> None:
    pruned = formula.prune()
    np.testing.assert_array_equal(truth(pruned, ROWS), truth(formula, ROWS))
    if len(pruned.nodes) > 1:
        assert not any(isinstance(node, TopNode | BottomNode) for node in pruned.nodes)
    assert all(len(pruned.node_inputs(node)) != 1 for node in pruned.nodes)
    assert len(pruned.nodes) <= len(formula.nodes)
    read = {one for node in pruned.nodes for one in pruned.node_inputs(node)}
    assert all(node in read or node in pruned.outputs for node in pruned.nodes)


@given(formulas())
def test_smoothing_keeps_the_truth_table(formula: LogicalCircuit) -> None:
    smooth = formula.smooth()
    assert smooth.is_smooth
    assert smooth.scope == formula.scope
    np.testing.assert_array_equal(truth(smooth, ROWS), truth(formula, ROWS))
    assert smooth.is_deterministic or not formula.is_deterministic


def test_what_the_caller_passes_is_never_changed() -> None:
    x, top, both = LiteralNode(0), TopNode(), ConjunctionNode()
    nodes: list[Any] = [both, x, top]
    inputs: dict[Any, Any] = {both: [x, top]}
    outputs: list[Any] = [both]
    formula = LogicalCircuit(nodes, inputs, outputs)
    weights = {0: [0.25, 0.75]}
    formula.prune()
    formula.smooth()
    formula.build_circuit(literal_weights=weights)
    assert (nodes, inputs, outputs) == ([both, x, top], {both: [x, top]}, [both])
    assert weights == {0: [0.25, 0.75]}


# Circuits


@settings(max_examples=10)
@given(formulas())
def test_any_formula_in_the_boolean_algebra(formula: LogicalCircuit) -> None:
    np.testing.assert_array_equal(values(formula, semiring="boolean"), truth(formula, ROWS))


@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum"])
@pytest.mark.parametrize("seed", range(4))
def test_a_deterministic_formula_is_an_indicator_and_counts_its_models(seed: int, semiring: str, tmp_path: Any) -> None:
    formula = random_diagram(seed, tmp_path / "random.sdd")
    assert formula.is_deterministic
    assert formula.is_decomposable
    table = truth(formula, ROWS)
    rows = np.concatenate([ROWS, np.full((1, VARIABLES), np.nan)])
    found = values(formula, rows, semiring=semiring)
    linear = found if semiring == "sum-product" else np.exp(found)
    np.testing.assert_allclose(linear, [*table, table.sum()], atol=1e-9)


def test_the_count_is_over_all_variables_of_the_scope() -> None:
    formula = implication()
    for scope, count in ((None, 3), (range(4), 12), ([0, 1, 7], 6)):
        circuit = formula.build_circuit(scope=scope)
        assert circuit.is_smooth
        width = max(circuit.scope) + 1
        rows = torch.full((1, width), float("nan"))
        assert plica.compile(circuit, semiring="sum-product")(rows).item() == pytest.approx(count)


@pytest.mark.parametrize(("node", "count"), [(TopNode(), 8), (BottomNode(), 0), (LiteralNode(1), 4)])
def test_constants_and_single_literals(node: Any, count: int) -> None:
    circuit = LogicalCircuit([node], {}, [node]).build_circuit(scope=range(3))
    rows = torch.as_tensor([*rows_of(3).tolist(), [float("nan")] * 3])
    found = plica.compile(circuit, semiring="sum-product")(rows)[:, 0, 0].tolist()
    assert found[-1] == count
    assert sum(found[:-1]) == count


def test_several_outputs() -> None:
    formula = implication()
    outputs = [*formula.outputs, formula.nodes[0], formula.nodes[2]]
    circuit = LogicalCircuit(formula.nodes, in_nodes(formula), outputs).build_circuit()
    compiled = plica.compile(circuit, semiring="sum-product")
    rows = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert compiled(rows)[:, :, 0].T.tolist() == [[1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]]


def weighted(formula: LogicalCircuit, weights: np.ndarray) -> np.ndarray:
    """What each row weighs; weights are (variables, 2)."""
    return truth(formula, ROWS) * np.prod(weights[np.arange(VARIABLES), ROWS], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_weighted_model_counts_and_the_most_probable_model(seed: int, tmp_path: Any) -> None:
    formula = random_diagram(seed, tmp_path / "random.sdd")
    weights = np.random.default_rng(seed).uniform(0.1, 2, size=(VARIABLES, 2))
    circuit = formula.build_circuit(scope=range(VARIABLES), literal_weights=dict(enumerate(weights.tolist())))
    expected = weighted(formula, weights)
    compiled = plica.compile(circuit, dtype=torch.float64)
    found = compiled(torch.as_tensor(ROWS)).exp().numpy()[:, 0, 0]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert compiled(NAN).exp().item() == pytest.approx(expected.sum())
    rows, log_values = mpe(compiled, NAN)
    assert rows.tolist() == [ROWS[expected.argmax()].tolist()]
    assert log_values.exp().item() == pytest.approx(expected.max())


def test_weights_may_be_parameters_whose_gradients_are_marginals(tmp_path: Any) -> None:
    formula = random_diagram(1, tmp_path / "random.sdd")

    def factory(shape: tuple[int, ...]) -> TensorParameter:
        return TensorParameter(*shape, initializer=UniformInitializer(0.5, 2.0))

    circuit = formula.build_circuit(scope=range(VARIABLES), literal_weights=factory)
    compiled = plica.compile(circuit, dtype=torch.float64, fold=False)
    names = {min(circuit.layer_scope(circuit.layers[int(key.split(".")[0])])): key for key in compiled.state_dict()}
    assert sorted(names) == list(range(VARIABLES))  # one tensor for each variable, whatever literals there are
    weights = np.concatenate([compiled.state_dict()[names[variable]].numpy() for variable in range(VARIABLES)])
    expected = weighted(formula, weights)
    compiled(NAN).sum().backward()
    gradients = {tuple(one.detach().ravel().tolist()): one.grad.ravel().numpy() for one in compiled.parameters()}
    for variable, weight in enumerate(weights):
        share = [expected[ROWS[:, variable] == value].sum() / expected.sum() for value in range(2)]
        np.testing.assert_allclose(gradients[tuple(weight.tolist())] * weight, share, atol=1e-9)


def test_models_are_drawn_alike(tmp_path: Any) -> None:
    formula = random_diagram(2, tmp_path / "random.sdd")
    models = truth(formula, ROWS)
    compiled = plica.compile(formula.build_circuit(scope=range(VARIABLES)))
    codes = sample(compiled, 4000, seed=0).numpy().astype(int) @ (1 << np.arange(VARIABLES)[::-1])
    counts = np.bincount(codes, minlength=len(ROWS))
    assert counts[~models].sum() == 0
    assert scipy.stats.chisquare(counts[models]).pvalue > 1e-3


def at_least(least: int, variables: int) -> LogicalCircuit:
    """At least some number of the variables are true: decisions on one after another."""
    inputs: dict[Any, Any] = {}
    true, false = ([kind(v) for v in range(variables)] for kind in (LiteralNode, NegatedLiteralNode))
    rest: list[Any] = [BottomNode()] * least + [TopNode()]  # by how many are still needed, the last at most none
    for variable in reversed(range(variables)):
        decisions = []
        for lacking in range(least + 1):  # `least - lacking` are still needed
            yes, no, either = ConjunctionNode(), ConjunctionNode(), DisjunctionNode()
            inputs[yes] = [true[variable], rest[min(lacking + 1, least)]]
            inputs[no] = [false[variable], rest[lacking]]
            inputs[either] = [yes, no]
            decisions.append(either)
        rest = decisions
    nodes = dict.fromkeys([*inputs, *(one for parts in inputs.values() for one in parts)])
    return LogicalCircuit(nodes, inputs, rest[:1])


def test_a_formula_of_more_variables_than_can_be_enumerated() -> None:
    formula = at_least(4, 30)
    assert formula.is_deterministic
    circuit = formula.build_circuit()
    compiled = plica.compile(circuit, semiring="sum-product", dtype=torch.float64)
    expected = sum(math.comb(30, count) for count in range(4, 31))
    assert compiled(torch.full((1, 30), float("nan"))).item() == pytest.approx(expected, rel=1e-12)
    rows = torch.as_tensor((np.random.default_rng(0).random((200, 30)) < 0.13).astype(float))
    assert (compiled(rows).ravel() == (rows.sum(dim=1) >= 4)).all()
    assert len(compiled.layers) < len(circuit.layers) / 3


def test_circuits_fold() -> None:
    """A chain of implications: one group of literals, and the levels of the chain."""
    compiled = plica.compile(implication().build_circuit(scope=range(50)), semiring="sum-product")
    assert [group.num_folds for group in compiled.layers if group.kind == "input"] == [52]


def test_deep_formulas_do_not_overflow() -> None:
    """x0 and (x1 or (x2 and (x0 or ...))), 2000 gates deep."""
    literals = [LiteralNode(variable) for variable in range(3)]
    nodes: list[Any] = [*literals]
    inputs: dict[Any, Any] = {}
    for depth in range(2000):
        gate = (ConjunctionNode, DisjunctionNode)[depth % 2]()
        inputs[gate] = [literals[depth % 3], nodes[-1]]
        nodes.append(gate)
    formula = LogicalCircuit(nodes, inputs, nodes[-1:])
    pruned = formula.prune().smooth()
    np.testing.assert_array_equal(truth(pruned, rows_of(3)), truth(formula, rows_of(3)))
    assert not formula.is_deterministic
    assert len(formula.build_circuit().layers) > 2000


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x, gate: ([x, gate], {gate: []}, [gate]), GraphError, "a ConjunctionNode has no inputs; name them in"),
        (lambda x, _: ([x], {x: [x]}, [x]), GraphError, "LiteralNode.variable=0. has inputs; put a Conjunction"),
        (lambda x, gate: ([gate], {gate: [x]}, [gate]), GraphError, "names LiteralNode.*, which is not listed"),
        (lambda x, _: ([x], {}, []), GraphError, "there are no outputs; pass the root"),
        (lambda x, _: ([x], {}, [TopNode()]), GraphError, "the output TopNode.. is not listed"),
        (lambda x, gate: ([x, gate], {gate: [gate, x]}, [gate]), GraphError, "the graph has a cycle"),
        (lambda x, _: ([x, "y"], {}, [x]), DTypeError, "expected nodes such as LiteralNode.0., found 'y'"),
        (lambda x, _: ([LiteralNode(-1)], {}, [x]), GraphError, "the output .* is not listed"),
    ],
)
def test_refuses_what_is_no_graph(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LogicalCircuit(*make(LiteralNode(0), ConjunctionNode()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"scope": [0]}, InputError, r"the scope \{0\} lacks variables of the formula: \{1\}; add them"),
        ({"literal_weights": {2: (1, 1)}}, InputError, r"names variables outside the scope \{0, 1\}: \{2\}"),
        ({"literal_weights": {1: (1, 1, 1)}}, ShapeError, r"expected two weights of variable 1, .* found \(1, 1, 1\)"),
    ],
)
def test_refuses_what_is_no_circuit(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        implication().build_circuit(**arguments)


def test_a_constant_needs_variables() -> None:
    top = TopNode()
    with pytest.raises(InputError, match="the formula has no variables; pass scope"):
        LogicalCircuit([top], {}, [top]).build_circuit()


# Layers and weights of one's own


def coin(head: float) -> Any:
    def factory(scope: Scope, num_units: int) -> CategoricalLayer:
        probs = ConstantParameter(num_units, 2, value=[[1 - head, head]] * num_units)
        return CategoricalLayer(scope, num_units, num_categories=2, probs=probs)

    return factory


def quarter(shape: tuple[int, ...]) -> ConstantParameter:
    return ConstantParameter(*shape, value=0.25)


@pytest.mark.parametrize(
    ("built", "expected", "is_smooth"),
    [
        # x0 and x1 weighs 0.25, not x0 and (x1 or not x1) 0.25 * 0.25
        ({"weight_factory": quarter}, [1 / 16, 1 / 16, 0, 1 / 4], True),
        ({"weight_factory": quarter, "enforce_smoothness": False}, [1 / 4, 1 / 4, 0, 1 / 4], False),
        ({"enforce_smoothness": False}, [1, 1, 0, 1], False),
        (
            {"literal_input_factory": coin(0.9), "negated_literal_input_factory": coin(0.3)},
            [0.01 + 0.7 * 0.8, 0.09 + 0.7 * 1.2, 0.09 + 0.3 * 0.8, 0.81 + 0.3 * 1.2],
            True,
        ),
    ],
)
def test_literals_and_disjunctions_may_be_made_by_factories(
    built: dict[str, Any], expected: list[float], is_smooth: bool
) -> None:
    circuit = implication().build_circuit(**built)
    assert circuit.is_smooth == is_smooth
    compiled = plica.compile(circuit, semiring="sum-product", dtype=torch.float64)
    rows = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_allclose(compiled(rows).detach().flatten(), expected)


@pytest.mark.parametrize(
    ("built", "error", "message"),
    [
        ({"literal_input_factory": coin(0.5)}, InputError, "pass both literal_input_factory and negated"),
        (
            {
                "literal_input_factory": coin(0.5),
                "negated_literal_input_factory": coin(0.5),
                "literal_weights": {0: (1, 2)},
            },
            InputError,
            "no literal_weights beside them",
        ),
        (
            {"literal_input_factory": lambda *_: 3, "negated_literal_input_factory": coin(0.5)},
            DTypeError,
            "make input layers, found 3",
        ),
        ({"weight_factory": 3}, DTypeError, "weight_factory must be a function"),
    ],
)
def test_refuses_factories(built: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        implication().build_circuit(**built)


def test_weights_of_files_are_weights_of_circuits() -> None:
    formula = implication()
    circuit = formula.build_circuit(literal_weights={0: (Fraction(1, 4), Fraction(3, 4)), 1: (1, 2)})
    compiled = plica.compile(circuit, semiring="sum-product", dtype=torch.float64)
    rows = torch.tensor([[0, 0], [1, 0], [1, 1]])
    assert compiled(rows)[:, 0, 0].tolist() == [0.25, 0, 1.5]
    for weight in (math.inf, math.nan):
        with pytest.raises(InputError, match=r"the weights of variable 0 are .*; pass finite weights"):
            formula.build_circuit(literal_weights={0: (weight, 1)})
    with pytest.raises(InputError, match="a weight is too large for a float"):
        formula.build_circuit(literal_weights={0: (Fraction(10**400), 1)})


def test_arguments_of_other_types() -> None:
    x, y, both = LiteralNode(0), LiteralNode(1), ConjunctionNode()
    wrong: Any = "no"
    tree: Any = [(0,)]
    assert LogicalCircuit([x, y, both], {both: iter([x, y])}, [both]).model_count() == 1  # type: ignore[dict-item]
    with pytest.raises(GraphError, match="a ConjunctionNode has no inputs"):
        LogicalCircuit([x, both], {both: iter([])}, [both])  # type: ignore[dict-item]
    with pytest.raises(GraphError, match="which is not listed"):
        LogicalCircuit([x, both], {both: iter([x, y])}, [both])  # type: ignore[dict-item]
    with pytest.raises(DTypeError, match="is_deterministic must be True or False, found 'no'"):
        LogicalCircuit([x], {}, [x], is_deterministic=wrong)
    with pytest.raises(DTypeError, match="expected a Vtree, found"):
        LogicalCircuit([x], {}, [x], vtree=tree)
