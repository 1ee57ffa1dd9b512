"""Memory that a finished pass over rows leaves with the allocators, given back to the system.

>>> give_back()
"""

import ctypes
import sys
from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any

import pyarrow as pa

from plica.data.order import AnyBatch

_BATCHES = 16


def give_back() -> None:
    """Give free memory of Arrow, and that of the C library where it is glibc, back to the system.

    Allocators keep what they once had for the next request, which here has other sizes. It takes some milliseconds.
    """
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(ctypes.c_size_t(0))


def giving_back(batches: Iterable[AnyBatch], rows: int) -> Generator[AnyBatch, None, None]:
    """The same batches; memory is given back after each 16 times so many `rows`, those of a batch of usual size."""
    left = _BATCHES * rows
    for batch in batches:
        yield batch
        left -= len(batch)
        if left <= 0:
            give_back()
            left = _BATCHES * rows


@cache
def _malloc_trim() -> Callable[[Any], int] | None:
    """The function of glibc; other libraries lack it, and a static executable finds no functions by their names."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:
        return None
