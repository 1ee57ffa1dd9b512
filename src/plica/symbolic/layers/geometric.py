"""The geometric input layer: how many failures come before the first success, one probability of success per unit.

    P(x) = (1 - p)^x p,  x = 0, 1, 2, ...

SciPy's `geom` counts the success too: it is this variable plus 1, `geom(p, loc=-1)`.

>>> from plica.symbolic.scope import Scope
>>> layer = GeometricLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["logits"].shape
(GeometricLayer(scope={2}, 8), Domain('counts'), (8,))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from plica.symbolic.domains import COUNTS, Domain
from plica.symbolic.layers import counts, trials
from plica.symbolic.layers.base import InputLayer, assign, fields_of, input_scope, positive
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class GeometricLayer(InputLayer):
    """Distributions over the counts 0, 1, 2, ... of failures before the first success.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        logits: `(K,)` log-odds `log(p / (1 - p))` of a success; standard normal draws by default.
        probs: `(K,)` probabilities p of a success, above 0 and at most 1.
        logits_factory: Makes the logits from their shape.
        probs_factory: Makes the probabilities from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give the parameter.
    """

    scope: Scope
    num_output_units: int
    logits: Parameter | None
    probs: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        logits: ParameterLike | None = None,
        probs: ParameterLike | None = None,
        logits_factory: ParameterFactory | None = None,
        probs_factory: ParameterFactory | None = None,
    ) -> None:
        name = "GeometricLayer"
        units = positive(name, "num_output_units", num_output_units)
        chosen = trials.choose_successes(name, units, logits, probs, logits_factory, probs_factory)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, **chosen)

    @property
    def domain(self) -> Domain:
        """Counts without a bound."""
        return COUNTS

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside the parameter."""
        return fields_of(self, "scope", "num_output_units")

    @property
    def params(self) -> dict[str, Parameter]:
        """The logits or the probabilities, whichever the layer has."""
        return trials.given_successes(self)

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The parameter; the logits of probabilities that are a sigmoid."""
        return trials.evaluated_successes(self)


def _log_shares(xp: Namespace, params: Params) -> tuple[Array, Array]:
    failure, success = trials.log_shares(xp, params)
    return xp.expand_dims(failure, axis=1), xp.expand_dims(success, axis=1)  # (F, 1, K)


def _body(xp: Namespace, semiring: Semiring, layer: GeometricLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    failure, success = _log_shares(xp, params)
    x = xp.astype(x, failure.dtype)
    masses = trials.masses(xp, params, trials.times(xp, x, failure) + success, (x, xp.ones_like(x)), 0.0, axis=1)
    return semiring.from_weight(xp, masses)


def _maximum(xp: Namespace, semiring: Semiring, layer: GeometricLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_shares(xp, params)[1])


def _mode(xp: Namespace, layer: GeometricLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.zeros_like(trials.log_shares(xp, params)[0]), axis=-1)


def _sample(xp: Namespace, layer: GeometricLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    failure, _ = trials.log_shares(xp, params)
    failure = xp.minimum(failure, -float(xp.finfo(failure.dtype).smallest_normal))  # 1 - p rounds to 1 where p is tiny
    chosen = xp.take_along_axis(failure, units, axis=-1, nonnegative=True)
    # the least x with 1 - (1 - p)^(x + 1) > u
    return counts.as_count(xp, xp.floor(xp.log1p(-uniforms) / xp.expand_dims(chosen, axis=-1)))


def _mean(xp: Namespace, layer: GeometricLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(trials.failures(xp, params, 1.0), axis=-1)


def _variance(xp: Namespace, layer: GeometricLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(trials.failures(xp, params, 2.0), axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: GeometricLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    failure, _ = _log_shares(xp, params)
    first, last, empty = counts.whole_ends(xp, low, high, failure.dtype)
    # (1 - p)^first (1 - (1 - p)^(last - first + 1)): of logarithms, so that nothing cancels far in the tail
    bounded = xp.isfinite(last)
    number = xp.where(bounded, last - first, 0.0) + 1.0
    beyond = number * failure  # the logarithm of what lies behind a bounded interval
    far = xp.log1p(-xp.exp(xp.minimum(beyond, -1.0)))  # where 1 less a small tail is 1
    within = xp.where(bounded, xp.where(xp.less(beyond, -1.0), far, xp.safe_log(-xp.expm1(beyond))), 0.0)
    return semiring.from_log(xp, xp.where(empty, float("-inf"), trials.times(xp, first, failure) + within))


ROW = InputRow(
    GeometricLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("geometric", GeometricLayer, ("logits", "probs"), fitted=trials.fitted_failures),
)
