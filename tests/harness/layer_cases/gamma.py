"""The gamma layer: as it is made by default, and of concentrations above 1."""

from dataclasses import replace
from typing import Any

import numpy as np

from plica.symbolic.layers import GammaLayer
from plica.symbolic.layers.starts import beyond
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import LARGE_SIZE, NOT_NEGATIVE, NOT_NEGATIVE_WRONG, SCALE, SIZE
from tests.harness.layer_cases.univariate import density_case
from tests.harness.wide import lgamma

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    concentration, rate = params["concentration"], params["rate"]
    inner = np.where(x == 0, 2.0**-126, x)  # where it may be infinite, it is that at the next number of float32
    density = concentration * np.log(rate) - lgamma(concentration) + (concentration - 1) * np.log(inner) - rate * x
    return np.where((x == 0) & (concentration > 1) | np.isposinf(x), -np.inf, density)


_GAMMA = density_case(
    "gamma",
    GammaLayer,
    _log_density,
    lambda stats, concentration, rate: stats.gamma(concentration, scale=1 / rate),
    lambda rng, rows: rng.exponential(size=rows),
    modes=lambda params: np.maximum(params["concentration"] - 1, 0) / params["rate"],
    parameters={"concentration": SIZE, "rate": SCALE},
    points=NOT_NEGATIVE,
    wrong=NOT_NEGATIVE_WRONG,
    sampled=({"concentration": 0.1, "rate": 1e6}, {"concentration": 1e6, "rate": 1e6}),
    starts=((1e3, 1.0), (2.0, 1.0), (1.0, 2.0)),
)
CASES = (
    _GAMMA,
    replace(
        _GAMMA,
        name="gamma of concentrations above 2",
        build=lambda scope, units: GammaLayer(scope, units, concentration_factory=beyond(2.0, 9.0)),
        parameters={"concentration": LARGE_SIZE, "rate": SCALE},
        sampled=(),
        starts=(),
    ),
)
