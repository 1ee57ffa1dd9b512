"""Reads the next batch in a thread while the caller works on this one.

A thread of our own, because pyarrow reads ahead in `Scanner` alone, which decodes whole row groups.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from plica.errors import InputError

Item = TypeVar("Item")


def ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The items of a generator, of which the next is computed while the caller has the last.

    The thread ends, and `items` is closed, when the last item was taken or the result is closed.

    Raises:
        InputError: Another process goes on with what this one began; the thread is not there.
    """
    process, ended = os.getpid(), object()
    pool = ThreadPoolExecutor(1, "plica-rows")

    def compute() -> Item | object:
        return next(items, ended)

    upcoming: Future[Item | object] = pool.submit(compute)
    try:
        while True:
            _check_process(process)
            item = upcoming.result()
            if item is ended:
                return
            upcoming = pool.submit(compute)
            yield item  # type: ignore[misc]
    finally:
        if os.getpid() == process:  # a child has neither the thread nor its half of the work
            pool.shutdown(wait=True)
            items.close()


def _check_process(process: int) -> None:
    if os.getpid() != process:
        raise InputError(
            f"batches that process {process} began to read do not go on in process {os.getpid()}; "
            "call batches() there, with a shard for each process"
        )
