"""Locks that survive a fork: a child has one thread, so a lock that another thread of the parent held is never freed.

All locks of Plica are made here, so that they are free in the child. `tests/test_forks.py` fails for any other lock.
Python locks a module while a thread imports it, so a fork waits for the imports that Plica began in other threads.

>>> lock = ForkSafeLock()
>>> with lock:
...     child = os.fork() if hasattr(os, "fork") else 1
>>> if not child:
...     os._exit(0)
"""

import concurrent.futures.thread  # noqa: F401 - forks take its lock, and logging's, after Plica's wait: last in, first out
import os
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from threading import RLock, get_ident, local
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, final

__all__ = ["ForkSafeLock", "at_fork", "cached_property", "keep_for_ever", "take_at_forks"]

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


_LIBRARY_LOCKS: list[AbstractContextManager[object]] = []
"""Reentrant locks of libraries, which know nothing of forks."""


class _Fork(local):
    """The locks of libraries that a thread has taken to fork."""

    def __init__(self) -> None:
        self.locks = ExitStack()


_FORK = _Fork()

_LONGEST_IMPORT = 30.0
"""Seconds for which a fork waits for imports at most: an import may itself wait for the thread that forks."""


def take_at_forks(lock: AbstractContextManager[object]) -> None:
    """Have each fork take a reentrant lock of a library before and free it after, in the parent and in the child."""
    _LIBRARY_LOCKS.append(lock)


def _is_of_plica(module: str) -> bool:
    return module.partition(".")[0] == "plica"


def _imports(frame: FrameType | None) -> Iterator[bool]:
    """Whether each import that a thread is in is Plica's: of a module of Plica, or begun by its code."""
    is_import = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if is_import and not module.startswith("importlib"):
            yield _is_of_plica(module)
        is_import = module.startswith("importlib")
        if module == "importlib._bootstrap" and "name" in frame.f_locals:
            yield _is_of_plica(str(frame.f_locals["name"]))
        frame = frame.f_back


def _is_importing() -> bool:
    """Whether Plica imports a module in another thread, and this thread imports none."""
    imports = {thread: list(_imports(frame)) for thread, frame in sys._current_frames().items()}
    return not imports[get_ident()] and any(any(of_thread) for of_thread in imports.values())


def _before_fork() -> None:
    until = time.monotonic() + _LONGEST_IMPORT
    while True:
        for lock in _LIBRARY_LOCKS:
            _FORK.locks.enter_context(lock)
        if not _is_importing() or time.monotonic() > until:
            return
        _FORK.locks.close()
        time.sleep(0.001)


def _in_parent() -> None:
    _FORK.locks.close()


def _in_child() -> None:
    _FORK.locks.close()
    for owner in list(_OWNERS):
        owner.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


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
