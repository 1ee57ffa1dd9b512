"""Integers of four bits in generated code: packed outside of it, in bytes of their own while they are moved.

>>> int4(torch.tensor([7, 8, -9])).tolist()
[7, -8, 7]
"""

import torch
from torch import Tensor

from plica.eager.packed import PackedArray
from plica.eager.packed import packed as packed_array
from plica.ir.dtypes import DType


def unpacked(array: PackedArray | Tensor) -> Tensor:
    """The integers in a byte each, in which arrays of numpy have them already."""
    return array if isinstance(array, Tensor) else array.unpacked()


def packed(x: Tensor, dtype: str) -> PackedArray:
    """Integers that are in a byte each, two to a byte."""
    return packed_array(x, DType(dtype))


def int4(x: Tensor) -> Tensor:
    """Numbers as signed integers of four bits, modulo 16, in a byte each."""
    return uint4(x).bitwise_xor_(8).to(torch.int8).sub_(8)


def uint4(x: Tensor) -> Tensor:
    """Numbers as unsigned integers of four bits, modulo 16, in a byte each."""
    integers = x.to(torch.int64) if x.is_floating_point() or x.is_complex() else x
    return integers.to(torch.uint8).bitwise_and(15)
