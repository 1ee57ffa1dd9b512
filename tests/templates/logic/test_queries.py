"""Random clauses, compiled, against all assignments."""

import itertools
import math
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from plica.errors import DTypeError, InputError, ShapeError, StructuralPropertyError
from plica.symbolic.scope import Scope
from plica.symbolic.structure import splits_alike
from plica.templates.logic import (
    CNF,
    SDD,
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
    diagram,
    formulas,
    ladder,
    ladder_count,
    random_clauses,
    rows_of,
    satisfied,
    truth,
    without_vtree,
)

SEEDS = range(14)


def case(seed: int) -> tuple[Any, LogicalCircuit, Any, Any]:
    """A generator, a compiled formula of up to 12 variables, all rows, and which are models."""
    rng = np.random.default_rng(seed)
    variables = 12 if seed == 0 else int(rng.integers(1, 9))
    clauses = random_clauses(rng, variables)
    formula = LogicalCircuit.from_cnf(clauses, num_variables=variables)
    rows = rows_of(variables)
    return rng, formula, rows, satisfied(clauses, rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_of_clauses(seed: int) -> None:
    rng, formula, rows, models = case(seed)
    np.testing.assert_array_equal(derivations(formula, rows), models)
    count = formula.model_count()
    assert type(count) is int
    assert count == models.sum()
    assert formula.prune().model_count() == without_vtree(formula).model_count() == count
    assert formula.model_count(range(rows.shape[1] + 3)) == 8 * count
    weights = {v: (Fraction(int(rng.integers(-5, 5)), 7), Fraction(1, int(rng.integers(1, 5)))) for v in formula.scope}
    products = (math.prod(weights[v][value] for v, value in enumerate(row)) for row in rows[models].tolist())
    expected = sum(products, Fraction(0))
    found = formula.weighted_model_count(weights)
    assert found == expected
    assert isinstance(found, Fraction | int)
    assert formula.weighted_model_count({0: (1, 5)}, range(rows.shape[1] + 1)) == 2 * (
        models.sum() + 4 * (models & (rows[:, 0] == 1)).sum()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_of_each_row(seed: int) -> None:
    rng, formula, rows, models = case(seed)
    variables = rows.shape[1]
    weights = rng.uniform(0.1, 2.0, (5, variables, 2))
    expected = [np.prod(one[np.arange(variables), rows[models]], axis=1).sum() for one in weights]
    by_variable = {v: (weights[:, v, 0], weights[:, v, 1]) for v in range(variables)}
    for weights_of_rows in (weights, by_variable):
        np.testing.assert_allclose(
            np.broadcast_to(formula.weighted_model_count(weights_of_rows), 5), expected, rtol=1e-12
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_models_are_listed_once(seed: int) -> None:
    _, formula, rows, models = case(seed)
    expected = [dict(enumerate(row)) for row in rows[models].tolist()]
    found = list(formula.models())
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert list(formula.models(3)) == found[:3]
    assert [list(one) for one in found] == [sorted(one) for one in found]
    assert found == list(formula.models())


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions(seed: int) -> None:
    rng, formula, rows, models = case(seed)
    variables = rows.shape[1]
    chosen = rng.permutation(variables)[: int(rng.integers(0, variables + 1))].tolist()
    values = {variable: int(rng.integers(2)) for variable in chosen}
    conditioned = formula.condition(values)
    fitting = np.all([rows[:, variable] == value for variable, value in values.items()] or [True], axis=0)
    assert conditioned.scope == Scope(range(variables)) - Scope(values)
    assert conditioned.model_count() == (models & fitting).sum()
    np.testing.assert_array_equal(derivations(conditioned, rows)[fitting], models[fitting])
    assert conditioned.negate().model_count() == (~models & fitting).sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_negations(seed: int) -> None:
    _, formula, rows, models = case(seed)
    negation = formula.negate()
    np.testing.assert_array_equal(derivations(negation, rows), ~models)
    assert (negation.is_decomposable, negation.is_deterministic, negation.vtree) == (True, True, formula.vtree)
    assert negation.model_count() == (~models).sum()
    np.testing.assert_array_equal(derivations(negation.negate(), rows), models)
    assert splits_alike_or_is_one(negation)


@pytest.mark.parametrize("seed", SEEDS)
def test_entailment(seed: int) -> None:
    rng, formula, rows, models = case(seed)
    for _ in range(20):
        size = int(rng.integers(0, 4))
        clause = [int(v + 1) * int(rng.choice([-1, 1])) for v in rng.integers(0, rows.shape[1], size)]
        expected = bool(satisfied([clause], rows)[models].all()) if clause else not models.any()
        assert formula.entails(clause) == without_vtree(formula).prune().entails(clause) == expected
        if clause:
            assert formula.entails(clause[0]) == satisfied([clause[:1]], rows)[models].all()


def splits_alike_or_is_one(formula: LogicalCircuit) -> bool:
    """Whether the circuit is structured decomposable; one input layer splits nothing."""
    circuit = formula.build_circuit()
    return circuit.is_smooth and circuit.is_decomposable and splits_alike(circuit)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("keeps_vtree", [True, False])
def test_smoothing_keeps_everything(seed: int, keeps_vtree: bool) -> None:
    _, formula, rows, models = case(seed)
    smooth = (formula if keeps_vtree else without_vtree(formula).prune()).smooth()
    np.testing.assert_array_equal(derivations(smooth, rows), models)
    assert (smooth.is_smooth, smooth.is_decomposable, smooth.is_deterministic) == (True, True, True)
    assert smooth.scope == formula.scope
    assert smooth.vtree is (formula.vtree if keeps_vtree else None)
    assert isinstance(smooth.outputs[0], BottomNode) or smooth.node_scope(smooth.outputs[0]) == formula.scope
    if keeps_vtree:
        assert splits_alike_or_is_one(formula)


def test_a_smooth_diagram_without_its_vtree_is_not_structured() -> None:
    """The vtree is what makes the difference."""
    formula = LogicalCircuit.from_cnf(ladder(4))
    assert formula.build_circuit().is_structured_decomposable
    assert not without_vtree(formula).build_circuit().is_structured_decomposable


def test_literals_without_weights_have_ones_and_integers_stay_exact() -> None:
    formula = LogicalCircuit.from_cnf([], num_variables=3)
    assert formula.model_count() == 8
    assert formula.weighted_model_count({1: (10**30, 1)}) == 4 * (10**30 + 1)
    assert LogicalCircuit.from_cnf([[]], num_variables=2).model_count() == 0
    assert LogicalCircuit.from_cnf([[5]]).scope == Scope([4])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_arrays_of_integers_do_not_overflow(dtype: str) -> None:
    formula = LogicalCircuit.from_cnf([], num_variables=70)
    weights = np.ones((70, 2), dtype=dtype)
    for numbers in (
        weights,
        torch.as_tensor(weights),
        dict(enumerate(weights)),
        {v: [weights[0]] * 2 for v in range(70)},
    ):
        assert np.all(formula.weighted_model_count(numbers) == 2**70)


def test_a_number_of_variables_beside_clauses_that_have_one() -> None:
    assert LogicalCircuit.from_cnf(CNF([[1]]), num_variables=3).model_count() == 4
    assert LogicalCircuit.from_cnf(CNF([[1]], 5), num_variables=3).model_count() == 4
    for count, error in ((-1, ShapeError), (2**27 + 1, InputError), (10**12, InputError)):
        with pytest.raises(error, match="num_variables must be at"):
            CNF([], count)


def test_thousands_of_terms_are_known_to_exclude_each_other() -> None:
    """A disjunction of 1,500 models of 11 variables: not compared in pairs."""
    literals = [[NegatedLiteralNode(v), LiteralNode(v)] for v in range(11)]
    terms: dict[Any, Any] = {
        ConjunctionNode(): [literals[v][model >> v & 1] for v in range(11)] for model in range(1500)
    }
    nodes = [node for pair in literals for node in pair]
    either, twice = DisjunctionNode(), DisjunctionNode()
    listed = [*nodes, *terms]
    assert LogicalCircuit([*listed, either], {**terms, either: list(terms)}, [either]).model_count() == 1500
    repeated = LogicalCircuit([*listed, twice], {**terms, twice: [*terms, next(iter(terms))]}, [twice])
    assert not repeated.is_deterministic


def test_inputs_that_are_never_true_exclude_all_others() -> None:
    x, y, never, both = LiteralNode(0), LiteralNode(1), BottomNode(), ConjunctionNode()
    either = DisjunctionNode()
    formula = LogicalCircuit([x, y, never, both, either], {both: [y, never], either: [x, never, both]}, [either])
    assert (formula.is_deterministic, formula.model_count()) == (True, 2)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_diagrams_of_literal_primes(order: tuple[int, ...], tmp_path: Any) -> None:
    table = [False, True, True, False, True, True, True, False]
    path = tmp_path / "formula.sdd"
    path.write_text(diagram(table, order))
    formula = SDD.load(path)
    rows = rows_of(3)
    assert formula.model_count() == sum(table)
    np.testing.assert_array_equal(truth(formula.negate(), rows), [not one for one in table])


def test_decisions_are_negated_wherever_their_literal_stands() -> None:
    """(y and x) or (z and not x), and x or (not x and y), whose first conjuncts do not decide."""
    x, not_x, y, z = LiteralNode(0), NegatedLiteralNode(0), LiteralNode(1), LiteralNode(2)
    for first, second in (([y, x], [z, not_x]), ([x], [y, not_x])):
        left, right, either = ConjunctionNode(), ConjunctionNode(), DisjunctionNode()
        nodes: dict[Any, Any] = {left: first, right: second, either: [left, right]}
        formula = LogicalCircuit([x, not_x, y, z, *nodes], nodes, [either])
        rows = rows_of(3)
        np.testing.assert_array_equal(derivations(formula.negate(), rows), ~truth(formula, rows))
        np.testing.assert_array_equal(derivations(formula.negate().negate(), rows), truth(formula, rows))


def test_a_conjunction_is_negated() -> None:
    literals, both = [LiteralNode(v) for v in range(4)], ConjunctionNode()
    negation = LogicalCircuit([*literals, both], {both: literals}, [both]).negate()
    np.testing.assert_array_equal(derivations(negation, rows_of(4)), ~rows_of(4).all(axis=1))


@pytest.mark.parametrize("node", [TopNode(), BottomNode()])
def test_constants(node: Any) -> None:
    formula = LogicalCircuit([node], {}, [node], scope=range(3))
    count = 8 if isinstance(node, TopNode) else 0
    assert (formula.model_count(), formula.negate().model_count()) == (count, 8 - count)
    assert len(list(formula.models())) == count
    assert formula.entails([]) == (count == 0)
    assert LogicalCircuit([node], {}, [node]).model_count() == count // 8


def either_of(*nodes: Any, **settings: Any) -> LogicalCircuit:
    gate = DisjunctionNode()
    return LogicalCircuit([*nodes, gate], {gate: nodes}, [gate], **settings)


def twice() -> LogicalCircuit:
    x, both = LiteralNode(0), ConjunctionNode()
    return LogicalCircuit([x, both], {both: [x, x]}, [both])


OVERLAPPING = either_of(LiteralNode(0), LiteralNode(1))
WRONG: Any = [0]  # an argument of another type
UNDECIDED = either_of(LiteralNode(0), LiteralNode(1), is_deterministic=True)
ONE = either_of(LiteralNode(0), NegatedLiteralNode(0))
SEVERAL = LogicalCircuit(ONE.nodes, {node: ONE.node_inputs(node) for node in ONE.nodes}, ONE.nodes)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (OVERLAPPING.model_count, StructuralPropertyError, "model_count needs a deterministic formula"),
        (lambda: OVERLAPPING.weighted_model_count({}), StructuralPropertyError, "weighted_model_count needs a determ"),
        (OVERLAPPING.models, StructuralPropertyError, "models needs a deterministic formula"),
        (OVERLAPPING.negate, StructuralPropertyError, "negate needs a deterministic formula"),
        (twice().model_count, StructuralPropertyError, "model_count needs a decomposable formula"),
        (lambda: twice().entails(1), StructuralPropertyError, "entails needs a decomposable formula"),
        (
            UNDECIDED.negate,
            StructuralPropertyError,
            "of the primes of disjunction 2 of 3 nodes not always exactly one is true. Negate",
        ),
        (SEVERAL.model_count, InputError, "model_count: expected one output, found 3; make a circuit for each"),
        (lambda: ONE.model_count([1]), InputError, r"the scope \{1\} lacks variables of the formula: \{0\}; add them"),
        (
            lambda: ONE.weighted_model_count({1: (1, 1)}),
            InputError,
            r"weights name variables outside \{0\}: \{1\}; pass",
        ),
        (lambda: ONE.weighted_model_count({0: (1, 1, 1)}), ShapeError, "expected two weights of variable 0"),
        (lambda: ONE.weighted_model_count({0: 1}), DTypeError, "the weights of variable 0 must be a sequence"),
        (
            lambda: ONE.weighted_model_count(3),
            DTypeError,
            r"must be a mapping such as \{0: \(0.4, 0.6\)\}, or an array",
        ),
        (lambda: ONE.weighted_model_count(np.ones((1, 3))), ShapeError, r"expected weights of shape \(..., D, 2\)"),
        (lambda: ONE.condition({0: 2}), InputError, "condition: variable 0 must be 0 or 1, found 2"),
        (lambda: ONE.condition({3: 1}), InputError, r"condition: the formula has no variables \{3\}"),
        (lambda: ONE.condition(WRONG), DTypeError, "condition: expected values of variables"),
        (lambda: ONE.entails(0), InputError, "0 is no literal"),
        (lambda: ONE.models(-1), ShapeError, "limit must be at least 0"),
        (lambda: LogicalCircuit.from_cnf([[1, 0]]), InputError, "0 is no literal; variables are 1 to"),
        (lambda: LogicalCircuit.from_cnf([[3]], num_variables=2), InputError, "3 is no literal; variables are 1 to 2"),
        (lambda: LogicalCircuit.from_cnf([[WRONG]]), DTypeError, "a literal must be an integer"),
        (lambda: LogicalCircuit.from_cnf([WRONG[0]]), DTypeError, "a clause must be a sequence"),
        (lambda: LogicalCircuit.from_pysdd(3), DTypeError, "expected an SddNode, found 3 of type int"),
        (lambda: either_of(LiteralNode(0), scope=[1]), InputError, r"lacks variables of the formula: \{0\}; add them"),
    ],
)
def test_refusals(ask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


@settings(max_examples=100)
@given(formulas())
def test_any_formula_is_answered_rightly_or_refused(formula: LogicalCircuit) -> None:
    rows = rows_of(VARIABLES)
    models = truth(formula, rows)
    answers: list[Any] = [
        lambda: formula.model_count(range(VARIABLES)) == models.sum(),
        lambda: len(list(formula.models())) << VARIABLES - formula.num_variables == models.sum(),
        lambda: (derivations(formula.negate(), rows) == ~models).all(),
        lambda: formula.entails([1, -2]) == satisfied([[1, -2]], rows)[models].all(),
    ]
    for answer in answers:
        with suppress(StructuralPropertyError):
            assert answer()


def test_a_node_of_the_library() -> None:
    from pysdd.sdd import SddManager

    manager = SddManager(var_count=4)
    a, b, c, d = manager.vars
    formula = LogicalCircuit.from_pysdd((a & b) | (b & c) | (c & d))
    rows = rows_of(4)
    np.testing.assert_array_equal(
        truth(formula, rows), rows[:, 0] & rows[:, 1] | rows[:, 1] & rows[:, 2] | rows[:, 2] & rows[:, 3]
    )
    assert formula.vtree is not None
    assert LogicalCircuit.from_pysdd(a).model_count() == 8
    assert LogicalCircuit.from_pysdd(manager.false()).model_count() == 0


# Sizes: numbers of nodes for each variable, which must not grow


def gates(formula: LogicalCircuit) -> int:
    return sum(len(formula.node_inputs(node)) for node in formula.nodes)


@pytest.mark.full
def test_ladders_scale_linearly() -> None:
    sizes = []
    for variables in (8, 12, 16, 200, 1000):
        formula = LogicalCircuit.from_cnf(ladder(variables // 2))
        assert formula.model_count() == ladder_count(variables // 2)
        pruned, structured = formula.prune(), formula.smooth()
        plain = without_vtree(pruned).smooth()
        sizes.append([gates(pruned), gates(structured), gates(plain), len(formula.build_circuit().layers)])
    assert (np.array(sizes) < 1.5 * np.array(sizes)[:, :1]).all(), sizes  # beside what the library makes
    large, largest = np.array(sizes[3]) / 200, np.array(sizes[4]) / 1000
    assert (largest < 1.25 * large).all(), sizes


def test_a_chain_of_decisions_is_smooth_in_almost_linear_size() -> None:
    """x0, or not x0 and (x1, or not x1 and ...): the first input of a disjunction lacks all later variables."""
    variables = 1000
    nodes: dict[Any, Any] = {}
    rest: Any = LiteralNode(variables - 1)
    nodes[rest] = ()
    for variable in reversed(range(variables - 1)):
        true, false, both, either = (
            LiteralNode(variable),
            NegatedLiteralNode(variable),
            ConjunctionNode(),
            DisjunctionNode(),
        )
        nodes |= {true: (), false: (), both: (false, rest), either: (true, both)}
        rest = either
    formula = LogicalCircuit(nodes, nodes, [rest])
    assert formula.model_count() == 2**variables - 1
    assert gates(formula.smooth()) < 20 * variables
    assert sum(1 for _ in formula.models(5)) == 5
    assert formula.negate().model_count() == 1
