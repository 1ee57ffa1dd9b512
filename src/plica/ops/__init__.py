"""The tables of operations, and the one table that holds them all, operations from outside of Plica among them.

>>> OPS["exp"].name
'exp'
"""

import importlib
from collections.abc import Iterable

from plica.errors import UnsupportedError
from plica.forks import ForkSafeLock
from plica.ir.op import Op, op_table
from plica.ops.additions import checked
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
_NAMESPACE = "plica.tracing.namespace"  # which fills `NAMES`; found by its name, as backends are
_PRIVATE = frozenset({"look_up", "multiply_runs", "sum_of_products", "tree_of_sums"})
"""The operations that only backends have, which may not be imported yet."""
_ADDING = ForkSafeLock()


def with_private(operations: Iterable[Op]) -> dict[str, Op]:
    """A table of a backend: all operations, also those that are added later, and `operations` of its own.

    Raises:
        ValueError: Two operations have one name.
    """
    private = tuple(operations)
    assert _PRIVATE.issuperset(op.name for op in private), "operations from outside may not take their names before"
    table = op_table(OPS.values(), private)
    _TABLES.append(table)
    return table


def add_operation(op: Op) -> None:
    """Register an operation in the whole process; `plica.numpy` then has a function of its name.

    Backends write its decomposition, unless they have a row for it.

    Args:
        op: The operation; `plica.ops.elementwise.elementwise` makes one that works on entries.

    Raises:
        DTypeError: `op` is no `Op`, its name cannot be that of a function, or a column is wrong: at its samples, the
            reference must give what the type rule says.
        ShapeError: The reference gives arrays of other shapes.
        UnsupportedError: There is an operation or a function of its name.
    """
    own = checked(op)
    importlib.import_module(_NAMESPACE)
    with _ADDING:
        if any(own.name in table for table in (NAMES, _PRIVATE, *_TABLES)):
            raise UnsupportedError(f"plica.numpy or a backend has {own.name!r} already; choose another name.")
        for table in (ADDED, *_TABLES):
            table[own.name] = own
