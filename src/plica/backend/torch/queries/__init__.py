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

from importlib import import_module
from typing import Any

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.choosing import TorchQuery, complete, query_of
from plica.backend.torch.queries.composed import compose
from plica.backend.torch.queries.expected import read_off
from plica.backend.torch.queries.integrate import IntegrateQuery
from plica.backend.torch.queries.sampling import SamplingQuery, draw
from plica.backend.torch.queries.squares import SQUARES
from plica.backend.torch.queries.values import is_square
from plica.backend.torch.sources import untraced
from plica.lower.queries.query import Composed, Flowing

__all__ = ["IntegrateQuery", "SamplingQuery", "TorchQuery", "answer", "query_of"]


@untraced
def answer(circuit: TorchCircuit, name: str, *arguments: Any) -> Any:
    """The answer to a query that a circuit knows by its name: of the query's driver, or what its Program returns."""
    query = circuit.compiled.query(name)
    circuit.refuse_if_sharded(query.name)
    if name in SQUARES and is_square(circuit):
        return SQUARES[name](circuit, *arguments)
    if query.driver:
        return getattr(import_module(f"{__name__}.{query.driver}"), name)(circuit, *arguments)
    if isinstance(query.policy, Composed):
        return compose(circuit, query, *arguments)
    if isinstance(query.policy, Flowing):
        return read_off(circuit, query, *arguments)
    return (draw if query.policy.chooser.draws else complete)(circuit, query, *arguments)
