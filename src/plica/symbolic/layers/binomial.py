"""The binomial input layer: the number of successes in a known number of trials, one probability of success per unit.

    P(x) = n! / (x! (n - x)!) p^x (1 - p)^(n - x),  x = 0, ..., n

>>> from plica.symbolic.scope import Scope
>>> layer = BinomialLayer(Scope([2]), 8, total_count=255)
>>> layer, layer.domain, layer.params["logits"].shape
(BinomialLayer(scope={2}, 8), Domain('256 states'), (8,))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, final

import numpy as np

from plica.symbolic.domains import finite
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers import counts, trials
from plica.symbolic.layers.declared import setting
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value, Weight

MOST_TABLED = 1024  # trials: a layer of at most these is a table of its categories, which is faster


@final
class BinomialLayer(trials.TrialLayer, name="binomial"):
    """Distributions over the numbers 0 to n of successes in n trials."""

    total_count: int = setting("n, the number of trials", 2)
    domain = property(lambda self: finite(self.total_count + 1))
    closed_form = forms.trials("total_count")

    @staticmethod
    def table(xp: Namespace, total_count: int, log_failure: Array, log_success: Array, params: Params) -> Weight:
        total = total_count
        x = xp.astype(xp.arange(total + 1), log_success.dtype)
        ways = [math.log(math.comb(total, n)) for n in range(total + 1)]  # of integers: exact to the last rounding
        log_ways = xp.astype(xp.asarray(np.array(ways)), log_success.dtype)
        logs = trials.times(xp, x, log_success) + trials.times(xp, total - x, log_failure) + log_ways
        return trials.masses(xp, params, logs, (total - x, x), log_ways, axis=-1)

    @staticmethod
    def mode(xp: Namespace, total_count: int, success: Array) -> Array:
        return xp.clip(xp.floor((total_count + 1) * success), 0.0, total_count)

    @staticmethod
    def log_maximum(
        xp: Namespace,
        mode: Array,
        total_count: int,
        failure: Array,
        success: Array,
        log_failure: Array,
        log_success: Array,
    ) -> Array:
        return _log_masses(xp, total_count, mode, (failure, success), (log_failure, log_success))

    expectation = staticmethod(lambda total_count, success: total_count * success)
    variance = staticmethod(lambda total_count, failure, success: total_count * success * failure)

    @staticmethod
    def settings(num_values: int) -> dict[str, int]:
        """The settings for data of `num_values` values; a single value counts as two, so that there is a trial."""
        return {"total_count": max(num_values - 1, 1)}


_TABLED = BinomialLayer.row


def _log_masses(xp: Namespace, total: int, x: Array, shares: Any, log_shares: Any) -> Array:
    """The logarithms of the masses of x successes, as floats, whose shape broadcasts with the shares."""
    log_failure, log_success = log_shares
    successes = xp.clip(x, 1.0, max(total - 1.0, 1.0))
    numbers = (xp.maximum(total - successes, 1.0), successes)
    mass = counts.log_binomial(xp, numbers, shares, log_shares)
    mass = xp.where(xp.less(x, total), mass, total * log_success)
    return xp.where(xp.greater(x, 0.0), mass, total * log_failure)


def _of_units(xp: Namespace, params: Params, axis: int, dtype: Any = None) -> tuple[tuple[Array, ...], ...]:
    """The probabilities of failure and success, and their logarithms, with one more axis."""
    pairs = (trials.shares(xp, params, dtype), trials.log_shares(xp, params))
    return tuple(
        tuple(xp.expand_dims(xp.astype(array, dtype or array.dtype), axis=axis) for array in pair) for pair in pairs
    )


def _body(xp: Namespace, semiring: Semiring, layer: BinomialLayer, params: Params, x: Array) -> Value:
    if layer.total_count <= MOST_TABLED:
        return _TABLED.body(xp, semiring, layer, params, x)
    shares, log_shares = _of_units(xp, params, 1)  # (F, 1, K)
    return semiring.from_log(xp, _log_masses(xp, layer.total_count, xp.astype(x, shares[0].dtype), shares, log_shares))


def _sample(xp: Namespace, layer: BinomialLayer, params: Params, units: Array, uniforms: Array) -> Array:
    if layer.total_count <= MOST_TABLED:
        assert callable(_TABLED.sample), "tables are sampled from"
        return _TABLED.sample(xp, layer, params, units, uniforms)
    failure, success = (
        xp.expand_dims(xp.take_along_axis(share, units, axis=-1, nonnegative=True), axis=-1)
        for share in trials.shares(xp, params, xp.float64)
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
    log_share = counts.log_between(
        xp,
        counts.whole_ends(xp, low, xp.minimum(high, float(layer.total_count)), shares[0].dtype),
        below,
        above,
        log_mass=lambda x: _log_masses(
            xp, layer.total_count, xp.minimum(x, float(layer.total_count)), shares, log_shares
        ),
        mean=layer.total_count * shares[1],
    )
    return semiring.from_log(xp, xp.astype(log_share, trials.shares(xp, params)[0].dtype))


BinomialLayer.row = replace(_TABLED, body=_body, sample=_sample, interval=_interval)
