"""The Bernoulli input layer: a variable of the values 0 and 1, one probability of 1 per unit.

>>> from plica.symbolic.scope import Scope
>>> layer = BernoulliLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["logits"].shape
(BernoulliLayer(scope={2}, 8), Domain('2 states'), (8,))
"""

from typing import final

from plica.symbolic.domains import BOOLEANS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers import trials
from plica.symbolic.parameters import Namespace
from plica.symbolic.semirings import Params, Weight


@final
class BernoulliLayer(trials.TrialLayer, name="bernoulli"):
    """Distributions over the values 0 and 1 of one variable; 1 is a success."""

    domain = BOOLEANS
    closed_form = forms.trials()

    @staticmethod
    def table(xp: Namespace, params: Params) -> Weight:
        logs = xp.stack(trials.log_shares(xp, params), axis=-1)  # (F, K, 2)
        successes = xp.astype(xp.arange(2), logs.dtype)
        return trials.masses(xp, params, logs, (1.0 - successes, successes), 0.0, axis=-1)

    expectation = staticmethod(lambda success: success)
    variance = staticmethod(lambda failure, success: failure * success)
