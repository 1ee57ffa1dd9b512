"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.likelihoods import cdf, conditional_log_likelihood, log_likelihood, probability
from plica.frontend.queries import mpe, sample

__all__ = ["cdf", "conditional_log_likelihood", "log_likelihood", "mpe", "probability", "sample"]
