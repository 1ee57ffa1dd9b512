"""What queries of the way up need of a circuit: they read its value, and its total, off the end of it."""

from plica.lower.queries.needs import Needs

LOG_LIKELIHOOD = Needs("log_likelihood", "the log-likelihood", inputs=("marginal",))
CONDITIONAL = Needs("conditional_log_likelihood", "the conditional log-likelihood", inputs=("marginal",))
