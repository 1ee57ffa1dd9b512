import pytest

from plica.runtime.declared import misfit_of_types
from plica.runtime.manifest import ArrayType

DECLARED = (
    "async func @f(%input0: tensor<?x4xf32>, %input1: tensor<2x?xcomplex<f64>>, %input2: tensor<i1>) "
    "-> (%output0: tensor<?xi64>, %output1: i32)"
)
GIVEN = (
    ArrayType("x", "float32", ("n", 4)),
    ArrayType("z", "complex128", (2, 7)),
    ArrayType("flag", "bool", ()),
)
RESULTS = (ArrayType("y", "uint64", ("2*n",)), ArrayType("count", "int32", ()))


def test_code_that_fits() -> None:
    assert misfit_of_types(DECLARED, GIVEN, RESULTS) == ""
    assert misfit_of_types("sync func @f()", (), ()) == ""


@pytest.mark.parametrize(
    ("place", "other", "problem"),
    [
        (0, ArrayType("x", "float32", ("n", 5)), "takes tensor<?x4xf32> for x: float32[n, 5]"),
        (0, ArrayType("x", "float32", ("n", "m")), "takes tensor<?x4xf32> for x: float32[n, m]"),
        (0, ArrayType("x", "float64", ("n", 4)), "takes tensor<?x4xf32> for x: float64[n, 4]"),
        (0, ArrayType("x", "float32", (4,)), r"takes tensor<?x4xf32> for x: float32[4]"),
        (1, ArrayType("z", "complex64", (2, 7)), "takes tensor<2x?xcomplex<f64>> for z: complex64[2, 7]"),
        (1, ArrayType("z", "complex128", (3, 7)), "takes tensor<2x?xcomplex<f64>> for z: complex128[3, 7]"),
        (2, ArrayType("flag", "int8", ()), "takes tensor<i1> for flag: int8[]"),
    ],
)
def test_code_that_does_not_fit(place: int, other: ArrayType, problem: str) -> None:
    given = (*GIVEN[:place], other, *GIVEN[place + 1 :])
    assert misfit_of_types(DECLARED, given, RESULTS) == problem


def test_numbers_of_arrays_and_results_are_compared() -> None:
    assert misfit_of_types(DECLARED, GIVEN[:2], RESULTS) == "takes 3 arrays, expected 2"
    assert misfit_of_types(DECLARED, GIVEN, RESULTS[:1]) == "gives 2 arrays, expected 1"
    assert misfit_of_types("", GIVEN, RESULTS) == "takes 0 arrays, expected 3"
    wrong = ArrayType("count", "int64", ())
    assert misfit_of_types(DECLARED, GIVEN, (RESULTS[0], wrong)) == "gives i32 for count: int64[]"
    number = "sync func @f(%input0: i64)"  # passed otherwise than arrays are
    assert misfit_of_types(number, (ArrayType("n", "int64", ()),), ()) == "takes i64 for n: int64[]"
