"""Signals that end a command: what was begun is taken back, or nothing was begun. Imports next to nothing.

>>> with ending_tidily():
...     pass
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT  # as shells report it
INTERRUPTED_LINE = "plica: interrupted; nothing was written"

# Signals that ask a process to end; its default is to die on the spot, which leaves temporary files behind.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(BaseException):
    """A signal asked the process to end; like KeyboardInterrupt it is no error that code may recover from.

    Args:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """While modules load, Ctrl-C ends the process on the spot.

    An exception in the midst of an import may be caught there, or become another one; and nothing is open yet.
    """
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Signals that end a process raise `Terminated`, so that temporary files are removed on the way out."""
    if not _in_main_thread():
        yield
        return
    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, f"{INTERRUPTED_LINE}\n".encode())
    os._exit(INTERRUPTED)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(number)
