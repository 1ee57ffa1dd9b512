"""Processes that fork: a child has one thread, and whatever other threads of its parent held would be held for ever.

Locks of Plica are made here, so that they are free in the child. `tests/test_forks.py` finds all others.

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

    class cached_property(functools.cached_property):  # noqa: N801  # it stands for that class
        """That of Python 3.12, which has no lock: a child would wait for ever for one that another thread held."""

        def __init__(self, func: Any) -> None:
            super().__init__(func)
            self.lock = nullcontext()


class Owner(Protocol):
    """What has to change in a child."""

    def in_child(self) -> None:
        """Change, in a process that has just forked."""


_OWNERS: "weakref.WeakSet[Owner]" = weakref.WeakSet()


def at_fork(owner: Owner) -> None:
    """Have `owner.in_child()` be called in each process that forks from this one, as long as the owner is alive."""
    _OWNERS.add(owner)


def keep_for_ever(owner: object) -> None:
    """Never let an object go: its end would wait for threads that this process does not have."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def _in_child() -> None:
    for owner in list(_OWNERS):
        owner.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@final
class ForkSafeLock:
    """A lock that its own thread may take again; a child in which the thread is missing that has it finds it free.

    Assumes:
        What it guards is whole between any two instructions, since a fork may come between them.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        at_fork(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def in_child(self) -> None:
        """Be free, unless the thread that forked has the lock."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = RLock()
