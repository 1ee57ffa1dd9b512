"""Elementwise operations that StableHLO has; other ones of real numbers are written by their scalar code."""

import math
from collections.abc import Callable, Mapping

from plica.backend.native.stablehlo.call import Call, Row, of
from plica.backend.native.stablehlo.scalars import copysign, write_entries
from plica.backend.native.stablehlo.values import Value
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.sizes import product
from plica.ops.rules import real_dtype

_REAL = ("float",)
_FLOATING = ("float", "complex")
_NUMBERS = ("int", "float", "complex")
_NAMES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "add": ("add", _NUMBERS),
    "bitwise_and": ("and", ("bool", "int")),
    "bitwise_invert": ("not", ("bool", "int")),
    "bitwise_or": ("or", ("bool", "int")),
    "bitwise_xor": ("xor", ("bool", "int")),
    "atan2": ("atan2", _REAL),
    "ceil": ("ceil", _REAL),
    "cos": ("cosine", _FLOATING),
    "divide": ("divide", _FLOATING),
    "exp": ("exponential", _FLOATING),
    "expm1": ("exponential_minus_one", _FLOATING),
    "floor": ("floor", _REAL),
    "log": ("log", _FLOATING),
    "log1p": ("log_plus_one", _FLOATING),
    "logical_and": ("and", ("bool",)),
    "logical_not": ("not", ("bool",)),
    "logical_or": ("or", ("bool",)),
    "logical_xor": ("xor", ("bool",)),
    "maximum": ("maximum", ("int", "float")),
    "minimum": ("minimum", ("int", "float")),
    "multiply": ("multiply", _NUMBERS),
    "negative": ("negate", _NUMBERS),
    "pow": ("power", _FLOATING),
    "safe_log": ("log", _FLOATING),
    "sign": ("sign", _FLOATING),
    "sin": ("sine", _FLOATING),
    "sqrt": ("sqrt", _FLOATING),
    "subtract": ("subtract", _NUMBERS),
    "tan": ("tan", _FLOATING),
    "tanh": ("tanh", _FLOATING),
}
"""The operation of StableHLO with the same meaning, and the kinds of dtype for which it has that meaning."""

_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def _named(name: str, theirs: str, kinds: tuple[str, ...]) -> Row:
    def row(call: Call) -> Value:
        first, *others = call.inputs
        if first.dtype.kind in kinds:
            return first.map(theirs, *others)
        return _entries(name, call)

    return row


def _entries(name: str, call: Call) -> Value:
    """The scalar code of an operation.

    Raises:
        UnsupportedError: The operation has no scalar code.
    """
    entries = write_entries(name, call.inputs, call.shape, call.dtype, call.params)
    if entries is None:
        raise UnsupportedError(
            f"{name} of {call.inputs[0].dtype.value} cannot be written in StableHLO. Export with --to native."
        )
    return entries


def _absolute(x: Value) -> Value:
    return x if x.dtype.value.startswith("u") else x.absolute()


def _conjugate(x: Value) -> Value:
    return _part("real", x).map("complex", -_part("imag", x), dtype=x.dtype)


def _part(name: str, x: Value) -> Value:
    return x.map(name, dtype=real_dtype(x.dtype))


def _of_kinds(real: Callable[[Value], Value], of_integers: bool) -> Callable[[Value], Value]:
    """A test of numbers: integers have one answer; complex numbers combine those of their parts."""

    def test(x: Value) -> Value:
        if x.dtype.kind == "int":
            return x.equals(x) if of_integers else x.differs(x)
        if x.dtype.kind == "complex":
            first, second = (real(_part(name, x)) for name in ("real", "imag"))
            return first & second if of_integers else first | second
        return real(x)

    return test


def _logaddexp(*terms: Value) -> Value:
    largest = terms[0]
    for term in terms[1:]:
        largest = largest.maximum(term)
    shift = largest.is_finite().where(largest, 0.0)
    total = (terms[0] - shift).exp()
    for term in terms[1:]:
        total = total + (term - shift).exp()
    return total.log() + shift


def _softplus(x: Value) -> Value:
    # log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))
    return x.maximum(0.0) + (-x.absolute()).exp().map("log_plus_one")


def _hypot(x: Value, y: Value) -> Value:
    x, y = x.absolute(), y.absolute()
    large, small = x.maximum(y), x.minimum(y)
    ratio = large.equals(0.0).where(0.0, small / large)
    length = large * (ratio * ratio + 1.0).sqrt()
    return (x.equals(math.inf) | y.equals(math.inf)).where(math.inf, length)


def _isin(x: Value, elements: Value) -> Value:
    row = elements.reshape((product(elements.shape),))
    return x.expand(-1).equals(row).any((-1,))


def _trunc(x: Value) -> Value:
    return copysign((x < 0.0).where(x.map("ceil"), x.map("floor")), x)


def _as_type(x: Value, *, dtype: DType) -> Value:
    if x.dtype.kind == "complex" and dtype.kind in ("int", "float"):
        return _part("real", x).astype(dtype)
    if dtype.kind == "bool" and x.dtype.kind != "bool":
        return x.differs(0)
    return x.astype(dtype)


def _round(x: Value) -> Value:
    if x.dtype.kind != "complex":
        return x.map("round_nearest_even")
    return _round(_part("real", x)).map("complex", _round(_part("imag", x)), dtype=x.dtype)


def _reciprocal(x: Value) -> Value:
    return x.like(1) / x


ELEMENTWISE: dict[str, Row] = {
    **{name: _named(name, *names_and_kinds) for name, names_and_kinds in _NAMES.items()},
    **{kind: of(lambda x, y, kind=kind: x.compare(kind, y)) for kind in _COMPARISONS},
    "abs": of(_absolute),
    "astype": of(_as_type),
    "conj": of(_conjugate),
    "copysign": of(copysign),
    "exp2": of(lambda x: x.like(2.0).map("power", x)),
    "hypot": of(_hypot),
    "imag": of(lambda x: _part("imag", x)),
    "isfinite": of(_of_kinds(Value.is_finite, of_integers=True)),
    "isin": of(_isin),
    "isinf": of(_of_kinds(lambda x: x.absolute().equals(math.inf), of_integers=False)),
    "isnan": of(_of_kinds(Value.is_nan, of_integers=False)),
    "logaddexp": of(_logaddexp),
    "real": of(lambda x: _part("real", x)),
    "reciprocal": of(_reciprocal),
    "round": of(_round),
    "sigmoid": of(lambda x: x.map("logistic")),
    "softplus": of(_softplus),
    "square": of(lambda x: x * x),
    "copy": of(lambda x: x),
    "stop_gradient": of(lambda x: x),
    "trunc": of(_trunc),
    "where": of(Value.where),
}
