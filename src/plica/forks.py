"""Locks that survive a fork: a child has one thread, so a lock that another thread of the parent held is never freed.

All locks of Plica are made here, so that they are free in the child. `tests/test_forks.py` fails for any other lock.

>>> lock = ForkSafeLock()
>>> with lock:
...     child = os.fork() if hasattr(os, "fork") else 1
>>> if not child:
...     os._exit(0)
"""

import os
import sys
import weakref
from contextlib import nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, final

__all__ = ["ForkSafeLock", "at_fork", "cached_property", "keep_for_ever"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801 - the name of the class that it replaces
        """The class of Python 3.12, which has no lock: a child could wait for ever for a lock of another thread."""

        def __init__(self, func: Any) -> None:
            super().__init__(func)
            self.lock = nullcontext()


class Owner(Protocol):
    """An object that changes in a child."""

    def in_child(self) -> None:
        """Adapt to a process that has just been forked."""


_OWNERS: "weakref.WeakSet[Owner]" = weakref.WeakSet()


def at_fork(owner: Owner) -> None:
    """Have `owner.in_child()` called in each child of this process, as long as the owner is alive."""
    _OWNERS.add(owner)


def keep_for_ever(owner: object) -> None:
    """Keep an object alive for ever: destroying it would wait for threads that this process does not have."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def _in_child() -> None:
    for owner in list(_OWNERS):
        owner.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@final
class ForkSafeLock:
    """A reentrant lock that is free in a child, unless the thread that forked has it.

    Assumes:
        The guarded data is consistent between any two instructions, since a fork may come between them.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        at_fork(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def in_child(self) -> None:
        """Free the lock, unless the thread that forked has it."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = RLock()
