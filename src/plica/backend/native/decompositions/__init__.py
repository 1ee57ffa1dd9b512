"""Operations in terms of other operations: functions over an array namespace, traced if a backend has no row for one.

Each computes the same as its operation's reference. Loops are `for_loop` and `while_loop`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from plica.backend.native.decompositions.cholesky import cholesky
from plica.backend.native.decompositions.contractions import cross, directed_matmul, vector_norm
from plica.backend.native.decompositions.densities import (
    conditional_factor,
    log_multivariate_normal,
    regression_matrix,
)
from plica.backend.native.decompositions.elimination import det, inv, slogdet, solve
from plica.backend.native.decompositions.fourier import fft, ifft, irfft, rfft
from plica.backend.native.decompositions.jacobi import eigh, eigvalsh, matrix_rank, pinv, svd, svdvals
from plica.backend.native.decompositions.membership import isin
from plica.backend.native.decompositions.orthogonal import qr
from plica.backend.native.decompositions.packing import pack, unpack
from plica.backend.native.decompositions.searches import nonzero, unique

DECOMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    "cholesky": cholesky,
    "conditional_factor": conditional_factor,
    "cross": cross,
    "det": det,
    "directed_matmul": directed_matmul,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "fft": fft,
    "ifft": ifft,
    "inv": inv,
    "irfft": irfft,
    "isin": isin,
    "log_multivariate_normal": log_multivariate_normal,
    "matrix_rank": matrix_rank,
    "nonzero": nonzero,
    "pack": pack,
    "pinv": pinv,
    "qr": qr,
    "regression_matrix": regression_matrix,
    "rfft": rfft,
    "slogdet": slogdet,
    "solve": solve,
    "svd": svd,
    "svdvals": svdvals,
    "unique": unique,
    "unpack": unpack,
    "vector_norm": vector_norm,
}
