"""Special functions, which distributions use beside exponentials and powers.

The references are SciPy's, imported when one first runs: by the interpreter, or by the tests. Backends have their own.
"""

import math
from collections.abc import Callable
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
    """A function of floats: `reference(scipy.special, *arrays)` in float64."""

    name: str
    reference: Callable[..., Any]
    operands: tuple[str, ...]
    range: Range = ANYTHING
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


_ROWS = (
    _Row("betainc", lambda special, a, b, x: special.betainc(a, b, x), ("positive", "another", "unit"), _UNIT),
    _Row("betaincc", lambda special, a, b, x: special.betaincc(a, b, x), ("positive", "another", "unit"), _UNIT),
    _Row("betaincinv", lambda special, a, b, p: special.betaincinv(a, b, p), ("positive", "another", "unit"), _UNIT),
    _Row("digamma", lambda special, x: special.digamma(x), ("positive",)),
    _Row("erfc", lambda special, x: special.erfc(x), ("any",), (0.0, 2.0)),
    _Row("gammainc", lambda special, a, x: special.gammainc(a, x), ("positive", "another"), _UNIT),
    _Row("gammaincc", lambda special, a, x: special.gammaincc(a, x), ("positive", "another"), _UNIT),
    _Row("gammaincinv", lambda special, a, p: special.gammaincinv(a, p), ("positive", "unit"), NOT_NEGATIVE),
    _Row("i0e", lambda special, x: special.i0e(x), ("any",), _UNIT),
    _Row("i1e", lambda special, x: special.i1e(x), ("any",), (-1.0, 1.0)),
    _Row("lgamma", lambda special, x: np.where(x == -np.inf, np.inf, special.gammaln(x)), ("positive",)),
    _Row("log_ndtr", lambda special, x: special.log_ndtr(x), ("deep",), (-math.inf, 0.0)),
    _Row("stirling_error", _stirling_error, ("positive",)),
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
            result = row.reference(_special(), *(np.asarray(array, "float64") for array in arrays))
            return np.asarray(result).astype(arrays[0].dtype)

    def samples() -> list[Sample]:
        examples = []
        for dtype in ("float32", "float64"):
            arrays = [np.asarray(_VALUES[name], dtype) for name in row.operands]
            examples.append(sample(*(array.reshape(2, 3) for array in arrays)))
            examples.append(sample(*(array[:0].reshape(0, 3) for array in arrays)))
            examples.append(sample(arrays[0][:2, None], *(array[:3] for array in arrays[1:])))
        return examples

    # at their poles and beyond the ends of their domains, libraries differ
    columns: dict[str, Any] = {"range": row.range, "tolerance": row.tolerance, "agreed": False}
    return Op(row.name, rule, reference, samples, never_raises=ALWAYS, **columns)


SPECIAL = tuple(map(_op, _ROWS))
