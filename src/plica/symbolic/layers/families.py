"""Rules of declared distributions: products within a family, integrals.

A class with a `product` (see `declared.py`) is closed under products but for constants: the densities of two
exponential distributions multiply to a constant times a third. The block of a product is the layer of the family, times
a `ConstantValueLayer`. Other pairs multiply by tables, where the variable has finitely many states in both domains.

>>> from plica.symbolic.layers import ExponentialLayer
>>> _multiply(ExponentialLayer([0], 4), ExponentialLayer([0], 2)).layers
(ExponentialLayer(scope={0}, 8), ConstantValueLayer(scope={}, 8), HadamardLayer(arity=2, 8 -> 8))
"""

from plica.errors import UnsupportedError
from plica.ir.op import Unsupported
from plica.symbolic.layers.blocks import constants, ones, weighted
from plica.symbolic.layers.declared import UnivariateLayer
from plica.symbolic.layers.formula_parameters import log_total, product_of_family
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.table_products import multiply_tables
from plica.symbolic.scope import Scope


def _multiply(first: UnivariateLayer, second: UnivariateLayer) -> CircuitBlock:
    is_family = type(first) is type(second) and hasattr(type(first), "product") and first.scope == second.scope
    return weighted(*product_of_family(first, second)) if is_family else multiply_tables(first, second)


def _integrate(layer: UnivariateLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG001 - the variable of the layer
    marginal = type(layer).row.marginal
    if isinstance(marginal, Unsupported):
        raise UnsupportedError(f"integrate: {layer!r} cannot be integrated: {marginal.why}.")
    return ones(layer) if layer.normalized else constants(log_total(layer))


OPERATORS = (
    OperatorRow("multiply", (UnivariateLayer, UnivariateLayer), _multiply),
    OperatorRow("integrate", (UnivariateLayer,), _integrate),
)
