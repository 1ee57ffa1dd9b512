"""The binomial layer: by logits and by probabilities, of few trials and of more than are tabled."""

import math
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, BinomialLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import LOGIT, SHARE, STATES_WRONG, states
from tests.harness.layer_cases.trials import log_shares, scaled_sigmoid, successes, times
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[BinomialLayer]


def _ways(total: int, x: int) -> float:
    return math.log(math.comb(total, x))


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """n! / (x! (n - x)!) p^x (1 - p)^(n - x), or 1."""
    (variable,) = layer.scope
    failure, success = log_shares(params)
    value, total = x[:, variable, None], layer.total_count
    ways = np.array([_ways(total, int(one)) for one in np.nan_to_num(value[:, 0])], WIDE)[:, None]
    return space.from_log(
        np.where(np.isnan(value), WIDE(0), ways + times(value, success) + times(total - value, failure))
    )


def distributions(layer: Any, params: Params) -> list[Any]:
    """Binomial distributions."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return [stats.binom(layer.total_count, p) for p in successes(params).astype(float)]


def _case(name: str, *refused: Refused, total_count: int, sampled: tuple[Any, ...] = (), **settings: Any) -> InputCase:
    return InputCase(
        name,
        ROW,
        lambda scope, units: BinomialLayer(scope, units, total_count=total_count, **settings),
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda layer, rng, rows: rng.integers(0, layer.total_count + 1, (rows, 1)),
        refused=refused,
        parameters={"logits": LOGIT} if not settings else {"probs": SHARE},
        points=states,
        wrong=(total_count + 1.0, *STATES_WRONG),
        sampled=sampled,
        starts=(),
    )


CASES = (
    _case(
        "binomial",
        Refused(lambda: BinomialLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(lambda: BinomialLayer([0], 2, logits=normal((2,)), probs=normal((2,))), InputError, "logits and probs"),
        total_count=4,
    ),
    _case("binomial by probs", total_count=1, probs_factory=scaled_sigmoid),
    _case(
        "binomial of many",
        total_count=2000,
        probs_factory=scaled_sigmoid,
        sampled=tuple(
            {"total_count": count, "probs": probs} for count in (1000, 1_000_000) for probs in (1e-7, 0.3, 1 - 2.0**-20)
        ),
    ),
)
