"""Compiling without the collector of garbage.

>>> with without_collection():
...     gc.isenabled()
False
>>> gc.isenabled()
True
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector of garbage from looking at all objects of the process again and again.

    Compiling makes many objects that stay, which is what starts the collector, and hardly a cycle, which is what it
    looks for. It is a decorator too.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
