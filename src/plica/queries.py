"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.likelihoods import conditional_log_likelihood, log_likelihood
from plica.frontend.queries import mpe, sample

__all__ = ["conditional_log_likelihood", "log_likelihood", "mpe", "sample"]
