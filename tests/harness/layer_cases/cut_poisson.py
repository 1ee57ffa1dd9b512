"""A Poisson layer of a test's own, cut at 31, with its row and its case."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import FieldsLayer, assign, choose_parameter, input_scope, positive
from plica.symbolic.parameters import Parameter, ParameterLike, SoftplusParameter, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring, Value
from tests.harness.layer_cases.case import InputCase, Params
from tests.harness.layer_cases.numbers import COUNTS_WRONG, RATE, Numbers, column
from tests.harness.spaces import WIDE, Space

Array = Any
STATES = 32


def _softplus(shape: tuple[int, ...]) -> Parameter:
    return Parameter.from_unary(SoftplusParameter(shape), normal(shape))


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class CutPoissonLayer(FieldsLayer, InputLayer):
    """Poisson distributions of one count; rates are small, so that counts of 32 and more do not matter.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        rate: `(K,)` positive rates.
    """

    scope: Scope
    num_output_units: int
    rate: Parameter

    def __init__(self, scope: Iterable[int], num_output_units: int, *, rate: ParameterLike | None = None) -> None:
        name = "CutPoissonLayer"
        units = positive(name, "num_output_units", num_output_units)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units)
        assign(self, rate=choose_parameter(name, "rate", (units,), rate, _softplus))

    @property
    def domain(self) -> Domain:
        """The counts."""
        return finite(STATES)


def log_masses(xp: Any, params: Params) -> Array:
    """The logarithms of the masses of all counts, `(F, K, STATES)`: x log r - r - log x!."""
    counts = xp.astype(xp.arange(STATES), params["rate"].dtype)
    factorials = xp.cumulative_sum(xp.log(xp.maximum(counts, 1.0)))
    rate = xp.expand_dims(params["rate"], axis=-1)
    return xp.log(rate) * counts - rate - factorials


def _body(xp: Any, semiring: Semiring, layer: CutPoissonLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    index = xp.astype(xp.squeeze(x, axis=-1), xp.int64)
    return semiring.from_log(xp, xp.lookup(log_masses(xp, params), index))


def _marginal(xp: Any, semiring: Semiring, layer: CutPoissonLayer, params: Params) -> Value:
    return semiring.one(xp, (params["rate"].shape[0], 1, layer.num_output_units), params["rate"].dtype)


def _maximum(xp: Any, semiring: Semiring, layer: CutPoissonLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, xp.expand_dims(xp.max(log_masses(xp, params), axis=-1), axis=1))


def _mode(xp: Any, layer: CutPoissonLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.argmax(log_masses(xp, params), axis=-1), axis=-1)


def _sample(xp: Any, layer: CutPoissonLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    table = xp.cumulative_sum(xp.exp(log_masses(xp, params)), axis=-1)
    return xp.expand_dims(xp.search_cumulative(table, units, xp.squeeze(uniforms, axis=-1)), axis=-1)


POISSON_ROW = InputRow(CutPoissonLayer, body=_body, marginal=_marginal, sample=_sample, mode=_mode, maximum=_maximum)


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """r^x exp(-r) / x!, or 1."""
    (variable,) = layer.scope
    counts, rate = x[:, variable, None], params["rate"]
    factorials = np.array([math.lgamma(1 + count) for count in np.nan_to_num(counts[:, 0])])[:, None]
    return space.from_log(np.where(np.isnan(counts), WIDE(0), counts * np.log(rate) - rate - factorials))


def _distributions(layer: CutPoissonLayer, params: Params) -> list[Any]:  # noqa: ARG001
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    return [stats.poisson(rate) for rate in params["rate"].astype(float)]


CASES = (
    InputCase(
        "cut poisson",
        POISSON_ROW,
        CutPoissonLayer,
        reference,
        distributions=_distributions,
        totals=lambda layer, _: np.ones(layer.num_output_units, WIDE),
        draw=lambda _, rng, rows: rng.integers(0, 9, (rows, 1)),
        parameters={"rate": Numbers((1e-30, 0.3, 30.0), RATE.draw)},
        points=column((0, 1, 8)),
        wrong=COUNTS_WRONG,
        sampled=(),
        starts=(),
    ),
)
