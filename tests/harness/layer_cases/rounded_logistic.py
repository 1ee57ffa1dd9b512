"""The rounded logistic layer."""

from typing import Any

import numpy as np

from plica.symbolic.layers import LAYER_ROWS, RoundedLogisticLayer
from tests.harness.layer_cases.case import InputCase, Params
from tests.harness.layer_cases.numbers import PLACE, SCALE, WHOLE, WHOLE_WRONG, column
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[RoundedLogisticLayer]


def _masses(params: Params, x: Array) -> Array:
    """What is less than half a unit away: a difference of the chance of less or, above the centre, of that of more."""
    low, high = ((x + half - params["loc"]) / params["scale"] for half in (WIDE(-0.5), WIDE(0.5)))
    with np.errstate(over="ignore"):
        less, more = (1 / (1 + np.exp(-high)) - 1 / (1 + np.exp(-low)), 1 / (1 + np.exp(low)) - 1 / (1 + np.exp(high)))
    return np.where(low < 0, less, more)


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The mass of a whole number, or 1."""
    (variable,) = layer.scope
    value = x[:, variable, None].astype(WIDE)
    missing = np.isnan(value)
    return space.from_log(np.where(missing, WIDE(0), _log_masses(params, np.where(missing, 0, value))))


def _log_masses(params: Params, x: Array) -> Array:
    """Logarithms of masses; of those near 1, by what lies beside them."""
    low, high = ((x + half - params["loc"]) / params["scale"] for half in (WIDE(-0.5), WIDE(0.5)))
    near, far = np.where(x < params["loc"], (-high, -low), (low, high))  # as if above the centre
    with np.errstate(over="ignore", invalid="ignore"):
        beside = 1 / (1 + np.exp(-low)) + 1 / (1 + np.exp(high))
        tail = np.log(-np.expm1(near - far)) - near - np.log1p(np.exp(-near)) - np.log1p(np.exp(-far))
        return np.where(beside < 0.5, np.log1p(-np.minimum(beside, 0.5)), tail)


def distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    """A table each, of all whole numbers that are likelier than a rounding of float64."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    found = []
    for loc, scale in zip(params["loc"].astype(float), params["scale"].astype(float), strict=True):
        reach = int(40 * scale) + 2
        numbers = np.arange(round(loc) - reach, round(loc) + reach + 1)
        masses = _masses({"loc": WIDE(loc), "scale": WIDE(scale)}, numbers.astype(WIDE)).astype(float)
        found.append(stats.rv_discrete(values=(numbers, masses / masses.sum())))
    return found


CASES = (
    InputCase(
        "rounded logistic",
        ROW,
        RoundedLogisticLayer,
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(-4, 5, (rows, 1)),
        modes=lambda _, params: np.floor(params["loc"] + 0.5)[:, None],
        parameters={"loc": PLACE, "scale": SCALE},
        points=column(WHOLE),
        wrong=WHOLE_WRONG,
        sampled=tuple({"loc": 0.25, "scale": scale} for scale in (0.1, 20.0)),
        starts=((1e4, 0.5), (-3.0, 40.0)),
    ),
)
