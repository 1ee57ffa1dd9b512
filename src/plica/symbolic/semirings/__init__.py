"""Semirings: algebras, and the carriers (number formats) that represent their numbers. One row each.

A further algebra or carrier is a row: in the table here, or given to `PipelineContext(semiring=row)`.

>>> {row.name: row.algebra.name for row in SEMIRINGS.values()}["lse-sum"]
'real'
"""

from plica.symbolic.semirings.algebra import LAWS_OF_SEMIRINGS as LAWS_OF_SEMIRINGS
from plica.symbolic.semirings.algebra import Algebra as Algebra
from plica.symbolic.semirings.algebra import Law as Law
from plica.symbolic.semirings.algebra import Reduction as Reduction
from plica.symbolic.semirings.real import COMPLEX_LSE_SUM as COMPLEX_LSE_SUM
from plica.symbolic.semirings.real import LSE_SUM as LSE_SUM
from plica.symbolic.semirings.real import SIGNED_LSE_SUM as SIGNED_LSE_SUM
from plica.symbolic.semirings.real import SUM_PRODUCT as SUM_PRODUCT
from plica.symbolic.semirings.scaled import SCALED as SCALED
from plica.symbolic.semirings.selective import BOOLEAN as BOOLEAN
from plica.symbolic.semirings.selective import MAX_PRODUCT as MAX_PRODUCT
from plica.symbolic.semirings.selective import MAX_SUM as MAX_SUM
from plica.symbolic.semirings.selective import MIN_PLUS as MIN_PLUS
from plica.symbolic.semirings.selective import selective as selective
from plica.symbolic.semirings.semiring import SEMIRINGS as SEMIRINGS
from plica.symbolic.semirings.semiring import Array as Array
from plica.symbolic.semirings.semiring import Bound as Bound
from plica.symbolic.semirings.semiring import Namespace as Namespace
from plica.symbolic.semirings.semiring import Semiring as Semiring
from plica.symbolic.semirings.semiring import Stage as Stage
from plica.symbolic.semirings.semiring import Value as Value
from plica.symbolic.semirings.semiring import are_one_number as are_one_number
from plica.symbolic.semirings.weights import Logs as Logs
from plica.symbolic.semirings.weights import Params as Params
from plica.symbolic.semirings.weights import Weight as Weight

SEMIRINGS.update(
    (row.name, row)
    for row in (SUM_PRODUCT, LSE_SUM, SIGNED_LSE_SUM, COMPLEX_LSE_SUM, MAX_PRODUCT, MAX_SUM, MIN_PLUS, BOOLEAN)
)

ALGEBRAS = {row.algebra.name: row.algebra for row in SEMIRINGS.values()}

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]
__all__.remove("are_one_number")  # for other packages alone
__all__ += ["ALGEBRAS", "LAWS_OF_SEMIRINGS", "SEMIRINGS", "Value"]

from plica.public import listing  # noqa: E402 - after the names of `__all__` are read

__dir__ = listing(__name__)
