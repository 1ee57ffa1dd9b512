"""The negative binomial layer: by logits and by probabilities."""

from operator import itemgetter
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, NegativeBinomialLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import COUNTS, COUNTS_WRONG, LOGIT, SHARE, SIZE, column
from tests.harness.layer_cases.trials import log_shares, scaled_sigmoid, successes, times
from tests.harness.layer_cases.univariate import of_scipy
from tests.harness.spaces import WIDE, Space
from tests.harness.wide import lgamma

Array = Any
ROW: Any = LAYER_ROWS[NegativeBinomialLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """r (r + 1) ... (r + x - 1) / x! p^r (1 - p)^x, or 1."""
    (variable,) = layer.scope
    failure, success = log_shares(params)
    value, total = x[:, variable, None], params["total_count"]
    count = np.nan_to_num(value)
    ways = lgamma(total + count) - lgamma(total) - lgamma(count + 1)
    return space.from_log(np.where(np.isnan(value), WIDE(0), ways + times(total, success) + times(value, failure)))


distributions = of_scipy(lambda stats, *unit: stats.nbinom(*unit), itemgetter("total_count"), successes)
"""Negative binomial distributions."""


def modes(layer: Any, params: Params) -> Array:  # noqa: ARG001
    """The largest mass among the first counts."""
    x = np.arange(1000)
    return np.array([[int(np.argmax(kind.pmf(x)))] for kind in distributions(None, params)])


_SAMPLED = tuple({"total_count": count, "probs": probs} for count in (0.5, 1e6) for probs in (1e-4, 0.75))


def _case(name: str, *refused: Refused, **settings: Any) -> InputCase:
    return InputCase(
        name,
        ROW,
        lambda scope, units: NegativeBinomialLayer(scope, units, **settings),
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(0, 9, (rows, 1)),
        modes=modes,
        refused=refused,
        parameters={"total_count": SIZE, **({"logits": LOGIT} if not settings else {"probs": SHARE})},
        points=column(COUNTS),
        wrong=COUNTS_WRONG,
        sampled=_SAMPLED if settings else (),
        starts=((3.0, 3.0),) if not settings else (),
    )


CASES = (
    _case(
        "negative binomial",
        Refused(lambda: NegativeBinomialLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(
            lambda: NegativeBinomialLayer([0], 2, total_count=normal((2,)), total_count_factory=normal),
            InputError,
            "total_count and total_count_factory",
        ),
    ),
    _case("negative binomial by probs", probs_factory=scaled_sigmoid),
)
