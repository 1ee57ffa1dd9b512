"""Special functions, which distributions use beside exponentials and powers.

The references are SciPy's, imported when one first runs: by the interpreter, or by the tests. Backends have their own.
"""

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from plica.errors import UnsupportedError
from plica.ir.op import ALWAYS, Array, Op, Sample, sample
from plica.ir.ranges import ANYTHING, NOT_NEGATIVE, Range
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, require_kind, require_operands, require_same_dtype

_UNIT: Range = (0.0, 1.0)


class _Row(NamedTuple):
    """A function of floats, computed in float64.

    Args:
        name: Its name.
        operands: The kind of numbers that samples have for each operand, by name.
        about: Its documentation.
        range: The range of its results.
        reference: `reference(scipy.special, *arrays)`; by default SciPy's function of its name.
        tolerance: The tolerance of its `Op`.
    """

    name: str
    operands: Mapping[str, str]
    about: str
    range: Range = ANYTHING
    reference: Callable[..., Any] | None = None
    tolerance: float = 10.0


_VALUES: dict[str, list[float]] = {
    "any": [-2.5, -1.0, -0.3, 0.1, 0.4, 3.0],
    "deep": [-30.0, -5.0, -0.3, 0.1, 0.4, 3.0],
    "positive": [0.01, 0.2, 0.5, 1.5, 12.0, 70.0],
    "another": [0.3, 4.0, 0.05, 2.0, 11.0, 80.0],
    "unit": [0.02, 0.1, 0.3, 0.5, 0.7, 0.95],
}


def _stirling_error(special: ModuleType, x: Array) -> Any:
    series = np.zeros_like(x)
    with np.errstate(all="ignore"):
        inverse = 1 / x
        for factor in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
            series = series * inverse * inverse + factor
        exact = special.gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * math.log(2 * math.pi)
    return np.where(x >= 10, series * inverse, np.where(x == 0, np.inf, np.where(x > 0, exact, np.nan)))


_GAMMA, _BETA = {"a": "positive"}, {"a": "positive", "b": "another"}
_ROWS = (
    _Row(
        "betainc",
        _BETA | {"x": "unit"},
        "The regularized incomplete beta function: the beta distribution function of concentrations `a` and `b` at "
        "`x`.\n\nIt has derivatives by all operands; those at the ends of `x` are taken to be 0.",
        _UNIT,
    ),
    _Row("betaincc", _BETA | {"x": "unit"}, "`1 - betainc(a, b, x)`, right where it is tiny.", _UNIT),
    _Row("betaincinv", _BETA | {"p": "unit"}, "The `x` at which `betainc(a, b, x)` is `p`.", _UNIT),
    _Row("digamma", {"x": "positive"}, "The derivative of `lgamma`."),
    _Row("erfc", {"x": "any"}, "`1 - erf(x)`, right where it is tiny.", (0.0, 2.0)),
    _Row(
        "gammainc",
        _GAMMA | {"x": "another"},
        "The regularized lower incomplete gamma function: the gamma distribution function of concentration `a` at "
        "`x`.\n\nIt has derivatives by both operands; those at the ends of `x` are taken to be 0.",
        _UNIT,
    ),
    _Row("gammaincc", _GAMMA | {"x": "another"}, "`1 - gammainc(a, x)`, right where it is tiny.", _UNIT),
    _Row("gammaincinv", _GAMMA | {"p": "unit"}, "The `x` at which `gammainc(a, x)` is `p`.", NOT_NEGATIVE),
    _Row("i0e", {"x": "any"}, "The modified Bessel function of order 0 times `exp(-abs(x))`.", _UNIT),
    _Row("i1e", {"x": "any"}, "The modified Bessel function of order 1 times `exp(-abs(x))`.", (-1.0, 1.0)),
    _Row(
        "lgamma",
        {"x": "positive"},
        "The logarithm of the absolute value of the gamma function.",
        reference=lambda special, x: np.where(x == -np.inf, np.inf, special.gammaln(x)),
    ),
    _Row(
        "log_ndtr",
        {"x": "deep"},
        "The logarithm of the standard normal distribution function, right in both tails.",
        (-math.inf, 0.0),
    ),
    _Row(
        "stirling_error",
        {"x": "positive"},
        "`lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)` for positive `x`: what Stirling's formula lacks.\n\n"
        "It is about `1 / (12 x)`. Differences of `lgamma` at large numbers lose all digits; written with this, they "
        "do not.",
        reference=_stirling_error,
    ),
)


def _special() -> ModuleType:
    try:
        from scipy import special
    except ImportError as error:
        raise UnsupportedError(
            "special functions of numpy arrays are SciPy's, which is not installed: pip install scipy, or pass torch "
            f"tensors ({error})"
        ) from error
    module: ModuleType = special
    return module


def _op(row: _Row) -> Op:
    def rule(*types: ArrayType) -> ArrayType:
        require_operands(types, len(row.operands), len(row.operands))
        require_kind(types, ("float",))
        return array_type(broadcast(*[type_.shape for type_ in types]), require_same_dtype(*types))

    def reference(*arrays: Array) -> Any:
        with np.errstate(all="ignore"):
            wide = [np.asarray(array, "float64") for array in arrays]
            result = row.reference(_special(), *wide) if row.reference else getattr(_special(), row.name)(*wide)
            return np.asarray(result).astype(arrays[0].dtype)

    def samples() -> list[Sample]:
        examples = []
        for dtype in ("float32", "float64"):
            arrays = [np.asarray(_VALUES[name], dtype) for name in row.operands.values()]
            examples.append(sample(*(array.reshape(2, 3) for array in arrays)))
            examples.append(sample(*(array[:0].reshape(0, 3) for array in arrays)))
            examples.append(sample(arrays[0][:2, None], *(array[:3] for array in arrays[1:])))
        return examples

    # at their poles and beyond the ends of their domains, libraries differ
    columns: dict[str, Any] = {"range": row.range, "tolerance": row.tolerance, "agreed": False}
    return Op(row.name, rule, reference, samples, never_raises=ALWAYS, **columns)


SPECIAL = tuple(map(_op, _ROWS))
OPERANDS: Mapping[str, Mapping[str, str]] = {row.name: row.operands for row in _ROWS}
"""The operands of each function by name, and the numbers of their samples."""
ABOUT: Mapping[str, str] = {row.name: row.about for row in _ROWS}
"""The documentation of each function."""
