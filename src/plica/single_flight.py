"""`SingleFlight`: of several threads that need the same thing one makes it, and the others wait, and look again.

>>> compiled = SingleFlight()
>>> compiled.once("these types", lambda: "machine code")
'machine code'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from operator import is_
from threading import get_ident
from typing import Any, TypeVar, final

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """What one thread of one process makes."""

    subject: Any
    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=get_ident)
    landed: Future[None] = field(default_factory=Future)


@final
class SingleFlight:
    """What threads are making, by key. It keeps no results: `make` stores its own, and looks whether it has one.

    It has no lock, so that a process that forks meanwhile takes none with it. A copy has no flights.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    def __reduce__(self) -> tuple[type[SingleFlight], tuple[()]]:
        return SingleFlight, ()

    def once(
        self,
        key: Hashable,
        make: Callable[[], Made],
        subject: Any = None,
        is_same: Callable[[Any, Any], bool] = is_,
    ) -> Made | None:
        """What `make` returns here; None where another thread made something for the same key meanwhile.

        A thread that makes the same already, since what it runs asks for itself, makes it again; so does the child of a
        fork, in which the other thread does not exist, and whoever waits for a thread that was interrupted.

        Args:
            key: Nothing else is made for it meanwhile.
            make: Makes something, and makes it visible.
            subject: What it is made of, where that may differ below one key.
            is_same: Whether the subject of another thread is that of this one.

        Raises:
            Exception: That of `make`, in the thread that makes and in those that wait for the same subject.
        """
        while True:
            own = _Flight(subject)
            flight = self._flights.setdefault(key, own)
            if flight is own:
                return self._flown(key, own, make)
            if flight.process != own.process:
                self._land(key, flight)
            elif flight.thread == own.thread:
                return make()
            else:
                error = flight.landed.exception()
                if error is None or (isinstance(error, Exception) and not is_same(flight.subject, subject)):
                    return None
                if isinstance(error, Exception):
                    raise error

    def _flown(self, key: Hashable, flight: _Flight, make: Callable[[], Made]) -> Made:
        try:
            made = make()
        except BaseException as error:
            self._land(key, flight)
            flight.landed.set_exception(error)
            raise
        self._land(key, flight)
        flight.landed.set_result(None)
        return made

    def _land(self, key: Hashable, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            self._flights.pop(key, None)
