"""Handles signals that end a command: temporary files are removed first. This module imports little.

>>> with ending_tidily():
...     pass
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT  # as shells report it
_speaks: Callable[[], bool] | None = None  # whether this process, of several that are one run, says how it ended
_checkpoint: Path | None = None  # of a training run that this process may have to leave
_left: str | None = None  # what a process that ends leaves behind


def line_of(number: int) -> str:
    """The last line of a process that a signal ends."""
    left = _left or "nothing was written"
    if _checkpoint is not None and _checkpoint.exists():
        left = f"go on with: plica train --resume {_checkpoint.parent}"
    return f"plica: {'interrupted' if number == signal.SIGINT else 'terminated'}; {left}"


def say_checkpoint(path: Path | None) -> None:
    """Have the last line of a process that a signal ends say how to go on, if a checkpoint is there."""
    global _checkpoint
    _checkpoint = path


def say_left(text: str | None) -> None:
    """Have the last line of a process that a signal ends say what is there; None for nothing."""
    global _left
    _left = text


@contextlib.contextmanager
def speaking_if(speaks: Callable[[], bool]) -> Iterator[None]:
    """Have a process that a signal ends at once print its last line only if a function says so."""
    global _speaks
    before, _speaks = _speaks, speaks
    try:
        yield
    finally:
        _speaks = before


# Signals that ask a process to end; by default it dies at once, which leaves temporary files behind.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(BaseException):
    """A signal asked the process to end; like KeyboardInterrupt, code must not recover from it.

    Args:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """Have signals end the process at once, after its temporary files are removed.

    They raise no exception, since an import, a callback or a destructor may catch or replace it.
    """
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    ending = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in (signal.SIGINT, *ending):
        signal.signal(number, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt` instead of ending the process at once, except during an import."""
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    block = sys._getframe(2)  # the frame of the `with`; frame 1 is of contextlib

    def interrupt(number: int, frame: FrameType | None) -> None:
        within = frame
        while within is not None and within is not block:
            if within.f_code.co_filename.startswith("<frozen importlib"):
                _leave(number, frame)
            within = within.f_back
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Have signals that end a process raise `Terminated`, so that temporary files are removed."""
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


def _leave(number: int, _frame: FrameType | None) -> None:
    # if the module is absent or still loading, there are no temporary files
    remove_temporary = getattr(sys.modules.get("plica.paths"), "remove_temporary", None)
    if remove_temporary is not None and not remove_temporary():
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)
    if _speaks is None or _speaks():
        os.write(2, f"{line_of(number)}\n".encode(errors="backslashreplace"))
    os._exit(128 + number)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # `torchrun` sends more of them, which would interrupt the tidying up
    raise Terminated(number)
