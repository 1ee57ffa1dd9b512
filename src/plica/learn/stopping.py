"""Signals that ask a training run to end, which it heeds when a step is done."""

import signal
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Self

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """A context in which signals are remembered; only in the main thread, and none that the process ignores.

    Args:
        numbers: The signals.

    Attributes:
        asked: The last signal that came; 0 for none.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(numbers)
        self._former: dict[int, Any] = {}
        self.asked = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in self._numbers}
            self._former = {
                number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)
            }
            for number in self._former:
                signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def pass_on(self, number: int) -> None:
        """Have the process do what it would have done without this context; it may go on, if its handler does."""
        self.asked = 0
        former = self._former.pop(number, None)
        if former is not None:
            signal.signal(number, former)
        signal.raise_signal(number)
        if former is not None:
            self._former[number] = former
            signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
