"""Large results in huge pages that are kept for the next one, where the system has them for those who ask.

Memory of tens of megabytes is new at each call, and the first write to each page of it waits for the system: with pages
of 4 KiB that takes longer than a product that fills them. So such memory is asked for in huge pages, and some of it is
kept when nobody reads it any more: the system may take its pages when it needs them (`MADV_FREE`).

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
_KEPT = 2**28  # bytes that are kept at most
_LENT = 2**25  # bytes of the pieces that the C library keeps as they are: of larger ones the system may take the pages
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
_FREE = getattr(mmap, "MADV_FREE", None)

_kept: list[mmap.mmap] = []  # in the order in which they were left


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`torch.matmul` of two stacks of matrices."""
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if len(a) != len(b) or not is_worth_it(shape, a, b):
        return torch.matmul(a, b)
    return torch.bmm(a, b, out=_empty(shape, a.dtype))


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """`torch.empty`, of the dtype and on the device of another array."""
    if not is_worth_it(shape, like):
        return like.new_empty(shape)
    return _empty(shape, like.dtype)


def take(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """`torch.index_select`."""
    shape = (*x.shape[:axis], len(index), *x.shape[axis + 1 :])
    if not is_worth_it(shape, x):
        return torch.index_select(x, axis, index)
    return torch.index_select(x, axis, index, out=_empty(shape, x.dtype))


def softmax(x: Tensor, axis: int) -> Tensor:
    """`torch.softmax`."""
    if not is_worth_it(x.shape, x) or not x.is_floating_point():
        return torch.softmax(x, axis)
    return torch.softmax(x, axis, out=_empty(x.shape, x.dtype))


def is_worth_it(shape: Sequence[int], *arrays: Tensor) -> bool:
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
    weakref.finalize(lent, _keep, memory).atexit = False
    return torch.frombuffer(lent, dtype=dtype).view(shape)


def _memory(size: int) -> mmap.mmap:
    """Memory in huge pages, kept or new."""
    _keep_freed_memory()
    for memory in [memory for memory in _kept if len(memory) == size]:
        try:
            _kept.remove(memory)
        except ValueError:  # another thread has taken it
            continue
        return memory
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_HUGE or 0)
    return memory


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to twice its largest piece.

    It does so once a piece of that size was freed (M_TRIM_THRESHOLD in mallopt(3)), and the arrays beside large ones
    would else be new pages at each call. No page of this piece is ever written.
    """
    torch.empty(_LENT - 2**16, dtype=torch.uint8)


def _keep(memory: mmap.mmap) -> None:
    """Keep memory that nobody reads any more, rather than what is kept for longest.

    The system may take the pages of what was kept before: those of the last piece stay as they are, since asking for
    them back takes about a tenth of the time in which a product fills them.
    """
    if _FREE is None:
        return
    if _kept and len(_kept[-1]) > _LENT:
        _kept[-1].madvise(_FREE)
    _kept.append(memory)
    while sum(map(len, _kept)) > _KEPT:
        del _kept[:1]
