"""Processes that fork: a child has none of the threads of its parent, and would wait for them for ever.

Objects that own threads are kept in the child as they are, never let go, and made anew where they are needed.
"""

import os
import weakref
from typing import Protocol


class Owner(Protocol):
    """What owns threads."""

    stale: bool


_OWNERS: "weakref.WeakSet[Owner]" = weakref.WeakSet()


def owns_threads(owner: Owner) -> None:
    """Have `owner.stale` be true in processes that fork from this one."""
    _OWNERS.add(owner)


def _in_child() -> None:
    import ctypes

    for owner in list(_OWNERS):
        owner.stale = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))  # what lets it go waits for its threads
    _OWNERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
