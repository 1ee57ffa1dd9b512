# Made by `python -m tests.harness.generated`: the names of plica.queries for editors.
from plica.lower.queries.answers import Explanations
from plica.lower.queries.answers import Posterior
from plica.lower.queries.boxes import cdf
from plica.lower.queries.boxes import probability
from plica.lower.queries.covariance import covariance
from plica.lower.queries.expect import latent_posterior
from plica.lower.queries.expect import mean
from plica.lower.queries.expect import posterior
from plica.lower.queries.expect import variance
from plica.lower.queries.likelihood import conditional_log_likelihood
from plica.lower.queries.likelihood import log_likelihood
from plica.lower.queries.mpe import mpe
from plica.lower.queries.mpe import mpe_bounds
from plica.lower.queries.quantile import quantile
from plica.lower.queries.query import ask
from plica.lower.queries.sample import sample

__all__ = [
    "Explanations",
    "Posterior",
    "ask",
    "log_likelihood",
    "conditional_log_likelihood",
    "cdf",
    "probability",
    "quantile",
    "sample",
    "mpe",
    "mpe_bounds",
    "posterior",
    "latent_posterior",
    "mean",
    "variance",
    "covariance",
]
