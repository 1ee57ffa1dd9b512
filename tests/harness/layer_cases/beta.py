"""The beta layer: as it is made by default, and of concentrations above 1."""

from dataclasses import replace
from typing import Any

import numpy as np

from plica.symbolic.layers import BetaLayer
from plica.symbolic.layers.starts import beyond
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import LARGE_SIZE, SIZE, UNIT, UNIT_WRONG
from tests.harness.layer_cases.univariate import density_case
from tests.harness.wide import lgamma

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    alpha, beta = params["alpha"], params["beta"]
    # at the ends, where it may be infinite, it is that at the next number of float32
    inner, rest = np.where(x == 0, 2.0**-126, x), np.where(x == 1, 2.0**-24, 1 - x)
    scale = lgamma(alpha + beta) - lgamma(alpha) - lgamma(beta)
    density = scale + (alpha - 1) * np.log(inner) + (beta - 1) * np.log(rest)
    return np.where((x == 0) & (alpha > 1) | (x == 1) & (beta > 1), -np.inf, density)


def _modes(params: Params) -> Array:
    alpha, beta = params["alpha"], params["beta"]
    hill = (alpha > 1) & (beta > 1)
    places = np.stack([0 * alpha, 1 + 0 * alpha, np.where(hill, (alpha - 1) / np.where(hill, alpha + beta - 2, 1), 0)])
    densities = np.stack([np.diag(_log_density(params, place[:, None])) for place in places])
    # of densities above 1 at both ends, the ends are none: there they are 0
    densities[:2] = np.where(hill, -np.inf, densities[:2])
    return np.take_along_axis(places, np.argmax(densities, axis=0)[None], axis=0)[0]


_BETA = density_case(
    "beta",
    BetaLayer,
    _log_density,
    lambda stats, *unit: stats.beta(*unit),
    lambda rng, rows: rng.uniform(size=rows),
    modes=_modes,
    parameters={"alpha": SIZE, "beta": SIZE},
    points=UNIT,
    wrong=UNIT_WRONG,
    sampled=tuple({"alpha": alpha, "beta": beta} for alpha, beta in ((0.1, 1.0), (1.0, 1e6), (1e4, 1e6))),
    starts=((0.3, 0.1), (0.98, 0.01), (0.5, 0.4)),
)
_FACTORIES = {"alpha_factory": beyond(2.0, 9.0), "beta_factory": beyond(2.0, 3.0)}
CASES = (
    _BETA,
    replace(
        _BETA,
        name="beta of concentrations above 2",
        build=lambda scope, units: BetaLayer(scope, units, **_FACTORIES),
        draw=lambda _, rng, rows: rng.uniform(0.1, 0.9, size=(rows, 1)),
        parameters={"alpha": LARGE_SIZE, "beta": LARGE_SIZE},
        sampled=(),
        starts=(),
    ),
)
