"""Shares the pieces of a call among the calling thread and a thread pool, which is started when first needed.

A piece runs without Python's lock, so that pieces run in parallel. Pool threads that are busy with another call take no
piece: the calling thread computes each piece that no pool thread has begun.

>>> share(lambda piece: piece * piece, [1, 2, 3], 2)
[1, 4, 9]
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from plica.forks import ForkSafeLock, at_fork

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def num_threads() -> int:
    """How many threads compute at one time: as many as there are processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(run: Callable[[Piece], Result], pieces: Sequence[Piece], threads: int) -> list[Result]:
    """The results of all pieces, in their order.

    Args:
        run: Computes a piece.
        pieces: The pieces.
        threads: The most threads that compute them, including the calling thread.

    Raises:
        Exception: The error of a piece; no thread begins another one after it.
    """
    results: list[Any] = [None] * len(pieces)
    waiting = deque(enumerate(pieces))

    def work() -> None:
        try:
            while True:
                try:
                    index, piece = waiting.popleft()
                except IndexError:
                    return
                results[index] = run(piece)
        finally:
            waiting.clear()

    submitted = [_POOL.submit(work) for _ in range(min(threads, len(pieces)) - 1)]
    helpers = [helper for helper in submitted if helper is not None]
    try:
        work()
    finally:
        running = [helper for helper in helpers if not helper.cancel()]
        wait(running)
    for helper in running:
        helper.result()
    return results


class _Pool:
    """The thread pool; a forked child starts its own."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._executor: ThreadPoolExecutor | None = None
        at_fork(self)

    def in_child(self) -> None:
        """Forget the threads of the parent."""
        self._executor = None

    def submit(self, work: Callable[[], None]) -> Future[None] | None:
        """Let a thread run `work` when one is free; None if the interpreter ends and starts no thread."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max(num_threads() - 1, 1), "plica")
            executor = self._executor
        try:
            return executor.submit(work)
        except RuntimeError:
            return None


_POOL = _Pool()
