"""Logistic densities."""

from typing import Any

import numpy as np

from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import PLACE, REALS, SCALE
from tests.harness.layer_cases.univariate import density_case
from tests.harness.logistic import LogisticLayer

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    distance = np.abs((x - params["loc"]) / params["scale"])
    return -distance - 2 * np.log1p(np.exp(-distance)) - np.log(params["scale"])


def of_scipy(loc: float, scale: float) -> Any:
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return stats.logistic(loc, scale)


CASES = (
    density_case(
        "logistic",
        LogisticLayer,
        _log_density,
        of_scipy,
        lambda rng, rows: 2 * rng.normal(size=rows),
        parameters={"loc": PLACE, "scale": SCALE},
        points=REALS,
        wrong=(),
        sampled=tuple({"loc": 0.0, "scale": scale} for scale in (1e-6, 1e6)),
        starts=((1e4, 0.5), (-3.0, 40.0)),
    ),
)
