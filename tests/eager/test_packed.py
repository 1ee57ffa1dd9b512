"""Packed arrays: integers of four bits in numpy and torch, what they refuse, and how they look from outside."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica import PackedArray
from plica.errors import DTypeError
from tests.harness.together import grouped

ALL = {"int4": np.arange(-8, 8), "uint4": np.arange(16)}
MAKE = {
    "numpy": lambda array, _: array.astype("int16"),
    "torch": lambda array, _: torch.from_numpy(array),
    "ml_dtypes": lambda array, dtype: array.astype(getattr(ml_dtypes, dtype)),
}


@grouped("shape", [(16,), (4, 4), (2, 8, 1), (15,), (3, 5), (1,), (), (0,), (3, 0)])
@grouped("kind", MAKE)
@grouped("dtype", ALL)
def test_integers_come_back_and_take_half_a_byte(dtype, kind, shape) -> None:
    array = ALL[dtype][: int(np.prod(shape))].reshape(shape)
    packed = PackedArray.of(MAKE[kind](array, dtype), dtype)
    assert (packed.shape, packed.dtype, packed.nbytes) == (shape, dtype, (array.size + 1) // 2)
    found = packed.unpacked()
    assert isinstance(found, torch.Tensor if kind == "torch" else np.ndarray | np.generic)
    assert pnp.isdtype(found.dtype, "signed integer" if dtype == "int4" else "unsigned integer")
    assert found.tolist() == np.asarray(packed).astype(int).tolist() == array.tolist()
    assert np.asarray(packed).dtype == dtype


def test_the_first_of_two_lies_in_the_lower_half() -> None:
    assert PackedArray.of(np.array([1, -1, 7]), "int4").data.tolist() == [0xF1, 0x07]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"integers from -9 to 3 do not fit int4 \(-8 to 7\); scale or clip them"):
        PackedArray.of(np.array([3, -9]), "int4")
    with pytest.raises(DTypeError, match=r"integers from -1 to -1 do not fit uint4 \(0 to 15\)"):
        PackedArray.of(torch.tensor([-1]), "uint4")
    with pytest.raises(DTypeError, match="found float32 to pack as int4; round them first"):
        PackedArray.of(np.ones(2, "float32"), "int4")
    with pytest.raises(DTypeError, match="pack as int4 or uint4, found int8 to pack as int8"):
        PackedArray.of(np.ones(2, "int8"))


@pytest.mark.parametrize("kind", MAKE)
def test_copies_and_pickles_are_the_same(kind) -> None:
    packed = PackedArray.of(MAKE[kind](ALL["int4"], "int4"), "int4")
    for other in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert repr(other) == repr(packed) == "PackedArray((16,), int4)"
        assert other.unpacked().tolist() == packed.unpacked().tolist()


@pytest.mark.parametrize("kind", MAKE)
def test_functions_of_the_namespace_run_at_once(kind) -> None:
    packed = PackedArray.of(MAKE[kind](ALL["int4"].reshape(4, 4), "int4"), "int4")
    found = pnp.astype(pnp.permute_dims(packed, (1, 0)), "float32")
    assert isinstance(found, torch.Tensor if kind == "torch" else np.ndarray)
    assert found.tolist() == ALL["int4"].reshape(4, 4).T.tolist()
    with pytest.raises(DTypeError, match="nothing is computed in int4, in which numbers are only stored"):
        pnp.sum(packed)


def test_arrays_are_made_of_numbers_and_of_other_arrays() -> None:
    assert pnp.asarray([1, -2], dtype="int4").unpacked().tolist() == [1, -2]
    assert pnp.asarray(np.array([1, 9]), dtype=pnp.int4).tolist() == [1, -7]
    assert pnp.astype(torch.tensor([1, 9]), "uint4").unpacked().tolist() == [1, 9]
    assert pnp.full((3,), 7, dtype="int4").unpacked().tolist() == [7, 7, 7]
    with pytest.raises(DTypeError, match=r"the number 9 does not fit int4 \(-8 to 7\)"):
        pnp.asarray([1, 9], dtype="int4")


@pytest.mark.parametrize("kind", [*MAKE, "packed"])
def test_one_dtype_of_four_bits_is_not_the_other(kind) -> None:
    def make(numbers):
        array = np.array(numbers)
        return PackedArray.of(array, "int4") if kind == "packed" else MAKE[kind](array, "int4")

    assert PackedArray.of(make([1, 7]), "uint4").unpacked().tolist() == [1, 7]
    with pytest.raises(DTypeError, match=r"integers from -7 to 1 do not fit uint4 \(0 to 15\)"):
        PackedArray.of(make([1, -7]), "uint4")
