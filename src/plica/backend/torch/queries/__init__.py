"""Queries on compiled circuits: each runs a Program of its own on the circuit's tensors, as they are at each call.

>>> import torch
>>> from plica.backend.torch.compiler import TorchCompiler
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = TorchCompiler().compile(Circuit([layer], {}, [layer]))
>>> samples, choices = SamplingQuery(circuit)(5)
>>> samples.shape, choices
(torch.Size([5, 1]), {})
"""

from plica.backend.torch.queries.boxes import cdf, probability
from plica.backend.torch.queries.choosing import TorchQuery, query_of
from plica.backend.torch.queries.covariance import covariance
from plica.backend.torch.queries.expected import latent_posterior, mean, posterior, variance
from plica.backend.torch.queries.integrate import IntegrateQuery
from plica.backend.torch.queries.likelihood import conditional_log_likelihood, log_likelihood
from plica.backend.torch.queries.mpe import mpe, mpe_bounds
from plica.backend.torch.queries.quantile import quantile
from plica.backend.torch.queries.sampling import SamplingQuery, sample

__all__ = [
    "IntegrateQuery",
    "SamplingQuery",
    "TorchQuery",
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
    "query_of",
    "sample",
    "variance",
]
