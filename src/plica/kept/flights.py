"""Flights: one thread folds, others that come meanwhile wait until it has landed, or failed.

>>> flights = Flights()
>>> flights.once("these constants", lambda: "folded")
'folded'
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar, final

from plica.forks import at_fork

Made = TypeVar("Made")


@final
class Flights:
    """The folds of one function, never two at a time.

    A process that forks while a thread folds has neither the thread nor the fold: it folds for itself.
    """

    def __init__(self) -> None:
        self.in_child()
        at_fork(self)

    def in_child(self) -> None:
        """Have no fold."""
        self._lock = Lock()
        self._flight: tuple[Any, Future[None]] | None = None

    def once(
        self,
        subject: Any,
        fold: Callable[[], Made],
        is_wanted: Callable[[], bool] = lambda: True,
        is_same: Callable[[Any, Any], bool] = lambda one, other: one is other,
    ) -> Made | None:
        """What `fold` makes; None where another thread has folded meanwhile, or it was not wanted any more.

        Args:
            subject: What is folded.
            fold: Folds, and makes what it made visible.
            is_wanted: Asked when no thread folds.
            is_same: Whether another thread folds the same, so that its error is that of this one too.

        Raises:
            BaseException: The error of the fold, in the thread that folds and in those that wait for the same.
        """
        with self._lock:
            if not is_wanted():
                return None
            flight = self._flight
            if flight is None:
                landed: Future[None] = Future()
                self._flight = subject, landed
        if flight is not None:
            _wait(*flight, subject, is_same)
            return None
        try:
            made = fold()
        except BaseException as error:
            self._flight = None
            landed.set_exception(error)
            raise
        self._flight = None
        landed.set_result(None)
        return made


def _wait(folded: Any, landed: Future[None], subject: Any, is_same: Callable[[Any, Any], bool]) -> None:
    try:
        landed.result()
    except BaseException:
        if is_same(folded, subject):
            raise
