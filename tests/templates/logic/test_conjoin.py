"""Conjunctions of formulas against the conjunction of their truth tables."""

import functools
import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import plica
from plica.errors import DTypeError, StructuralPropertyError
from plica.symbolic.functional import multiply
from plica.templates.logic import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalCircuit,
    NegatedLiteralNode,
    TopNode,
)
from tests.harness.formulas import (
    VARIABLES,
    derivations,
    formulas,
    random_clauses,
    rows_of,
    satisfied,
    truth,
    without_vtree,
)


@pytest.mark.parametrize("keeps_vtree", [True, False])
@pytest.mark.parametrize("seed", range(14))
def test_conjunctions_of_diagrams_of_one_vtree(seed: int, keeps_vtree: bool) -> None:
    sdd = pytest.importorskip("pysdd.sdd")
    rng = np.random.default_rng(seed)
    variables = int(rng.integers(1, 8))
    manager = sdd.SddManager(vtree=sdd.Vtree(var_count=variables, vtree_type=["balanced", "right", "left"][seed % 3]))
    all_clauses = [random_clauses(rng, variables) for _ in range(2)]

    def node_of(clauses: list[list[int]]) -> Any:
        parts = [functools.reduce(operator.or_, map(manager.literal, clause)) for clause in clauses]
        return functools.reduce(operator.and_, parts, manager.true())

    first, second = (LogicalCircuit.from_pysdd(node_of(clauses)) for clauses in all_clauses)
    if not keeps_vtree:
        first, second = (without_vtree(formula.prune()) for formula in (first, second))
    rows = rows_of(variables)
    expected = satisfied(all_clauses[0], rows) & satisfied(all_clauses[1], rows)
    both = first.conjoin(second)
    np.testing.assert_array_equal(derivations(both, rows), expected)
    assert both.is_deterministic
    assert both.is_decomposable
    assert both.model_count() == expected.sum()
    assert (both.vtree is not None) == keeps_vtree
    if keeps_vtree:
        assert both.vtree.nodes == first.vtree.nodes
        assert both.build_circuit().is_structured_decomposable
    given = {int(rng.integers(variables)): int(rng.integers(2))}
    kept = rows[:, next(iter(given))] == next(iter(given.values()))
    assert both.condition(given).model_count() == (expected & kept).sum()
    assert len(list(both.conjoin(first).models())) == expected.sum()


@settings(max_examples=150)
@given(formulas(), formulas())
def test_any_two_formulas_are_conjoined_rightly_or_refused(first: LogicalCircuit, second: LogicalCircuit) -> None:
    rows = rows_of(VARIABLES)
    try:
        both = first.conjoin(second)
    except StructuralPropertyError as error:
        assert "conjoin" in str(error)  # noqa: PT017
        return
    counts = [derivations(formula.prune(), rows) for formula in (first, second)]
    np.testing.assert_array_equal(derivations(both, rows), counts[0] * counts[1])
    assert both.is_decomposable
    assert both.scope == first.scope | second.scope


def test_factors_are_matched_in_any_order_and_nesting() -> None:
    rng = np.random.default_rng(0)

    def nested(order: Any, split: int) -> LogicalCircuit:
        """The conjunction of `v or v + 10, exactly one`, for six variables, as two nested conjunctions."""
        in_nodes: dict[Any, Any] = {}
        parts = []
        for variable in order:
            pairs = [(LiteralNode, NegatedLiteralNode), (NegatedLiteralNode, LiteralNode)]
            terms = []
            for first, second in pairs:
                term = ConjunctionNode()
                in_nodes[term] = [first(variable), second(variable + 10)]
                terms.append(term)
            parts.append(DisjunctionNode())
            in_nodes[parts[-1]] = terms
        left, right, top = ConjunctionNode(), ConjunctionNode(), ConjunctionNode()
        in_nodes |= {left: parts[:split], right: parts[split:], top: [left, right]}
        nodes = dict.fromkeys([*in_nodes, *(child for inputs in in_nodes.values() for child in inputs)])
        return LogicalCircuit(nodes, in_nodes, [top])

    first, second = nested(range(6), 2), nested(rng.permutation(6).tolist(), 3)
    assert first.conjoin(second).model_count() == first.model_count() == 2**6


def test_conjunctions_that_split_their_variables_differently_are_refused() -> None:
    def crossed(pairs: list[tuple[int, int]]) -> LogicalCircuit:
        in_nodes: dict[Any, Any] = {}
        parts = []
        for first, second in pairs:
            in_nodes[either := DisjunctionNode()] = [LiteralNode(first), LiteralNode(second)]
            parts.append(either)
        in_nodes[both := ConjunctionNode()] = parts
        nodes = dict.fromkeys([*in_nodes, *(child for inputs in in_nodes.values() for child in inputs)])
        return LogicalCircuit(nodes, in_nodes, [both])

    first, second = crossed([(0, 1), (2, 3)]), crossed([(0, 2), (1, 3)])
    with pytest.raises(
        StructuralPropertyError, match=r"over \{0, 1\} and \{2, 3\} and one over \{0, 2\} and \{1, 3\} spl"
    ):
        first.conjoin(second)
    rows = rows_of(4)
    np.testing.assert_array_equal(truth(first.conjoin(crossed([(2, 3), (0, 1)])), rows), truth(first, rows))


def test_the_circuit_of_a_conjunction_is_the_product_of_the_circuits() -> None:
    first = LogicalCircuit.from_cnf([[1, 2], [-2, 3]], num_variables=4)
    second = LogicalCircuit.from_cnf([[2, 4], [-1, -4]], num_variables=4, vtree=first.vtree)
    rows = torch.tensor(rows_of(4), dtype=torch.float64)
    values = [
        plica.compile(circuit, semiring="sum-product", dtype=torch.float64)(rows).flatten()
        for circuit in (
            first.conjoin(second).build_circuit(),
            multiply(first.build_circuit(), second.build_circuit()),
        )
    ]
    np.testing.assert_array_equal(*(value.detach().numpy() for value in values))
    assert values[0].sum().item() == first.conjoin(second).model_count()


def test_constants_and_other_scopes() -> None:
    true, false = (LogicalCircuit([node], {}, [node], scope=[0, 1]) for node in (TopNode(), BottomNode()))
    x = LogicalCircuit([node := LiteralNode(3)], {}, [node])
    assert true.conjoin(x).model_count() == x.conjoin(true).model_count() == 4
    assert false.conjoin(x).model_count() == x.conjoin(false).model_count() == 0
    assert true.conjoin(true).model_count() == 4
    assert true.conjoin(false).model_count() == 0
    assert x.conjoin(x).model_count() == 1


def test_long_diagrams_are_conjoined() -> None:
    """Without recursion, in a size that is linear where both are narrow."""
    sizes = []
    for variables in (300, 600):
        chain = [[v, -(v + 1)] for v in range(1, variables)]  # x0 >= x1 >= ...
        first = LogicalCircuit.from_cnf(chain)
        second = LogicalCircuit.from_cnf([[-v, v + 1] for v in range(1, variables)], vtree=first.vtree)
        both = first.conjoin(second)
        assert both.model_count() == 2
        sizes.append(len(both.nodes))
    assert sizes[1] < 2.5 * sizes[0]


def test_something_else_is_refused() -> None:
    x = LogicalCircuit([node := LiteralNode(0)], {}, [node])
    twice = LogicalCircuit([both := ConjunctionNode(), node], {both: [node, node]}, [both])
    wrong: Any = 3
    with pytest.raises(DTypeError, match="conjoin: expected a LogicalCircuit, found 3"):
        x.conjoin(wrong)
    with pytest.raises(StructuralPropertyError, match="conjoin needs a decomposable formula"):
        x.conjoin(twice)
