"""Circuits as data: scopes, parameters, layers and the graph that joins them; nothing here computes.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, SumLayer
>>> from plica.symbolic.scope import Scope
>>> coin, mixture = CategoricalLayer(Scope([0]), 4, num_categories=2), SumLayer(4, 1)
>>> Circuit([coin, mixture], {mixture: [coin]}, [mixture]).scope
Scope({0})
"""

from plica.public import listing

__all__: list[str] = []

__dir__ = listing(
    __name__,
    "circuit",
    "domains",
    "dtypes",
    "functional",
    "initializers",
    "layers",
    "parameters",
    "scope",
    "semirings",
)
