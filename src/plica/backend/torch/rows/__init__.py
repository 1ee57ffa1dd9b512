"""How each operation is written in torch: one row each, from an equation to the text of a Python expression.

Generated code sees `torch` and `kernels`. The tables mirror those of `ops/`.
"""

from plica.backend.torch.rows.call import Row
from plica.backend.torch.rows.control import CONTROL
from plica.backend.torch.rows.elementwise import ELEMENTWISE
from plica.backend.torch.rows.indexing import INDEXING
from plica.backend.torch.rows.linalg import LINALG
from plica.backend.torch.rows.random import RANDOM
from plica.backend.torch.rows.reduce import REDUCE
from plica.backend.torch.rows.shape import SHAPE
from plica.backend.torch.rows.sorting import SORTING
from plica.backend.torch.rows.unsigned import with_unsigned

ROWS: dict[str, Row] = with_unsigned(
    {**ELEMENTWISE, **REDUCE, **SHAPE, **SORTING, **INDEXING, **LINALG, **RANDOM, **CONTROL}
)
