"""The Poisson layer."""

import math
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, PoissonLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import COUNTS, COUNTS_WRONG, RATE, column
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[PoissonLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """r^x exp(-r) / x!, or 1."""
    (variable,) = layer.scope
    value, rate = x[:, variable, None], params["rate"]
    factorials = np.array([math.lgamma(1 + one) for one in np.nan_to_num(value[:, 0])])[:, None]
    return space.from_log(np.where(np.isnan(value), WIDE(0), value * np.log(rate) - rate - factorials))


def distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    """Poisson distributions."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return [stats.poisson(rate) for rate in params["rate"].astype(float)]


CASES = (
    InputCase(
        "poisson",
        ROW,
        PoissonLayer,
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(0, 9, (rows, 1)),
        modes=lambda _, params: np.floor(params["rate"])[:, None],
        parameters={"rate": RATE},
        points=column(COUNTS),
        wrong=COUNTS_WRONG,
        sampled=({"rate": 1e-3}, {"rate": 1e6}),
        starts=((1.0, 1.0),),
        refused=(
            Refused(lambda: PoissonLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
            Refused(
                lambda: PoissonLayer([0], 2, rate=normal((2,)), rate_factory=normal),
                InputError,
                "rate and rate_factory",
            ),
        ),
    ),
)
