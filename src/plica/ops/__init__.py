"""The tables of operations, and the one table that holds them all.

>>> OPS["exp"].name
'exp'
"""

from plica.ir.op import op_table
from plica.ops.elementwise import ELEMENTWISE
from plica.ops.indexing import INDEXING
from plica.ops.linalg import LINALG
from plica.ops.reduce import REDUCE
from plica.ops.shape import SHAPE

__all__ = ["ELEMENTWISE", "INDEXING", "LINALG", "OPS", "REDUCE", "SHAPE"]

OPS = op_table(ELEMENTWISE, REDUCE, SHAPE, INDEXING, LINALG)
