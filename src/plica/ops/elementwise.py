"""Elementwise operations: one registry entry each, grouped by the kinds of dtype that they take.

Binary operations take operands of one dtype (the namespaces promote first) and broadcast them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.op import ALWAYS, PRIMITIVE, Array, Derivative, Memory, Op, Sample, Unsupported, View, sample
from plica.ir.ranges import (
    ANYTHING,
    NOT_NEGATIVE,
    Range,
    RangeRule,
    as_first,
    between,
    choice,
    combined,
    inverse,
    larger,
    minus,
    negated,
    plus,
    power,
    quotient,
    smaller,
)
from plica.ir.types import ArrayType, array_type
from plica.ops.divisions import dividing
from plica.ops.rules import broadcast, real_dtype, require_kind, require_operands, require_same_dtype

NUMERIC = ("int", "float", "complex")
REAL = ("int", "float")
FLOATING = ("float", "complex")
ANY = ("bool", *NUMERIC)

_VALUES: dict[str, Any] = {
    "any": [-2.5, -1.0, -0.3, 0.0, 0.4, 3.0],
    "positive": [1e-3, 0.2, 0.5, 1.0, 2.0, 7.0],
    "unit": [-0.9, -0.5, -0.1, 0.0, 0.4, 0.9],
    "above_one": [1.0, 1.1, 1.5, 2.0, 3.0, 9.0],
    "zero_too": [0.0, 0.2, 0.5, 1.0, 2.0, 7.0],
    "special": [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0],
    "shift": [1.0, 3.0, 0.0, 2.0, 40.0, 4.0],
}
_DTYPES = {
    "bool": ["bool"],
    "int": ["int32", "int64", "uint8"],
    "float": ["float32", "float64"],
    "complex": ["complex64", "complex128"],
}


def _array(domain: str, dtype: str, shape: tuple[int, ...] = (2, 3)) -> Array:
    count = int(np.prod(shape))
    values = np.resize(np.asarray(_VALUES[domain]), count)
    if np.dtype(dtype).kind in "iu":
        values = np.abs(np.nan_to_num(np.round(values), posinf=1, neginf=1))
    if np.dtype(dtype).kind == "b":
        values = values > 0
    return values.reshape(shape).astype(dtype)


def _samples(arity: int, kinds: Sequence[str], domain: str) -> Callable[[], list[Sample]]:
    def make() -> list[Sample]:
        samples = []
        for dtype in (dtype for kind in kinds for dtype in _DTYPES[kind]):
            first = _array(domain, dtype)
            more = [np.roll(first, step).reshape(2, 3) for step in range(1, arity)]
            samples.append(sample(first, *more))
            samples.append(sample(*[_array(domain, dtype, (0, 3))] * arity))
            samples.append(sample(*[_array(domain, dtype, (2, 1)), *[_array(domain, dtype, (3,))] * (arity - 1)]))
        return samples

    return make


def _rule(arity: int, kinds: Sequence[str], result: DType | None = None) -> Callable[..., ArrayType]:
    def rule(*types: ArrayType) -> ArrayType:
        require_operands(types, arity, arity)
        require_kind(types, kinds)
        dtype = require_same_dtype(*types)
        return array_type(broadcast(*[type_.shape for type_ in types]), result or dtype)

    return rule


class _Row(NamedTuple):
    """An operation on each element of operands of one dtype: its registry entry without the arity."""

    name: str
    reference: Callable[..., Any]
    kinds: tuple[str, ...]
    domain: str = "any"
    range: RangeRule = ANYTHING
    never_raises: tuple[str, ...] = ALWAYS
    tolerance: float = 1.0
    agreed: bool = True
    derivative: Derivative = Derivative.OF_VALUES
    of_dtype: bool = False
    decompose: Callable[..., Any] | Unsupported = PRIMITIVE


def elementwise(
    name: str,
    reference: Callable[..., Any],
    kinds: Sequence[str],
    domain: str = "any",
    *,
    arity: int = 1,
    result: DType | None = None,
    **columns: Any,
) -> Op:
    """An operation on each entry of broadcast operands, which all have one dtype.

    Args:
        name: Its name.
        reference: The same function on arrays of NumPy.
        kinds: The kinds of dtype that it takes: of `bool`, `int`, `float`, `complex`.
        domain: The numbers of its samples: `any`, `positive`, `unit` (-1 to 1), `above_one`, `zero_too`, `special`.
        arity: The number of operands.
        result: The dtype of the result; by default that of the operands.
        columns: Further fields of `Op`, such as `decompose`.
    """
    rule, samples = _rule(arity, kinds, result), _samples(arity, kinds, domain)
    return Op(name, rule, reference, samples, **{"never_raises": ALWAYS} | columns)


def _of_row(row: _Row, arity: int, result: DType | None = None) -> Op:
    columns = {name: getattr(row, name) for name in _Row._fields[4:]}
    return elementwise(row.name, row.reference, row.kinds, row.domain, arity=arity, result=result, **columns)


def _safe_log(x: Array) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _sigmoid(x: Array) -> Any:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _softplus(x: Array) -> Any:
    return np.logaddexp(x, np.zeros((), x.dtype))


def _pow(x: Array, y: Array) -> Any:
    """Powers; those of integers to a negative integer are rounded towards 0."""
    if np.result_type(x, y).kind != "i" or not np.any(np.less(y, 0)):
        return np.power(x, y)
    units = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0))
    return np.where(y < 0, units, np.power(x, np.maximum(y, 0))).astype(np.result_type(x, y))


def _each(function: Callable[[float], float]) -> Callable[[Array], Any]:
    """A function of one number, applied to each element in float64."""
    vectorized = np.vectorize(function, otypes=[np.float64])
    return lambda x: vectorized(x) if np.size(x) else np.zeros(np.shape(x))


def _erfinv_of_number(x: float) -> float:
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    # the lower tail, where 1 - |x| is exact: near 1 the other one would lose digits
    return math.copysign(NormalDist().inv_cdf((1 - abs(x)) / 2) / math.sqrt(2), x)


_KINKS = Derivative.BESIDE_KINKS
_UNIT: Range = (-1.0, 1.0)
_QUARTERS: Range = (-math.pi / 2, math.pi / 2)

_UNARY = (
    _Row("acos", np.arccos, FLOATING, "unit", (0.0, math.pi)),
    _Row("acosh", np.arccosh, FLOATING, "above_one", NOT_NEGATIVE, tolerance=10.0),
    _Row("asin", np.arcsin, FLOATING, "unit", _QUARTERS),
    _Row("asinh", np.arcsinh, FLOATING, "any"),
    _Row("atan", np.arctan, FLOATING, "any", _QUARTERS),
    _Row("atanh", np.arctanh, FLOATING, "unit", tolerance=5.0),
    _Row("bitwise_invert", np.invert, ("bool", "int"), "any"),
    _Row("ceil", np.ceil, ("float",), "any", derivative=_KINKS),
    _Row("conj", np.conj, ("complex",), "any", as_first),
    _Row("cos", np.cos, FLOATING, "any", _UNIT),
    _Row("cosh", np.cosh, FLOATING, "any", (1.0, math.inf)),
    _Row("erf", _each(math.erf), ("float",), "any", _UNIT, tolerance=2.0),
    _Row("erfinv", _each(_erfinv_of_number), ("float",), "unit", tolerance=50.0),
    _Row("exp", np.exp, FLOATING, "any", NOT_NEGATIVE),
    _Row("exp2", np.exp2, ("float",), "any", NOT_NEGATIVE),
    _Row("expm1", np.expm1, FLOATING, "any", (-1.0, math.inf)),
    _Row("floor", np.floor, ("float",), "any", derivative=_KINKS),
    _Row("log", np.log, FLOATING, "positive"),
    _Row("log1p", np.log1p, FLOATING, "unit"),
    _Row("log2", np.log2, FLOATING, "positive"),
    _Row("log10", np.log10, FLOATING, "positive"),
    _Row("logical_not", np.logical_not, ("bool",), "any"),
    _Row("negative", np.negative, NUMERIC, "any", negated),
    _Row("reciprocal", np.reciprocal, FLOATING, "positive", inverse),
    _Row("round", np.round, FLOATING, "any", derivative=_KINKS),
    _Row("safe_log", _safe_log, FLOATING, "zero_too"),
    _Row("sigmoid", _sigmoid, ("float",), "any", (0.0, 1.0)),
    _Row("sign", np.sign, NUMERIC, "any", _UNIT, derivative=_KINKS),
    _Row("sin", np.sin, FLOATING, "any", _UNIT),
    _Row("sinh", np.sinh, FLOATING, "any", tolerance=2.0),
    _Row("softplus", _softplus, ("float",), "any", NOT_NEGATIVE),
    _Row("sqrt", np.sqrt, FLOATING, "positive", (-0.0, math.inf)),
    _Row("square", np.square, NUMERIC, "any", NOT_NEGATIVE),
    _Row("tan", np.tan, FLOATING, "any", tolerance=5.0),
    _Row("tanh", np.tanh, FLOATING, "any", _UNIT),
    _Row("trunc", np.trunc, ("float",), "any", derivative=_KINKS),
)
_PREDICATES = (
    _Row("isfinite", np.isfinite, NUMERIC, "special"),
    _Row("isinf", np.isinf, NUMERIC, "special"),
    _Row("isnan", np.isnan, NUMERIC, "special"),
    _Row("signbit", np.signbit, ("float",), "special"),
)
_BINARY = (
    _Row("add", np.add, NUMERIC, "any", plus),
    _Row("atan2", np.arctan2, ("float",), "any", (-math.pi, math.pi)),
    _Row("bitwise_and", np.bitwise_and, ("bool", "int"), "any"),
    _Row("bitwise_left_shift", np.left_shift, ("int",), "shift"),
    _Row("bitwise_or", np.bitwise_or, ("bool", "int"), "any"),
    _Row("bitwise_right_shift", np.right_shift, ("int",), "shift"),
    _Row("bitwise_xor", np.bitwise_xor, ("bool", "int"), "any"),
    _Row("copysign", np.copysign, ("float",), "any", derivative=_KINKS),
    _Row("divide", np.divide, FLOATING, "positive", quotient),
    _Row("hypot", np.hypot, ("float",), "any", NOT_NEGATIVE),
    _Row("logical_and", np.logical_and, ("bool",), "any"),
    _Row("logical_or", np.logical_or, ("bool",), "any"),
    _Row("logical_xor", np.logical_xor, ("bool",), "any"),
    _Row("maximum", np.maximum, REAL, "any", larger, derivative=_KINKS),
    _Row("minimum", np.minimum, REAL, "any", smaller, derivative=_KINKS),
    _Row("multiply", np.multiply, NUMERIC, "any", combined),
    _Row("nextafter", np.nextafter, ("float",), "any", derivative=_KINKS, of_dtype=True),
    _Row("subtract", np.subtract, NUMERIC, "any", minus),
    # divisions by the integer 0 and negative powers of integers are errors
    _Row("floor_divide", dividing(np.floor_divide), REAL, "above_one", derivative=_KINKS, never_raises=FLOATING),
    _Row("pow", _pow, NUMERIC, "positive", power, tolerance=5.0, never_raises=FLOATING),
    _Row("remainder", dividing(np.remainder), REAL, "above_one", derivative=_KINKS, never_raises=FLOATING),
)
_COMPARISONS = (
    _Row("equal", np.equal, ANY),
    _Row("greater", np.greater, REAL),
    _Row("greater_equal", np.greater_equal, REAL),
    _Row("less", np.less, REAL),
    _Row("less_equal", np.less_equal, REAL),
    _Row("not_equal", np.not_equal, ANY),
)


def _abs_type(x: ArrayType) -> ArrayType:
    require_kind([x], NUMERIC)
    return array_type(x.shape, real_dtype(x.dtype))


def _part_type(x: ArrayType) -> ArrayType:
    require_kind([x], ("complex",))
    return array_type(x.shape, real_dtype(x.dtype))


def _parts_samples() -> list[Sample]:
    """Complex numbers with two parts."""
    samples = [sample(_array("any", dtype) * (1 - 2j)) for dtype in _DTYPES["complex"]]
    return [*samples, sample(np.zeros((0, 3), "complex64"))]


def _clip_type(x: ArrayType, least: ArrayType, most: ArrayType) -> ArrayType:
    require_kind([x], REAL)
    return array_type(broadcast(x.shape, least.shape, most.shape), require_same_dtype(x, least, most))


def _clip_samples() -> list[Sample]:
    samples = []
    for dtype in ("int64", "uint8", "float32", "float64"):
        x = _array("any", dtype)
        samples.append(sample(x, np.asarray(1, dtype), np.asarray(2, dtype)))
        samples.append(sample(x, x[:1] * 0, np.asarray([[1], [2]], dtype)))
        samples.append(sample(x[:0], x[0], np.asarray(2, dtype)))
    return samples


def _isin_type(x: ArrayType, elements: ArrayType) -> ArrayType:
    require_kind([x], REAL)
    require_same_dtype(x, elements)
    return array_type(x.shape, DType.BOOL)


def _isin_samples() -> list[Sample]:
    return [
        sample(_array("any", "float32"), np.asarray([3.0, 0.0], "float32")),
        sample(_array("any", "int64"), np.asarray([[3, 7], [1, 1]])),
        sample(_array("any", "int64"), np.zeros((0,), "int64")),
    ]


def _where_type(condition: ArrayType, first: ArrayType, second: ArrayType) -> ArrayType:
    if condition.dtype != DType.BOOL:
        raise DTypeError(f"the condition of where is {condition.dtype.value}, expected bool.")
    return array_type(broadcast(condition.shape, first.shape, second.shape), require_same_dtype(first, second))


def _where_samples() -> list[Sample]:
    condition = np.asarray([[True, False, True], [False, False, True]])
    return [
        sample(condition, _array("any", "float32"), np.float32(0.5)),
        sample(condition[0], _array("any", "int64"), _array("positive", "int64")),
    ]


def _logaddexp_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 1)
    require_kind(types, ("float",))
    return array_type(broadcast(*[type_.shape for type_ in types]), require_same_dtype(*types))


def _logaddexp(*arrays: Array) -> Any:
    return np.logaddexp.reduce(np.stack(np.broadcast_arrays(*arrays)), axis=0)


def _logaddexp_samples() -> list[Sample]:
    zero = np.asarray([-np.inf, -np.inf, 0.5])
    large = np.asarray([-np.inf, 1.0, 1000.0])
    return [
        sample(_array("any", "float32"), _array("special", "float32")[:, ::-1]),
        sample(zero, large),
        sample(zero, large, large),
        sample(_array("any", "float64"), _array("any", "float64")[:1], _array("positive", "float64")),
    ]


def _astype_type(x: ArrayType, *, dtype: DType) -> ArrayType:
    return array_type(x.shape, dtype)


def _astype(x: Array, *, dtype: DType) -> Any:
    whole = x.astype(as_dtype(x.dtype).carrier.numpy, copy=False)  # numpy converts int4 to int8, but not to uint4
    return whole.astype(dtype.numpy)


def _astype_samples() -> list[Sample]:
    return [
        sample(_array("any", "float64"), dtype=DType.FLOAT32),
        sample(_array("any", "bool"), dtype=DType.INT64),
        sample(_array("any", "int32"), dtype=DType.FLOAT64),
        sample(_array("any", "float32"), dtype=DType.INT64),
    ]


ELEMENTWISE = (
    *(_of_row(row, 1) for row in _UNARY),
    *(_of_row(row, 1, DType.BOOL) for row in _PREDICATES),
    *(_of_row(row, 2) for row in _BINARY),
    *(_of_row(row, 2, DType.BOOL) for row in _COMPARISONS),
    Op(
        "abs",
        _abs_type,
        np.abs,
        _samples(1, NUMERIC, "any"),
        range=NOT_NEGATIVE,
        never_raises=ALWAYS,
        derivative=_KINKS,
    ),
    Op("real", _part_type, np.real, _parts_samples, never_raises=ALWAYS, memory=Memory.EITHER),
    Op("imag", _part_type, np.imag, _parts_samples, never_raises=ALWAYS, memory=Memory.EITHER),
    Op(
        "clip",
        _clip_type,
        np.clip,
        _clip_samples,
        lambda xp, x, least, most: xp.minimum(xp.maximum(x, least), most),
        range=between,
        never_raises=ALWAYS,
    ),
    Op("isin", _isin_type, np.isin, _isin_samples, never_raises=ALWAYS),
    Op(
        "stop_gradient",
        lambda x: x,
        lambda x: x,
        lambda: [sample(_array("any", "float32")), sample(_array("any", "int64"))],
        memory=Memory.VIEW,
        range=as_first,
        never_raises=ALWAYS,
        derivative=Derivative.ITS_OWN,
        view=View.MOVED,
    ),
    Op(
        "copy",
        lambda x: x,
        np.copy,
        lambda: [sample(_array("any", "float32")), sample(_array("any", "int64"))],
        memory=Memory.COPY,
        range=as_first,
        never_raises=ALWAYS,
        view=View.MOVED,
    ),
    Op("where", _where_type, np.where, _where_samples, range=choice, never_raises=ALWAYS, view=View.CHOSEN),
    Op("logaddexp", _logaddexp_type, _logaddexp, _logaddexp_samples, never_raises=ALWAYS),
    Op(
        "astype",
        _astype_type,
        _astype,
        _astype_samples,
        memory=Memory.EITHER,
        range=as_first,
        never_raises=ALWAYS,
        agreed=False,
        derivative=Derivative.NONE,
        converts=True,
    ),
)

KINDS: Mapping[str, tuple[str, ...]] = {
    **{row.name: row.kinds for row in (*_UNARY, *_PREDICATES, *_BINARY, *_COMPARISONS)},
    "abs": NUMERIC,
    "logaddexp": ("float",),
}
"""The kinds of dtype that operations accept whose operands all have one dtype."""

ARITIES: Mapping[str, int] = {
    **dict.fromkeys(KINDS, 2),
    **{row.name: 1 for row in (*_UNARY, *_PREDICATES)},
    "abs": 1,
}
"""How many operands these operations take; `logaddexp` takes further ones."""
