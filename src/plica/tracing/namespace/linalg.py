"""The linear-algebra extension of the Array API standard: matrices in the last two axes, batches before them.

Arrays are floats or complex numbers where a matrix is factorized or a norm is taken. A matrix without a result gives
NaN, alone in its batch, where numpy and torch would raise an error: a singular one in `inv` and `solve`, one that is
not positive definite in `cholesky`, one that is not finite in `eigh`, `svd` and what is made of them. (Rounding hides
many singular matrices: look at `matrix_rank`.) Of Hermitian matrices the lower triangle is read. Eigenvectors and
singular vectors are determined up to a phase (a sign): two backends may choose differently.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from plica.errors import DTypeError, ShapeError, TraceError
from plica.ops.rules import normal_axes, normal_axis, real_dtype
from plica.tracing.locations import user_line
from plica.tracing.namespace.contractions import matmul, tensordot, vecdot
from plica.tracing.namespace.creation import eye
from plica.tracing.namespace.elementwise import astype
from plica.tracing.namespace.operands import Array, as_tracer, elementwise, is_number, promoted, public_functions, unary
from plica.tracing.namespace.reductions import max, min, sum  # noqa: A004 - the standard's names
from plica.tracing.namespace.shapes import broadcast_to, expand_dims, matrix_transpose, reshape, squeeze
from plica.tracing.scope import record, record_all
from plica.tracing.tracer import Tracer, literal

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]  # and the functions of this module


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tracer
    eigenvectors: Tracer


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Tracer
    R: Tracer


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Tracer
    logabsdet: Tracer


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Tracer
    S: Tracer
    Vh: Tracer


# --- factorizations --------------------------------------------------------------------------------------------------


def cholesky(x: Array, /, *, upper: bool = False) -> Tracer:
    """The lower triangular `L` with `L @ L^H = x`, or the upper triangular `U` with `U^H @ U = x`.

    Shapes: x (..., M, M), result (..., M, M).
    """
    return unary("cholesky", x, upper=bool(upper))


def eigh(x: Array, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors as columns of a Hermitian matrix.

    The derivative of the eigenvectors is that of a choice of phases, and infinite where eigenvalues are equal.

    Shapes: x (..., M, M), eigenvalues (..., M), eigenvectors (..., M, M).
    """
    return EighResult(*record_all("eigh", as_tracer("eigh", x)))


def eigvalsh(x: Array, /) -> Tracer:
    """The eigenvalues of a Hermitian matrix, ascending.

    Shapes: x (..., M, M), result (..., M).
    """
    return unary("eigvalsh", x)


def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns `Q` and an upper triangular `R` with `Q @ R = x`; K is `min(M, N)`, or M in mode "complete".

    Shapes: x (..., M, N), Q (..., M, K), R (..., K, N).
    """
    return QRResult(*record_all("qr", as_tracer("qr", x), mode=mode))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular vectors `U` and `Vh` and singular values `S`, descending, with `(U * S) @ Vh = x`, K = `min(M, N)`.

    Torch gives no derivative of the vectors that only full matrices have.

    Shapes: x (..., M, N), U (..., M, K) or (..., M, M), S (..., K), Vh (..., K, N) or (..., N, N).
    """
    return SVDResult(*record_all("svd", as_tracer("svd", x), full_matrices=bool(full_matrices)))


def svdvals(x: Array, /) -> Tracer:
    """The singular values, descending.

    Shapes: x (..., M, N), result (..., min(M, N)).
    """
    return unary("svdvals", x)


# --- what is solved with them ----------------------------------------------------------------------------------------


def inv(x: Array, /) -> Tracer:
    """The inverse.

    Shapes: x (..., M, M), result (..., M, M).
    """
    return unary("inv", x)


def solve(x1: Array, x2: Array, /) -> Tracer:
    """The `x` with `x1 @ x = x2`; `x2` is one vector if it has one axis, else matrices; batches broadcast.

    Shapes: x1 (..., M, M), x2 (M,) or (..., M, K), result (..., M) or (..., M, K).
    """
    left, right = (as_tracer("solve", array) for array in (x1, x2))
    if right.ndim != 1:
        return record("solve", *promoted("solve", [left, right]))
    return squeeze(record("solve", *promoted("solve", [left, expand_dims(right, axis=1)])), -1)


def det(x: Array, /) -> Tracer:
    """The determinant.

    Shapes: x (..., M, M), result (...).
    """
    return unary("det", x)


def slogdet(x: Array, /) -> SlogdetResult:
    """The sign (or phase) of the determinant and the logarithm of its absolute value: 0 and -inf of a singular matrix.

    Shapes: x (..., M, M), results (...).
    """
    return SlogdetResult(*record_all("slogdet", as_tracer("slogdet", x)))


def _with_tolerance(op: str, x: Any, rtol: Any) -> Tracer:
    matrices = as_tracer(op, x)
    if rtol is None:
        return record(op, matrices)
    dtype = real_dtype(matrices.dtype)
    if is_number(rtol):
        return record(op, matrices, literal(rtol, dtype))
    return record(op, matrices, astype(as_tracer(op, rtol), dtype))


def pinv(x: Array, /, *, rtol: Array = None) -> Tracer:
    """The pseudo-inverse; singular values up to `rtol` times the largest are taken for 0.

    The default is `max(M, N)` times the dtype's epsilon. The derivative is that among matrices of one rank: it is right
    where the singular values that are taken for 0 are 0.

    Shapes: x (..., M, N), rtol () or (...), result (..., N, M).
    """
    return _with_tolerance("pinv", x, rtol)


def matrix_rank(x: Array, /, *, rtol: Array = None) -> Tracer:
    """The number of singular values above `rtol` times the largest, by default `max(M, N)` times the dtype's epsilon.

    Shapes: x (..., M, N), rtol () or (...), result (...).
    """
    return _with_tolerance("matrix_rank", x, rtol)


def matrix_power(x: Array, n: int, /) -> Tracer:
    """The matrix multiplied by itself: the identity for 0, powers of the inverse for negative `n`.

    Shapes: x (..., M, M), result (..., M, M).
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TraceError(
            f"{user_line()}: the exponent of matrix_power is an integer that is known now, found {n!r}; "
            "multiply in a plica.for_loop instead."
        ) from None
    base = inv(x) if n < 0 else as_tracer("matrix_power", x)
    if n == 0:
        return _identity_like(base)
    exponent, result = -n if n < 0 else n, None
    while exponent:
        if exponent % 2:
            result = base if result is None else matmul(result, base)
        exponent //= 2
        base = matmul(base, base) if exponent else base
    assert result is not None, "the exponent is positive"
    return result


def _identity_like(x: Tracer) -> Tracer:
    product = matmul(x, x)  # its type rule says whether the matrices are square
    return broadcast_to(eye(product.dims[-1], dtype=product.dtype), product.dims)


# --- norms, products, diagonals --------------------------------------------------------------------------------------


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,  # noqa: A002
) -> Tracer:
    """The norm of order `ord`, `sum(abs(x) ** ord) ** (1 / ord)`, along `axis`, or of all elements.

    Orders inf and -inf are the largest and the smallest absolute value, 0 counts what is not 0.
    """
    array = as_tracer("vector_norm", x)
    order = float(ord)
    return unary("vector_norm", array, axis=normal_axes(axis, array.ndim), keepdims=bool(keepdims), ord=order)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tracer:  # noqa: A002
    """The norm of matrices: "fro", "nuc", or 1, 2, inf (or -1, -2, -inf, for the smallest in place of the largest).

    Shapes: x (..., M, N), result (...) or (..., 1, 1).
    """
    matrices = as_tracer("matrix_norm", x)
    if matrices.ndim < 2 or matrices.dtype.kind not in ("float", "complex"):
        wrong = ShapeError if matrices.ndim < 2 else DTypeError
        raise wrong(f"{user_line()}: matrix_norm takes matrices (..., M, N) of floats, found {matrices.aval}.")
    if ord in ("fro", None):
        return unary(
            "vector_norm", matrices, axis=(matrices.ndim - 2, matrices.ndim - 1), keepdims=bool(keepdims), ord=2.0
        )
    largest = min if ord in (-1, -2, -math.inf) else max
    if ord in (1, -1, math.inf, -math.inf):
        sums = sum(elementwise("abs", matrices), axis=-2 if ord in (1, -1) else -1)
        result = largest(sums, axis=-1)
    elif ord in (2, -2, "nuc"):
        values = svdvals(matrices)
        result = sum(values, axis=-1) if ord == "nuc" else largest(values, axis=-1)
    else:
        raise ShapeError(f"{user_line()}: matrix_norm has the orders fro, nuc, 1, 2, inf, -1, -2, -inf, found {ord!r}.")
    return reshape(result, (*result.dims, 1, 1)) if keepdims else result


def outer(x1: Array, x2: Array, /) -> Tracer:
    """All products of an element of `x1` and one of `x2`.

    Shapes: x1 (M,), x2 (N,), result (M, N).
    """
    first, second = (as_tracer("outer", array) for array in (x1, x2))
    if first.ndim != 1 or second.ndim != 1:
        raise ShapeError(
            f"{user_line()}: outer takes two vectors, found {first.aval} and {second.aval}; use tensordot(axes=0)."
        )
    return elementwise("multiply", expand_dims(first, axis=1), second)  # type: ignore[no-any-return]


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Tracer:
    """The vector product of vectors of three numbers along `axis`; the other axes broadcast."""
    first, second = (as_tracer("cross", array) for array in (x1, x2))
    if axis >= 0 and first.ndim == second.ndim:
        axis = normal_axis(axis, first.ndim) - first.ndim
    return record("cross", *promoted("cross", [first, second]), axis=axis)


def diagonal(x: Array, /, *, offset: int = 0) -> Tracer:
    """The diagonal of matrices, `offset` places above the main one.

    Shapes: x (..., M, N), result (..., K).
    """
    return unary("diagonal", x, offset=int(offset))


def trace(x: Array, /, *, offset: int = 0, dtype: object = None) -> Tracer:
    """The sum of the diagonal; small integers become int64 as in `sum`.

    Shapes: x (..., M, N), result (...).
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


__all__ += public_functions(globals())
