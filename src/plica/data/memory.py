"""Memory that a finished pass over rows leaves with the allocators, given back to the system.

>>> give_back()
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Give free memory of Arrow, and that of the C library where it is glibc, back to the system.

    Allocators keep what they once had for the next request, which here has other sizes. It takes some milliseconds.
    """
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(ctypes.c_size_t(0))


@cache
def _malloc_trim() -> Callable[[Any], int] | None:
    """The function of glibc; other libraries lack it, and a static executable finds no functions by their names."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:
        return None
