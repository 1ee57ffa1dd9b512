"""Logistic densities."""

from typing import Any

import numpy as np

from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.univariate import location_case
from tests.harness.logistic import LogisticLayer

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    distance = np.abs((x - params["loc"]) / params["scale"])
    return -distance - 2 * np.log1p(np.exp(-distance)) - np.log(params["scale"])


CASES = (location_case("logistic", LogisticLayer, _log_density, lambda stats, *unit: stats.logistic(*unit)),)
