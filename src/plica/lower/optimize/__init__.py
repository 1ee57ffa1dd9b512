"""Optimization of circuits: rules on layers and on parameters, and the loop that applies them until none fires.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, KroneckerLayer, SumLayer
>>> x, y = (CategoricalLayer([variable], 4, num_categories=2) for variable in range(2))
>>> product, total = KroneckerLayer(4), SumLayer(16, 1)
>>> circuit = Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total])
>>> optimized = optimize_circuit(circuit)
>>> optimized.circuit.layers[-1], optimized.report.fired[0].rule
(TuckerLayer(arity=2, 4 -> 1), 'tucker')
"""

from plica.lower.optimize.context import RuleContext
from plica.lower.optimize.pipeline import (
    DEFAULT_RULES,
    Optimized,
    Rules,
    check_rules,
    optimize_circuit,
    program_rewriting,
)
from plica.lower.optimize.provenance import Provenance, Step
from plica.lower.optimize.report import Fired, LeftOut, Missed, Report
from plica.lower.optimize.strategy import cost_guided

__all__ = [
    "DEFAULT_RULES",
    "Fired",
    "LeftOut",
    "Missed",
    "Optimized",
    "Provenance",
    "Report",
    "RuleContext",
    "Rules",
    "Step",
    "check_rules",
    "cost_guided",
    "optimize_circuit",
    "program_rewriting",
]
