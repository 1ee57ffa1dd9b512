"""Semirings: algebras, and the carriers that represent their numbers. One row each.

A further algebra or carrier is a row: in the table here, or given to `PipelineContext(semiring=row)`.

>>> {row.name: row.algebra.name for row in SEMIRINGS.values()}["lse-sum"]
'real'
"""

from plica.symbolic.semirings.algebra import LAWS_OF_SEMIRINGS, Algebra, Law, Reduction
from plica.symbolic.semirings.directed import COMPLEX_LSE_SUM, SIGNED_LSE_SUM
from plica.symbolic.semirings.real import LSE_SUM, SUM_PRODUCT
from plica.symbolic.semirings.scaled import SCALED
from plica.symbolic.semirings.selective import BOOLEAN, MAX_PRODUCT, MAX_SUM, MIN_PLUS, selective
from plica.symbolic.semirings.semiring import (
    SEMIRINGS,
    Array,
    Bound,
    Namespace,
    Semiring,
    Stage,
    Value,
    are_one_number,
)
from plica.symbolic.semirings.weights import Logs, Params, Weight

SEMIRINGS.update(
    (row.name, row)
    for row in (SUM_PRODUCT, LSE_SUM, SIGNED_LSE_SUM, COMPLEX_LSE_SUM, MAX_PRODUCT, MAX_SUM, MIN_PLUS, BOOLEAN)
)

ALGEBRAS = {row.algebra.name: row.algebra for row in SEMIRINGS.values()}

__all__ = [
    "ALGEBRAS",
    "BOOLEAN",
    "COMPLEX_LSE_SUM",
    "LAWS_OF_SEMIRINGS",
    "LSE_SUM",
    "MAX_PRODUCT",
    "MAX_SUM",
    "MIN_PLUS",
    "SCALED",
    "SEMIRINGS",
    "SIGNED_LSE_SUM",
    "SUM_PRODUCT",
    "Algebra",
    "Array",
    "Bound",
    "Law",
    "Logs",
    "Namespace",
    "Params",
    "Reduction",
    "Semiring",
    "Stage",
    "Value",
    "Weight",
    "are_one_number",
    "selective",
]
