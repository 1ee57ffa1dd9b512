"""Logistic densities: a distribution of a test's own, as it is declared, with its case."""

import math
from typing import Any, final

import numpy as np

from plica.symbolic.domains import REALS as REAL_NUMBERS
from plica.symbolic.layers import Column, UnivariateLayer, unit_parameter
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import inside, positive_normal, standardized, symmetric_share
from plica.symbolic.parameters import Parameter, ParameterFactory, normal
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import PLACE, REALS, SCALE
from tests.harness.layer_cases.univariate import density_case

Array = Any


@final
class LogisticLayer(UnivariateLayer, name="logistic"):
    """Densities exp(-z) / (scale (1 + exp(-z))^2), z = (x - loc) / scale, of one real variable."""

    loc: Parameter = unit_parameter(normal, "centres; standard normal draws by default")
    scale: Parameter = unit_parameter(positive_normal, "positive scales")
    domain = REAL_NUMBERS

    @staticmethod
    def log_density(xp: Any, x: Array, loc: Array, log_scale: Array) -> Array:
        largest = float(xp.finfo(loc.dtype).max)
        z = standardized(xp, x, loc, log_scale, largest**-0.5)
        far = xp.logical_or(xp.isinf(x), xp.greater_equal(xp.abs(z), 0.9 * math.sqrt(largest)))
        return xp.where(far, -math.inf, -z - log_scale - 2.0 * xp.softplus(-z))

    log_maximum = staticmethod(lambda log_scale: -log_scale - math.log(4.0))
    mode = staticmethod(lambda loc: loc)
    expectation = mode
    variance = staticmethod(lambda xp, scale: xp.square(scale) * (math.pi**2 / 3.0))

    @staticmethod
    def sample(xp: Any, uniforms: Array, loc: Array, scale: Array) -> Array:
        share = inside(xp, uniforms)
        return loc + scale * (xp.log(share) - xp.log1p(-share))

    @staticmethod
    def log_interval(xp: Any, lower: Array, upper: Array, loc: Array, log_scale: Array) -> Array:
        most = xp.finfo(loc.dtype).max ** -0.25
        ends = (standardized(xp, end, loc, log_scale, most) for end in (lower, upper))
        return symmetric_share(xp, lambda z: -xp.softplus(-z), *ends)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        return {
            "loc_factory": around(column.mean, column.spread),
            "scale_factory": beyond(0.01 * column.spread, 0.5 * column.spread),
        }


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
