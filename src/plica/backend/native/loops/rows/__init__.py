"""The loop nests of operations: `ROWS`, by the name of the operation; one file for each table of operations."""

from collections.abc import Mapping
from typing import Any

from plica.backend.native.loops.block import Row
from plica.backend.native.loops.control import CONTROL
from plica.backend.native.loops.decomposed import decomposed, has_decomposition, in_float32
from plica.backend.native.loops.rows.circuits import CIRCUITS
from plica.backend.native.loops.rows.elementwise import ELEMENTWISE
from plica.backend.native.loops.rows.factorizations import FACTORIZATIONS
from plica.backend.native.loops.rows.fourier import FOURIER
from plica.backend.native.loops.rows.indexing import INDEXING
from plica.backend.native.loops.rows.layers import LAYERS
from plica.backend.native.loops.rows.linalg import LINALG
from plica.backend.native.loops.rows.logs import LOGS
from plica.backend.native.loops.rows.packing import PACKING
from plica.backend.native.loops.rows.random import RANDOM
from plica.backend.native.loops.rows.reduce import REDUCE, SUMS
from plica.backend.native.loops.rows.shape import SHAPE
from plica.backend.native.loops.rows.sorting import SORTING
from plica.ops import ADDED, OPS

_ROWS: Mapping[str, Row] = {
    **{name: decomposed for name in OPS if has_decomposition(name)},
    **CONTROL,
    **ELEMENTWISE,
    **SHAPE,
    **INDEXING,
    **SORTING,
    **REDUCE,
    **{name: in_float32(row) for name, row in {**SUMS, **LINALG}.items()},
    **FACTORIZATIONS,
    **FOURIER,
    **PACKING,
    **RANDOM,
    **CIRCUITS,
    **LOGS,
    **LAYERS,
}


class _Rows(dict[str, Row]):
    """The rows, and `decomposed` of operations that were added from outside with a decomposition."""

    def get(self, name: str, default: Any = None) -> Any:
        row = super().get(name, default)
        return decomposed if row is None and name in ADDED and has_decomposition(name) else row


ROWS: Mapping[str, Row] = _Rows(_ROWS)
"""A row writes one equation: `row(block, equation, operands)` returns the values of its results."""
