"""The Poisson layer."""

import math
from typing import Any

import numpy as np

from plica.symbolic.layers import PoissonLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import COUNTS, COUNTS_WRONG, RATE
from tests.harness.layer_cases.univariate import density_case

Array = Any


def _log_mass(params: Params, x: Array) -> Array:
    rate = params["rate"]
    factorials = np.array([math.lgamma(1 + count) for count in np.nan_to_num(x[:, 0])])[:, None]
    return x * np.log(rate) - rate - factorials


CASES = (
    density_case(
        "poisson",
        PoissonLayer,
        _log_mass,
        lambda stats, rate: stats.poisson(rate),
        lambda rng, rows: rng.integers(0, 9, rows),
        modes=lambda params: np.floor(params["rate"]),
        parameters={"rate": RATE},
        points=COUNTS,
        wrong=COUNTS_WRONG,
        sampled=({"rate": 1e-3}, {"rate": 1e6}),
        starts=((1.0, 1.0),),
    ),
)
