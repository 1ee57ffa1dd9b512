"""The tables of operations, and the one table that holds them all.

>>> OPS["exp"].name
'exp'
"""

from plica.ir.op import op_table
from plica.ops.control import CONTROL
from plica.ops.densities import DENSITIES
from plica.ops.directed import DIRECTED
from plica.ops.elementwise import ELEMENTWISE
from plica.ops.factorizations import FACTORIZATIONS
from plica.ops.fourier import FOURIER
from plica.ops.indexing import INDEXING
from plica.ops.linalg import LINALG
from plica.ops.opaque import OPAQUE
from plica.ops.packing import PACKING
from plica.ops.random import RANDOM
from plica.ops.reduce import REDUCE
from plica.ops.search import SEARCH
from plica.ops.shape import SHAPE
from plica.ops.sorting import SORTING
from plica.ops.special import SPECIAL
from plica.ops.update import UPDATE

__all__ = [
    "CONTROL",
    "DENSITIES",
    "DIRECTED",
    "ELEMENTWISE",
    "FACTORIZATIONS",
    "FOURIER",
    "INDEXING",
    "LINALG",
    "OPAQUE",
    "OPS",
    "PACKING",
    "RANDOM",
    "REDUCE",
    "SEARCH",
    "SHAPE",
    "SORTING",
    "SPECIAL",
    "UPDATE",
]

OPS = op_table(
    CONTROL,
    ELEMENTWISE,
    SPECIAL,
    DENSITIES,
    REDUCE,
    SHAPE,
    PACKING,
    SORTING,
    INDEXING,
    UPDATE,
    SEARCH,
    LINALG,
    DIRECTED,
    FACTORIZATIONS,
    FOURIER,
    RANDOM,
    OPAQUE,
)
