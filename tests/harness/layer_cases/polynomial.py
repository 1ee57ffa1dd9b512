"""The polynomial layer, at given values alone: its integral does not exist."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, PolynomialLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import column, signed_weights
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """A sum of powers, each of which may have another sign."""
    (variable,) = layer.scope
    coeff = params["coeff"]
    return sum(space.from_linear(coeff[:, power] * x[:, [variable]] ** power) for power in range(layer.degree + 1))


def of(degree: Any, **settings: Any) -> Callable[[Sequence[int], int], PolynomialLayer]:
    """Layers of some degree."""
    return lambda scope, units: PolynomialLayer(scope, units, degree=degree, **settings)


CASES = (
    InputCase(
        "polynomial",
        LAYER_ROWS[PolynomialLayer],
        of(3),
        reference,
        None,
        None,
        draw=lambda _, rng, rows: rng.normal(size=(rows, 1)).astype(np.float32),
        alike=(of(0), of(5)),
        parameters={"coeff": signed_weights(4)},
        points=column((0.0, -0.0, 1e-30, 1e-6, -1.0, 2.5, 1e3, -1e6)),
        wrong=(),
        sampled=(),
        starts=(),
        refused=(
            Refused(lambda: of(1)([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\), found \{0, 1\}"),
            Refused(lambda: of("two")([0], 2), DTypeError, "degree must be an integer, found 'two'"),
            Refused(
                lambda: of(1, coeff=normal((2, 2)), coeff_factory=normal)([0], 2),
                InputError,
                "coeff and coeff_factory exclude each other",
            ),
        ),
        may_be_zero=("degree",),
    ),
)
