"""The negative binomial input layer: the number of failures before some number of successes.

    P(x) = Gamma(x + r) / (x! Gamma(r)) p^r (1 - p)^x,  x = 0, 1, 2, ...

That is SciPy's `nbinom(r, p)`: p is the probability of a success, and failures are counted. Other libraries count
successes, whose probability is then 1 - p, and whose logit is the negative of the one here. With a mean m and a
dispersion r, as in regressions of counts, `logits = log(r / m)`.

>>> from plica.symbolic.scope import Scope
>>> layer = NegativeBinomialLayer(Scope([2]), 8)
>>> layer, layer.domain, sorted(layer.params)
(NegativeBinomialLayer(scope={2}, 8), Domain('counts'), ['logits', 'total_count'])
"""

from collections.abc import Sequence
from typing import final

from plica.symbolic.domains import COUNTS
from plica.symbolic.layers import counts, trials
from plica.symbolic.layers.declared import unit_parameter
from plica.symbolic.layers.starts import beyond
from plica.symbolic.layers.univariate import finite
from plica.symbolic.parameters import Array, Namespace, Parameter
from plica.symbolic.semirings import Params, Weight

MIN_TOTAL_COUNT = 1e-3  # of the default


@final
class NegativeBinomialLayer(trials.TrialLayer, name="negative-binomial"):
    """Distributions over the counts 0, 1, 2, ... of failures before r successes, each of a probability above 0."""

    total_count: Parameter = unit_parameter(
        beyond(MIN_TOTAL_COUNT, 1.0),
        "numbers r of successes, positive and real; by default the softplus of normal draws, plus `MIN_TOTAL_COUNT`",
    )
    domain = COUNTS

    @staticmethod
    def log_density(
        xp: Namespace,
        x: Array,
        total_count: Array,
        log_total_count: Array,
        failure: Array,
        success: Array,
        log_failure: Array,
        log_success: Array,
        params: Params,
    ) -> Weight:
        logs = _log_masses(xp, x, total_count, log_total_count, (failure, success), (log_failure, log_success))
        return trials.masses(xp, params, logs, (x, total_count), _log_ways(xp, x, total_count), axis=1)

    @staticmethod
    def mode(xp: Namespace, total_count: Array, params: Params) -> Array:
        failures = finite(xp, trials.failures(xp, params, 1.0))  # 0 times infinity is none
        return xp.minimum(xp.floor(xp.maximum(total_count - 1.0, 0.0) * failures), counts.LARGEST)

    expectation = staticmethod(lambda xp, total_count, params: _moment(xp, total_count, params, 1.0))
    variance = staticmethod(lambda xp, total_count, params: _moment(xp, total_count, params, 2.0))

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, total_count: Array, wide_failure: Array, wide_success: Array) -> Array:
        total, failure, success = xp.astype(total_count, xp.float64), wide_failure, wide_success
        odds = failure / success
        deviation = xp.sqrt(total * odds / success)
        skewness = (1.0 + failure) / xp.maximum(xp.sqrt(total * failure), 1e-150)
        level, mean = xp.astype(uniforms, xp.float64), total * odds
        return counts.quantile(xp, lambda x: xp.betainc(total, x + 1.0, success), level, mean, deviation, skewness)

    @staticmethod
    def log_interval(
        xp: Namespace,
        lower: Array,
        upper: Array,
        total_count: Array,
        log_total_count: Array,
        wide_failure: Array,
        wide_success: Array,
        log_failure: Array,
        log_success: Array,
    ) -> Array:
        total, *logs = (xp.astype(array, xp.float64) for array in (total_count, log_failure, log_success))
        log_total = xp.astype(log_total_count, xp.float64)
        shares = wide_failure, wide_success

        def below(x: Array) -> Array:
            some = xp.where(xp.isfinite(x), x, 0.0)
            return xp.where(xp.isfinite(x), xp.betainc(total, some + 1.0, wide_success), 1.0)

        def above(x: Array) -> Array:
            return xp.where(xp.isfinite(x), xp.betainc(xp.where(xp.isfinite(x), x, 1.0), total, wide_failure), 0.0)

        return counts.log_between(
            xp,
            counts.whole_ends(xp, lower, upper, total.dtype),
            below,
            above,
            log_mass=lambda x: _log_masses(xp, x, total, log_total, shares, logs),
            mean=total * wide_failure / wide_success,
        )

    fitted = staticmethod(trials.fitted_failures)


def _log_masses(
    xp: Namespace,
    x: Array,
    total: Array,
    log_total: Array,
    shares: Sequence[Array],
    log_shares: Sequence[Array],
) -> Array:
    """The logarithms of the masses of x failures; -inf has no derivative."""
    some = xp.maximum(x, 1.0)
    failing, succeeding = (xp.isfinite(log) for log in log_shares)
    logs = [xp.where(possible, log, 0.0) for possible, log in zip((failing, succeeding), log_shares, strict=True)]
    # the last trial is a success: r of r + x
    mass = counts.log_binomial(xp, (some, total), shares, logs) + log_total - xp.log(some + total)
    none = xp.less_equal(x, 0.0)
    possible = xp.logical_and(succeeding, xp.logical_or(failing, none))
    return xp.where(possible, xp.where(none, total * logs[1], mass), float("-inf"))


def _log_ways(xp: Namespace, x: Array, total: Array) -> Array:
    """Return log Gamma(x + r) / (x! Gamma(r)): the mass where x of x + r trials fail, less the powers of its shares."""
    numbers = (xp.maximum(x, 1.0), total)
    sum_ = numbers[0] + total
    shares = [number / sum_ for number in numbers]
    logs = [xp.log(share) for share in shares]
    mass = counts.log_binomial(xp, numbers, shares, logs) + logs[1] - numbers[0] * logs[0] - total * logs[1]
    return xp.where(xp.greater(x, 0.0), mass, 0.0)


def _moment(xp: Namespace, total: Array, params: Params, power: float) -> Array:
    """The total times the failures of one success; infinite, with derivatives of 0, where those are."""
    failures = trials.failures(xp, params, power)
    over = xp.equal(failures, float("inf"))
    return xp.where(over, float("inf"), total * xp.where(over, 0.0, failures))
