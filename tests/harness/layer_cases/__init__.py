"""A conformance case for each form of each layer: tests loop over them, and every row must have one.

A new layer brings a file here and its line below; `tests/symbolic/layers/test_conformance.py` says what is missing.
"""

from tests.harness.layer_cases import (
    bernoulli,
    beta,
    binomial,
    categorical,
    cpt,
    cut_poisson,
    discretized_logistic,
    embedding,
    exponential,
    gamma,
    gaussian,
    gaussians,
    geometric,
    hadamard,
    histogram,
    holding,
    joint,
    kronecker,
    laplace,
    log_normal,
    logistic,
    module,
    negative_binomial,
    neighbours,
    poisson,
    polynomial,
    rounded_logistic,
    student_t,
    tensordot,
    tucker,
    unequal,
    uniform,
    variable_free,
    von_mises,
)
from tests.harness.layer_cases import sum as sum_
from tests.harness.layer_cases.case import InnerCase, InputCase, LayerCase, Refused, num_states, references

LAYER_CASES: tuple[LayerCase, ...] = (
    *categorical.CASES,
    *embedding.CASES,
    *gaussian.CASES,
    *polynomial.CASES,
    *variable_free.CASES,
    *gaussians.CASES,
    *hadamard.CASES,
    *kronecker.CASES,
    *module.CASES,
    *sum_.CASES,
    *tucker.CASES,
    *cpt.CASES,
    *tensordot.CASES,
    *beta.CASES,
    *exponential.CASES,
    *gamma.CASES,
    *laplace.CASES,
    *log_normal.CASES,
    *student_t.CASES,
    *von_mises.CASES,
    *bernoulli.CASES,
    *geometric.CASES,
    *discretized_logistic.CASES,
    *rounded_logistic.CASES,
    *uniform.CASES,
    *histogram.CASES,
    *negative_binomial.CASES,
    *binomial.CASES,
    *poisson.CASES,
)

# Layers of a user's own, as a context is given them: of several variables, of other distributions, sums, and layers
# that hold layers.
OWN_CASES: tuple[LayerCase, ...] = (
    *joint.CASES,
    *cut_poisson.CASES,
    *logistic.CASES,
    *neighbours.CASES,
    *holding.CASES,
    *unequal.CASES,
)

CASES: tuple[LayerCase, ...] = (*LAYER_CASES, *OWN_CASES)

__all__ = [
    "CASES",
    "LAYER_CASES",
    "OWN_CASES",
    "InnerCase",
    "InputCase",
    "LayerCase",
    "Refused",
    "num_states",
    "references",
]
