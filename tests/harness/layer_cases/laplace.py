"""The Laplace layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import LaplaceLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.univariate import location_case

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    return -np.abs(x - params["loc"]) / params["scale"] - np.log(2 * params["scale"])


CASES = (location_case("laplace", LaplaceLayer, _log_density, lambda stats, *unit: stats.laplace(*unit)),)
