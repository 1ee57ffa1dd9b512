"""Elementwise operations: one row each, grouped by the kinds of dtype that they take.

Binary rows take operands of one dtype (the namespaces promote first) and broadcast them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from plica.errors import DTypeError
from plica.ir.dtypes import DType
from plica.ir.op import PRIMITIVE, Array, Memory, Op, Sample, Unsupported, sample
from plica.ir.types import ArrayType, array_type
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
        found = []
        for dtype in (dtype for kind in kinds for dtype in _DTYPES[kind]):
            first = _array(domain, dtype)
            others = [np.roll(first, step).reshape(2, 3) for step in range(1, arity)]
            found.append(sample(first, *others))
            found.append(sample(*[_array(domain, dtype, (0, 3))] * arity))
            found.append(sample(*[_array(domain, dtype, (2, 1)), *[_array(domain, dtype, (3,))] * (arity - 1)]))
        return found

    return make


def _rule(arity: int, kinds: Sequence[str], result: DType | None = None) -> Callable[..., ArrayType]:
    def rule(*types: ArrayType) -> ArrayType:
        require_operands(types, arity, arity)
        require_kind(types, kinds)
        dtype = require_same_dtype(*types)
        return array_type(broadcast(*[type_.shape for type_ in types]), result or dtype)

    return rule


def elementwise(
    name: str,
    reference: Callable[..., Any],
    arity: int,
    kinds: Sequence[str],
    *,
    domain: str = "any",
    result: DType | None = None,
    decompose: Callable[..., Any] | Unsupported = PRIMITIVE,
) -> Op:
    """A row of an operation that works on each element of operands of one dtype."""
    return Op(name, _rule(arity, kinds, result), reference, _samples(arity, kinds, domain), decompose)


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


def _erfinv_of_one(x: float) -> float:
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    # the lower tail, where 1 - |x| is exact: near 1 the other one would lose digits
    return math.copysign(NormalDist().inv_cdf((1 - abs(x)) / 2) / math.sqrt(2), x)


_UNARY: tuple[tuple[str, Callable[..., Any], tuple[str, ...], str], ...] = (
    ("acos", np.arccos, FLOATING, "unit"),
    ("acosh", np.arccosh, FLOATING, "above_one"),
    ("asin", np.arcsin, FLOATING, "unit"),
    ("asinh", np.arcsinh, FLOATING, "any"),
    ("atan", np.arctan, FLOATING, "any"),
    ("atanh", np.arctanh, FLOATING, "unit"),
    ("bitwise_invert", np.invert, ("bool", "int"), "any"),
    ("ceil", np.ceil, ("float",), "any"),
    ("conj", np.conj, ("complex",), "any"),
    ("cos", np.cos, FLOATING, "any"),
    ("cosh", np.cosh, FLOATING, "any"),
    ("erf", _each(math.erf), ("float",), "any"),
    ("erfinv", _each(_erfinv_of_one), ("float",), "unit"),
    ("exp", np.exp, FLOATING, "any"),
    ("expm1", np.expm1, FLOATING, "any"),
    ("floor", np.floor, ("float",), "any"),
    ("log", np.log, FLOATING, "positive"),
    ("log1p", np.log1p, FLOATING, "unit"),
    ("log2", np.log2, FLOATING, "positive"),
    ("log10", np.log10, FLOATING, "positive"),
    ("logical_not", np.logical_not, ("bool",), "any"),
    ("negative", np.negative, NUMERIC, "any"),
    ("reciprocal", np.reciprocal, FLOATING, "positive"),
    ("round", np.round, FLOATING, "any"),
    ("safe_log", _safe_log, FLOATING, "zero_too"),
    ("sigmoid", _sigmoid, ("float",), "any"),
    ("sign", np.sign, NUMERIC, "any"),
    ("sin", np.sin, FLOATING, "any"),
    ("sinh", np.sinh, FLOATING, "any"),
    ("softplus", _softplus, ("float",), "any"),
    ("sqrt", np.sqrt, FLOATING, "positive"),
    ("square", np.square, NUMERIC, "any"),
    ("tan", np.tan, FLOATING, "any"),
    ("tanh", np.tanh, FLOATING, "any"),
    ("trunc", np.trunc, ("float",), "any"),
)
_PREDICATES: tuple[tuple[str, Callable[..., Any], tuple[str, ...], str], ...] = (
    ("isfinite", np.isfinite, NUMERIC, "special"),
    ("isinf", np.isinf, NUMERIC, "special"),
    ("isnan", np.isnan, NUMERIC, "special"),
    ("signbit", np.signbit, ("float",), "special"),
)
_BINARY: tuple[tuple[str, Callable[..., Any], tuple[str, ...], str], ...] = (
    ("add", np.add, NUMERIC, "any"),
    ("atan2", np.arctan2, ("float",), "any"),
    ("bitwise_and", np.bitwise_and, ("bool", "int"), "any"),
    ("bitwise_left_shift", np.left_shift, ("int",), "shift"),
    ("bitwise_or", np.bitwise_or, ("bool", "int"), "any"),
    ("bitwise_right_shift", np.right_shift, ("int",), "shift"),
    ("bitwise_xor", np.bitwise_xor, ("bool", "int"), "any"),
    ("copysign", np.copysign, ("float",), "any"),
    ("divide", np.divide, FLOATING, "positive"),
    ("floor_divide", np.floor_divide, REAL, "above_one"),
    ("hypot", np.hypot, ("float",), "any"),
    ("logical_and", np.logical_and, ("bool",), "any"),
    ("logical_or", np.logical_or, ("bool",), "any"),
    ("logical_xor", np.logical_xor, ("bool",), "any"),
    ("maximum", np.maximum, REAL, "any"),
    ("minimum", np.minimum, REAL, "any"),
    ("multiply", np.multiply, NUMERIC, "any"),
    ("nextafter", np.nextafter, ("float",), "any"),
    ("pow", _pow, NUMERIC, "positive"),
    ("remainder", np.remainder, REAL, "above_one"),
    ("subtract", np.subtract, NUMERIC, "any"),
)
_COMPARISONS: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("equal", np.equal, ANY),
    ("greater", np.greater, REAL),
    ("greater_equal", np.greater_equal, REAL),
    ("less", np.less, REAL),
    ("less_equal", np.less_equal, REAL),
    ("not_equal", np.not_equal, ANY),
)


def _abs_type(x: ArrayType) -> ArrayType:
    require_kind([x], NUMERIC)
    return array_type(x.shape, real_dtype(x.dtype))


def _part_type(x: ArrayType) -> ArrayType:
    require_kind([x], ("complex",))
    return array_type(x.shape, real_dtype(x.dtype))


def _parts_samples() -> list[Sample]:
    """Complex numbers with two parts."""
    found = [sample(_array("any", dtype) * (1 - 2j)) for dtype in _DTYPES["complex"]]
    return [*found, sample(np.zeros((0, 3), "complex64"))]


def _clip_type(x: ArrayType, least: ArrayType, most: ArrayType) -> ArrayType:
    require_kind([x], REAL)
    return array_type(broadcast(x.shape, least.shape, most.shape), require_same_dtype(x, least, most))


def _clip_samples() -> list[Sample]:
    found = []
    for dtype in ("int64", "uint8", "float32", "float64"):
        x = _array("any", dtype)
        found.append(sample(x, np.asarray(1, dtype), np.asarray(2, dtype)))
        found.append(sample(x, x[:1] * 0, np.asarray([[1], [2]], dtype)))
        found.append(sample(x[:0], x[0], np.asarray(2, dtype)))
    return found


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
    other = np.asarray([-np.inf, 1.0, 1000.0])
    return [
        sample(_array("any", "float32"), _array("special", "float32")[:, ::-1]),
        sample(zero, other),
        sample(zero, other, other),
        sample(_array("any", "float64"), _array("any", "float64")[:1], _array("positive", "float64")),
    ]


def _astype_type(x: ArrayType, *, dtype: DType) -> ArrayType:
    return array_type(x.shape, dtype)


def _astype_samples() -> list[Sample]:
    return [
        sample(_array("any", "float64"), dtype=DType.FLOAT32),
        sample(_array("any", "bool"), dtype=DType.INT64),
        sample(_array("any", "int32"), dtype=DType.FLOAT64),
        sample(_array("any", "float32"), dtype=DType.INT64),
    ]


ELEMENTWISE = (
    *(elementwise(name, reference, 1, kinds, domain=domain) for name, reference, kinds, domain in _UNARY),
    *(
        elementwise(name, reference, 1, kinds, domain=domain, result=DType.BOOL)
        for name, reference, kinds, domain in _PREDICATES
    ),
    *(elementwise(name, reference, 2, kinds, domain=domain) for name, reference, kinds, domain in _BINARY),
    *(elementwise(name, reference, 2, kinds, result=DType.BOOL) for name, reference, kinds in _COMPARISONS),
    Op("abs", _abs_type, np.abs, _samples(1, NUMERIC, "any")),
    Op("real", _part_type, np.real, _parts_samples, memory=Memory.EITHER),
    Op("imag", _part_type, np.imag, _parts_samples, memory=Memory.EITHER),
    Op(
        "clip",
        _clip_type,
        np.clip,
        _clip_samples,
        lambda xp, x, least, most: xp.minimum(xp.maximum(x, least), most),
    ),
    Op("isin", _isin_type, np.isin, _isin_samples),
    Op(
        "stop_gradient",
        lambda x: x,
        lambda x: x,
        lambda: [sample(_array("any", "float32")), sample(_array("any", "int64"))],
        memory=Memory.VIEW,
    ),
    Op("where", _where_type, np.where, _where_samples),
    Op("logaddexp", _logaddexp_type, _logaddexp, _logaddexp_samples),
    Op(
        "astype",
        _astype_type,
        lambda x, *, dtype: x.astype(dtype.value),
        _astype_samples,
        memory=Memory.EITHER,
    ),
)

KINDS: Mapping[str, tuple[str, ...]] = {
    **{name: kinds for name, _, kinds, _ in (*_UNARY, *_PREDICATES, *_BINARY)},
    **{name: kinds for name, _, kinds in _COMPARISONS},
    "abs": NUMERIC,
    "logaddexp": ("float",),
}
"""The kinds of dtype that the rows which take operands of one dtype, and nothing else, accept."""

ARITIES: Mapping[str, int] = {
    name: 1 if name in (*(row[0] for row in (*_UNARY, *_PREDICATES)), "abs") else 2 for name in KINDS
}
"""How many operands these rows take; `logaddexp` takes further ones."""
