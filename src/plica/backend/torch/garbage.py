"""Compiling without the collector of garbage.

>>> with without_collection():
...     gc.isenabled()
False
>>> gc.isenabled()
True
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

_PAUSING: list[int] = []  # the threads that have stopped the collector


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector of garbage from looking at all objects of the process again and again.

    Compiling makes many objects that stay, which is what starts the collector, and hardly a cycle, which is what it
    looks for. It is a decorator too.
    """
    enabled = gc.isenabled()
    thread = get_ident()
    if enabled:
        _PAUSING.append(thread)
        gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
            _PAUSING.remove(thread)


def _in_child() -> None:
    """Go on collecting where the thread that stopped it is the parent's."""
    if _PAUSING and get_ident() not in _PAUSING:
        _PAUSING.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
