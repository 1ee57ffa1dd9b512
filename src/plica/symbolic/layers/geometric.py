"""The geometric input layer: the number of failures before the first success, one probability of success per unit.

    P(x) = (1 - p)^x p,  x = 0, 1, 2, ...

SciPy's `geom` counts the success too: it is this variable plus 1, `geom(p, loc=-1)`.

>>> from plica.symbolic.scope import Scope
>>> layer = GeometricLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["logits"].shape
(GeometricLayer(scope={2}, 8), Domain('counts'), (8,))
"""

from typing import final

from plica.symbolic.domains import COUNTS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers import counts, trials
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Weight


@final
class GeometricLayer(trials.TrialLayer, name="geometric"):
    """Distributions over the counts 0, 1, 2, ... of failures before the first success, of a probability above 0.

    The product of two such layers is one, times a constant; its derivatives are NaN where a probability is exactly 1.
    """

    domain = COUNTS
    closed_form = forms.first_successes()

    @staticmethod
    def log_density(xp: Namespace, x: Array, log_failure: Array, log_success: Array, params: Params) -> Weight:
        logs = trials.times(xp, x, log_failure) + log_success
        return trials.masses(xp, params, logs, (x, xp.ones_like(x)), 0.0, axis=1)

    log_maximum = staticmethod(lambda log_success: log_success)
    mode = staticmethod(lambda xp, log_failure: xp.zeros_like(log_failure))
    expectation = staticmethod(lambda xp, params: trials.failures(xp, params, 1.0))
    variance = staticmethod(lambda xp, params: trials.failures(xp, params, 2.0))

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:
        """Failures multiply: with odds o = p / (1 - p) of successes, 1 + o = (1 + o1) (1 + o2)."""
        logits = [success - failure for failure, success in (trials.log_shares(xp, side) for side in (first, second))]
        return {"logits": xp.logaddexp(xp.logaddexp(*logits), logits[0] + logits[1])}

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, log_failure: Array) -> Array:
        # 1 - p rounds to 1 where p is tiny
        log_failure = xp.minimum(log_failure, -float(xp.finfo(log_failure.dtype).smallest_normal))
        return counts.as_count(xp, xp.floor(xp.log1p(-uniforms) / log_failure))  # the least x with 1 - (1-p)^(x+1) > u

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, log_failure: Array) -> Array:
        first, last, empty = counts.whole_ends(xp, lower, upper, log_failure.dtype)
        # (1 - p)^first (1 - (1 - p)^(last - first + 1)): of logarithms, so that nothing cancels far in the tail
        bounded = xp.isfinite(last)
        number = xp.where(bounded, last - first, 0.0) + 1.0
        beyond = number * log_failure  # the logarithm of the share behind a bounded interval
        far = xp.log1p(-xp.exp(xp.minimum(beyond, -1.0)))  # where 1 less a small tail is 1
        within = xp.where(bounded, xp.where(xp.less(beyond, -1.0), far, xp.safe_log(-xp.expm1(beyond))), 0.0)
        return xp.where(empty, float("-inf"), trials.times(xp, first, log_failure) + within)

    fitted = staticmethod(trials.fitted_failures)
