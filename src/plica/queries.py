"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing."""

from plica.frontend.expectations import Posterior, latent_posterior, mean, posterior, variance
from plica.frontend.queries import mpe, sample

__all__ = ["Posterior", "latent_posterior", "mean", "mpe", "posterior", "sample", "variance"]
