"""The discretized logistic layer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, DiscretizedLogisticLayer
from plica.symbolic.parameters import normal
from tests.harness.layer_cases import numbers
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[DiscretizedLogisticLayer]


def _masses(layer: Any, params: Params) -> Array:
    """The masses of all states, `(K, C)`: differences of the chance of less or, above the mean, of that of more."""
    between = np.arange(layer.num_states - 1, dtype=WIDE) + WIDE(0.5)
    scores = (between - params["mean"][:, None]) / params["scale"][:, None]
    zeros = np.zeros((layer.num_output_units, 1), WIDE)
    below = np.concatenate([zeros, 1 / (1 + np.exp(-scores)), zeros + 1], axis=1)
    above = np.concatenate([zeros + 1, 1 / (1 + np.exp(scores)), zeros], axis=1)
    return np.where(below[:, 1:] < 0.5, np.diff(below, axis=1), -np.diff(above, axis=1))


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The mass of a state, or 1."""
    (variable,) = layer.scope
    missing = np.isnan(x[:, variable])
    states = np.where(missing, 0, x[:, variable]).astype(int)
    return space.from_linear(np.where(missing[:, None], WIDE(1), _masses(layer, params)[:, states].T))


def distributions(layer: Any, params: Params) -> list[Any]:
    """A table each, from SciPy's logistic distribution."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    found = []
    for mean, scale in zip(params["mean"].astype(float), params["scale"].astype(float), strict=True):
        ends = np.array([-np.inf, *(np.arange(layer.num_states - 1) + 0.5), np.inf])
        masses = np.diff(stats.logistic(mean, scale).cdf(ends))
        found.append(stats.rv_discrete(values=(range(layer.num_states), masses / masses.sum())))
    return found


def of(states: int) -> Callable[[Sequence[int], int], DiscretizedLogisticLayer]:
    """Layers of some number of states."""
    return lambda scope, units: DiscretizedLogisticLayer(scope, units, num_states=states)


def _case(states: int, *refused: Refused) -> InputCase:
    return InputCase(
        f"discretized logistic of {states}",
        ROW,
        of(states),
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda layer, rng, rows: rng.integers(0, layer.num_states, (rows, 1)),
        refused=refused,
        parameters={
            "mean": numbers.Numbers((-1e6, -3.0, 0.0, 3.0, 6.0, 1e6), numbers.PLACE.draw),
            "scale": numbers.SCALE,
        },
        points=numbers.states,
        wrong=(float(states), *numbers.STATES_WRONG),
        sampled=(),
        starts=((20.0, 5.0),),
    )


CASES = (
    _case(
        7,
        Refused(lambda: of(2)([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(
            lambda: DiscretizedLogisticLayer([0], 2, num_states=3, mean=normal((2,)), mean_factory=normal),
            InputError,
            "mean and mean_factory",
        ),
    ),
)
