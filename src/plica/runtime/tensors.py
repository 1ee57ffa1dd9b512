"""The constants of a loaded file: tensors in the mapped file, and updated copies in memory of the process."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import final

import numpy as np

from plica.runtime.arrays import Array, aligned, numpy_dtype
from plica.runtime.container import Image


@final
class Tensors(Mapping[str, Array]):
    """Arrays by name; immutable, so that an update makes new `Tensors`.

    Args:
        values: The arrays, which are not copied.
    """

    def __init__(self, values: Mapping[str, Array]) -> None:
        self._values = dict(values)
        self._addresses: dict[tuple[str, ...], list[int]] = {}

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def addresses(self, names: tuple[str, ...]) -> list[int]:
        """The addresses of the arrays of these names; calls get the same list, which they must not change."""
        addresses = self._addresses.get(names)
        if addresses is None:
            addresses = self._addresses[names] = [self._values[name].ctypes.data for name in names]
        return addresses


NO_TENSORS = Tensors({})


def first_values(image: Image) -> Tensors:
    """The tensors of a file, in its mapped memory."""
    values = {}
    for tensor in image.manifest.tensors:
        dtype = numpy_dtype(tensor.dtype)
        length = prod(tensor.shape) * dtype.itemsize
        view = image.part(tensor.part)[tensor.offset : tensor.offset + length]
        values[tensor.name] = np.asarray(view, np.uint8).view(dtype).reshape(tensor.shape)
    return Tensors(values)


def owned_copy(array: Array) -> Array:
    """A copy in aligned memory, which outlives the call that gave the array."""
    copy = aligned(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
