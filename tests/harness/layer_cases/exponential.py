"""The exponential layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import ExponentialLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import NOT_NEGATIVE, NOT_NEGATIVE_WRONG, SCALE
from tests.harness.layer_cases.univariate import density_case

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    return np.log(params["rate"]) - params["rate"] * x


CASES = (
    density_case(
        "exponential",
        ExponentialLayer,
        _log_density,
        lambda stats, rate: stats.expon(scale=1 / rate),
        lambda rng, rows: rng.exponential(size=rows),
        parameters={"rate": SCALE},
        points=NOT_NEGATIVE,
        wrong=NOT_NEGATIVE_WRONG,
        sampled=({"rate": 1e-6}, {"rate": 1e6}),
        starts=((1e-4, 1e-4), (3.0, 3.0), (1e5, 1e5)),
        modes=lambda params: 0 * params["rate"],
    ),
)
