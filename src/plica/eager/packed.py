"""`PackedArray`: integers of four bits, two to a byte, in the memory of numpy or torch.

numpy's arrays of `int4` and `uint4` (from ml_dtypes) have a byte for each entry, and torch has none. Arguments and
results of Programs in these dtypes are packed, and so are cached values. Entry 2 i lies in the lower half of byte i.

>>> import numpy as np
>>> weights = PackedArray.of(np.array([[1, -2, 3], [-8, 7, 0]]), "int4")
>>> weights, weights.nbytes
(PackedArray((2, 3), int4), 3)
>>> np.asarray(weights).tolist()
[[1, -2, 3], [-8, 7, 0]]
"""

from __future__ import annotations

from math import prod
from typing import Any, final

import array_api_compat
import numpy as np

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype


@final
class PackedArray:
    """An array of a dtype of four bits; made by `PackedArray.of`.

    Args:
        data: The bytes, in one axis: an array of numpy or a tensor of torch.
        shape: The shape of the array.
        dtype: `int4` or `uint4`.
    """

    __slots__ = ("__weakref__", "data", "dtype", "shape")

    def __init__(self, data: Any, shape: tuple[int, ...], dtype: DType) -> None:
        self.data, self.shape, self.dtype = data, shape, dtype

    @staticmethod
    def of(array: Any, dtype: object = None) -> PackedArray:
        """The integers of an array of numpy or torch, packed.

        Args:
            array: The integers.
            dtype: `int4` or `uint4`; by default the dtype of the array.

        Raises:
            DTypeError: The dtype is no such dtype, or an integer does not fit it.
        """
        wanted = as_dtype(array.dtype if dtype is None else dtype)
        integers = array.unpacked() if isinstance(array, PackedArray) else array
        own = as_dtype(integers.dtype)
        if not wanted.is_storage or own.kind != "int":
            raise DTypeError(
                f"expected integers to pack as int4 or uint4, found {own.value} to pack as {wanted.value}; round them "
                "first, and give the dtype."
            )
        if own.is_storage:
            integers = np.asarray(integers).astype(own.carrier.numpy)
        (least, most), is_empty = wanted.limits, not prod(integers.shape)
        low, high = (0, 0) if is_empty or own is wanted else (int(integers.min()), int(integers.max()))
        if low < least or high > most:
            raise DTypeError(
                f"integers from {low} to {high} do not fit {wanted.value} ({least} to {most}); scale or clip them."
            )
        return packed(integers, wanted)

    def with_data(self, data: Any) -> PackedArray:
        """An array of this shape and dtype with other bytes."""
        return PackedArray(data, self.shape, self.dtype)

    @property
    def nbytes(self) -> int:
        """The number of bytes in memory."""
        return int(self.data.nbytes)

    @property
    def device(self) -> Any:
        """The device of the bytes."""
        return self.data.device

    def unpacked(self) -> Any:
        """The integers as an array of `int8` or `uint8` of the same library."""
        xp = array_api_compat.array_namespace(self.data)
        pairs = xp.stack((self.data & 15, self.data >> 4), axis=1)
        nibbles = xp.reshape(xp.reshape(pairs, (-1,))[: prod(self.shape)], self.shape)
        if self.dtype is DType.UINT4:
            return nibbles
        return xp.astype(nibbles ^ 8, xp.int8) - 8  # the highest bit is the sign

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Numpy's array of the same dtype, which has a byte for each entry."""
        del copy  # the result is always a copy
        integers = self.unpacked()
        if array_api_compat.is_torch_array(integers):
            integers = integers.cpu().numpy()
        return np.asarray(integers, dtype=self.dtype.numpy if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"PackedArray({self.shape}, {self.dtype})"


def packed(array: Any, dtype: DType) -> PackedArray:
    """Integers packed modulo 16."""
    xp = array_api_compat.array_namespace(array)
    flat = xp.reshape(xp.astype(array, xp.uint8), (-1,))
    if flat.shape[0] % 2:
        flat = xp.concat((flat, flat[:1] & 0))
    pairs = xp.reshape(flat, (-1, 2))
    return PackedArray((pairs[:, 0] & 15) | (pairs[:, 1] << 4), tuple(array.shape), dtype)
