"""Operations in terms of others: functions over an array namespace, traced where an operation has no row.

Each has the meaning of its operation's reference; loops are `for_loop` and `while_loop`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from plica.backend.native.decompositions.cholesky import cholesky
from plica.backend.native.decompositions.elimination import det, inv, slogdet, solve
from plica.backend.native.decompositions.jacobi import eigh, eigvalsh, matrix_rank, pinv, svd, svdvals
from plica.backend.native.decompositions.orthogonal import qr

DECOMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    "cholesky": cholesky,
    "det": det,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "inv": inv,
    "matrix_rank": matrix_rank,
    "pinv": pinv,
    "qr": qr,
    "slogdet": slogdet,
    "solve": solve,
    "svd": svd,
    "svdvals": svdvals,
}
