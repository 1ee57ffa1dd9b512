"""Special functions: the rows of `ops/special.py`, of floats, promoted and broadcast; integers become float64."""

from __future__ import annotations

from plica.tracing.namespace.operands import Array, as_floats, elementwise
from plica.tracing.tracer import Tracer


def lgamma(x: Array, /) -> Tracer:
    """The logarithm of the absolute value of the gamma function."""
    return _record("lgamma", x)


def digamma(x: Array, /) -> Tracer:
    """The derivative of `lgamma`."""
    return _record("digamma", x)


def stirling_error(x: Array, /) -> Tracer:
    """`lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)` for positive `x`: what Stirling's formula lacks.

    It is about `1 / (12 x)`. Differences of `lgamma` at large numbers lose all digits; written with this, they do not.
    """
    return _record("stirling_error", x)


def erfc(x: Array, /) -> Tracer:
    """`1 - erf(x)`, right where it is tiny."""
    return _record("erfc", x)


def log_ndtr(x: Array, /) -> Tracer:
    """The logarithm of the standard normal distribution function, right in both tails."""
    return _record("log_ndtr", x)


def i0e(x: Array, /) -> Tracer:
    """The modified Bessel function of order 0 times `exp(-abs(x))`."""
    return _record("i0e", x)


def i1e(x: Array, /) -> Tracer:
    """The modified Bessel function of order 1 times `exp(-abs(x))`."""
    return _record("i1e", x)


def gammainc(a: Array, x: Array, /) -> Tracer:
    """The regularized lower incomplete gamma function: the gamma distribution function of concentration `a` at `x`.

    It has derivatives by both operands; those at the ends of `x` are taken to be 0.
    """
    return _record("gammainc", a, x)


def gammaincc(a: Array, x: Array, /) -> Tracer:
    """`1 - gammainc(a, x)`, right where it is tiny."""
    return _record("gammaincc", a, x)


def gammaincinv(a: Array, p: Array, /) -> Tracer:
    """The `x` at which `gammainc(a, x)` is `p`."""
    return _record("gammaincinv", a, p)


def betainc(a: Array, b: Array, x: Array, /) -> Tracer:
    """The regularized incomplete beta function: the beta distribution function of concentrations `a` and `b` at `x`.

    It has derivatives by all operands; those at the ends of `x` are taken to be 0.
    """
    return _record("betainc", a, b, x)


def betaincc(a: Array, b: Array, x: Array, /) -> Tracer:
    """`1 - betainc(a, b, x)`, right where it is tiny."""
    return _record("betaincc", a, b, x)


def betaincinv(a: Array, b: Array, p: Array, /) -> Tracer:
    """The `x` at which `betainc(a, b, x)` is `p`."""
    return _record("betaincinv", a, b, p)


def _record(name: str, *operands: Array) -> Tracer:
    return elementwise(name, *as_floats(name, operands))  # type: ignore[no-any-return]
