"""Factorizations of matrices, and solvers that use them. The last two axes are the matrix, those before the batch.

A matrix without a result gives NaN, and others of its batch are unaffected. Such a matrix is singular in `inv` and
`solve`, not positive definite in `cholesky`, and has NaN or infinite elements in `eigh`, `svd` and functions of these.
No error is raised, so that loops go on, and nothing waits for a graphics card.

>>> from plica.ops.factorizations import _inv
>>> _inv(np.asarray([[[2.0]], [[0.0]]])).ravel().tolist()
[0.5, nan]
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from plica.errors import DTypeError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Derivative, Op, Sample, sample
from plica.ir.sizes import Dim, opaque
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, real_dtype, require_equal_sizes, require_same_dtype

_DTYPES = (DType.FLOAT32, DType.FLOAT64, DType.COMPLEX64, DType.COMPLEX128)

# --- types -----------------------------------------------------------------------------------------------------------


def _matrix(x: ArrayType, *, square: bool = False) -> tuple[tuple[Dim, ...], Dim, Dim]:
    """Batch, rows and columns of a matrix."""
    if x.dtype not in _DTYPES:
        wanted = ", ".join(dtype.value for dtype in _DTYPES)
        raise DTypeError(f"found {x.dtype.value}, expected one of {wanted}; convert with astype.")
    if len(x.shape) < 2:
        raise ShapeError(f"expected matrices (..., M, N), found {x}; add an axis with expand_dims.")
    *batch, rows, columns = x.shape
    if square:
        require_equal_sizes(
            rows, columns, f"expected square matrices (..., M, M), found {x}: {rows} rows, {columns} columns."
        )
    return tuple(batch), rows, columns


def _square_type(x: ArrayType) -> ArrayType:
    _matrix(x, square=True)
    return x


def _cholesky_type(x: ArrayType, *, upper: bool) -> ArrayType:
    del upper
    return _square_type(x)


def _det_type(x: ArrayType) -> ArrayType:
    batch, _, _ = _matrix(x, square=True)
    return array_type(batch, x.dtype)


def _slogdet_type(x: ArrayType) -> tuple[ArrayType, ArrayType]:
    batch, _, _ = _matrix(x, square=True)
    return array_type(batch, x.dtype), array_type(batch, real_dtype(x.dtype))


def _eigvalsh_type(x: ArrayType) -> ArrayType:
    batch, rows, _ = _matrix(x, square=True)
    return array_type((*batch, rows), real_dtype(x.dtype))


def _eigh_type(x: ArrayType) -> tuple[ArrayType, ArrayType]:
    return _eigvalsh_type(x), x


def _solve_type(a: ArrayType, b: ArrayType) -> ArrayType:
    dtype = require_same_dtype(a, b)
    batch, rows, _ = _matrix(a, square=True)
    other_batch, size, columns = _matrix(b)
    require_equal_sizes(rows, size, f"solve takes (..., M, M) and (..., M, K), found {a} and {b}.")
    return array_type((*broadcast(batch, other_batch), size, columns), dtype)


def _qr_type(x: ArrayType, *, mode: str) -> tuple[ArrayType, ArrayType]:
    batch, rows, columns = _matrix(x)
    if mode not in ("reduced", "complete"):
        raise ShapeError(f"the mode of qr is 'reduced' or 'complete', found {mode!r}.")
    inner = rows if mode == "complete" else opaque("min", rows, columns)
    return array_type((*batch, rows, inner), x.dtype), array_type((*batch, inner, columns), x.dtype)


def _svdvals_type(x: ArrayType) -> ArrayType:
    batch, rows, columns = _matrix(x)
    return array_type((*batch, opaque("min", rows, columns)), real_dtype(x.dtype))


def _svd_type(x: ArrayType, *, full_matrices: bool) -> tuple[ArrayType, ArrayType, ArrayType]:
    batch, rows, columns = _matrix(x)
    inner = opaque("min", rows, columns)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    return array_type((*batch, rows, left), x.dtype), _svdvals_type(x), array_type((*batch, right, columns), x.dtype)


def _tolerated(x: ArrayType, rtol: Sequence[ArrayType]) -> tuple[Dim, ...]:
    """The batch axes of `x` and of the relative tolerance, if there is one."""
    batch, _, _ = _matrix(x)
    for tolerance in rtol:
        if tolerance.dtype != real_dtype(x.dtype):
            raise DTypeError(
                f"the tolerance is {tolerance.dtype.value}, expected {real_dtype(x.dtype).value}, as for {x}."
            )
    return broadcast(batch, *[tolerance.shape for tolerance in rtol])


def _pinv_type(x: ArrayType, *rtol: ArrayType) -> ArrayType:
    return array_type((*_tolerated(x, rtol), x.shape[-1], x.shape[-2]), x.dtype)


def _rank_type(x: ArrayType, *rtol: ArrayType) -> ArrayType:
    return array_type(_tolerated(x, rtol), DType.INT64)


# --- references ------------------------------------------------------------------------------------------------------


def _or_nan(function: Callable[..., Array], *matrices: Array) -> Array:
    """`function` of matrices; where it raises, NaN in the shape of the last matrix."""
    with suppress(np.linalg.LinAlgError):
        return function(*matrices)
    batch = np.broadcast_shapes(*[matrix.shape[:-2] for matrix in matrices])
    spread = [np.broadcast_to(matrix, (*batch, *matrix.shape[-2:])) for matrix in matrices]
    result = np.full(spread[-1].shape, np.nan, spread[-1].dtype)
    for index in np.ndindex(batch):
        with suppress(np.linalg.LinAlgError):
            result[index] = function(*[matrices[index] for matrices in spread])
    return result


def _inv(x: Array) -> Array:
    return _or_nan(np.linalg.inv, x)


def _of_finite(function: Callable[[Array], Any], x: Array) -> tuple[Array, ...]:
    """The results of `function`, NaN for matrices that are not finite."""
    finite = np.all(np.isfinite(x), axis=(-2, -1))
    results = function(np.where(finite[..., None, None], x, 0))
    return tuple(
        np.where(
            np.expand_dims(finite, tuple(range(finite.ndim, result.ndim))), result, np.asarray(np.nan, result.dtype)
        )
        for result in (results if isinstance(results, tuple) else (results,))
    )


def _svd(x: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    return _of_finite(partial(np.linalg.svd, full_matrices=full_matrices), x)


def _svdvals(x: Array) -> Array:
    return _of_finite(np.linalg.svdvals, x)[0]


def _cutoff(x: Array, values: Array, rtol: Array | None) -> Any:
    """Singular values up to this are taken for 0: `rtol` (by default `max(M, N)` times epsilon) times the largest."""
    relative = max(x.shape[-2:]) * np.finfo(x.dtype).eps if rtol is None else rtol
    return np.asarray(np.max(values, axis=-1, initial=0) * relative, values.dtype)[..., None]


def _pinv(x: Array, rtol: Array | None = None) -> Any:
    left, values, right = _svd(x, full_matrices=False)
    nonzero = ~(values <= _cutoff(x, values, rtol))
    inverse = np.where(nonzero, 1 / np.where(nonzero, values, 1), 0)[..., None, :].astype(values.dtype)
    return (np.conj(np.swapaxes(right, -2, -1)) * inverse) @ np.conj(np.swapaxes(left, -2, -1))


def _rank(x: Array, rtol: Array | None = None) -> Any:
    values = _svdvals(x)
    return np.sum(values > _cutoff(x, values, rtol), axis=-1)


# --- samples ---------------------------------------------------------------------------------------------------------

_A = np.asarray([[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]])
_B = np.asarray([[1.0, -2.0, 0.5, 0.25], [0.0, 3.0, 1.5, -1.0]])
_C = np.asarray([[1.0, -2.0], [0.5, 0.25], [0.0, 3.0]])
_IMAGINARY = np.asarray([[0, 1j, 0], [-1j, 0, 0.5j], [0, -0.5j, 0]])
_BATCH = np.stack([_A, np.eye(3) + 0.1 * _A])
_EMPTY = np.zeros((0, 3, 3), "float32")
_SINGULAR = np.stack([_A, np.ones((3, 3)), np.diag([1.0, 0.0, 2.0])])
_BAD = np.stack([_A, np.diag([1.0, np.nan, 2.0]), np.diag([1.0, np.inf, 2.0])])


def _squares(**params: Any) -> Callable[[], list[Sample]]:
    """Hermitian positive definite matrices, batches, none, and of no rows."""
    inputs = (_A, _BATCH.astype("float32"), _A + _IMAGINARY, _EMPTY, np.zeros((2, 0, 0)))
    return lambda: [sample(array, **params) for array in inputs]


def _with(samples: Callable[[], list[Sample]], *more: Sample) -> Callable[[], list[Sample]]:
    return lambda: [*samples(), *more]


def _rectangles(**params: Any) -> list[Sample]:
    inputs = (
        _B,
        _B.T,
        np.stack([_B, _B + 1]).astype("float32"),
        _A,
        _B + 1j * _B[::-1],
        _EMPTY[:, :2],
        np.zeros((2, 3, 0)),
    )
    return [sample(array, **params) for array in inputs]


def _qr_samples() -> list[Sample]:
    # torch has no derivative of the complete QR of a non-square matrix: derivative tests leave out complex samples
    wide = [array for array in _rectangles() if array.inputs[0].shape[-2] <= array.inputs[0].shape[-1]]
    tall = [sample(_B.T, mode="reduced"), sample(_A, mode="complete"), sample(_B.T + 1j * _B[::-1].T, mode="complete")]
    return [*tall, *(sample(rectangle.inputs[0].astype("complex64"), mode="reduced") for rectangle in wide)]


def _svd_samples() -> list[Sample]:
    return [
        *_rectangles(full_matrices=False),
        sample(_B + 1j * _B[::-1], full_matrices=True),
        sample(_BAD.astype("complex128"), full_matrices=False),
    ]


FACTORIZATIONS = (
    Op(
        "cholesky",
        _cholesky_type,
        lambda x, *, upper: _or_nan(partial(np.linalg.cholesky, upper=upper), x),
        lambda: [
            *_squares(upper=False)(),
            *_squares(upper=True)(),
            sample(_SINGULAR.astype("complex64") * -1, upper=False),
        ],
        derivative=Derivative.OF_SYMMETRIC,
    ),
    Op("det", _det_type, np.linalg.det, _with(_squares(), sample(_SINGULAR), sample(_B @ _B.T))),
    Op(
        "eigh",
        _eigh_type,
        partial(_of_finite, np.linalg.eigh),
        _with(_squares(), sample(_BAD)),
        derivative=Derivative.OF_SYMMETRIC,
    ),
    Op(
        "eigvalsh",
        _eigvalsh_type,
        lambda x: _of_finite(np.linalg.eigvalsh, x)[0],
        _with(_squares(), sample(_BAD)),
        derivative=Derivative.OF_SYMMETRIC,
    ),
    Op("inv", _square_type, _inv, _with(_squares(), sample(_SINGULAR.astype("complex64")))),
    Op("matrix_rank", _rank_type, _rank, lambda: [*_rectangles(), sample(_SINGULAR), sample(_A, 0.9), sample(_BAD)]),
    Op(
        "pinv",
        _pinv_type,
        _pinv,
        lambda: [
            *_rectangles(),
            sample(_A.astype("complex128"), 0.6),  # no derivative where singular values other than 0 are dropped
            sample(np.stack([_A, _A]).astype("complex128"), np.asarray([0.0, 0.6])),
            sample(_BAD.astype("complex128")),
        ],
    ),
    Op("qr", _qr_type, lambda x, *, mode: tuple(np.linalg.qr(x, mode)), _qr_samples),
    Op(
        "slogdet",
        _slogdet_type,
        lambda x: tuple(np.linalg.slogdet(x)),
        _with(_squares(), sample(_SINGULAR.astype("complex128")), sample(-_A)),
    ),
    Op(
        "solve",
        _solve_type,
        lambda a, b: _or_nan(np.linalg.solve, a, b),
        lambda: [
            sample(_A, _C),
            sample(_BATCH.astype("float32"), _C.astype("float32")),
            sample(np.stack([_BATCH[1], _A, _A]), _A),  # not three vectors
            sample(_A + _IMAGINARY, (_C + 1j)[None]),
            sample(_SINGULAR.astype("complex64"), _C.astype("complex64")),
            sample(_EMPTY, _EMPTY[:, :, :2]),
            sample(np.zeros((2, 0, 0)), np.zeros((0, 4))),
        ],
    ),
    Op("svd", _svd_type, _svd, _svd_samples),
    Op("svdvals", _svdvals_type, _svdvals, lambda: [*_rectangles(), sample(_BAD.astype("complex128"))]),
)
