"""The code of a target that the IREE runtime runs, with sessions that wait for calls."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from plica.runtime.container import Image
from plica.runtime.manifest import Target
from plica.runtime.memory import MEMORIES
from plica.runtime.sessions import ALONE, Code, Session

_MOST_IDLE = 16  # sessions that wait for a call; if more threads call at one time, the rest of the sessions are dropped


class IreeCode:
    """Code that any number of threads call at one time.

    Args:
        image: The file.
        target: The target whose code is loaded.

    Raises:
        NativeFileError: The runtime is of another version, has no driver for the target, or refuses the code, or the
            code does not fit the manifest.
    """

    def __init__(self, image: Image, target: Target) -> None:
        self._target = target
        self._code = Code(image, target)
        for function in image.manifest.functions():
            self._code.check_function(function)
        self._is_closed = False
        self._idle: dict[str, list[Session]] = {ALONE: [], target.driver: []}
        self._calls: list[object] = []  # running calls that are work for several threads
        with self.session(rows=0, alone=1):
            pass  # so that an error of the runtime is raised now

    def session(self, rows: int | None = None, alone: int = 0) -> AbstractContextManager[Session]:
        """A session that no other thread uses, of the driver that suits a call of so many rows."""
        if self._code.stale:
            for idle in self._idle.values():
                idle.clear()
            self._calls = []  # these were calls of the parent's other threads
            self._code = Code(self._code.image, self._target)
        driver = self._target.driver
        if rows is None or not alone or driver not in MEMORIES:
            return self._session(driver)
        return self._session(ALONE) if rows <= alone else self._wide(driver)

    def close(self) -> None:
        """Release the sessions that wait for calls; running calls finish."""
        self._is_closed = True
        for idle in self._idle.values():
            idle.clear()

    @contextmanager
    def _wide(self, driver: str) -> Iterator[Session]:
        """A session for a call that is work for several threads, unless other such calls keep all threads busy."""
        call, calls = object(), self._calls
        calls.append(call)  # a list and not a counter: counting needs a lock, and locks outlive a fork
        try:
            is_busy = 2 * len(calls) > (os.cpu_count() or 1)
            with self._session(ALONE if is_busy else driver) as session:
                yield session
        finally:
            calls.remove(call)

    @contextmanager
    def _session(self, driver: str) -> Iterator[Session]:
        code, idle = self._code, self._idle[driver]
        try:
            session = idle.pop()
        except IndexError:
            session = Session(code, driver)
        try:
            yield session
        finally:
            session.release()
            if not self._is_closed and self._code is code and len(idle) < _MOST_IDLE:
                idle.append(session)
