"""The categorical layer: by logits and by probabilities, normalized and not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.symbolic.layers import LAYER_ROWS, CategoricalLayer
from plica.symbolic.parameters import ExpParameter, Parameter, normal, softmax_normal
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import STATES_WRONG, logits, states, weights
from tests.harness.spaces import Space, safe_log

Array = Any
ROW: Any = LAYER_ROWS[CategoricalLayer]


def _log_table(params: Params) -> Array:
    """The logarithms `(K, C)` of the values."""
    return safe_log(params["probs"]) if "probs" in params else params["logits"]


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The entry of the table, or the sum of its row."""
    (variable,) = layer.scope
    if "probs" in params:  # as they are, for signs
        table, total = space.from_linear(params["probs"]), space.from_linear(params["probs"].sum(axis=1))
    else:
        table = space.from_log(params["logits"])
        total = space.from_log(np.logaddexp.reduce(params["logits"], axis=1))
    missing = np.isnan(x[:, variable])
    states = np.where(missing, 0, x[:, variable]).astype(int)
    return np.where(missing[:, None], total, table[:, states].T)


def totals(layer: Any, params: Params) -> Array:  # noqa: ARG001
    """The sums of the rows."""
    return np.exp(_log_table(params)).sum(axis=1)


def distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    """A table each."""
    return tables(np.exp(_log_table(params)))


def tables(numbers: Array) -> list[Any]:
    """Distributions over states, from a row of numbers for each."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return [stats.rv_discrete(values=(range(len(row)), row / row.sum())) for row in numbers.astype(float)]


def exp_normal(shape: tuple[int, ...]) -> Parameter:
    """Positive, unnormalized: the exponential of normal draws."""
    return Parameter.from_unary(ExpParameter(shape), normal(shape))


def by(categories: int, **settings: Any) -> Callable[[Sequence[int], int], CategoricalLayer]:
    """Layers of some categories with some settings."""
    return lambda scope, units: CategoricalLayer(scope, units, num_categories=categories, **settings)


def _case(
    name: str, refused: tuple[Refused, ...] = (), *, parameters: Any, sampled: Any = (), **settings: Any
) -> InputCase:
    return InputCase(
        f"categorical by {name}",
        ROW,
        by(3, **settings),
        reference,
        distributions,
        totals,
        draw=lambda layer, rng, rows: rng.integers(0, layer.num_categories, (rows, 1)),
        alike=(by(5, **settings), by(1, **settings)),
        refused=refused,
        parameters=parameters,
        points=states,
        wrong=(5.0, *STATES_WRONG),
        sampled=sampled,
        starts=(),
    )


_WRONG = (
    Refused(lambda: by(2)([0, 1], 2), ShapeError, r"expected a scope of 1 variable\(s\), found \{0, 1\}"),
    Refused(lambda: by(0)([0], 2), ShapeError, "num_categories must be at least 1"),
    Refused(
        lambda: by(3, logits=normal((2, 3)), probs=normal((2, 3)))([0], 2),
        InputError,
        "logits and probs exclude each other",
    ),
)

_LOGITS, _PROBS = {"logits": logits(3)}, {"probs": weights(3)}
_SAMPLED = ({"num_categories": 3000, "logits": np.random.default_rng(0).normal(size=3000) * 3},)

CASES = (
    _case("log-softmax", _WRONG, parameters=_LOGITS, sampled=_SAMPLED),
    _case("logits", parameters=_LOGITS, logits_factory=normal),
    _case("probs", parameters=_PROBS, probs_factory=softmax_normal),
    _case("unnormalized probs", parameters=_PROBS, probs_factory=exp_normal),
)
