"""The base class of layers of trials, whose probability of success is a parameter itself, or its logit is.

The logit is `log(p / (1 - p))`, so that every number is the logit of some probability and units always sum to 1.
"""

import math

from plica.ir.dtypes import DType
from plica.symbolic.layers import states
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.univariate import exp_or_infinity
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    Shape,
    SigmoidParameter,
    SumParameter,
    normal,
)
from plica.symbolic.semirings import Params, Weight

_LEAST_MEAN = 0.01  # the least mean of a fitted column: further data of a column of zeros may have other counts


class TrialLayer(UnivariateLayer):
    """A distribution of trials that succeed with one probability for each unit."""

    logits: Parameter | None = unit_parameter(
        normal, "log-odds `log(p / (1 - p))` of a success; standard normal draws by default"
    )
    probs: Parameter | None = unit_parameter(
        normal, "probabilities p of a success, from 0 to 1, in place of the logits", instead_of="logits"
    )

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The parameters; the logits of probabilities that are a sigmoid."""
        return evaluated_successes(self)

    @property
    def log_masses(self) -> bool:
        """Whether tables hold logarithms: not where a probability is given, which may be 0 or 1 and be learned."""
        return "probs" not in self.evaluated_params

    failure = staticmethod(lambda xp, params: shares(xp, params)[0])
    success = staticmethod(lambda xp, params: shares(xp, params)[1])
    log_failure = staticmethod(lambda xp, params: log_shares(xp, params)[0])
    log_success = staticmethod(lambda xp, params: log_shares(xp, params)[1])
    wide_failure = staticmethod(lambda xp, params: shares(xp, params, xp.float64)[0])
    wide_success = staticmethod(lambda xp, params: shares(xp, params, xp.float64)[1])


def evaluated_successes(layer: InputLayer) -> dict[str, Parameter]:
    """The parameters of a layer, with the logits of probabilities that are a sigmoid.

    The sigmoid of a large number is 1, and its complement 0; the logit gives both logarithms.
    """
    params = dict(layer.params)
    probs = params.get("probs")
    if probs is not None and isinstance(probs.output, SigmoidParameter):
        (source,) = probs.node_inputs(probs.output)
        del params["probs"]
        params["logits"] = probs.subgraph(source)
    return params


def log_shares(xp: Namespace, params: Params) -> tuple[Array, Array]:
    """The logarithms of the probabilities of a failure and of a success, `(F, K)` each; -inf for 0."""
    if "logits" in params:
        logits = params["logits"]
        return -xp.softplus(logits), -xp.softplus(-logits)
    probs = params["probs"]
    can_fail = xp.less(probs, 1.0)
    failure = xp.where(can_fail, xp.log1p(-xp.where(can_fail, probs, 0.0)), float("-inf"))
    return failure, params.log(xp, "probs")


def shares(xp: Namespace, params: Params, dtype: DType | None = None) -> tuple[Array, Array]:
    """The probabilities of a failure and of a success, `(F, K)` each, both precise near 0.

    Near 1 they round to 1: use a wide dtype for tails of many trials.
    """
    given = params["logits" if "logits" in params else "probs"]
    given = xp.astype(given, dtype or given.dtype)
    return (xp.sigmoid(-given), xp.sigmoid(given)) if "logits" in params else (1.0 - given, given)


def failures(xp: Namespace, params: Params, power: float) -> Array:
    """The probability of a failure divided by a power of that of a success, infinite where it overflows.

    It is computed from logarithms where successes are rare, else from probabilities: an impossible failure has no
    logarithm with derivatives.
    """
    failure, success = log_shares(xp, params)
    ratio = exp_or_infinity(xp, failure - power * success)
    if "probs" not in params:
        return ratio
    is_likely = xp.greater(params["probs"], 0.5)
    probs = xp.where(is_likely, params["probs"], 1.0)
    return xp.where(is_likely, (1.0 - probs) / probs**power, ratio)


def masses(
    xp: Namespace, params: Params, logs: Array, counts: tuple[Array, Array], log_ways: Array | float, axis: int
) -> Weight:
    """The masses of numbers of failures and successes; a mass of 0 has the derivatives of ordinary arithmetic.

    Args:
        xp: The array namespace.
        params: The parameters of the layer.
        logs: The logarithms of the masses.
        counts: The numbers of failures and successes, as floats that broadcast with `logs`.
        log_ways: The logarithm of the number of their orders.
        axis: The axis of `logs` that the probabilities `(F, K)` lack.
    """
    if "logits" in params:  # no finite logit has the probability 0
        return states.from_logs(xp, logs)
    powers = [
        _power(xp, xp.expand_dims(share, axis=axis), count)
        for share, count in zip(shares(xp, params), counts, strict=True)
    ]
    return states.from_logs_and_zeros(xp, logs, powers[0] * powers[1], log_ways + xp.zeros_like(logs))


def _power(xp: Namespace, base: Array, count: Array) -> Array:
    """`base ** count`, without a derivative where the count is 0."""
    some = xp.greater(count, 0.0)
    return xp.where(some, xp.pow(base, xp.where(some, count, 1.0)), 1.0)


def times(xp: Namespace, count: Array, log: Array) -> Array:
    """`count * log` for counts of at least 0, where 0 times -inf is 0: an impossible outcome may occur 0 times."""
    return xp.where(xp.greater(count, 0), count * log, 0.0)


def fitted_failures(column: Column) -> dict[str, ParameterFactory]:
    """Logits around those whose mean number of failures before a success is the mean of a column."""
    shift = -math.log(max(column.mean, _LEAST_MEAN))

    def logits(shape: Shape) -> Parameter:
        return Parameter.from_binary(SumParameter(shape, shape), normal(shape), ConstantParameter(*shape, value=shift))

    return {"logits_factory": logits}
