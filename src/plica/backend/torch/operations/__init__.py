"""How each operation is written in torch: one row each, from an equation to the text of a Python expression.

Generated code sees `torch` and `kernels`. Most tables mirror those of `ops/`.
"""

from plica.backend.torch.operations.call import Row
from plica.backend.torch.operations.elementwise import ELEMENTWISE
from plica.backend.torch.operations.fourier import FOURIER
from plica.backend.torch.operations.indexing import INDEXING
from plica.backend.torch.operations.linalg import LINALG
from plica.backend.torch.operations.opaque import OPAQUE
from plica.backend.torch.operations.private import PRIVATE_ROWS
from plica.backend.torch.operations.random import RANDOM
from plica.backend.torch.operations.reduce import REDUCE
from plica.backend.torch.operations.shape import SHAPE
from plica.backend.torch.operations.sorting import SORTING
from plica.backend.torch.operations.unsigned import with_unsigned

ROWS: dict[str, Row] = with_unsigned(
    {
        **ELEMENTWISE,
        **REDUCE,
        **SHAPE,
        **SORTING,
        **INDEXING,
        **LINALG,
        **FOURIER,
        **RANDOM,
        **OPAQUE,
        **PRIVATE_ROWS,
    }
)
