"""The Gaussian layer, with and without a logarithm of what it integrates to."""

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, GaussianLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import LOG_FACTOR, PLACE, REALS, SCALE, column
from tests.harness.layer_cases.univariate import of_scipy
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[GaussianLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """exp(partition) N(x | mean, stddev)."""
    (variable,) = layer.scope
    mean, stddev, scale = params["mean"], params["stddev"], params.get("log_partition", WIDE(0))
    distance = (x[:, variable, None] - mean) / stddev
    density = scale - distance * distance / 2 - np.log(stddev * np.sqrt(2 * WIDE(math.pi)))
    return space.from_log(np.where(np.isnan(x[:, variable, None]), scale, density))


def totals(layer: Any, params: Params) -> Array:
    """The exponential of log_partition."""
    return np.exp(params["log_partition"]) if "log_partition" in params else np.ones(layer.num_output_units, WIDE)


distributions = of_scipy(lambda stats, *unit: stats.norm(*unit), itemgetter("mean"), itemgetter("stddev"))
"""Normal distributions."""


def _case(
    name: str, build: Callable[[Sequence[int], int], GaussianLayer], *refused: Refused, **columns: Any
) -> InputCase:
    return InputCase(
        name,
        ROW,
        build,
        reference,
        distributions,
        totals,
        draw=lambda _, rng, rows: rng.normal(size=(rows, 1)),
        refused=refused,
        points=column(REALS),
        wrong=(),
        **columns,
    )


CASES = (
    _case(
        "gaussian",
        GaussianLayer,
        Refused(lambda: GaussianLayer([], 2), ShapeError, r"found \{\}"),
        Refused(lambda: GaussianLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(
            lambda: GaussianLayer([0], 2, mean=normal((2,)), mean_factory=normal), InputError, "mean and mean_factory"
        ),
        parameters={"mean": PLACE, "stddev": SCALE},
        sampled=tuple({"mean": 0.0, "stddev": stddev} for stddev in (1e-6, 1e6)),
        starts=((1e4, 0.5), (-3.0, 40.0)),
    ),
    _case(
        "gaussian with log_partition",
        lambda scope, units: GaussianLayer(scope, units, log_partition=normal((units,))),
        parameters={"mean": PLACE, "stddev": SCALE, "log_partition": LOG_FACTOR},
        sampled=(),
        starts=(),
    ),
)
