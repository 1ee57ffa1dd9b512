"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.expectations import Posterior, covariance, latent_posterior, mean, posterior, variance
from plica.frontend.likelihoods import cdf, conditional_log_likelihood, log_likelihood, probability, quantile
from plica.frontend.queries import Explanations, mpe, mpe_bounds, sample

__all__ = [
    "Explanations",
    "Posterior",
    "cdf",
    "conditional_log_likelihood",
    "covariance",
    "latent_posterior",
    "log_likelihood",
    "mean",
    "mpe",
    "mpe_bounds",
    "posterior",
    "probability",
    "quantile",
    "sample",
    "variance",
]
