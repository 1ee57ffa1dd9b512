"""`SingleFlight`: of several threads that need the same value, one computes it; the others wait and look it up again.

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
from typing import Any, Generic, TypeVar, final

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class _Computation:
    """A computation that a thread of a process is doing."""

    subject: Any
    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=get_ident)
    done: Future[None] = field(default_factory=Future)


@final
class SingleFlight:
    """The running computations by key. It stores no results: `make` stores its own, and looks for one first.

    It has no lock, since a child could be forked while another thread has it. A copy has no computations.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, _Computation] = {}

    def __reduce__(self) -> tuple[type[SingleFlight], tuple[()]]:
        return SingleFlight, ()

    def once(
        self,
        key: Hashable,
        make: Callable[[], Result],
        subject: Any = None,
        is_same: Callable[[Any, Any], bool] = is_,
    ) -> Result | None:
        """The result of `make`, or None if another thread computed something for the same key meanwhile.

        The call computes although another call began to, in three cases:

        * this thread itself began to, as in a recursion;
        * this process is a child in which the other thread does not exist;
        * the other thread was interrupted.

        Args:
            key: At most one thread computes for it at a time.
            make: Computes the result and stores it for other threads.
            subject: The input of the computation, if one key stands for several.
            is_same: Whether the subject of another thread equals that of this one.

        Raises:
            Exception: The error of `make`, in its own thread and in those that wait for the same subject.
        """
        while True:
            own = _Computation(subject)
            computation = self._running.setdefault(key, own)
            if computation is own:
                return self._compute(key, own, make)
            if computation.process != own.process:
                self._remove(key, computation)
            elif computation.thread == own.thread:
                return make()
            else:
                error = computation.done.exception()
                if error is None or (isinstance(error, Exception) and not is_same(computation.subject, subject)):
                    return None
                if isinstance(error, Exception):
                    raise error

    def _compute(self, key: Hashable, computation: _Computation, make: Callable[[], Result]) -> Result:
        try:
            result = make()
        except BaseException as error:
            self._remove(key, computation)
            computation.done.set_exception(error)
            raise
        self._remove(key, computation)
        computation.done.set_result(None)
        return result

    def _remove(self, key: Hashable, computation: _Computation) -> None:
        if self._running.get(key) is computation:
            self._running.pop(key, None)


@final
class Deferred(Generic[Result]):
    """A value that is made when it is first asked for, once, whatever thread asks.

    >>> value = Deferred(lambda: 3)
    >>> value.get()
    3

    Args:
        make: Makes the value.
    """

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make = make
        self._made: list[Result] = []
        self._flights = SingleFlight()

    def get(self) -> Result:
        """The value."""
        while not self._made:
            self._flights.once("value", self._add)
        return self._made[0]

    def _add(self) -> None:
        if not self._made:
            self._made.append(self._make())

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.get(),)  # a copy has the value: what makes it need not be written to a file


def _made(value: Result) -> Deferred[Result]:
    return Deferred(lambda: value)
