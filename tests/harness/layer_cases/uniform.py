"""The uniform layer: with ends that are numbers, and learned ones."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, UniformLayer
from plica.symbolic.layers.starts import beyond
from plica.symbolic.parameters import normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import REALS, Numbers, column, integers
from tests.harness.layer_cases.univariate import of_scipy
from tests.harness.spaces import WIDE, Space, safe_log

Array = Any
ROW: Any = LAYER_ROWS[UniformLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """1 / (high - low) or 0; 1 where it is missing."""
    (variable,) = layer.scope
    value, low, high = x[:, variable, None], params["low"], params["high"]
    density = np.where((low <= value) & (value <= high), 1 / (high - low), WIDE(0))
    return space.from_log(safe_log(np.where(np.isnan(value), WIDE(1), density)))


distributions = of_scipy(lambda stats, low, high: stats.uniform(low, high - low), itemgetter("low"), itemgetter("high"))
"""Uniform distributions."""


def _case(name: str, build: Callable[[Sequence[int], int], UniformLayer], *refused: Refused) -> InputCase:
    return InputCase(
        name,
        ROW,
        build,
        reference,
        distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.uniform(-1, 2.5, (rows, 1)),
        refused=refused,
        parameters={
            "low": Numbers((-1e6, -1.0, 0.0), integers(-2, 1)),
            "high": Numbers((1.0, 3.0, 1e6), integers(1, 5)),
        },
        points=column((0.5, *REALS, 3.0)),
        wrong=(),
        sampled=({"low": -1e6, "high": 1e6},),
        starts=((1e4, 0.5), (-3.0, 40.0)) if name == "uniform" else (),
    )


CASES = (
    _case(
        "uniform",
        lambda scope, units: UniformLayer(scope, units, low=-0.5, high=np.linspace(1, 3, units)),
        Refused(lambda: UniformLayer([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\)"),
        Refused(lambda: UniformLayer([0], 2, low=normal((2,)), low_factory=normal), InputError, "low and low_factory"),
        Refused(lambda: UniformLayer([0], 2, high=[1.0, 0.0]), InputError, "low < high, found low=0.0 and high=0.0"),
        Refused(lambda: UniformLayer([0], 2, low="a"), DTypeError, "UniformLayer: expected numbers"),
        Refused(lambda: UniformLayer([0], 2, high=float("inf")), InputError, "finite numbers low < high"),
        Refused(lambda: UniformLayer([0], 2, high=[1.0, 2.0, 3.0]), ShapeError, "expected high"),
    ),
    _case(
        "uniform of learned ends",
        lambda scope, units: UniformLayer(scope, units, low_factory=beyond(0, -1), high_factory=beyond(0.5, 1)),
    ),
)
