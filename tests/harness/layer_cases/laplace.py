"""The Laplace layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import LaplaceLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import PLACE, REALS, SCALE
from tests.harness.layer_cases.univariate import density_case

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    return -np.abs(x - params["loc"]) / params["scale"] - np.log(2 * params["scale"])


def _of_scipy(loc: float, scale: float) -> Any:
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return stats.laplace(loc, scale)


CASES = (
    density_case(
        "laplace",
        LaplaceLayer,
        _log_density,
        _of_scipy,
        lambda rng, rows: 2 * rng.normal(size=rows),
        parameters={"loc": PLACE, "scale": SCALE},
        points=REALS,
        wrong=(),
        sampled=tuple({"loc": 0.0, "scale": scale} for scale in (1e-6, 1e6)),
        starts=((1e4, 0.5), (-3.0, 40.0)),
    ),
)
