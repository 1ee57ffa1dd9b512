"""The embedding layer: of any sign, and of weights that are not negative, normalized and not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, EmbeddingLayer
from plica.symbolic.parameters import normal, softmax_normal
from tests.harness.layer_cases import categorical
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.numbers import STATES_WRONG, signed_weights, states, weights
from tests.harness.spaces import Space

Array = Any
ROW: Any = LAYER_ROWS[EmbeddingLayer]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The entry of the table, or the sum of its row."""
    (variable,) = layer.scope
    table = space.from_linear(params["weight"])
    total = space.weighted_sum(table, np.ones((1, layer.num_states)))[:, 0]
    missing = np.isnan(x[:, variable])
    states = np.where(missing, 0, x[:, variable]).astype(int)
    return np.where(missing[:, None], total, table[:, states].T)


def by(num_states: int, **settings: Any) -> Callable[[Sequence[int], int], EmbeddingLayer]:
    """Layers of some states with some settings."""
    return lambda scope, units: EmbeddingLayer(scope, units, num_states=num_states, **settings)


def _shares(layer: Any, params: Params, low: Array, high: Array) -> Array:
    """The part of each unit's total between two ends, of any sign."""
    states = np.arange(layer.num_states)
    inside = ((states >= low) & (states <= high)).astype(float)
    table = params["weight"]
    return inside @ table.T / table.sum(axis=1)


def _case(name: str, is_distribution: bool, refused: tuple[Refused, ...] = (), **settings: Any) -> InputCase:
    def distributions(_: Any, params: Params) -> list[Any]:
        return categorical.tables(params["weight"])

    return InputCase(
        f"embedding, {name}",
        ROW,
        by(3, **settings),
        reference,
        distributions if is_distribution else None,
        totals=lambda _, params: params["weight"].sum(axis=1),
        draw=lambda layer, rng, rows: rng.integers(0, layer.num_states, (rows, 1)),
        alike=(by(5, **settings), by(1, **settings)),
        refused=refused,
        parameters={"weight": weights(3) if is_distribution else signed_weights(3)},
        points=states,
        wrong=(5.0, *STATES_WRONG),
        sampled=(),
        starts=(),
        shares=_shares,
    )


_WRONG = (
    Refused(lambda: by(2)([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\), found \{0, 1\}"),
    Refused(
        lambda: by(3, weight=normal((2, 3)), weight_factory=normal)([0], 2),
        InputError,
        "weight and weight_factory exclude each other",
    ),
)

CASES = (
    _case("any sign", False, _WRONG),
    _case("probabilities", True, weight_factory=softmax_normal),
    _case("not negative", True, weight_factory=exp_normal),
)
