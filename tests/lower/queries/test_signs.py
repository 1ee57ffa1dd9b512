"""Which circuits are known never to be negative: squares and what is made of them, and near misses."""

from typing import Any

import numpy as np
import pytest

from plica.lower.checks import has_signs
from plica.lower.queries.signs import is_never_negative
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import (
    concatenate,
    condition,
    conjugate,
    differentiate,
    evidence,
    integrate,
    marginal,
    mixture,
    multiply,
    normalize,
    power,
    rename,
    simplify,
    smooth,
)
from plica.symbolic.layers import EmbeddingLayer, PolynomialLayer
from plica.symbolic.parameters import ConstantParameter, Parameter, SoftmaxParameter, normal
from plica.templates import squared, sum_of_squares
from plica.templates.pgms import fully_factorized, hmm
from plica.templates.tensor_factorizations import cp
from tests.harness.squares import COMPLEX, SIGNED, SQUARES

FIRST, SECOND = cp((2, 3), 2), cp((2, 3), 3, weight_param=SIGNED)
COMPLEX_ONE = cp((2, 3), 2, input_params={"weight": COMPLEX})
MONOTONE = hmm([0, 1], num_latent_states=2, input_layer_kwargs=[{"num_categories": 2}, {"num_categories": 3}])
SQUARE = squared(FIRST)


def softmax(count: int) -> Parameter:
    return Parameter.from_unary(SoftmaxParameter((1, count)), normal((1, count)))


def wide() -> Circuit:
    layer = EmbeddingLayer([0], 2, num_states=2)
    return Circuit([layer], {}, [layer])


NEVER: dict[str, Any] = {
    **{f"square {name}": case.circuit for name, case in SQUARES.items()},
    "monotone": MONOTONE,
    "independent": fully_factorized(2, input_layer_kwargs={"num_categories": 2}),
    "conjugate first": multiply(conjugate(COMPLEX_ONE), COMPLEX_ONE),
    "conjugate of a real circuit": multiply(FIRST, conjugate(FIRST)),
    "two squares": multiply(FIRST, SECOND, SECOND, FIRST),
    "power of a square": power(SQUARE, 3),
    "mixture": mixture([SQUARE, MONOTONE], [0.5, 0.0]),
    "learned mixture": mixture([SQUARE, MONOTONE], softmax(2)),
    "operators": simplify(smooth(rename(normalize(marginal(condition(SQUARE, {0: 1}), [1])), {1: 5}))),
    "integral": integrate(evidence(SQUARE, {0: 1})),
    "several": concatenate([SQUARE, MONOTONE]),
}
PERHAPS: dict[str, Any] = {
    "signed": FIRST,
    "another circuit": multiply(FIRST, SECOND),
    "an equal copy": multiply(FIRST, cp((2, 3), 2)),
    "odd power": power(FIRST, 3),
    "odd product": multiply(FIRST, FIRST, FIRST),
    "complex without conjugate": multiply(COMPLEX_ONE, COMPLEX_ONE),
    "complex power": power(COMPLEX_ONE, 2),
    "two conjugates": multiply(conjugate(COMPLEX_ONE), conjugate(COMPLEX_ONE)),
    "all pairs of units": multiply(wide(), wide()),
    "units of one circuit": (lambda c: multiply(c, c))(wide()),
    "power of units": power(wide(), 2),
    "negative weight": mixture([SQUARE, MONOTONE], [1.0, -0.1]),
    "complex weight": mixture([SQUARE, MONOTONE], [1.0, 1j]),
    "learned weight": mixture([SQUARE, MONOTONE], normal((1, 2))),
    "sum with a free weight": sum_of_squares([FIRST, SECOND], normal((1, 2))),
    "part of a mixture": mixture([SQUARE, FIRST], [1.0, 1.0]),
    "complex": COMPLEX_ONE,
    "part of a square": SQUARE.subgraph(*SQUARE.outputs),
}


@pytest.mark.parametrize("name", NEVER)
def test_known_never_to_be_negative(name: str) -> None:
    assert is_never_negative(NEVER[name])


@pytest.mark.parametrize("name", PERHAPS)
def test_not_known(name: str) -> None:
    assert not is_never_negative(PERHAPS[name])


def test_derivatives_and_polynomials_may_be_negative() -> None:
    layer = PolynomialLayer([0], 1, degree=2, coeff=ConstantParameter(1, 3, value=np.ones((1, 3))))
    polynomial = Circuit([layer], {}, [layer])
    assert not is_never_negative(polynomial)
    square = squared(polynomial)
    assert is_never_negative(square)
    assert not is_never_negative(differentiate(square))


def test_signs() -> None:
    assert has_signs(FIRST)
    assert has_signs(COMPLEX_ONE)
    assert has_signs(SQUARE)
    assert not has_signs(MONOTONE)
    assert not has_signs(squared(MONOTONE))


def test_many_operations_need_no_recursion() -> None:
    circuit = SQUARE
    for _ in range(1500):
        circuit = Circuit(
            circuit.layers,
            {layer: inputs for layer, inputs in circuit.layers_inputs.items() if inputs},
            circuit.outputs,
            operation=type(SQUARE.operation)("simplify", (circuit,)),  # type: ignore[misc]
        )
    assert is_never_negative(circuit)
