"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.expectations import Posterior, latent_posterior, mean, posterior, variance
from plica.frontend.likelihoods import cdf, conditional_log_likelihood, log_likelihood, probability, quantile
from plica.frontend.queries import mpe, sample

__all__ = [
    "Posterior",
    "cdf",
    "conditional_log_likelihood",
    "latent_posterior",
    "log_likelihood",
    "mean",
    "mpe",
    "posterior",
    "probability",
    "quantile",
    "sample",
    "variance",
]
