"""Lets the process end only after calls of the IREE runtime have returned.

Python up to 3.13 ends a daemon thread where the thread takes the interpreter's lock again. In a call of the runtime
this unwinds C++ frames that must not be unwound, and the process ends with a signal.
"""

import atexit
import os
import threading
import time

_LONGEST = 5.0  # seconds that the end of a process waits for calls
_RUNNING: list[object] = []
_ENDING: list[bool] = []  # no Event: a forked child may find the lock of an Event taken


def enter(call: object) -> None:
    """Record that a call of the runtime begins.

    Raises:
        SystemExit: The process is ending; this thread ends silently.
    """
    _RUNNING.append(call)  # first, so that either the end sees the call or the call sees the end
    if _ENDING and threading.current_thread() is not threading.main_thread():
        _RUNNING.remove(call)
        raise SystemExit


def leave(call: object) -> None:
    """Record that a call is over."""
    _RUNNING.remove(call)


@atexit.register
def _wait() -> None:
    _ENDING.append(True)
    until = time.monotonic() + _LONGEST
    while _RUNNING and time.monotonic() < until:
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RUNNING.clear)  # the threads of those calls are the parent's
