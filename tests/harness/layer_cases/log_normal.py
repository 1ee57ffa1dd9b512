"""The log-normal layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import LogNormalLayer
from plica.symbolic.layers.starts import beyond
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import PLACE, POSITIVE, POSITIVE_WRONG, SCALE, Numbers
from tests.harness.layer_cases.univariate import density_case
from tests.harness.spaces import WIDE

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    distance = (np.log(x) - params["loc"]) / params["scale"]
    return -distance * distance / 2 - np.log(x * params["scale"] * np.sqrt(2 * WIDE(np.pi)))


CASES = (
    density_case(
        "log-normal",
        LogNormalLayer,
        _log_density,
        lambda stats, loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
        lambda rng, rows: rng.lognormal(size=rows),
        parameters={
            "loc": Numbers((-30.0, 0.0, 3.0, 30.0), PLACE.draw),
            "scale": Numbers((1e-3, 1.0, 30.0), SCALE.draw),
        },
        points=POSITIVE,
        wrong=POSITIVE_WRONG,
        sampled=({"loc": 0.5, "scale": 20.0},),
        starts=((1e3, 1.0), (2.0, 1.0), (1.0, 2.0)),
        build=lambda scope, units: LogNormalLayer(scope, units, scale_factory=beyond(0.1, 0.5)),  # variances settle
        modes=lambda params: np.exp(params["loc"] - params["scale"] ** 2),
    ),
)
