"""The negative binomial input layer: how many failures come before some number of successes.

    P(x) = Gamma(x + r) / (x! Gamma(r)) p^r (1 - p)^x,  x = 0, 1, 2, ...

That is SciPy's `nbinom(r, p)`: p is the probability of a success, and failures are counted. Other libraries count
successes, whose probability is then 1 - p, and whose logit is the negative of the one here. With a mean m and a
dispersion r, as in regressions of counts, `logits = log(r / m)`.

>>> from plica.symbolic.scope import Scope
>>> layer = NegativeBinomialLayer(Scope([2]), 8)
>>> layer, layer.domain, sorted(layer.params)
(NegativeBinomialLayer(scope={2}, 8), Domain('counts'), ['logits', 'total_count'])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from plica.symbolic.domains import COUNTS, Domain
from plica.symbolic.layers import counts, trials
from plica.symbolic.layers.base import (
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    fields_of,
    input_scope,
    positive,
)
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import beyond
from plica.symbolic.layers.univariate import finite
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

MIN_TOTAL_COUNT = 1e-3  # of the default


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class NegativeBinomialLayer(InputLayer):
    """Distributions over the counts 0, 1, 2, ... of failures before r successes.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        total_count: `(K,)` numbers r of successes, positive and real; by default the softplus of normal draws, plus
            `MIN_TOTAL_COUNT`.
        logits: `(K,)` log-odds `log(p / (1 - p))` of a success; standard normal draws by default.
        probs: `(K,)` probabilities p of a success, above 0 and at most 1.
        total_count_factory: Makes the numbers of successes from their shape.
        logits_factory: Makes the logits from their shape.
        probs_factory: Makes the probabilities from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    total_count: Parameter
    logits: Parameter | None
    probs: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        total_count: ParameterLike | None = None,
        logits: ParameterLike | None = None,
        probs: ParameterLike | None = None,
        total_count_factory: ParameterFactory | None = None,
        logits_factory: ParameterFactory | None = None,
        probs_factory: ParameterFactory | None = None,
    ) -> None:
        name = "NegativeBinomialLayer"
        at_most_one(name, total_count=total_count, total_count_factory=total_count_factory)
        units = positive(name, "num_output_units", num_output_units)
        chosen = trials.choose_successes(name, units, logits, probs, logits_factory, probs_factory)
        default = beyond(MIN_TOTAL_COUNT, 1.0)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, **chosen)
        assign(
            self, total_count=choose_parameter(name, "total_count", (units,), total_count, total_count_factory, default)
        )

    @property
    def domain(self) -> Domain:
        """Counts without a bound."""
        return COUNTS

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside parameters."""
        return fields_of(self, "scope", "num_output_units")

    @property
    def params(self) -> dict[str, Parameter]:
        """The numbers of successes, and the logits or the probabilities."""
        return {"total_count": self.total_count, **trials.given_successes(self)}

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The parameters; the logits of probabilities that are a sigmoid."""
        return trials.evaluated_successes(self)


class _Units:
    """The parameters of all units, `(F, K)` with one more axis, in one dtype."""

    def __init__(self, xp: Namespace, params: Params, axis: int, dtype: Any = None) -> None:
        def wide(array: Array) -> Array:
            return xp.expand_dims(xp.astype(array, dtype or array.dtype), axis=axis)

        self.xp = xp
        self.total = wide(params["total_count"])
        self.log_total = wide(params.log(xp, "total_count"))
        self.shares = tuple(map(wide, trials.shares(xp, params, dtype)))
        self.log_shares = tuple(map(wide, trials.log_shares(xp, params)))

    def log_masses(self, x: Array) -> Array:
        """The logarithms of the masses of x failures, as floats; a number of successes learns nothing from -inf."""
        xp, some = self.xp, self.xp.maximum(x, 1.0)
        failing, succeeding = (xp.isfinite(one) for one in self.log_shares)
        logs = [xp.where(known, one, 0.0) for known, one in zip((failing, succeeding), self.log_shares, strict=True)]
        # the last one of all is a success: r of the r + x places
        found = counts.log_binomial(xp, (some, self.total), self.shares, logs)
        found = found + self.log_total - xp.log(some + self.total)
        none = xp.less_equal(x, 0.0)
        possible = xp.logical_and(succeeding, xp.logical_or(failing, none))
        return xp.where(possible, xp.where(none, self.total * logs[1], found), float("-inf"))


def _body(xp: Namespace, semiring: Semiring, layer: NegativeBinomialLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    units = _Units(xp, params, 1)
    return semiring.from_log(xp, units.log_masses(xp.astype(x, units.total.dtype)))


def _times(xp: Namespace, total: Array, failures: Array) -> Array:
    """The product; infinite, with derivatives of 0, where the failures of one success are."""
    over = xp.equal(failures, float("inf"))
    return xp.where(over, float("inf"), total * xp.where(over, 0.0, failures))


def _mean(xp: Namespace, layer: NegativeBinomialLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_times(xp, params["total_count"], trials.failures(xp, params, 1.0)), axis=-1)


def _variance(xp: Namespace, layer: NegativeBinomialLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_times(xp, params["total_count"], trials.failures(xp, params, 2.0)), axis=-1)


def _mode(xp: Namespace, layer: NegativeBinomialLayer, params: Params) -> Array:  # noqa: ARG001
    fewer = xp.maximum(params["total_count"] - 1.0, 0.0)
    failures = finite(xp, trials.failures(xp, params, 1.0))  # 0 times infinity is none
    return xp.expand_dims(xp.minimum(xp.floor(fewer * failures), counts.LARGEST), axis=-1)


def _maximum(xp: Namespace, semiring: Semiring, layer: NegativeBinomialLayer, params: Params) -> Value:
    mode = xp.permute_dims(_mode(xp, layer, params), (0, 2, 1))  # (F, 1, K)
    return semiring.from_log(xp, _Units(xp, params, 1).log_masses(mode))


def _sample(xp: Namespace, layer: NegativeBinomialLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    total, failure, success = (
        xp.expand_dims(xp.astype(xp.take_along_axis(one, units, axis=-1, nonnegative=True), xp.float64), axis=-1)
        for one in (params["total_count"], *trials.shares(xp, params, xp.float64))
    )
    odds = failure / success
    deviation = xp.sqrt(total * odds / success)
    skewness = (1.0 + failure) / xp.maximum(xp.sqrt(total * failure), 1e-150)
    level = xp.astype(uniforms, xp.float64)
    return counts.quantile(xp, lambda x: xp.betainc(total, x + 1.0, success), level, total * odds, deviation, skewness)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: NegativeBinomialLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    units = _Units(xp, params, 1, xp.float64)  # in float64: tails are subtracted
    failure, success = units.shares
    ends = counts.whole_ends(xp, low, high, units.total.dtype)

    def below(x: Array) -> Array:
        return xp.where(xp.isfinite(x), xp.betainc(units.total, xp.where(xp.isfinite(x), x, 0.0) + 1.0, success), 1.0)

    def above(x: Array) -> Array:
        return xp.where(xp.isfinite(x), xp.betainc(xp.where(xp.isfinite(x), x, 1.0), units.total, failure), 0.0)

    mean = units.total * failure / success
    found = counts.log_between(xp, ends, below, above, units.log_masses, mean)
    return semiring.from_log(xp, xp.astype(found, params["total_count"].dtype))


ROW = InputRow(
    NegativeBinomialLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution(
        "negative-binomial",
        NegativeBinomialLayer,
        ("total_count", "logits", "probs"),
        fitted=trials.fitted_failures,
    ),
)
