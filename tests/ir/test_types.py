"""Data types and their promotion, array types, and specs."""

import copy
import itertools
import pickle
from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest
import torch

from plica.errors import DTypeError, ShapeError
from plica.ir.dtypes import FROM_SHORT, DType, as_dtype, promote, scalar_dtype
from plica.ir.sizes import Size
from plica.ir.types import DBIdx, DShapedArray, InDBIdx, OutDBIdx, ShapedArray, Spec, array_type, spec
from tests.harness.together import grouped

ORDER = ("bool", "int", "float", "complex")


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_one_type_has_one_name_everywhere(dtype: DType) -> None:
    assert dtype.numpy.name == dtype.value
    assert dtype.kind in ORDER
    assert FROM_SHORT[dtype.short] is dtype
    names = (dtype, dtype.value, dtype.short, dtype.numpy, dtype.numpy.type, getattr(torch, dtype.value))
    assert {as_dtype(name) for name in names} == {dtype}


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_a_dtype_is_an_object_that_equals_those_of_libraries(dtype: DType) -> None:
    assert not isinstance(dtype, str)
    for other in (dtype.numpy, dtype.numpy.type, getattr(torch, dtype.value), dtype.value):
        assert dtype == other
        assert other == dtype
    other = DType.INT8 if dtype is not DType.INT8 else DType.INT16
    for one in (other, other.numpy, other.numpy.type, getattr(torch, other.value), other.value, None, 3, "f4", list):
        assert dtype != one
        assert one != dtype
    swapped = dtype.numpy.newbyteorder(">")
    assert (dtype == swapped) == (dtype.numpy == swapped)


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_a_dtype_stands_where_that_of_numpy_does(dtype: DType) -> None:
    assert hash(dtype) == hash(dtype.numpy)
    of_numpy: dict[Any, int] = {dtype.numpy: 1}
    own: dict[Any, int] = {dtype: 1}
    assert of_numpy[dtype] == own[dtype.numpy] == 1
    assert np.dtype(dtype) == np.zeros(1, dtype=dtype).dtype == dtype.numpy
    for copied in (pickle.loads(pickle.dumps(dtype)), copy.deepcopy(dtype)):
        assert copied is dtype
    assert (str(dtype), f"{dtype}", repr(dtype)) == (dtype.value, dtype.value, f"plica.numpy.{dtype.value}")


def test_dtypes_of_a_library_that_is_not_known_are_found_by_their_text() -> None:
    class Dtype:
        def __str__(self) -> str:
            return "a.library.float32"

    class Other(Dtype):
        """Says the same, but is called something else."""

    assert Dtype() == DType.FLOAT32
    assert as_dtype(Dtype()) is DType.FLOAT32
    assert Other() != DType.FLOAT32


@pytest.mark.parametrize(
    ("kind", "dtype"), [(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")]
)
def test_types_of_python(kind: type, dtype: str) -> None:
    assert as_dtype(kind) == dtype


@pytest.mark.parametrize("name", ["float31", "object", "", None, 3, str, "f31"])
def test_other_types_are_refused(name: object) -> None:
    with pytest.raises((DTypeError, TypeError), match="is no data type of Plica; choose one of bool, int8"):
        as_dtype(name)


COMPUTED = [dtype for dtype in DType if not dtype.is_storage]
STORED = [DType.INT4, DType.UINT4]


@grouped("first", STORED)
@grouped("second", DType)
def test_what_is_only_stored_meets_nothing_else(first: DType, second: DType) -> None:
    if first is second:
        assert promote(first, second) is first
        return
    for pair in ((first, second), (second, first)):
        with pytest.raises(DTypeError, match=r"nothing is computed in u?int4, .*; convert first, with astype"):
            promote(*pair)


@pytest.mark.parametrize(("dtype", "least", "most"), [(DType.INT4, -8, 7), (DType.UINT4, 0, 15)])
def test_integers_of_four_bits(dtype: DType, least: int, most: int) -> None:
    assert (dtype.bits, dtype.kind, dtype.is_storage, dtype.limits) == (4, "int", True, (least, most))
    assert scalar_dtype(most, dtype) is dtype
    for number in (least - 1, most + 1):
        with pytest.raises(DTypeError, match=rf"the number {number} does not fit {dtype} \({least} to {most}\)"):
            scalar_dtype(number, dtype)
    with pytest.raises(DTypeError, match=f"nothing is computed in {dtype}"):
        scalar_dtype(0.5, dtype)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_bits_and_limits_are_those_of_numpy(dtype: DType) -> None:
    assert dtype.bits == 8 * dtype.numpy.itemsize
    if dtype.kind == "int":
        assert dtype.limits == (np.iinfo(dtype.value).min, np.iinfo(dtype.value).max)


@grouped(("first", "second"), list(itertools.combinations_with_replacement(COMPUTED, 2)))
def test_promotion_is_the_standards_within_a_kind(first: DType, second: DType) -> None:
    """Beyond it: an integer never widens a float; int64 with uint64 is numpy's float64."""
    found = promote(first, second)
    assert found == promote(second, first)
    if {first, second} == {DType.BFLOAT16, DType.FLOAT16}:  # which numpy refuses: neither has the other's numbers
        assert found == DType.FLOAT32
    elif first.kind == second.kind or {first.kind, second.kind} == {"float", "complex"}:
        compat: Any = array_api_compat.numpy  # which re-exports what numpy has
        expected = compat.result_type(first.numpy, second.numpy)
        assert found == expected.name
    else:
        assert found == max(first, second, key=lambda one: ORDER.index(one.kind))


def test_promotion_never_loses_a_kind() -> None:
    for dtypes in itertools.product(COMPUTED, repeat=3):
        found = promote(promote(dtypes[0], dtypes[1]), dtypes[2])
        assert ORDER.index(found.kind) >= max(ORDER.index(one.kind) for one in dtypes)


SCALARS = (
    (True, DType.BOOL, "bool"),
    (True, DType.FLOAT32, "float32"),
    (2, DType.BOOL, "int64"),
    (2, DType.INT8, "int8"),
    (2, DType.FLOAT16, "float16"),
    (2.5, DType.INT8, "float64"),
    (2.5, DType.FLOAT32, "float32"),
    (2.5, DType.COMPLEX64, "complex64"),
    (2j, DType.FLOAT32, "complex64"),
    (2j, DType.FLOAT64, "complex128"),
    (2j, DType.INT64, "complex128"),
    (1e300, DType.FLOAT32, "float32"),
)


@pytest.mark.parametrize(("value", "meets", "expected"), SCALARS)
def test_scalars_take_the_type_of_what_they_meet(value: complex, meets: DType, expected: str) -> None:
    assert scalar_dtype(value, meets) == expected


@pytest.mark.parametrize(("value", "meets"), [(-1, DType.UINT8), (128, DType.INT8), (2**63, DType.INT64)])
def test_scalars_that_do_not_fit_are_refused(value: int, meets: DType) -> None:
    with pytest.raises(DTypeError, match=rf"the number {value} does not fit {meets.value} \("):
        scalar_dtype(value, meets)


def test_array_types() -> None:
    n = Size.of(DBIdx(0))
    assert array_type([2, 3], DType.FLOAT32) == ShapedArray((2, 3), DType.FLOAT32)
    assert array_type([n, 3], DType.FLOAT32) == DShapedArray((n, 3), DType.FLOAT32)
    assert array_type([n - n], DType.BOOL) == ShapedArray((0,), DType.BOOL)
    assert str(array_type([n + 1, 3], DType.INT64)) == "i64[DBIdx(0)+1,3]"
    assert [one(2).name for one in (DBIdx, InDBIdx, OutDBIdx)] == ["DBIdx(2)", "InDBIdx(2)", "OutDBIdx(2)"]
    with pytest.raises(ShapeError, match=r"the negative size -1: f32\[2,-1\]"):
        array_type([2, -1], DType.FLOAT32)
    with pytest.raises(ShapeError, match=rf"the size {2**63}, but sizes are below 2\*\*63: f32\[{2**63}\]"):
        array_type([2**63], DType.FLOAT32)


def test_specs() -> None:
    assert spec(("b", 64), "float64") == Spec(("b", 64), DType.FLOAT64)
    assert spec("b") == spec(("b",), np.float32)
    assert spec(3, int) == Spec((3,), DType.INT64)
    assert spec(()).shape == ()


@pytest.mark.parametrize("shape", [-1, (2, -3), 2.0, (None,), "1n", ("a b",), (True,), ("",)])
def test_shapes_of_other_things_are_refused(shape) -> None:
    with pytest.raises(ShapeError, match="neither a non-negative integer nor a name such as 'n'"):
        spec(shape)
