"""Large results in huge pages, where the system has them for those who ask.

Memory of tens of megabytes is new at each call, and the first write to each page of it waits for the system: with pages
of 4 KiB that takes longer than a product that fills them.

>>> matmul(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
torch.Size([2, 3, 5])
"""

import mmap
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from plica.backend.torch.indexing import is_traced, may_write

_LARGE = 2**25  # bytes: the C library keeps smaller pieces of memory, whose pages are there already
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`torch.matmul` of two stacks of matrices."""
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if len(a) != len(b) or not _is_worth_it(shape, a, b):
        return torch.matmul(a, b)
    return torch.bmm(a, b, out=_empty(shape, a.dtype))


def concat(arrays: Sequence[Tensor], axis: int) -> Tensor:
    """`torch.cat`."""
    shape = list(arrays[0].shape)
    shape[axis] = sum(one.shape[axis] for one in arrays)
    if not _is_worth_it(shape, *arrays):
        return torch.cat(list(arrays), axis)
    return torch.cat(list(arrays), axis, out=_empty(shape, arrays[0].dtype))


def _is_worth_it(shape: Sequence[int], *arrays: Tensor) -> bool:
    """Whether a result of some shape is large, and may be written into memory of its own."""
    is_large = prod(shape) * arrays[0].element_size() >= _LARGE and arrays[0].is_cpu
    return _HUGE is not None and is_large and not is_traced(*arrays) and may_write(*arrays)


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An array whose numbers are not set."""
    try:
        memory = mmap.mmap(-1, prod(shape) * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(_HUGE or 0)
    except OSError:  # no such pages, or no memory, which torch says better
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
