"""The row of each operation that has a form in StableHLO, one file for each file of `ops/`."""

from plica.backend.native.stablehlo.call import Row
from plica.backend.native.stablehlo.rows.densities import DENSITIES
from plica.backend.native.stablehlo.rows.elementwise import ELEMENTWISE
from plica.backend.native.stablehlo.rows.fourier import FOURIER
from plica.backend.native.stablehlo.rows.indexing import INDEXING
from plica.backend.native.stablehlo.rows.layers import LAYERS
from plica.backend.native.stablehlo.rows.linalg import LINALG
from plica.backend.native.stablehlo.rows.logs import LOGS
from plica.backend.native.stablehlo.rows.random import RANDOM
from plica.backend.native.stablehlo.rows.reduce import REDUCE
from plica.backend.native.stablehlo.rows.shape import SHAPE
from plica.backend.native.stablehlo.rows.sorting import SORTING

__all__ = ["ROWS"]

ROWS: dict[str, Row] = {
    **ELEMENTWISE,
    **DENSITIES,
    **REDUCE,
    **SHAPE,
    **INDEXING,
    **SORTING,
    **LINALG,
    **LOGS,
    **LAYERS,
    **FOURIER,
    **RANDOM,
}
