# Made by `python -m tests.harness.generated`: the names of plica.queries for editors.
from plica.lower.queries.answers import Explanations
from plica.lower.queries.answers import Posterior
from plica.lower.queries.backdoor import backdoor
from plica.lower.queries.boxes import cdf
from plica.lower.queries.boxes import probability
from plica.lower.queries.covariance import covariance
from plica.lower.queries.expect import latent_posterior
from plica.lower.queries.expect import mean
from plica.lower.queries.expect import posterior
from plica.lower.queries.expect import variance
from plica.lower.queries.expectation import expectation
from plica.lower.queries.expectation import moment
from plica.lower.queries.expectation import overlap
from plica.lower.queries.expectation import probability_of
from plica.lower.queries.information import cross_entropy
from plica.lower.queries.information import entropy
from plica.lower.queries.information import kullback_leibler
from plica.lower.queries.information import mutual_information
from plica.lower.queries.information import renyi
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
    "expectation",
    "moment",
    "overlap",
    "probability_of",
    "entropy",
    "cross_entropy",
    "kullback_leibler",
    "renyi",
    "mutual_information",
    "backdoor",
]
