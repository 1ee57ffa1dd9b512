"""The end of a process, which daemon threads must not meet within the IREE runtime.

Python up to 3.13 ends such a thread where it takes the interpreter's lock again. That is below C++ of the runtime,
which nothing may pass in this way, and so the process ended with a signal.
"""

import atexit
import os
import threading
import time

_LONGEST = 5.0  # seconds that the end of a process waits for calls
_RUNNING: list[object] = []
_ENDING: list[bool] = []  # no Event, whose lock a child may find taken


def begins(call: object) -> None:
    """Note a call of the runtime.

    Raises:
        SystemExit: The process ends, and so does this thread, without a word.
    """
    _RUNNING.append(call)  # first, so that either the end sees the call or the call sees the end
    if _ENDING and threading.current_thread() is not threading.main_thread():
        _RUNNING.remove(call)
        raise SystemExit


def ends(call: object) -> None:
    """Note that it is over."""
    _RUNNING.remove(call)


@atexit.register
def _wait() -> None:
    _ENDING.append(True)
    until = time.monotonic() + _LONGEST
    while _RUNNING and time.monotonic() < until:
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RUNNING.clear)  # the threads of those calls are the parent's
