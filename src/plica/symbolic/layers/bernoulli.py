"""The Bernoulli input layer: a variable of the values 0 and 1, one probability of 1 per unit.

>>> from plica.symbolic.scope import Scope
>>> layer = BernoulliLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["logits"].shape
(BernoulliLayer(scope={2}, 8), Domain('2 states'), (8,))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

from plica.symbolic.domains import BOOLEANS, Domain
from plica.symbolic.layers import states, trials
from plica.symbolic.layers.base import InputLayer, assign, fields_of, input_scope, positive
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import normalized_total
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Weight


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class BernoulliLayer(InputLayer):
    """Distributions over the values 0 and 1 of one variable.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        logits: `(K,)` log-odds `log(p / (1 - p))` of 1; standard normal draws by default.
        probs: `(K,)` probabilities p of 1, from 0 to 1.
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
        name = "BernoulliLayer"
        units = positive(name, "num_output_units", num_output_units)
        chosen = trials.choose_successes(name, units, logits, probs, logits_factory, probs_factory)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, **chosen)

    @property
    def domain(self) -> Domain:
        """0 and 1."""
        return BOOLEANS

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


def _table(xp: Namespace, layer: BernoulliLayer, params: Params) -> Weight:  # noqa: ARG001
    logs = xp.stack(trials.log_shares(xp, params), axis=-1)  # (F, K, 2)
    successes = xp.astype(xp.arange(2), logs.dtype)
    return trials.masses(xp, params, logs, (1.0 - successes, successes), 0.0, axis=-1)


def _mean(xp: Namespace, layer: BernoulliLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(trials.shares(xp, params)[1], axis=-1)


def _variance(xp: Namespace, layer: BernoulliLayer, params: Params) -> Array:  # noqa: ARG001
    failure, success = trials.shares(xp, params)
    return xp.expand_dims(failure * success, axis=-1)


ROW = replace(
    states.input_row(
        BernoulliLayer, _table, distribution=Distribution("bernoulli", BernoulliLayer, ("logits", "probs"))
    ),
    marginal=normalized_total,
    mean=_mean,
    variance=_variance,
)
