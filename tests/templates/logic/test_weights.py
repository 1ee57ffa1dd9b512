"""Weighted model counts of compiled circuits, by weights of literals that each call gives, in several algebras."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, ShapeError
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.parameters.leaves import ConstantParameter
from plica.templates.logic import LogicalCircuit
from tests.harness.formulas import random_clauses, rows_of, satisfied

VARIABLES = 5
NAN = torch.full((1, VARIABLES), float("nan"), dtype=torch.float64)


def given_at_the_call(variables: int) -> dict[int, TensorParameter]:
    return {v: TensorParameter(1, 2, initializer=None, name=f"w{v}") for v in range(variables)}


# semiring: what the numbers of models become, and what the circuit's value becomes
ALGEBRAS: dict[str, tuple[Any, Any]] = {
    "sum-product": (lambda numbers: numbers.sum(axis=1), lambda value: value),
    "lse-sum": (lambda numbers: numbers.sum(axis=1), np.exp),
    "max-product": (lambda numbers: numbers.max(axis=1, initial=0), lambda value: value),
    "max-sum": (lambda numbers: numbers.max(axis=1, initial=0), np.exp),
    "min-plus": (lambda numbers: numbers.max(axis=1, initial=0), lambda value: np.exp(-value)),
    "boolean": (lambda numbers: (numbers > 0).any(axis=1), lambda value: value),
}


@pytest.mark.parametrize("semiring", ALGEBRAS)
@pytest.mark.parametrize("seed", range(2))
def test_weights_of_literals_for_each_row(seed: int, semiring: str) -> None:
    rng = np.random.default_rng(seed)
    clauses = random_clauses(rng, VARIABLES)
    formula = LogicalCircuit.from_cnf(clauses, num_variables=VARIABLES)
    circuit = formula.build_circuit(literal_weights=given_at_the_call(VARIABLES))
    compiled = plica.compile(circuit, semiring=semiring, dtype=torch.float64)
    assert list(compiled.state_dict()) == []
    weights = rng.uniform(0.1, 2.0, (3, VARIABLES, 2))
    rows = rows_of(VARIABLES)
    models = rows[satisfied(clauses, rows)]
    numbers = np.array([np.prod(one[np.arange(VARIABLES), models], axis=1) for one in weights])
    reduce, linear = ALGEBRAS[semiring]
    given = {f"w{v}": torch.as_tensor(weights[:, v : v + 1]) for v in range(VARIABLES)}
    found = compiled(NAN.expand(3, -1), parameters=given)[:, 0, 0].detach().numpy()
    np.testing.assert_allclose(linear(found), reduce(numbers), rtol=1e-9)
    # the first variable observed to be true in every row
    observed = torch.cat([torch.ones(3, 1, dtype=torch.float64), NAN.expand(3, -1)[:, 1:]], dim=1)
    found = compiled(observed, parameters=given)[:, 0, 0].detach().numpy()
    np.testing.assert_allclose(linear(found), reduce(numbers * (models[:, 0] == 1)), rtol=1e-9)


def test_gradients_of_counts_are_counts_under_a_literal() -> None:
    formula = LogicalCircuit.from_cnf([[1, 2], [-2, 3]])
    compiled = plica.compile(
        formula.build_circuit(literal_weights=given_at_the_call(3)), semiring="sum-product", dtype=torch.float64
    )
    weights = torch.rand(4, 3, 2, dtype=torch.float64, requires_grad=True)
    given = {f"w{v}": weights[:, v : v + 1] for v in range(3)}
    compiled(torch.full((4, 3), float("nan")), parameters=given).sum().backward()
    assert weights.grad is not None
    for variable in range(3):
        for value in range(2):
            part = formula.condition({variable: value})
            expected = part.weighted_model_count(weights.detach().numpy(), scope=part.scope)
            np.testing.assert_allclose(weights.grad[:, variable, value], np.broadcast_to(expected, 4), rtol=1e-12)


def test_a_leaf_that_no_call_gives_is_refused_by_name() -> None:
    formula = LogicalCircuit.from_cnf([[1, 2]])
    compiled = plica.compile(formula.build_circuit(literal_weights=given_at_the_call(2)))
    with pytest.raises(InputError, match="the leaf 'w0' has no value of its own"):
        compiled(torch.zeros(1, 2))


def test_literals_and_unit_weights_are_constants() -> None:
    circuit = LogicalCircuit.from_cnf([[1, 2], [-2, 3]]).build_circuit()
    for layer in circuit.layers:
        if isinstance(layer, SumLayer | CategoricalLayer):
            (parameter,) = layer.params.values()
            assert all(isinstance(leaf, ConstantParameter) for leaf in parameter.nodes)
    assert list(plica.compile(circuit).parameters()) == []


def test_a_parameter_of_another_shape_is_refused() -> None:
    weights = {0: TensorParameter(2, 1, initializer=None)}
    with pytest.raises(
        ShapeError, match=r"a parameter of shape \(1, 2\) for the weights of variable 0, found \(2, 1\)"
    ):
        LogicalCircuit.from_cnf([[1]]).build_circuit(literal_weights=weights)
