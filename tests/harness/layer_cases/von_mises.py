"""The von Mises layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import VonMisesLayer
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import ANGLES, ANGLES_WRONG, PLACE, SCALE, Numbers
from tests.harness.layer_cases.univariate import density_case
from tests.harness.spaces import WIDE
from tests.harness.wide import log_i0

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    concentration = params["concentration"]
    return concentration * np.cos(x - params["loc"]) - np.log(2 * WIDE(np.pi)) - log_i0(concentration)


class _OneTurn:
    """SciPy's distribution from -pi to pi, where its own begins half a turn before `loc`."""

    def __init__(self, stats: Any, loc: float, concentration: float) -> None:
        self._whole = stats.vonmises(concentration, loc)

    def pdf(self, x: Array) -> Array:
        return self._whole.pdf(x)

    def cdf(self, x: Array) -> Array:
        return self._whole.cdf(np.clip(x, -np.pi, np.pi)) - self._whole.cdf(-np.pi)

    def _moment(self, power: int) -> float:
        places, weights = np.polynomial.legendre.leggauss(200)
        return float(np.pi * weights @ ((np.pi * places) ** power * self.pdf(np.pi * places)))

    def mean(self) -> float:
        return self._moment(1)

    def var(self) -> float:
        return self._moment(2) - self._moment(1) ** 2


CASES = (
    density_case(
        "von mises",
        VonMisesLayer,
        _log_density,
        _OneTurn,
        lambda rng, rows: rng.uniform(-np.pi, np.pi, size=rows),
        parameters={
            "loc": Numbers((-3.1, 0.0, 2.0), PLACE.draw),
            "concentration": Numbers((0.0, *SCALE.extremes, 99.0, 101.0), SCALE.draw),
        },
        points=ANGLES,
        wrong=ANGLES_WRONG,
        sampled=tuple({"loc": 0.0, "concentration": concentration} for concentration in (1e-6, 1e3)),
        starts=(),
        modes=lambda params: (params["loc"] + np.pi) % (2 * WIDE(np.pi)) - np.pi,
    ),
)
