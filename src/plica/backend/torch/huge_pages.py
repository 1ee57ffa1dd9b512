"""Large products of matrices and softmaxes in huge pages, which are cached for the next one, where the system has them.

Memory of tens of megabytes is new at each call. The first write to each page of it waits for the system; with pages of
4 KiB that takes longer than a product that fills them. So a large result is written to huge pages, and freed pages are
cached. The system may take cached pages when it needs them (`MADV_FREE`). Without products, a posterior of 128 images
of 28x28 pixels takes 1.7 times as long, and without softmaxes of weights a row takes twice (`benchmarks/README.md`).

>>> matmul(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
torch.Size([2, 3, 5])
"""

import mmap
import weakref
from collections.abc import Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor

from plica.backend.torch.indexing import is_traced, may_write

LARGE = 2**24
"""Bytes from which a result is large: the C library keeps smaller pieces of memory, whose pages are there already."""
_BUDGET = 2**28  # bytes that are cached at most
_RESIDENT = 2**25  # bytes up to which pieces keep their pages; the system may take those of larger ones
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
_FREE = getattr(mmap, "MADV_FREE", None)

_cache: list[mmap.mmap] = []  # the piece that was freed first comes first


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`torch.matmul` of two stacks of matrices."""
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if len(a) != len(b) or not _is_worth_it(shape, a, b):
        return torch.matmul(a, b)
    return torch.bmm(a, b, out=_empty(shape, a.dtype))


def softmax(x: Tensor, axis: int) -> Tensor:
    """`torch.softmax`."""
    if not x.is_floating_point() or not _is_worth_it(x.shape, x):
        return torch.softmax(x, axis)
    return torch.softmax(x, axis, out=_empty(x.shape, x.dtype))


def _is_worth_it(shape: Sequence[int], *arrays: Tensor) -> bool:
    """Whether a result of some shape is large, and may be written into memory of its own."""
    is_large = prod(shape) * arrays[0].element_size() >= LARGE and arrays[0].is_cpu
    if _HUGE is None or not is_large or torch.is_autocast_enabled("cpu"):  # which leaves `out=` as it is
        return False
    return not is_traced(*arrays) and may_write(*arrays)


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An array whose numbers are not set."""
    size = prod(shape) * dtype.itemsize
    try:
        memory = _memory(size)
    except OSError:  # no such pages, or no memory, which torch says better
        return torch.empty(shape, dtype=dtype)
    lent = memoryview(memory)  # lives as long as a tensor reads it
    weakref.finalize(lent, _give_back, memory).atexit = False
    return torch.frombuffer(lent, dtype=dtype).view(shape)


def _memory(size: int) -> mmap.mmap:
    """Memory in huge pages, cached or new."""
    _keep_freed_memory()
    for memory in [memory for memory in _cache if len(memory) == size]:
        try:
            _cache.remove(memory)
        except ValueError:  # another thread has removed it
            continue
        return memory
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_HUGE or 0)
    return memory


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep freed memory, up to twice its largest piece.

    It does so once a piece of that size was freed (M_TRIM_THRESHOLD in mallopt(3)). Otherwise the arrays beside large
    ones would be new pages at each call. No page of this piece is ever written.
    """
    torch.empty(_RESIDENT - 2**16, dtype=torch.uint8)


def _give_back(memory: mmap.mmap) -> None:
    """Cache freed memory; evict the pieces that were freed first beyond the budget.

    The system may take the pages of earlier pieces. Those of the last piece stay, since asking for them again takes
    about a tenth of the time in which a product fills them.
    """
    if _FREE is None:
        return
    if _cache and len(_cache[-1]) > _RESIDENT:
        _cache[-1].madvise(_FREE)
    _cache.append(memory)
    while sum(map(len, _cache)) > _BUDGET:
        del _cache[:1]
