"""Orders of variables, and diagrams of formulas whose variables are shuffled."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, GraphError, InputError
from plica.templates.logic import CNF, LogicalCircuit, Vtree
from plica.templates.logic.variable_order import neighbours, separation, variable_order
from tests.harness.formulas import ladder, ladder_count, random_clauses, rows_of, satisfied, truth
from tests.harness.pairwise import first_usual


def shuffled(clauses: list[list[int]], seed: int) -> list[list[int]]:
    """The clauses with other numbers of variables."""
    variables = max(abs(literal) for clause in clauses for literal in clause)
    numbers = np.random.default_rng(seed).permutation(variables) + 1
    return [[int(numbers[abs(literal) - 1]) * (1 if literal > 0 else -1) for literal in clause] for clause in clauses]


def tree(variables: int) -> list[list[int]]:
    """A complete binary tree: a node implies one of its children."""
    return [[-v, 2 * v, 2 * v + 1] for v in range(1, variables // 2)]


def ring(variables: int) -> list[list[int]]:
    return [[v, v % variables + 1] for v in range(1, variables + 1)]


def grid(rows: int, columns: int) -> list[list[int]]:
    """No two neighbours on a grid are true."""
    names = np.arange(1, rows * columns + 1).reshape(rows, columns)
    pairs = [*zip(names[:, :-1].ravel(), names[:, 1:].ravel(), strict=True)]
    pairs += zip(names[:-1].ravel(), names[1:].ravel(), strict=True)
    return [[-int(a), -int(b)] for a, b in pairs]


@pytest.mark.parametrize("seed", first_usual(range(3)))
def test_a_shuffled_ladder_is_as_small_as_one_in_order(seed: int) -> None:
    sizes = []
    for variables in (60, 200, 600):
        formula = LogicalCircuit.from_cnf(shuffled(ladder(variables // 2), seed))
        assert formula.model_count() == ladder_count(variables // 2)
        assert list(formula.scope) == list(range(variables))
        sizes.append(len(formula.nodes) / variables)
    assert max(sizes) < 2 * min(sizes), sizes


@pytest.mark.parametrize(
    ("clauses", "width"), [(tree(255), 8), (ring(100), 2), (grid(4, 30), 5), (ladder(50), 3)], ids=str
)
def test_separations_of_shuffled_graphs(clauses: list[list[int]], width: int) -> None:
    cnf = CNF(shuffled(clauses, 1))
    order = variable_order(cnf)
    assert sorted(order) == list(cnf.scope)
    assert separation(order, neighbours(cnf)) <= width
    assert variable_order(cnf) == order


def test_a_separation_is_that_of_its_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        cnf = CNF(random_clauses(rng, 7), 7)
        order = rng.permutation(7).tolist()
        joined = {
            pair for clause in cnf.clauses for pair in combinations(sorted({abs(literal) - 1 for literal in clause}), 2)
        }
        cuts = [
            sum(any((min(a, b), max(a, b)) in joined for b in order[cut:]) for a in order[:cut]) for cut in range(8)
        ]
        assert separation(order, neighbours(cnf)) == max(cuts)


def test_clauses_of_many_variables_and_none() -> None:
    assert LogicalCircuit.from_cnf([list(range(1, 301))]).model_count() == 2**300 - 1
    assert LogicalCircuit.from_cnf([], num_variables=0).model_count() == 1
    assert LogicalCircuit.from_cnf([[], [1]]).model_count() == 0
    assert variable_order(CNF([], 0)) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_diagram_follows_the_given_vtree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variables = int(rng.integers(1, 8))
    clauses = random_clauses(rng, variables)
    vtree = Vtree.balanced(rng.permutation(variables).tolist())
    formula = LogicalCircuit.from_cnf(clauses, num_variables=variables, vtree=vtree)
    assert vtree.is_same(formula.vtree)
    np.testing.assert_array_equal(truth(formula, rows_of(variables)), satisfied(clauses, rows_of(variables)))
    assert not vtree.is_same(None)
    assert vtree.is_same(Vtree.balanced(vtree.leaves)) == (
        [vtree.nodes[leaf] for leaf in vtree.leaves.values()] == [(variable,) for variable in vtree.leaves]
        and Vtree.balanced(vtree.leaves).nodes == vtree.nodes
    )


def test_equal_trees_with_other_indices_are_the_same() -> None:
    first = Vtree([(0,), (1,), (2,), (0, 1), (3, 2)])
    assert first.is_same(Vtree([(2,), (1,), (0,), (2, 1), (3, 0)]))
    assert not first.is_same(Vtree([(2,), (1,), (0,), (1, 2), (3, 0)]))
    assert not first.is_same(Vtree([(0,), (1,), (2,), (1, 2), (0, 3)]))


def test_refusals() -> None:
    wrong: Any = 3
    with pytest.raises(GraphError, match="there is no node 7; nodes are 0 to 2, the root"):
        Vtree.balanced([0, 1]).children(7)
    with pytest.raises(GraphError, match="there is no node -1"):
        Vtree.balanced([0, 1]).children(-1)
    with pytest.raises(GraphError, match="variable 1 has two leaves"):
        Vtree.balanced([1, 1])
    with pytest.raises(GraphError, match="expected nodes"):
        Vtree.balanced([])
    with pytest.raises(InputError, match=r"the vtree has variables \{0, 1\}, and the clauses \{0, 1, 2\}; pass"):
        LogicalCircuit.from_cnf([[1, 3]], num_variables=3, vtree=Vtree.balanced([0, 1]))
    with pytest.raises(DTypeError, match="from_cnf: expected a Vtree, found 3"):
        LogicalCircuit.from_cnf([[1]], vtree=wrong)
    with pytest.raises(DTypeError, match="a literal must be an integer such as 1 or -2, found True"):
        LogicalCircuit.from_cnf([[1]]).entails(True)


def test_a_count_is_no_view_of_the_weights() -> None:
    for weights in (np.array([[0.25, 0.75]]), np.array([[[0.25, 0.75]], [[0.5, 0.5]]])):
        count = LogicalCircuit.from_cnf([[1]]).weighted_model_count(weights)
        assert not np.shares_memory(count, weights)
        np.testing.assert_array_equal(count, weights[..., 0, 1])
