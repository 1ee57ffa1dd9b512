"""What queries of the way up need of a circuit: they read its value, and its total, off the end of it."""

from plica.lower.queries.needs import Needs
from plica.symbolic.semirings import LSE_SUM, Semiring

LOG_LIKELIHOOD = Needs("log_likelihood", "the log-likelihood", inputs=("marginal",), signed=True)
CONDITIONAL = Needs("conditional_log_likelihood", "the conditional log-likelihood", inputs=("marginal",), signed=True)


def integration(semiring: Semiring = LSE_SUM) -> Needs:
    """What it takes to lose variables as the algebra of a semiring reduces them."""
    column = semiring.algebra.reduction.value
    return Needs("IntegrateQuery", "losing variables", inputs=(column,), one_unit=False, semiring=None)
