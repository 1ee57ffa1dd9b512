"""The rows of all operations that have one.

A row is `Row(write)`, where `write(emitter, call)` writes one equation and returns its results:

    def _negative(emitter: Emitter, call: Call) -> Value:
        (x,), (type_,) = call.inputs, call.types
        def body(entry): return emitter.code.op(f"arith.negf {entry[0]} : {x.element}")
        return entrywise(emitter, [x], type_.shape, type_.dtype, body)

    NEGATIVE = {"negative": Row(_negative)}

* `call.inputs` are `Value`s: tensors, or scalars of the host (numbers of the Program, sizes, and results computed from
  them). `emitter.tensor(value)` makes a tensor of either; `emitter.scalar(value)` a scalar, for which the host waits.
* `call.types` are the types of the results in the Program; a row returns values of these shapes and dtypes.
* `emitter.size(dim)` writes a size of the Program (`call.params`, `call.types`, `value.shape` hold such) as a value of
  type `index`.
* `emitter.code.op(text)` writes a line that computes a value, `put` one that computes none; `code.block()` surrounds
  the lines of a region.
* `structured.py` has the nests: `entrywise`, `reduction`, and `generic` for others.
"""

from collections.abc import Mapping

from plica.backend.native.mlir.emitter import Row
from plica.backend.native.mlir.rows.control import CONTROL
from plica.backend.native.mlir.rows.elementwise import ELEMENTWISE
from plica.backend.native.mlir.rows.fourier import FOURIER
from plica.backend.native.mlir.rows.indexing import INDEXING
from plica.backend.native.mlir.rows.layers import LAYERS
from plica.backend.native.mlir.rows.linalg import LINALG
from plica.backend.native.mlir.rows.packing import PACKING
from plica.backend.native.mlir.rows.random import RANDOM
from plica.backend.native.mlir.rows.reduce import REDUCE
from plica.backend.native.mlir.rows.scaling import SCALING
from plica.backend.native.mlir.rows.scans import SCANS
from plica.backend.native.mlir.rows.shape import SHAPE
from plica.backend.native.mlir.rows.sorting import SORTING
from plica.backend.native.mlir.rows.trees import TREES
from plica.backend.native.mlir.rows.update import UPDATE

ROWS: Mapping[str, Row] = {
    **LAYERS,
    **TREES,
    **CONTROL,
    **ELEMENTWISE,
    **REDUCE,
    **SCALING,
    **SCANS,
    **SHAPE,
    **SORTING,
    **INDEXING,
    **UPDATE,
    **LINALG,
    **FOURIER,
    **PACKING,
    **RANDOM,
}
