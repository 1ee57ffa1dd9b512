"""Elementwise functions to many digits, the numbers that they are tried at, and errors in units in the last place."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

from plica.ir.dtypes import DType

Exact = Callable[..., Any]


class Case(NamedTuple):
    """A function of finite numbers.

    Args:
        exact: The value at mpmath's numbers, or NaN; or (value, scale), where errors are of the size of a scale.
        kinks: Numbers where formulas change: neighbours of them are tried.
        draws: Ranges of which numbers are drawn, for each operand.
        tries: How many numbers of each kind are tried.
        wide: Whether numbers of all exponents and of random bits are tried too.
    """

    exact: Exact
    kinks: Sequence[float] = ()
    draws: Sequence[tuple[float, float]] = ((-3.0, 3.0),)
    tries: int = 60
    wide: bool = True


def points(case: Case, dtype: DType, rng: np.random.Generator, thin: int = 1) -> list[np.ndarray]:
    """Numbers for each operand: one in `thin` of all exponents."""
    columns = [_column(case, dtype, draw, rng, thin) for draw in case.draws]
    size = max(map(len, columns))
    if len(columns) > 1:
        columns = [rng.permutation(one) for one in columns]
    return [np.resize(one, size) for one in columns]


def _column(case: Case, dtype: DType, draw: tuple[float, float], rng: np.random.Generator, thin: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return _all_of_column(case, dtype, draw, rng, thin)


def _all_of_column(
    case: Case, dtype: DType, draw: tuple[float, float], rng: np.random.Generator, thin: int
) -> np.ndarray:
    own, info = dtype.numpy.type, np.finfo(dtype.numpy)
    found = [rng.uniform(*draw, 3 * case.tries)]
    near = np.asarray(case.kinks, dtype.numpy)
    below = above = near
    for _ in range(3):
        found += [below, above]
        below, above = np.nextafter(below, own(-np.inf)), np.nextafter(above, own(np.inf))
    if case.wide:
        words = rng.integers(0, 2 ** (dtype.bits - 1), case.tries, dtype=np.uint64)
        bits = words.astype(f"u{dtype.bits // 8}").view(dtype.numpy)
        exponents = np.arange(int(info.minexp) - 5, int(info.maxexp))[rng.integers(thin) :: thin]
        powers = np.ldexp(rng.uniform(1, 2, len(exponents)), exponents)
        ends = [info.max, info.tiny, info.smallest_subnormal, info.eps]
        found += [one * sign for one in (bits, powers, np.asarray(ends)) for sign in (1, -1)]
    whole = np.concatenate([one.astype(dtype.numpy) for one in found])
    return whole[np.isfinite(whole)]


def worst(
    case: Case, got: np.ndarray, operands: Sequence[np.ndarray], flushed: bool = False
) -> tuple[float, tuple[float, ...]]:
    """The largest error in units in the last place, and where it is; subnormal results may be 0 if they are flushed."""
    largest = 0.0
    place: tuple[float, ...] = ()
    with mp.workprec(120):
        for row in range(len(got)):
            given = tuple(float(one[row]) for one in operands)
            error = _ulps(case, got[row], given, flushed)
            if not error <= largest:
                largest, place = error, (*given, float(got[row]))
    return largest, place


def _ulps(case: Case, got: Any, given: tuple[float, ...], flushed: bool) -> float:
    found = case.exact(*map(mp.mpf, given))
    value, scale = found if isinstance(found, tuple) else (found, mp.mpf(0))
    if isinstance(value, mp.mpc):
        value = mp.nan
    number = float(got)
    if mp.isnan(value) or np.isnan(number):
        return 0.0 if mp.isnan(value) and np.isnan(number) else np.inf
    info = np.finfo(got.dtype)
    largest = mp.mpf(float(info.max))
    if abs(value) >= largest or np.isinf(number):
        return 0.0 if abs(number) >= float(info.max) and abs(value) >= largest * (1 - 4 * info.eps) else np.inf
    least = mp.mpf(float(info.tiny))
    if flushed and abs(value) <= least and number == 0:
        return 0.0
    size = max(abs(value), scale, least)
    unit = mp.ldexp(1, int(mp.frexp(size)[1]) - 1 - int(info.nmant))
    return float(abs(mp.mpf(number) - value) / unit)


def _exp(x: Any) -> Any:
    return mp.exp(max(min(x, mp.mpf(2000)), mp.mpf(-2000)))


def _log(x: Any) -> Any:
    return mp.log(x) if x > 0 else mp.nan


def _of_many_bits(function: Exact, bits: int) -> Exact:
    """A function that loses digits: of huge angles, or near 0."""

    def found(*operands: Any) -> Any:
        with mp.workprec(bits):
            return function(*operands)

    return found


def _inside(function: Exact, low: float, high: float, bits: int = 400) -> Exact:
    many = _of_many_bits(function, bits)
    return lambda x: many(x) if low <= x <= high else mp.nan


def _logaddexp(x: Any, y: Any) -> Any:
    larger = max(x, y)
    return larger + mp.log1p(_exp(-abs(x - y))), abs(larger)


def _power(x: Any, y: Any) -> Any:
    if x == 0:
        return mp.nan
    whole = y == mp.floor(y)
    if x < 0 and not whole:
        return mp.nan
    return _exp(y * mp.log(abs(x))) * (-1 if x < 0 and abs(y) < 2**53 and int(y) % 2 else 1)


def _erfc(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 50 else mp.mpf(0 if x > 0 else 2)


def _erfinv(x: Any) -> Any:
    if abs(x) < mp.mpf(10) ** -30:
        return x * mp.sqrt(mp.pi) / 2
    return mp.erfinv(x) if abs(x) < 1 else mp.nan


def _log_ndtr(x: Any) -> Any:
    if x < -100:
        tail = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6 + 105 / x**8
        return -x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2 + mp.log(tail)
    return mp.log(_erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-_erfc(x / mp.sqrt(2)) / 2)


def _lgamma(x: Any) -> Any:
    if x > 0:
        return mp.loggamma(x)
    if x == mp.floor(x):
        return mp.inf
    first, second = mp.log(mp.pi / abs(x * mp.sinpi(x))), mp.loggamma(-x)
    return first - second, abs(first) + abs(second)


def _digamma(x: Any) -> Any:
    if x > 0:
        return mp.digamma(x)
    if x == mp.floor(x):
        return mp.nan
    first, second = mp.digamma(1 - x), mp.pi * mp.cospi(x) / mp.sinpi(x)
    return first - second, abs(first) + abs(second)


def _stirling_error(x: Any) -> Any:
    if x <= 0:
        return mp.nan
    with mp.workprec(300):
        return mp.loggamma(x) - ((x - mp.mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)


def _bessel(order: int) -> Exact:
    return lambda x: (-1 if x < 0 and order else 1) * mp.besseli(order, abs(x)) * mp.exp(-abs(x))


def _of_parameters(value: Any, *parameters: Any) -> Any:
    """A value whose errors grow with the root of the largest parameter."""
    return value, abs(value) * (1 + mp.sqrt(max(parameters)) / 10)


def _gammainc(a: Any, x: Any) -> Any:
    return _of_parameters(mp.gammainc(a, 0, x, regularized=True), a, x)


def _gammaincc(a: Any, x: Any) -> Any:
    value = mp.gammainc(a, x, mp.inf, regularized=True)
    return (value, mp.mpf(1)) if x < 1 else _of_parameters(value, a, x)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return _of_parameters(mp.betainc(a, b, 0, x, regularized=True), a, b)


def _betaincc(a: Any, b: Any, x: Any) -> Any:
    return _of_parameters(mp.betainc(a, b, x, 1, regularized=True), a, b)


def _log_normal(x: Any, mean: Any, log_stddev: Any) -> Any:
    square = ((x - mean) * mp.exp(-log_stddev)) ** 2 / 2
    constant = mp.log(2 * mp.pi) / 2
    return -square - log_stddev - constant, square + abs(log_stddev) + constant


_ROOT_TWO = 2**0.5
_ANGLES = (*(k * np.pi / 4 for k in range(1, 12)), 8e5, 1e22, 6381956970095103.0 * 2.0**797)
_GAMMA = ((0.05, 20.0), (0.05, 20.0))
_BETA = ((0.05, 20.0), (0.05, 20.0), (0.01, 0.99))

CASES: dict[str, Case] = {
    "exp": Case(_exp, (88.72, 709.78, -103.9, -745.1, 0.3465, 1e-8), ((-100.0, 80.0),)),
    "exp2": Case(lambda x: _exp(x * mp.log(2)), (0.5, 127.9, 1023.9, -149.0, -1074.0), ((-20.0, 20.0),)),
    "expm1": Case(lambda x: mp.expm1(x) if abs(x) < 1e3 else _exp(x) - 1, (0.3465, -0.3465, 1e-8, -37.4)),
    "tanh": Case(lambda x: mp.tanh(max(min(x, mp.mpf(500)), mp.mpf(-500))), (0.5, -0.5, 20.0, 1e-8)),
    "sigmoid": Case(lambda x: 1 / (1 + _exp(-x)), (37.0, -745.0, -88.0), ((-20.0, 20.0),)),
    "log": Case(_log, (1.0, _ROOT_TWO, _ROOT_TWO / 2), ((0.1, 10.0),)),
    "safe_log": Case(_log, (1.0,), ((0.1, 10.0),), 10),
    "log2": Case(lambda x: _log(x) / mp.log(2), (1.0, 2.0, _ROOT_TWO), ((0.1, 10.0),)),
    "log10": Case(lambda x: _log(x) / mp.log(10), (1.0, 10.0, _ROOT_TWO), ((0.1, 10.0),)),
    "log1p": Case(lambda x: mp.log1p(x) if x > -1 else mp.nan, (_ROOT_TWO - 1, _ROOT_TWO / 2 - 1), ((-0.99, 3.0),)),
    "softplus": Case(lambda x: mp.log1p(_exp(x)) if x < 1e3 else x, (0.0,), ((-20.0, 20.0),)),
    "logaddexp": Case(_logaddexp, (1.0,), ((-3.0, 3.0), (-3.0, 3.0))),
    "sin": Case(_of_many_bits(mp.sin, 1400), _ANGLES, ((-100.0, 100.0),)),
    "cos": Case(_of_many_bits(mp.cos, 1400), _ANGLES, ((-100.0, 100.0),)),
    "tan": Case(_of_many_bits(mp.tan, 1400), _ANGLES, ((-100.0, 100.0),)),
    "asin": Case(_inside(mp.asin, -1, 1), (0.5, -0.5, 1.0), ((-1.0, 1.0),)),
    "acos": Case(_inside(mp.acos, -1, 1), (0.5, -0.5, 1.0), ((-1.0, 1.0),)),
    "atan": Case(_of_many_bits(mp.atan, 400), (_ROOT_TWO - 1, _ROOT_TWO + 1)),
    "atan2": Case(_of_many_bits(mp.atan2, 2300), (1.0, _ROOT_TWO - 1), ((-3.0, 3.0), (-3.0, 3.0))),
    "sinh": Case(lambda x: mp.sinh(x) if abs(x) < 2e3 else mp.sign(x) * mp.inf, (1.0, 709.8, 710.4, 89.0)),
    "cosh": Case(lambda x: mp.cosh(x) if abs(x) < 2e3 else mp.inf, (709.8, 710.4, 89.0)),
    "asinh": Case(_of_many_bits(mp.asinh, 400), (2.0**28, 1.0)),
    "acosh": Case(_inside(mp.acosh, 1, mp.inf), (1.0, 2.0**28), ((1.0, 9.0),)),
    "atanh": Case(_inside(mp.atanh, -1 + 1e-16, 1 - 1e-16), (0.5, -0.5), ((-1.0, 1.0),)),
    "hypot": Case(_of_many_bits(mp.hypot, 2300), (2.0**-60, 2.0**60), ((-3.0, 3.0), (-3.0, 3.0))),
    "pow": Case(_power, (1.0, 2.0, -2.0), ((0.0, 10.0), (-100.0, 100.0))),
    "erf": Case(lambda x: mp.erf(x) if abs(x) < 50 else mp.sign(x), (1.0, -1.0)),
    "erfc": Case(_erfc, (0.5, -1.0, 26.5, 1.0), ((-3.0, 10.0),)),
    "erfinv": Case(_erfinv, (0.75, -0.75, 1e-8), ((-1.0, 1.0),), 10),
    "log_ndtr": Case(_log_ndtr, (-1.0, 0.0), ((-30.0, 8.0),)),
    "lgamma": Case(_lgamma, (0.5, 1.0, 1.5, 2.0, 2.5, 10.0), ((-9.0, 20.0),), 40, wide=False),
    "digamma": Case(_digamma, (0.5, 1.0, 1.4616321449683622, 2.0, 10.0), ((-9.0, 20.0),), 30, wide=False),
    "stirling_error": Case(_stirling_error, (0.5, 10.0, 1.0), ((0.001, 20.0),), 20, wide=False),
    "i0e": Case(_bessel(0), (8.0, -8.0, 0.0), ((-20.0, 20.0),), 20, wide=False),
    "i1e": Case(_bessel(1), (8.0, -8.0), ((-20.0, 20.0),), 20, wide=False),
    "gammainc": Case(_gammainc, (1.0, 12.0), _GAMMA, 10, wide=False),
    "gammaincc": Case(_gammaincc, (1.0, 12.0), _GAMMA, 10, wide=False),
    "betainc": Case(_betainc, (0.5,), _BETA, 8, wide=False),
    "betaincc": Case(_betaincc, (0.5,), _BETA, 8, wide=False),
    "log_normal": Case(_log_normal, (0.0, 1.0), ((-3.0, 3.0), (-3.0, 3.0), (-3.0, 3.0)), wide=False),
}
