"""The exponential layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import ExponentialLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.univariate import density_case

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    return np.log(params["rate"]) - params["rate"] * x


def _of_scipy(rate: float) -> Any:
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return stats.expon(scale=1 / rate)


CASES = (
    density_case(
        "exponential",
        ExponentialLayer,
        _log_density,
        _of_scipy,
        lambda rng, rows: rng.exponential(size=rows),
        modes=lambda params: 0 * params["rate"],
    ),
)
