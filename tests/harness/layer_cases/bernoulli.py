"""The Bernoulli layer: by logits and by probabilities."""

from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, BernoulliLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import LOGIT, SHARE, STATES_WRONG, states
from tests.harness.layer_cases.trials import log_shares, scaled_sigmoid, successes
from tests.harness.layer_cases.univariate import of_scipy
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[BernoulliLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """1 - p or p, or 1."""
    (variable,) = layer.scope
    failure, success = log_shares(params)
    value = x[:, variable, None]
    return space.from_log(np.where(np.isnan(value), WIDE(0), np.where(value == 1, success, failure)))


distributions = of_scipy(lambda stats, share: stats.bernoulli(share), successes)
"""Bernoulli distributions."""


def _case(name: str, *refused: Refused, **settings: Any) -> InputCase:
    return InputCase(
        name,
        ROW,
        lambda scope, units: BernoulliLayer(scope, units, **settings),
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(0, 2, (rows, 1)),
        refused=refused,
        parameters={"logits": LOGIT} if not settings else {"probs": SHARE},
        points=states,
        wrong=(2.0, *STATES_WRONG),
        sampled=tuple({"probs": probs} for probs in (1e-3, 0.999, 0.0, 1.0)) if settings else (),
        starts=(),
    )


CASES = (
    _case(
        "bernoulli",
        Refused(lambda: BernoulliLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(
            lambda: BernoulliLayer([0], 2, logits=normal((2,)), probs=normal((2,))), InputError, "logits and probs"
        ),
    ),
    _case("bernoulli by probs", probs_factory=scaled_sigmoid),
)
