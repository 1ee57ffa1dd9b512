"""The constants of a loaded file: each tensor where it is mapped, and copies that belong to the process."""

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

import numpy as np

from plica.runtime.arrays import Array, aligned, numpy_dtype
from plica.runtime.container import Image

Tensors = Mapping[str, Array]


def first_values(image: Image) -> Tensors:
    """The tensors of a file where they are mapped."""
    values = {}
    for tensor in image.manifest.tensors:
        dtype = numpy_dtype(tensor.dtype)
        length = prod(tensor.shape) * dtype.itemsize
        view = image.part(tensor.part)[tensor.offset : tensor.offset + length]
        values[tensor.name] = np.asarray(view, np.uint8).view(dtype).reshape(tensor.shape)
    return MappingProxyType(values)


def owned_copy(array: Array) -> Array:
    """A copy in aligned memory, which outlives the call that gave the array."""
    copy = aligned(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
