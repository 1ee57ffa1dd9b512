"""The geometric layer: by logits and by probabilities."""

from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, GeometricLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import COUNTS, COUNTS_WRONG, LOGIT, SHARE, column
from tests.harness.layer_cases.trials import log_shares, scaled_sigmoid, successes, times
from tests.harness.layer_cases.univariate import of_scipy
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[GeometricLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """(1 - p)^x p, or 1."""
    (variable,) = layer.scope
    failure, success = log_shares(params)
    value = x[:, variable, None]
    return space.from_log(np.where(np.isnan(value), WIDE(0), times(value, failure) + success))


distributions = of_scipy(lambda stats, share: stats.geom(share, loc=-1), successes)
"""Geometric distributions that begin at 0."""


def _case(name: str, *refused: Refused, **settings: Any) -> InputCase:
    return InputCase(
        name,
        ROW,
        lambda scope, units: GeometricLayer(scope, units, **settings),
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(0, 9, (rows, 1)),
        modes=lambda layer, _: np.zeros((layer.num_output_units, 1)),
        refused=refused,
        parameters={"logits": LOGIT} if not settings else {"probs": SHARE},
        points=column(COUNTS),
        wrong=COUNTS_WRONG,
        sampled=tuple({"probs": probs} for probs in (1e-6, 0.999, 1 - 2.0**-20)) if settings else (),
        starts=((3.0, 3.0),) if not settings else (),
    )


CASES = (
    _case(
        "geometric",
        Refused(lambda: GeometricLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(
            lambda: GeometricLayer([0], 2, logits=normal((2,)), probs=normal((2,))), InputError, "logits and probs"
        ),
    ),
    _case("geometric by probs", probs_factory=scaled_sigmoid),
)
