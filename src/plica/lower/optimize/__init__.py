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

from plica.lower.optimize.context import RuleContext as RuleContext
from plica.lower.optimize.pipeline import DEFAULT_RULES as DEFAULT_RULES
from plica.lower.optimize.pipeline import Optimized as Optimized
from plica.lower.optimize.pipeline import Rules as Rules
from plica.lower.optimize.pipeline import check_rules as check_rules
from plica.lower.optimize.pipeline import optimize_circuit as optimize_circuit
from plica.lower.optimize.pipeline import program_rewriting as program_rewriting
from plica.lower.optimize.provenance import Provenance as Provenance
from plica.lower.optimize.provenance import Step as Step
from plica.lower.optimize.report import Fired as Fired
from plica.lower.optimize.report import LeftOut as LeftOut
from plica.lower.optimize.report import Missed as Missed
from plica.lower.optimize.report import Report as Report
from plica.lower.optimize.strategy import cost_guided as cost_guided

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]
