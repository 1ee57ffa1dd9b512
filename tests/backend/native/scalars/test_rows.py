"""Rows of scalar code against the interpreter's references: samples, special values, integers where machines trap."""

import numpy as np
import pytest

from plica.backend.native.scalars import SCALARS, LlvmScalars, Scalar, write_scalar
from plica.backend.native.scalars.builder import Application
from plica.backend.native.scalars.complexes import FORMULAS
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.op import Op, Sample, Unsupported
from plica.ir.types import array_type
from plica.ops import DENSITIES, ELEMENTWISE, OPS, SPECIAL
from plica.ops.elementwise import ARITIES, KINDS
from tests.harness.scalar_functions import NativeScalars, Signature, aligned, signature
from tests.harness.together import grouped

OF_MANY_ENTRIES = {"conditional_factor", "isin", "log_multivariate_normal", "regression_matrix"}
WHOLE = ("int8", "uint8", "int32", "int64", "uint64")
INTEGERS = [
    signature(name, [dtype] * 2)
    for name in ("floor_divide", "remainder", "bitwise_left_shift", "bitwise_right_shift", "pow")
    for dtype in WHOLE
]
AGREED = [
    Signature(name, (DType.FLOAT64,) * arity, OPS[name].type_rule(*[array_type((2,), DType.FLOAT64)] * arity).dtype)
    for name, arity in ARITIES.items()
    if name in SCALARS and "float" in KINDS[name] and OPS[name].agreed
]
CONVERSIONS = [
    signature("astype", [source], target)
    for source in ("float16", "bfloat16", "float32", "float64", "int64", "uint8", "bool")
    for target in ("float16", "bfloat16", "float32", "int8", "int32", "int64", "uint64", "bool")
    if source != target
]
NEIGHBOURS = [signature("nextafter", [dtype] * 2) for dtype in ("bfloat16", "float32", "float64")]


FROM_REAL = signature("astype", ["float64"], "complex64")
NARROWER = signature("astype", ["complex128"], "complex64")
OF_COMPLEX = [
    Signature(name, types, OPS[name].type_rule(*[array_type((2,), DType.COMPLEX128)] * len(types)).dtype)
    for name in FORMULAS
    for types in [(DType.COMPLEX128,) * ARITIES.get(name, 1)]
]


def _reference(op: Op, one: Sample) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(op.reference(*one.inputs, **one.params))


def _of_sample(op: Op, one: Sample) -> Signature:
    types = [array_type(array.shape, as_dtype(array.dtype)) for array in one.inputs]
    return Signature(op.name, tuple(type_.dtype for type_ in types), op.types(types, one.params)[0].dtype)


SAMPLES = [
    (_of_sample(op, one), op, one)
    for op in (*ELEMENTWISE, *SPECIAL, *DENSITIES)
    for one in op.samples()
    if op.name in SCALARS
]


@pytest.fixture(scope="module")
def native() -> NativeScalars:
    functions = dict.fromkeys([*(one for one, _, _ in SAMPLES), *AGREED, *CONVERSIONS, *NEIGHBOURS])
    return NativeScalars(list(functions), level=0)


@pytest.fixture(scope="module")
def optimized() -> NativeScalars:
    return NativeScalars(INTEGERS)


@pytest.fixture(scope="module")
def complexes() -> NativeScalars:
    return NativeScalars([*OF_COMPLEX, FROM_REAL, NARROWER], level=0)


def test_every_operation_on_entries_has_a_row_or_a_decomposition() -> None:
    ops = {op.name: op for op in (*ELEMENTWISE, *SPECIAL, *DENSITIES)}
    lacking = {name for name, op in ops.items() if name not in SCALARS and isinstance(op.decompose, Unsupported)}
    assert lacking == OF_MANY_ENTRIES
    assert set(SCALARS) <= set(ops)


@grouped("name", sorted({op.name for _, op, _ in SAMPLES}))
def test_samples_are_those_of_the_reference(name: str, native: NativeScalars) -> None:
    for function, op, one in SAMPLES:
        if op.name == name and (function.dtype.kind != "int" or name != "astype" or one.inputs[0].dtype.kind != "f"):
            expected = np.ravel(_reference(op, one).astype(function.dtype.numpy))
            found = native(function, *one.inputs)
            bits = np.finfo(function.dtype.numpy).eps if function.dtype.kind in ("float", "complex") else 0
            np.testing.assert_allclose(found, expected, rtol=20 * op.tolerance * bits, atol=4 * bits)


@grouped("function", AGREED, ids=lambda one: one.name)
def test_special_values_are_those_of_numpy(function: Signature, native: NativeScalars) -> None:
    values = np.asarray([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e30, -1e30, np.inf, -np.inf, np.nan])
    operands = aligned(function, [values] if len(function.operands) == 1 else [values[:, None], values])
    expected = _reference(OPS[function.name], Sample(tuple(operands)))
    found = native(function, *operands)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    if function.dtype.kind == "float" and function.name not in ("maximum", "minimum"):  # of 0 and -0 it takes either
        known = expected == expected
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("function", INTEGERS, ids=lambda one: one.symbol)
def test_integers_wrap_around_and_never_trap(function: Signature, optimized: NativeScalars) -> None:
    dtype = function.operands[0]
    least, most = dtype.limits
    rng = np.random.default_rng(0)
    drawn = rng.integers(least, most, 20, dtype=dtype.numpy, endpoint=True)
    values = np.concatenate([np.asarray([least, least + 1, 0, 1, 2, 7, 8, 33, most - 1, most], dtype.numpy), drawn])
    if least:
        values = np.concatenate([values, np.asarray([-1, -2, -7], dtype.numpy)])
    x, y = aligned(function, [values[:, None], values])
    found = optimized(function, x, y)
    divides = function.name in ("floor_divide", "remainder")
    allowed = y != 0 if divides else np.ones(y.shape, bool)
    np.testing.assert_array_equal(found[allowed], _reference(OPS[function.name], Sample((x[allowed], y[allowed]))))
    assert not found[~allowed].any()


@grouped("function", CONVERSIONS, ids=lambda one: one.symbol)
def test_conversions_are_those_of_numpy(function: Signature, native: NativeScalars) -> None:
    (source,), target = function.operands, function.dtype
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-8, 5, 300), np.arange(-300, 300) / 4])
    with np.errstate(all="ignore"):
        if source.kind == "float":
            x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520.0, 6e-8, 2.0**-25, 1e-40]])
            if source.bits == 16:
                x = np.concatenate([x, np.arange(65536, dtype=np.uint16).view(source.numpy).astype(np.float64)])
        given = x.astype(source.numpy)
        if target.kind == "int" and source.kind == "float":  # beyond, numpy itself gives what the machine gives
            given = given[np.abs(given.astype(np.float64)) < (120 if target.bits == 8 else 2e9)]
            given = given[given >= 0] if target.limits[0] == 0 else given
        expected = given.astype(target.numpy)
        found = native(function, given)
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("function", NEIGHBOURS, ids=lambda one: one.symbol)
def test_neighbours_are_those_of_numpy(function: Signature, native: NativeScalars) -> None:
    dtype = function.dtype.numpy
    info = np.finfo(np.float32 if function.dtype.bits == 16 else dtype)
    least = [float(info.smallest_subnormal), float(info.tiny)]
    values = np.asarray([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, *least, *(-one for one in least)]).astype(dtype)
    x, y = aligned(function, [values[:, None], values])
    expected, found = np.nextafter(x, y), native(function, x, y)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    differ = (x != y) & (found == found)
    np.testing.assert_array_equal(np.signbit(found[differ]), np.signbit(expected[differ]))


def test_division_of_integers_by_zero_is_found() -> None:
    for name in ("floor_divide", "remainder"):
        failure = SCALARS[name].failure
        assert failure is not None
        assert "divided by 0" in failure.message
        code = LlvmScalars([])
        assert (
            failure.is_raised(
                code, Application((Scalar("%x", DType.INT64), Scalar("%y", DType.INT64)), DType.INT64)
            ).text
            == "%s1"
        )
        assert code.lines == ["%s1 = icmp eq i64 %y, 0"]
        floats = (Scalar("%x", DType.FLOAT64), Scalar("%y", DType.FLOAT64))
        assert failure.is_raised(code, Application(floats, DType.FLOAT64)).text == "false"


def test_what_has_no_row_is_refused_by_name() -> None:
    code = LlvmScalars([])
    with pytest.raises(UnsupportedError, match="hypot has no native code for complex numbers"):
        write_scalar(code, "hypot", (Scalar("%x", DType.COMPLEX64),) * 2, DType.COMPLEX64)
    with pytest.raises(UnsupportedError, match="conj takes complex numbers, found float32"):
        write_scalar(code, "conj", (Scalar("%x", DType.FLOAT32),), DType.FLOAT32)
    with pytest.raises(UnsupportedError, match="the operation sort has no native code"):
        write_scalar(code, "sort", (Scalar("%x", DType.FLOAT32),), DType.FLOAT32)


@grouped("name", sorted(FORMULAS))
def test_complex_numbers_are_those_of_numpy(name: str, complexes: NativeScalars) -> None:
    (function,) = (one for one in OF_COMPLEX if one.name == name)
    rng = np.random.default_rng(0)
    z = rng.normal(size=100) + 1j * rng.normal(size=100)
    on_cuts = [-2.5, 0.3, 3.0, 2j, -2j, 0.5j, complex(-2.5, -0.0), complex(2.5, -0.0), complex(-0.0, 2.0)]
    z = np.concatenate([z, 10 * z, 1e-3 * z, np.asarray(on_cuts)])
    operands = [z, rng.permutation(z)][: len(function.operands)]
    expected = _reference(OPS[name], Sample(tuple(operands)))
    found = complexes(function, *operands)
    assert np.all(np.abs(found.astype(complex) - expected) <= 1e-12 * (1e-3 + np.abs(expected)))


def test_conversions_of_complex_numbers(complexes: NativeScalars) -> None:
    z = np.asarray([1.5 - 2j, -0.25 + 0j])
    np.testing.assert_array_equal(complexes(FROM_REAL, z.real), z.real.astype("complex64"))
    np.testing.assert_array_equal(complexes(NARROWER, z), z.astype("complex64"))
