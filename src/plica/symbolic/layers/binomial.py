"""The binomial input layer: how many of a known number of trials succeed, one probability of success per unit.

    P(x) = n! / (x! (n - x)!) p^x (1 - p)^(n - x),  x = 0, ..., n

>>> from plica.symbolic.scope import Scope
>>> layer = BinomialLayer(Scope([2]), 8, total_count=255)
>>> layer, layer.domain, layer.params["logits"].shape
(BinomialLayer(scope={2}, 8), Domain('256 states'), (8,))
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import counts, states, trials
from plica.symbolic.layers.base import InputLayer, assign, fields_of, input_scope, positive
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import normalized_total
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value, Weight

MOST_TABLED = 1024  # trials: up to here a layer is a table of its states, which is faster; beyond, nothing is tabled


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class BinomialLayer(InputLayer):
    """Distributions over the numbers 0 to n of successes in n trials.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        total_count: n, the number of trials.
        logits: `(K,)` log-odds `log(p / (1 - p))` of a success; standard normal draws by default.
        probs: `(K,)` probabilities p of a success, from 0 to 1.
        logits_factory: Makes the logits from their shape.
        probs_factory: Makes the probabilities from their shape.

    Raises:
        ShapeError: More than one variable, no trials, a parameter of another shape.
        InputError: Two ways to give the parameter.
    """

    scope: Scope
    num_output_units: int
    total_count: int
    logits: Parameter | None
    probs: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        total_count: int = 2,
        logits: ParameterLike | None = None,
        probs: ParameterLike | None = None,
        logits_factory: ParameterFactory | None = None,
        probs_factory: ParameterFactory | None = None,
    ) -> None:
        name = "BinomialLayer"
        units, total = (
            positive(name, "num_output_units", num_output_units),
            positive(name, "total_count", total_count),
        )
        chosen = trials.choose_successes(name, units, logits, probs, logits_factory, probs_factory)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, total_count=total, **chosen)

    @property
    def domain(self) -> Domain:
        """The numbers of successes."""
        return finite(self.total_count + 1)

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside the parameter."""
        return fields_of(self, "scope", "num_output_units", "total_count")

    @property
    def params(self) -> dict[str, Parameter]:
        """The logits or the probabilities, whichever the layer has."""
        return trials.given_successes(self)

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The parameter; the logits of probabilities that are a sigmoid."""
        return trials.evaluated_successes(self)


def _table(xp: Namespace, layer: BinomialLayer, params: Params) -> Weight:
    total = layer.total_count
    failure, success = (xp.expand_dims(one, axis=-1) for one in trials.log_shares(xp, params))  # (F, K, 1)
    x = xp.astype(xp.arange(total + 1), success.dtype)
    ways = [math.log(math.comb(total, n)) for n in range(total + 1)]  # of integers: exact to the last rounding
    log_ways = xp.astype(xp.asarray(np.array(ways)), success.dtype)
    logs = trials.times(xp, x, success) + trials.times(xp, total - x, failure) + log_ways
    return trials.masses(xp, params, logs, (total - x, x), log_ways, axis=-1)


_TABLED = states.input_row(BinomialLayer, _table)


def _log_masses(xp: Namespace, layer: BinomialLayer, x: Array, shares: Any, log_shares: Any) -> Array:
    """The logarithms of the masses of x successes, as floats, whose shape meets those of the shares."""
    total, (log_failure, log_success) = layer.total_count, log_shares
    successes = xp.clip(x, 1.0, max(total - 1.0, 1.0))
    numbers = (xp.maximum(total - successes, 1.0), successes)
    found = counts.log_binomial(xp, numbers, shares, log_shares)
    found = xp.where(xp.less(x, total), found, total * log_success)
    return xp.where(xp.greater(x, 0.0), found, total * log_failure)


def _of_units(xp: Namespace, params: Params, axis: int, dtype: Any = None) -> tuple[tuple[Array, ...], ...]:
    """The probabilities of failure and success, and their logarithms, with one more axis."""
    found = (trials.shares(xp, params, dtype), trials.log_shares(xp, params))
    return tuple(tuple(xp.expand_dims(xp.astype(one, dtype or one.dtype), axis=axis) for one in pair) for pair in found)


def _body(xp: Namespace, semiring: Semiring, layer: BinomialLayer, params: Params, x: Array) -> Value:
    if layer.total_count <= MOST_TABLED:
        return _TABLED.body(xp, semiring, layer, params, x)
    shares, log_shares = _of_units(xp, params, 1)  # (F, 1, K)
    return semiring.from_log(xp, _log_masses(xp, layer, xp.astype(x, shares[0].dtype), shares, log_shares))


def _mode(xp: Namespace, layer: BinomialLayer, params: Params) -> Array:
    _, success = trials.shares(xp, params)
    return xp.expand_dims(xp.clip(xp.floor((layer.total_count + 1) * success), 0.0, layer.total_count), axis=-1)


def _maximum(xp: Namespace, semiring: Semiring, layer: BinomialLayer, params: Params) -> Value:
    mode = xp.permute_dims(_mode(xp, layer, params), (0, 2, 1))  # (F, 1, K)
    return semiring.from_log(xp, _log_masses(xp, layer, mode, *_of_units(xp, params, 1)))


def _mean(xp: Namespace, layer: BinomialLayer, params: Params) -> Array:
    return xp.expand_dims(layer.total_count * trials.shares(xp, params)[1], axis=-1)


def _variance(xp: Namespace, layer: BinomialLayer, params: Params) -> Array:
    failure, success = trials.shares(xp, params)
    return xp.expand_dims(layer.total_count * success * failure, axis=-1)


def _sample(xp: Namespace, layer: BinomialLayer, params: Params, units: Array, uniforms: Array) -> Array:
    if layer.total_count <= MOST_TABLED:
        assert callable(_TABLED.sample), "tables are sampled from"
        return _TABLED.sample(xp, layer, params, units, uniforms)
    failure, success = (
        xp.expand_dims(xp.take_along_axis(one, units, axis=-1, nonnegative=True), axis=-1)
        for one in trials.shares(xp, params, xp.float64)
    )
    deviation = xp.sqrt(layer.total_count * failure * success)
    skewness = (failure - success) / xp.maximum(deviation, 1e-150)
    below = _tails(xp, layer.total_count, failure, success)[0]
    level, mean = xp.astype(uniforms, xp.float64), layer.total_count * success
    return xp.minimum(counts.quantile(xp, below, level, mean, deviation, skewness), layer.total_count)


def _tails(xp: Namespace, total: int, failure: Array, success: Array) -> tuple[counts.Tail, counts.Tail]:
    """P(X <= x) and P(X >= x)."""

    def below(x: Array) -> Array:
        some = xp.clip(x, 0.0, total - 1.0)
        return xp.where(xp.less(x, total), xp.betainc(total - some, some + 1.0, failure), 1.0)

    def above(x: Array) -> Array:
        some = xp.clip(x, 1.0, float(total))
        return xp.where(xp.less_equal(x, total), xp.betainc(some, total - some + 1.0, success), 0.0)

    return below, above


def _interval(
    xp: Namespace, semiring: Semiring, layer: BinomialLayer, params: Params, low: Array, high: Array
) -> Value:
    if layer.total_count <= MOST_TABLED:
        assert callable(_TABLED.interval), "the states of tables are counted"
        return _TABLED.interval(xp, semiring, layer, params, low, high)
    shares, log_shares = _of_units(xp, params, 1, xp.float64)  # in float64: tails are subtracted
    below, above = _tails(xp, layer.total_count, *shares)
    found = counts.log_between(
        xp,
        counts.whole_ends(xp, low, xp.minimum(high, float(layer.total_count)), shares[0].dtype),
        below,
        above,
        log_mass=lambda x: _log_masses(xp, layer, xp.minimum(x, float(layer.total_count)), shares, log_shares),
        mean=layer.total_count * shares[1],
    )
    return semiring.from_log(xp, xp.astype(found, trials.shares(xp, params)[0].dtype))


def _trials(num_values: int) -> dict[str, int]:
    """The settings for data of some number of values; of one value alone, which no trial has, as for two."""
    return {"total_count": max(num_values - 1, 1)}


ROW = replace(
    _TABLED,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("binomial", BinomialLayer, ("logits", "probs"), _trials),
)
