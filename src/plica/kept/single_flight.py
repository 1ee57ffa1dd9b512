"""`SingleFlight`: of several threads that need the same thing one makes it, and the others wait for it.

>>> compiled = SingleFlight()
>>> compiled.once("these types", lambda: "machine code")
'machine code'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """What one thread of one process makes."""

    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=get_ident)
    result: Future[Any] = field(default_factory=Future)


class SingleFlight:
    """What threads are making, by key. It keeps no results: `make` stores its own, and looks whether it has one.

    It has no lock, so that a process that forks meanwhile takes none with it. A copy has no flights.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    def __reduce__(self) -> tuple[type[SingleFlight], tuple[()]]:
        return SingleFlight, ()

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` returns here, or what it returned to the thread that called it meanwhile for the same key.

        A thread that makes the same already, since what it runs asks for itself, makes it again; so does the child of a
        fork, in which the other thread does not exist, and whoever waits for a thread that was interrupted.

        Raises:
            Exception: That of `make`, in all threads that wait.
        """
        while True:
            own = _Flight()
            flight = self._flights.setdefault(key, own)
            if flight is own:
                return self._flown(key, own, make)
            if flight.process != own.process:
                self._land(key, flight)
            elif flight.thread == own.thread:
                return make()
            else:
                try:
                    made: Made = flight.result.result()
                except Exception:
                    raise
                except BaseException:  # the other thread was interrupted, this one was not
                    continue
                return made

    def _flown(self, key: Hashable, flight: _Flight, make: Callable[[], Made]) -> Made:
        try:
            made = make()
        except BaseException as error:
            self._land(key, flight)
            flight.result.set_exception(error)
            raise
        self._land(key, flight)
        flight.result.set_result(made)
        return made

    def _land(self, key: Hashable, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            self._flights.pop(key, None)
