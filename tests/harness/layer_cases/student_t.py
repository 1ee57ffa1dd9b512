"""The layer of Student's t distributions, of degrees of freedom at which sample variances settle."""

from typing import Any

import numpy as np

from plica.symbolic.layers import StudentTLayer
from plica.symbolic.layers.starts import beyond
from tests.harness.layer_cases.case import Params
from tests.harness.layer_cases.numbers import PLACE, REALS, SCALE, SIZE
from tests.harness.layer_cases.univariate import density_case
from tests.harness.spaces import WIDE
from tests.harness.wide import lgamma

Array = Any


def _log_density(params: Params, x: Array) -> Array:
    df, scale = params["df"], params["scale"]
    distance = (x - params["loc"]) / scale
    height = lgamma((df + 1) / 2) - lgamma(df / 2) - np.log(df * WIDE(np.pi)) / 2 - np.log(scale)
    return height - (df + 1) / 2 * np.log1p(distance * distance / df)


CASES = (
    density_case(
        "student-t",
        StudentTLayer,
        _log_density,
        lambda stats, *unit: stats.t(*unit),
        lambda rng, rows: 2 * rng.normal(size=rows),
        parameters={"df": SIZE, "loc": PLACE, "scale": SCALE},
        points=REALS,
        wrong=(),
        sampled=tuple({"df": df, "loc": 0.0, "scale": 1e6} for df in (0.1, 0.5, 1e6, 1e12)),
        starts=((1e4, 0.5),),
        build=lambda scope, units: StudentTLayer(scope, units, df_factory=beyond(4.5, 3.0)),
    ),
)
