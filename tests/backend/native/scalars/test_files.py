"""Both printers write the same functions: in a file, subnormal numbers are zeros, and sums of products are fused."""

import numpy as np
import pytest

from plica.backend.native.scalars import SCALARS
from plica.ir.dtypes import DType
from tests.harness.exact_functions import CASES, points, worst
from tests.harness.scalar_files import FileScalars
from tests.harness.scalar_functions import NativeScalars, Signature, signature

BOTH = (DType.FLOAT32, DType.FLOAT64)
ALL = [Signature(name, (dtype,) * len(case.draws), dtype) for name, case in CASES.items() for dtype in BOTH]
SOME = {
    "exp_f32_f32",
    "exp_f64_f64",
    "log_f32_f32",
    "log_f64_f64",
    "logaddexp_f32_f32_f32",
    "sin_f64_f64",
    "pow_f64_f64_f64",
}
FUNCTIONS = [one for one in ALL if one.symbol in SOME]
EXACT = [
    signature("remainder", ["int32"] * 2),
    signature("remainder", ["float64"] * 2),
    signature("bitwise_right_shift", ["uint8"] * 2),
    signature("astype", ["float64"], "bfloat16"),
    signature("astype", ["float16"], "float32"),
    signature("astype", ["float32"], "float16"),
    signature("less", ["uint8"] * 2, "bool"),
    signature("nextafter", ["float32"] * 2),
    signature("multiply", ["complex64"] * 2),
    signature("astype", ["complex64"], "complex128"),
]


@pytest.fixture(scope="module")
def file() -> FileScalars:
    return FileScalars([*FUNCTIONS, *EXACT])


def _holds_what_it_states(function: Signature, file: FileScalars) -> None:
    case = CASES[function.name]
    operands = points(case, function.dtype, np.random.default_rng(3), thin=53)
    known = np.min([abs(one) for one in operands], axis=0) >= np.finfo(function.dtype.numpy).tiny
    operands = [one[known] for one in operands]
    largest, place = worst(case, file(function, *operands), operands, flushed=True)
    stated = SCALARS[function.name].ulps[BOTH.index(function.dtype)]
    assert largest <= stated, f"{function.symbol} is {largest:.2f} units in the last place off at {place}"


@pytest.mark.full
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.symbol)
def test_errors_in_a_file_are_as_stated(function: Signature, file: FileScalars) -> None:
    _holds_what_it_states(function, file)


@pytest.mark.full
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_errors_of_all_functions_in_a_file_are_as_stated(target: str) -> None:
    file = FileScalars(ALL, target)
    for function in ALL:
        _holds_what_it_states(function, file)


def test_exact_functions_are_those_of_the_other_printer(file: FileScalars) -> None:
    native = NativeScalars(EXACT, level=0)
    rng = np.random.default_rng(4)
    for function in EXACT:
        operands = [_numbers(dtype, rng) for dtype in function.operands]
        np.testing.assert_array_equal(file(function, *operands), native(function, *operands), function.symbol)


def _numbers(dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "int":
        least, most = dtype.limits
        values = rng.integers(least, most, 200, dtype=dtype.numpy, endpoint=True)
        return np.concatenate([values, np.asarray([least, most, 0, 1, 2, 3, 7], dtype.numpy)])
    if dtype.kind == "complex":
        return (rng.integers(-99, 99, 200) + 1j * rng.integers(-99, 99, 200)).astype(dtype.numpy)
    values = rng.normal(size=200) * 10.0 ** rng.integers(-4, 5, 200)
    return np.concatenate([values, [np.inf, 0.0, -0.0, 1.0, 2.5, -7.0, 65504.0]]).clip(-6e4, 6e4).astype(dtype.numpy)


def test_logarithms_of_subnormal_numbers_are_finite_though_they_count_as_zero(file: FileScalars) -> None:
    x = np.asarray([1e-40, 1e-45], np.float32)
    found = file(Signature("log", (DType.FLOAT32,), DType.FLOAT32), x)
    np.testing.assert_allclose(found, np.log(x.astype(np.float64)), rtol=1e-6)
