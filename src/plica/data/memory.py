"""Memory that a finished pass over rows leaves with the allocators, given back to the system.

>>> give_back()
"""

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Give free memory of Arrow, and that of the C library where it is glibc, back to the system.

    Allocators keep what they once had for the next request, which here has other sizes. It takes some milliseconds.
    """
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(ctypes.c_size_t(0))
