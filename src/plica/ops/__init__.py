"""The tables of operations, and the one table that holds them all, operations from outside of Plica among them.

>>> OPS["exp"].name
'exp'
"""

from collections.abc import Iterable

from plica.errors import DTypeError, UnsupportedError
from plica.ir.op import Op, op_table
from plica.ops.control import CONTROL as CONTROL
from plica.ops.densities import DENSITIES as DENSITIES
from plica.ops.directed import DIRECTED as DIRECTED
from plica.ops.elementwise import ELEMENTWISE as ELEMENTWISE
from plica.ops.factorizations import FACTORIZATIONS as FACTORIZATIONS
from plica.ops.fourier import FOURIER as FOURIER
from plica.ops.indexing import INDEXING as INDEXING
from plica.ops.linalg import LINALG as LINALG
from plica.ops.opaque import OPAQUE as OPAQUE
from plica.ops.packing import PACKING as PACKING
from plica.ops.random import RANDOM as RANDOM
from plica.ops.reduce import REDUCE as REDUCE
from plica.ops.search import SEARCH as SEARCH
from plica.ops.shape import SHAPE as SHAPE
from plica.ops.sorting import SORTING as SORTING
from plica.ops.special import SPECIAL as SPECIAL
from plica.ops.update import UPDATE as UPDATE

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

ADDED: dict[str, Op] = {}
"""The operations from outside, which are in `OPS` too."""
_TABLES = [OPS]
NAMES: set[str] = set()
"""The names in `plica.numpy` that are no operations, once it is imported. No added operation may take one."""


def with_private(operations: Iterable[Op]) -> dict[str, Op]:
    """A table of a backend: all operations, also those that are added later, and `operations` of its own.

    Raises:
        ValueError: Two operations have one name.
    """
    table = op_table(OPS.values(), operations)
    _TABLES.append(table)
    return table


def add_operation(op: Op) -> None:
    """Register an operation in the whole process; `plica.numpy` then has a function of its name.

    Backends write its decomposition, unless they have a row for it.

    Args:
        op: The operation; `plica.ops.elementwise.elementwise` makes one that works on entries.

    Raises:
        DTypeError: `op` is no `Op`, or its name is no Python identifier.
        UnsupportedError: There is an operation or a function of its name.
    """
    if not isinstance(op, Op) or not op.name.isidentifier():
        raise DTypeError(f"add_operation takes an Op whose name is an identifier, found {op!r:.80}.")
    if any(op.name in table for table in (NAMES, *_TABLES)):
        raise UnsupportedError(f"plica.numpy or a backend has {op.name!r} already; choose another name.")
    for table in (ADDED, *_TABLES):
        table[op.name] = op
