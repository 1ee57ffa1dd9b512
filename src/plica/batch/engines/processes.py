"""Processes of this machine, by `concurrent.futures`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from plica.errors import LostProcessError

_ATTEMPTS = 4  # without a part in between that was answered

_worker: Callable[[int], str] | None = None  # of this process, set once by `_begin`


def reports(worker: Callable[[int], str], numbers: Sequence[int], workers: int) -> Iterator[str]:
    """The worker's text for each number; see `plica.batch.engines`.

    If a process dies, the others end too, and new ones go on with what is left.

    Raises:
        LostProcessError: Processes died several times while nothing was answered.
        Exception: The error of a part that failed as often.
    """
    waiting, failures = dict.fromkeys(numbers), 0
    while waiting:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads of torch may hang
        pool = ProcessPoolExecutor(min(workers, len(waiting)), context, _begin, (worker,))
        try:
            futures = {pool.submit(_answer, number): number for number in waiting}
            for future in as_completed(futures):
                error = future.exception()
                if error is None:
                    failures = 0
                    del waiting[futures[future]]
                    yield future.result()
                elif isinstance(error, BrokenProcessPool):
                    break
                else:
                    failures += 1
                    if failures >= _ATTEMPTS:
                        raise error
            else:
                continue
            for future in [future for future in futures if _is_answered(future) and futures[future] in waiting]:
                del waiting[futures[future]]
                yield future.result()
            failures += 1
            if failures >= _ATTEMPTS:
                raise LostProcessError(
                    f"worker processes ended {failures} times before they answered a part, perhaps for lack of "
                    "memory; give fewer --workers, or a smaller --batch"
                )
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _is_answered(future: Future[str]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _begin(worker: Callable[[int], str]) -> None:
    """Keep the worker, leave Ctrl-C to the process that began, and end when that is gone."""
    global _worker
    _worker = worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has one"
    parent.join()
    os._exit(1)


def _answer(number: int) -> str:
    assert _worker is not None, "set when the process began"
    return _worker(number)
